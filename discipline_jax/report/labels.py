"""Names runs: the task's discipline and name in the paper, and labels that say what varies between runs."""

import collections
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from discipline_jax.report.tree import Run

DISCIPLINES = ("text", "protein", "DNA", "music", "other")
# By discipline, the paper's name of the average over tasks, and the tasks (columns) that it is of.
AVERAGES = {
  "text": ("GLUE", ("CoLA", "SST-2", "MRPC", "QQP", "STS-B", "MNLI-m", "MNLI-mm", "QNLI", "RTE")),
  "protein": ("protein_average", ("localization", "stability", "fluorescence")),
  "DNA": ("dna_average", ("H3", "H4", "H3K9ac", "splice")),
}
_TASKS = {
  "glue_cola": "CoLA",
  "glue_sst2": "SST-2",
  "glue_mrpc": "MRPC",
  "glue_qqp": "QQP",
  "glue_stsb": "STS-B",
  "glue_mnli": "MNLI-m",
  "glue_qnli": "QNLI",
  "glue_rte": "RTE",
  "protein_localization": "localization",
  "protein_stability": "stability",
  "protein_fluorescence": "fluorescence",
  "dna_h3": "H3",
  "dna_h4": "H4",
  "dna_h3k9ac": "H3K9ac",
  "dna_splice": "splice",
  "music_composer": "composer",
}
_PREFIXES = {"glue": "text", "protein": "protein", "dna": "DNA", "music": "music"}
_CHECKPOINTS = {
  "bert-base-uncased": "bert",
  "bert-large-uncased": "bert_large",
  "bert-base-chinese": "bert_chinese",
  "roberta-base": "roberta",
  "albert-base-v1": "albert",
}
_SCRATCH = {"bert 12 x 768": "scratch", "bert 24 x 1024": "scratch_large"}
_SPECIFIC = ("hilbert_cnn", "plus_tfm")
_MAPS = {"random": "random_mapping", "table": "random_mapping", "frequent": "frequent_tokens"}


@dataclasses.dataclass(frozen=True)
class Names:
  """The names of a fine-tuning in a report.

  Attributes:
    discipline: one of DISCIPLINES.
    labels: model, setting and, where they apply, step, corpus, fraction, version and table.
    variant: what tells the run from others on the same task; the name of its row in tables, and of its curves.
  """

  discipline: str
  labels: Mapping[str, Any]
  variant: str


def name_runs(runs: Sequence[Run]) -> dict[str, Names]:
  """Returns the names of the fine-tunings among `runs`, by the runs' names."""
  pretrained = {run.path.name: run for run in runs if run.mode == "pretrain"}
  finetuned = [run for run in runs if run.mode == "finetune"]
  labels = {run.name: {**_deduced(run, pretrained), **run.labels} for run in finetuned}
  disciplines = {run.name: _discipline(run.result["task"]) for run in finetuned}
  varying = _varying(labels, disciplines)
  variants = {name: _variant(labels[name], varying[disciplines[name]]) for name in labels}
  columns = {run.name: (column(run, "test"), variants[run.name]) for run in finetuned}
  times = collections.Counter(columns.values())
  return {
    name: Names(
      disciplines[name],
      labels[name],
      # Two runs that differ in something else, a rate for example.
      variants[name] if times[columns[name]] == 1 else f"{variants[name]} ({name})",
    )
    for name in labels
  }


def column(run: Run, part: str) -> str:
  """Returns the name of the column for a run's scores on a part: the paper's name of the task, if it has one."""
  task = run.result["task"]
  name = _TASKS.get(task) or named(task, run.config)
  if part == "test_mismatched":
    return "MNLI-mm"
  return name if part in ("validation", "test") else f"{name} {part}"


def named(task: str, config: Mapping[str, Any]) -> str:
  """Returns the name of a task, or of its file if it is one's own; a config is the content of a config.json."""
  fields = config.get("task")
  path = fields.get("path") if isinstance(fields, dict) else None
  return pathlib.PurePath(path).name if task == "custom" and isinstance(path, str) else task


def paper_split(run: Run, part: str) -> str:
  """Returns the paper's name for the samples of a part: GLUE's validation set is what models are tested on."""
  return "validation" if _discipline(run.result["task"]) == "text" else part


def controls(layers: Sequence[int] | None, parameters: str) -> list[str]:
  """Returns what a setting's name says of the layers that are pre-trained, and of the parameters that are trained."""
  told = [] if layers is None else [f"layers {' '.join(map(str, layers)) or 'none'}"]
  return [*told, *([] if parameters == "all" else [f"trains {parameters}"])]


def is_scratch(run: Run) -> bool:
  """Returns whether the run is one that others are compared with: a BERT with random weights."""
  return run.result["init"] == "scratch" and not str(run.result.get("network")).startswith(
    _SPECIFIC
  )


def _discipline(task: str) -> str:
  return _PREFIXES.get(task.partition("_")[0], "other") if task in _TASKS else "other"


def _deduced(run: Run, pretrained: Mapping[str, Run]) -> dict[str, Any]:
  """Returns the labels of a run that follow from its result and config."""
  result = run.result
  task = run.config.get("task", {})
  fraction = task.get("train_fraction", 1) if isinstance(task, dict) else 1
  setting = _setting(run) + ("_1pct" if fraction == 0.01 else "")
  labels: dict[str, Any] = {"model": _model(result), "setting": setting}
  if isinstance(fraction, int | float) and fraction not in (1, 0.01):
    labels["fraction"] = fraction
  if result["init"] == "scratch" or not isinstance(result.get("model"), str):
    return labels
  place, at, step = result["model"].rpartition("@")
  source = pretrained.get(pathlib.PurePath(place if at else step).name)
  if source is not None:
    labels["step"] = int(step) if at and step.isdecimal() else source.result["steps"]
    labels["corpus"] = source.result.get("corpus")
  return labels


def _model(result: Mapping[str, Any]) -> str:
  init, network = result["init"], str(result.get("network"))
  if network.startswith(_SPECIFIC):
    return "specific"
  if init == "scratch":
    return _SCRATCH.get(network, f"scratch {network}")
  checkpoint = str(result.get("model"))
  place, at, step = checkpoint.rpartition("@")
  name = pathlib.PurePath(place if at else step).name
  known = _CHECKPOINTS.get(name, name)
  if init == "pretrained":
    return known
  return init if known == "bert" else f"{init} {known}"


def _setting(run: Run) -> str:
  model, train = (run.config.get(name) for name in ("model", "train"))
  layers = model.get("pretrained_layers") if isinstance(model, dict) else None
  parameters = train.get("parameters", "all") if isinstance(train, dict) else "all"
  return ", ".join([_token_map(run), *controls(layers, parameters)])


def _token_map(run: Run) -> str:
  kind = run.result["token_map"]
  if _discipline(run.result["task"]) != "text":
    return _MAPS.get(kind, kind)
  token_map = run.config.get("token_map")
  if kind == "shift" and isinstance(token_map, dict):
    return f"shift_{token_map.get('shift')}"
  return "normal" if kind == "identity" else kind


def _varying(
  labels: Mapping[str, Mapping[str, Any]], disciplines: Mapping[str, str]
) -> dict[str, list[str]]:
  """Returns for each discipline the labels, beside the model, that not all of its runs share."""
  varying = {}
  for discipline in set(disciplines.values()):
    own = [labels[name] for name in labels if disciplines[name] == discipline]
    varying[discipline] = [
      label
      for label in ("setting", "corpus", "step", "fraction")
      if len({one[label] for one in own if label in one}) > 1
      or (label == "fraction" and 0 < sum(label in one for one in own) < len(own))
    ]
  return varying


def _variant(labels: Mapping[str, Any], varying: Sequence[str]) -> str:
  shown = [_text(label, labels[label]) for label in varying if label in labels]
  return ", ".join(
    dict.fromkeys([str(labels["model"]), *shown])
  )  # a model may have the name of its corpus


def _text(label: str, value: Any) -> str:
  text = f"{value:,}" if isinstance(value, int) else str(value)
  return f"{label} {text}" if label in ("step", "fraction") else text
