"""Turns a tree of finished runs into tables, figures and a page. Reads what runs wrote, and never imports JAX."""

import pathlib

from discipline_jax.errors import UserError


def write(folder: pathlib.Path) -> pathlib.Path:
  """Writes the report on the runs below a folder to `report/` in it, and returns the path of its page.

  Nothing is written before everything is computed, and every file is there in whole or not at all.

  Args:
    folder: of a study, or any folder with runs in it.

  Raises:
    UserError: no folder, no finished run in it, or a file named `report`.
  """
  # Imported here, because pandas, matplotlib and Jinja2 take a second, and only a report needs them.
  from discipline_jax.files.whole_files import whole_file
  from discipline_jax.report.output import make

  files = make(folder)
  place = folder / "report"
  if place.exists() and not place.is_dir():
    raise UserError(f"a file where the report's folder should be, {place}; move it away")
  place.mkdir(exist_ok=True)
  for name, content in files.items():
    with whole_file(place / name) as file:
      file.write(content)
  return place / "index.html"
