"""Turns a tree of finished runs into tables, figures and a page. Reads what runs wrote, and never imports JAX."""

import dataclasses
import pathlib

from discipline_jax.errors import UserError


@dataclasses.dataclass(frozen=True)
class Report:
  """A report that was written.

  Attributes:
    page: the path of its page.
    sentences: one about each comparison with scratch.
  """

  page: pathlib.Path
  sentences: tuple[str, ...]


def write(folder: pathlib.Path) -> Report:
  """Writes the report on the runs below a folder to `report/` in it.

  Nothing is written before everything is computed, and every file is there in whole or not at all.

  Args:
    folder: of a study, or any folder with runs in it.

  Raises:
    UserError: no folder, no finished run in it, or a file named `report`.
  """
  # Imported here, because pandas, matplotlib and Jinja2 take a second, and only a report needs them.
  from discipline_jax.files.whole_files import whole_file
  from discipline_jax.report.output import make

  files, sentences = make(folder)
  place = folder / "report"
  if place.exists() and not place.is_dir():
    raise UserError(f"a file where the report's folder should be, {place}; move it away")
  place.mkdir(exist_ok=True)
  for name, content in files.items():
    with whole_file(place / name) as file:
      file.write(content)
  return Report(place / "index.html", sentences)
