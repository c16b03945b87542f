"""Turns a tree of finished runs into tables, figures and a page. Reads what runs wrote, and never imports JAX."""

import dataclasses

from discipline_jax.errors import UserError
from discipline_jax.files.places import Path, make_folder

# The files of runs and studies that a report reads.
_READ = (
  *("result.json", "config.json", "metrics.jsonl", "predictions.npz"),
  *("study.json", "failed.json", "*.png"),
)


@dataclasses.dataclass(frozen=True)
class Report:
  """A report that was written.

  Attributes:
    page: the path of its page.
    sentences: one about each comparison with scratch.
  """

  page: Path
  sentences: tuple[str, ...]


def write(folder: Path) -> Report:
  """Writes the report on the runs below a folder to `report/` in it.

  Nothing is written before everything is computed, and every file is there in whole or not at all.

  Args:
    folder: of a study, or any folder with runs in it. From a bucket, the files that are read are copied first.

  Raises:
    UserError: no folder, no finished run in it, or a file named `report`.
  """
  # Imported here, because pandas, matplotlib and Jinja2 take a second, and only a report needs them.
  from discipline_jax.files.copies import fetched
  from discipline_jax.files.whole_files import whole_file
  from discipline_jax.report.output import make

  files, sentences = make(fetched(folder, _READ))
  place = folder / "report"
  if place.exists() and not place.is_dir():
    raise UserError(f"a file where the report's folder should be, {place}; move it away")
  make_folder(place)
  for name, content in files.items():
    with whole_file(place / name) as file:
      file.write(content)
  return Report(place / "index.html", sentences)
