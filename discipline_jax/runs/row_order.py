"""Keeps the order in which a pre-training reads its rows, so that it does not go on in another one.

A corpus that is prepared again may have the same name in the cache, and the order of another version of this package.
"""

import json

import jax

from discipline_jax.errors import UserError
from discipline_jax.files.whole_files import write_json
from discipline_jax.runs.workdir import Workdir

FILE = "row_order.json"
_TABLE = "table"  # the order of all corpora whose description names none


def check_order(run: Workdir, order: str | None) -> None:
  """Writes the order of the corpus into the workdir of a new run; compares it with that of a run that goes on.

  Args:
    run: the workdir, entered.
    order: the order that the prepared corpus describes; None if it describes none.

  Raises:
    UserError: the run began with another order, or its file cannot be read.
  """
  path, ours = run.path / FILE, order or _TABLE
  if not run.is_claimed():
    if jax.process_index() == 0:
      write_json(path, {"order": ours})
    return
  try:
    theirs = json.loads(path.read_text(encoding="utf-8"))["order"]
  except FileNotFoundError:  # a version that kept none began the run
    theirs = _TABLE
  except (ValueError, KeyError, TypeError):  # not UTF-8, not JSON, or not such an object
    raise UserError(f"not the order of a corpus, {path}; give another --workdir") from None
  if ours != theirs:
    raise UserError(
      f"the corpus was prepared again, and the order of its rows is {ours!r}, but the run in this workdir began with"
      f" {theirs!r}, {path}; give another --workdir"
    )
