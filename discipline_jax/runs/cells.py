"""The cells of a study: its runs, in an order in which each comes after the run whose weights it starts from."""

import contextlib
import dataclasses
import fnmatch
import re
from collections.abc import Iterable, Mapping

from ml_collections import ConfigDict

from discipline_jax import tasks
from discipline_jax.errors import UserError
from discipline_jax.files.copies import original
from discipline_jax.files.places import Path
from discipline_jax.runs.workdir import Workdir

_NAME = re.compile(r"\w[\w-]*")  # a folder, and without a point a flag can name its fields


@dataclasses.dataclass(frozen=True)
class Cell:
  """One run of a study.

  Attributes:
    name: its name, and that of its folder.
    config: of the run; a model or a run of the study that it names is replaced by where that is.
    workdir: of the run.
    source: the name of the pre-training from whose weights it starts; None if the study does not train them.
    problem: why it cannot be run, if that shows already.
  """

  name: str
  config: ConfigDict
  workdir: Path
  source: str | None
  problem: str | None

  @property
  def is_finished(self) -> bool:
    """Returns whether there is a result, of whatever run."""
    return (self.workdir / "result.json").exists()


# How far a cell is: `broken` ones cannot go on as they are, `running` ones belong to another process, `failed` ones are
# tried again by the next start, `waiting` ones need their pre-training, `stopped` ones resume, `missing` ones are new.
KINDS = ("finished", "broken", "running", "failed", "waiting", "stopped", "missing")


@dataclasses.dataclass(frozen=True)
class State:
  """Says how far a cell is.

  Attributes:
    kind: one of KINDS.
    note: more about it, in a line.
    result: of a finished one.
  """

  kind: str
  note: str = ""
  result: dict | None = None


def plan_cells(config: ConfigDict, workdir: Path, modes: Iterable[str]) -> dict[str, Cell]:
  """Returns all cells of a study by name.

  Args:
    config: see `defaults.study`.
    workdir: of the study.
    modes: those that a run may have.

  Raises:
    UserError: a name that is no folder's, a mode that is not one of `modes`, or runs that start from each other.
  """
  runs = {name: run.copy_and_resolve_references() for name, run in config.runs.items()}
  for name, run in runs.items():
    if not _NAME.fullmatch(name):
      raise UserError(f"runs.{name} is not a name of letters, digits, - and _; rename that run")
    if run.mode not in modes:
      raise UserError(f"runs.{name}.mode = {run.mode!r} is not one of: {', '.join(modes)}")
  sources = {name: (run.model.checkpoint or "").partition("@")[0] for name, run in runs.items()}
  cells: dict[str, Cell] = {}
  while len(cells) < len(runs):
    left = runs.keys() - cells.keys()
    ready = [name for name in runs if name in left and sources[name] not in left]
    if not ready:
      raise UserError(
        f"the runs {', '.join(sorted(left))} start from each other; set their model.checkpoint"
      )
    for name in ready:
      problem = _fill_in(runs[name], config, workdir)
      source = sources[name] if sources[name] in runs else None
      cells[name] = Cell(name, runs[name], workdir / name, source, problem)
  return cells


def choose_cells(cells: Mapping[str, Cell], settings: ConfigDict) -> dict[str, Cell]:
  """Returns the cells that are to be run.

  Args:
    cells: all.
    settings: `study` of the config.

  Raises:
    UserError: a pattern that no name matches, or a shard that is not one.
  """
  chosen = set(cells)
  if settings.only is not None:
    chosen = {name for name in cells if fnmatch.fnmatchcase(name, settings.only)}
    if not chosen:
      some = ", ".join([*list(cells)[:8], *(["..."] if len(cells) > 8 else [])])
      raise UserError(
        f"study.only = {settings.only!r} matches none of the {len(cells)} runs: {some}; set --config.study.only"
      )
    for cell in reversed(list(cells.values())):  # from each run to the one before it
      if cell.name in chosen and cell.source is not None:
        chosen.add(cell.source)
  names = [name for name in cells if name in chosen]
  if settings.shard is not None:
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", settings.shard)
    part, parts = map(int, found.groups()) if found else (0, 0)
    if not 1 <= part <= parts:
      raise UserError(
        f"study.shard = {settings.shard!r} is not K/N with K from 1 to N; set --config.study.shard, such as 2/8"
      )
    names = names[part - 1 :: parts]
  return {name: cells[name] for name in names}


def find_state(cell: Cell, cells: Mapping[str, Cell], failed: Mapping[str, str]) -> State:
  """Looks how far a cell is; writes nothing, and reads no weights.

  Args:
    cell: to look at.
    cells: all of the study.
    failed: see `Failures.read`.
  """
  if cell.problem is not None:
    return State("broken", cell.problem)
  run = Workdir(cell.workdir, cell.config)
  try:
    # Of a run that has not begun, no input file is looked at: what is in a bucket would be copied.
    is_begun = run.is_claimed() or run.peek() is not None
    result = run.result() if is_begun else None
    if result is not None:
      return State("finished", result=result)
    if run.is_locked():
      return State("running", f"step {last_step(cell)}")
    if cell.name in failed:
      return State("failed", failed[cell.name])
    source = cell.source
    if source is not None and (source in failed or not cells[source].is_finished):
      return State("waiting", f"for {cell.source}")
  except UserError as error:
    return State("broken", reason(cell, error))
  return State("stopped", f"step {last_step(cell)}") if is_begun else State("missing")


def reason(cell: Cell, error: Exception) -> str:
  """Returns the line of a run's error; what it says of fields is about those in the config of the study."""
  own = {*cell.config} - {"mode", "data_dir", "cache_dir"}  # the study has these itself

  def in_study(flag: re.Match) -> str:
    return f"--config.runs.{cell.name}.{flag[1]}" if flag[1] in own else flag[0]

  return re.sub(r"--config\.(\w+)", in_study, " ".join(str(error).split()))


def finished_result(cell: Cell) -> dict | None:
  """Returns the result of a cell that this process does not run; its input files need not be here, and are not read."""
  with contextlib.suppress(UserError):
    return Workdir(cell.workdir, cell.config).peek()
  return None


def last_step(cell: Cell) -> int:
  """Returns the number of updates in a cell's last checkpoint."""
  folders = (cell.workdir / "checkpoints").glob("[0-9]*")
  return max((int(one.name) for one in folders if one.name.isdigit()), default=0)


def _fill_in(run: ConfigDict, config: ConfigDict, workdir: Path) -> str | None:
  """Replaces, in the config of a run, what it takes from its study; returns what is missing for that."""
  run.cache_dir = config.cache_dir
  if run.mode == "finetune" and config.data_dir is not None:
    run.data_dir = config.data_dir
  if run.mode == "pretrain" and run.corpus.path is not None:
    folder = original(str(tasks.data_directory(config)))  # what is read of a bucket is copied later
    run.corpus.path = run.corpus.path.replace("{data_dir}", folder)
  name, at, step = (run.model.checkpoint or "").partition("@")
  if name in config.runs:
    run.model.checkpoint = f"{workdir / name}{at}{step}"
  elif name in config.models and not at:
    run.model.checkpoint = config.models[name]
    if run.model.checkpoint is None:
      return f"models.{name} is not set; give its directory, --config.models.{name}=DIR"
  return None
