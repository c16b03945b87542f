"""Makes the runs of a study: tasks x models x inits x maps x shares of the training set x kept steps x controls.

Each cell gets the paper's settings for its task, and labels by which a report finds the number of the paper (Kao and
Lee 2021) that it repeats. `v1` and `v2` are the versions of the paper on arXiv.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

from discipline_jax import defaults
from discipline_jax.errors import UserError
from discipline_jax.report.labels import controls

PROTEIN = ("protein_localization", "protein_stability", "protein_fluorescence")
DNA = ("dna_h3", "dna_h4", "dna_h3k9ac", "dna_splice")
MUSIC = ("music_composer",)
NON_TEXT = (*PROTEIN, *DNA, *MUSIC)
GLUE = tuple(
  f"glue_{name}" for name in ("mnli", "qqp", "qnli", "sst2", "cola", "stsb", "mrpc", "rte")
)
# The paper's names of its settings, by kind of token map.
_SETTINGS = {
  "identity": "normal",
  "shift": "shift_1000",
  "random_shift": "random_shift",
  "random": "random_mapping",
  "frequent": "frequent_tokens",
  "unused": "unused_tokens",
}
_OWN = ("hilbert_cnn", "plus_tfm")  # models that were made for one discipline


@dataclasses.dataclass(frozen=True)
class Cell:
  """A fine-tuning of a grid.

  Attributes:
    task: its name.
    model: one of `defaults.MODELS`, or a pre-training of the study.
    init: one of `models.initialise.INITS`.
    token_map: the kind; models of one discipline keep their own.
    fraction: share of the training set.
    step: the kept step of `model`, if that is a pre-training; None: its last one.
    layers: the only layers that have pre-trained weights; None: all.
    parameters: which parameters are trained, one of `training.optimizers.PARAMETERS`.
  """

  task: str
  model: str
  init: str
  token_map: str
  fraction: float
  step: int | None
  layers: tuple[int, ...] | None = None
  parameters: str = "all"

  @property
  def paper_model(self) -> str:
    """The name of the model in the paper's tables."""
    if self.model in _OWN:
      return "specific"
    if self.init == "pretrained":
      return self.model
    known = {"bert": self.init, "bert_large": f"{self.init}_large"}
    return known.get(self.model, f"{self.init} {self.model}")

  @property
  def setting(self) -> str:
    """The name of the setting in the paper's tables."""
    setting = _SETTINGS.get(self.token_map, self.token_map)
    if self.fraction != 1:
      setting += f"_{_percent(self.fraction)}"
    return ", ".join([setting, *controls(self.layers, self.parameters)])


def grid(
  tasks: Iterable[str],
  *,
  models: Iterable[str] = ("bert",),
  inits: Iterable[str] = ("pretrained",),
  maps: Iterable[str] = ("random",),
  fractions: Iterable[float] = (1.0,),
  steps: Iterable[int | None] = (None,),
  layers: Iterable[tuple[int, ...] | None] = (None,),
  parameters: Iterable[str] = ("all",),
) -> list[Cell]:
  """Returns the cells of all combinations, those of a task one after the other."""
  axes = (tasks, models, inits, maps, fractions, steps, layers, parameters)
  return [Cell(*values) for values in itertools.product(*axes)]


def study(
  cells: Sequence[Cell],
  *,
  labels: Callable[[Cell], Mapping[str, Any]] = lambda _: {},
  change: Callable[[ConfigDict, Cell], None] = lambda *_: None,
  pretrainings: Mapping[str, ConfigDict] | None = None,
) -> ConfigDict:
  """Returns the config of a study of cells, each named by its task and what varies between the cells.

  Args:
    cells: of one or several grids.
    labels: further labels of a cell, beside its model, setting, step and fraction; they replace these.
    change: sets further fields of a cell's config.
    pretrainings: configs of pre-trainings by name, from which cells with this `model` start.

  Raises:
    UserError: two cells that are the same, or a model that is neither known nor pre-trained.
  """
  pretrainings = dict(pretrainings or {})
  names = _names(cells)
  runs: dict[str, ConfigDict] = dict(pretrainings)
  own_labels: dict[str, dict[str, Any]] = {}
  models: dict[str, Any] = {}
  for name, cell in zip(names, cells, strict=True):
    config = _paper_config(cell.task)
    config.token_map.kind = cell.token_map
    if cell.model in pretrainings:
      step = "" if cell.step is None else f"@{cell.step}"
      config.model.checkpoint = f"{cell.model}{step}"
    else:
      defaults.use_model(config, cell.model)
      if cell.model != "hilbert_cnn":  # which has no checkpoint
        models[cell.model] = config.model.checkpoint or placeholder(str)
        config.model.checkpoint = cell.model
    if cell.model not in _OWN:
      config.model.init = cell.init
    config.task.train_fraction = cell.fraction
    config.train.parameters = cell.parameters
    if cell.layers is not None:
      config.model.pretrained_layers = cell.layers
    change(config, cell)
    runs[name] = config
    own_labels[name] = {
      "model": cell.paper_model,
      "setting": cell.setting,
      "part": "validation" if cell.task in GLUE else "test",
      **({} if cell.step is None else {"step": cell.step}),
      **({} if cell.fraction == 1 else {"fraction": cell.fraction}),
      **labels(cell),
    }
  return defaults.study(runs, labels=own_labels, models=models)


def _paper_config(task: str) -> ConfigDict:
  """Returns the paper's settings for a task: three runs of three epochs for GLUE, else six of twenty."""
  if task in GLUE:
    return defaults.shifted_glue(task, "bert")
  config = defaults.finetune()
  config.task.name = task
  config.replicas = 6
  return config


def _names(cells: Sequence[Cell]) -> list[str]:
  """Returns a name for each cell: its task, and its values of the fields in which the cells differ.

  A flag can name the fields of such a run (`--config.runs.dna_h3__scratch.seed=1`), because it is a name of Python.
  """
  fields = [field.name for field in dataclasses.fields(Cell)][1:]
  varying = [name for name in fields if len({getattr(cell, name) for cell in cells}) > 1]
  names = [
    "__".join([cell.task, *filter(None, (_word(name, getattr(cell, name)) for name in varying))])
    for cell in cells
  ]
  twice = [name for name, count in Counter(names).items() if count > 1]
  if twice:
    raise UserError(f"two cells of the grid are the same, {twice[0]}; leave one out")
  return names


def _word(field: str, value: Any) -> str:
  if field == "fraction":
    return _percent(value)
  if value is None or (field == "parameters" and value == "all"):
    return ""
  if field == "layers":
    return "_".join(["layers", *map(str, value)])
  return str(value)


def _percent(fraction: float) -> str:
  return f"{100 * fraction:g}pct".replace(".", "_")
