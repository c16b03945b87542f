"""Writes the report on finished runs: `python -m discipline_jax.report DIR`.

DIR is the workdir of a study, or any folder with runs in it, and may be in a bucket (gs://BUCKET/FOLDER). DIR/report/
gets index.html, runs.csv, comparisons.csv, over_tasks.csv, table.md, table.tex and the figures. Exit codes: 0 done; 2 a
mistake of the user, told in one line.
"""

import sys
from collections.abc import Sequence

from discipline_jax import report
from discipline_jax.errors import UserError
from discipline_jax.exit_codes import exit_code
from discipline_jax.files.places import place


def main(argv: Sequence[str]) -> int:
  """Writes the report on the folder in `argv[1:]` and returns the exit code."""
  return exit_code(lambda: _run(argv[1:]))


def _run(arguments: Sequence[str]) -> None:
  if arguments in (["--help"], ["-h"]):
    print(__doc__)
    return
  if len(arguments) != 1 or arguments[0].startswith("-"):
    raise UserError("not one folder; give it as python -m discipline_jax.report DIR")
  page = report.write(place(arguments[0])).page
  print(page.with_name("table.md").read_text(encoding="utf-8"))
  print(page)


if __name__ == "__main__":
  sys.exit(main(sys.argv))
