"""GLUE (Wang et al. 2019) without WNLI, in its download layout `glue_data/<name>/`: tab-separated, never quoted.

As in the paper, training is on the training set and the test is the validation set, since GLUE keeps the labels of its
test sets to itself. MNLI has two of them, matched and mismatched.
"""

import dataclasses
import math
import pathlib

from absl import logging

from discipline_jax.errors import UserError
from discipline_jax.tasks.base import Example, Task, read_lines
from discipline_jax.tasks.glue_tfds import read_tfds

MAX_LENGTH = 128
_SOURCES = ("files", "tfds")


@dataclasses.dataclass(frozen=True)
class _Format:
  """How one task's files look.

  Attributes:
    folder: below glue_data.
    texts: columns of the one or two texts.
    label: column of the label.
    labels: its values; none where it is a number.
    metric: the paper's.
    columns: their names where the file has no header line.
    parts: files by part.
    ragged: whether the published file has lines that lack columns, which GLUE's own readers leave out.
  """

  folder: str
  texts: tuple[str, ...]
  label: str
  labels: tuple[str, ...]
  metric: str
  columns: tuple[str, ...] = ()
  parts: tuple[tuple[str, str], ...] = (("train", "train.tsv"), ("validation", "dev.tsv"))
  ragged: bool = False


_PAIR = ("sentence1", "sentence2")
_ENTAILMENT = ("entailment", "not_entailment")
_FORMATS = {
  "cola": _Format(
    "CoLA", ("sentence",), "label", ("0", "1"), "mcc", ("source", "label", "mark", "sentence")
  ),
  "sst2": _Format("SST-2", ("sentence",), "label", ("0", "1"), "accuracy"),
  "mrpc": _Format("MRPC", ("#1 String", "#2 String"), "Quality", ("0", "1"), "f1"),
  "qqp": _Format("QQP", ("question1", "question2"), "is_duplicate", ("0", "1"), "f1", ragged=True),
  "stsb": _Format("STS-B", _PAIR, "score", (), "spearman"),
  "mnli": _Format(
    "MNLI",
    _PAIR,
    "gold_label",
    ("contradiction", "entailment", "neutral"),
    "accuracy",
    parts=(
      ("train", "train.tsv"),
      ("validation", "dev_matched.tsv"),
      ("test_mismatched", "dev_mismatched.tsv"),
    ),
  ),
  "qnli": _Format("QNLI", ("question", "sentence"), "label", _ENTAILMENT, "accuracy"),
  "rte": _Format("RTE", _PAIR, "label", _ENTAILMENT, "accuracy"),
}
NAMES = tuple(_FORMATS)


def glue(name: str, data_dir: pathlib.Path, source: str = "files") -> Task:
  """One of NAMES.

  Args:
    name: of the task.
    data_dir: holds glue_data/, or takes tensorflow_datasets/.
    source: `files`, or `tfds` for TensorFlow Datasets.
  """
  if source not in _SOURCES:
    raise UserError(f"task.source = {source!r} is not one of: {', '.join(_SOURCES)}")
  form = _FORMATS[name]
  files = {part: data_dir / "glue_data" / form.folder / file for part, file in form.parts}

  def read() -> dict[str, list[Example]]:
    if source == "tfds":
      return read_tfds(name, dict(form.parts), form.labels, data_dir / "tensorflow_datasets")
    return {part: _read(path, form) for part, path in files.items()}

  return Task(
    f"glue_{name}",
    None,
    form.labels,
    form.metric,
    MAX_LENGTH,
    read,
    files=tuple(files.values()) if source == "files" else (),
  )


def _read(path: pathlib.Path, form: _Format) -> list[Example]:
  lines = read_lines(
    path,
    f"get {form.folder} of GLUE (gluebenchmark.com/tasks) and put its files into {path.parent},"
    " or set --config.data_dir",
  )
  header = list(form.columns) or lines[0].split("\t")
  for column in (*form.texts, form.label):
    if header.count(column) != 1:
      raise UserError(
        f"{header.count(column)} columns {column!r} in {', '.join(header)[:200]}, {path}:1; give GLUE's own file"
      )
  places = [header.index(column) for column in (*form.texts, form.label)]
  examples, skipped = [], 0
  for number, line in enumerate(lines, 1):
    if (number == 1 and not form.columns) or not line.strip():
      continue
    if "\0" in line:
      raise UserError(f"a NUL character, {path}:{number}; correct the line")
    fields = line.split("\t")
    if len(fields) != len(header):
      if form.ragged:
        skipped += 1
        continue
      raise UserError(
        f"{len(fields)} fields where the header has {len(header)}, {path}:{number}; correct the line"
      )
    *texts, label = (fields[place] for place in places)
    if not all(text.strip() for text in texts):
      if form.ragged:
        skipped += 1
        continue
      raise UserError(f"a sentence is empty, {path}:{number}; correct the line")
    examples.append(
      Example(texts[0], _label(label, form, path, number), texts[1] if len(texts) == 2 else None)
    )
  if skipped:
    logging.warning(
      "%d lines of %s are left out: a column or a text is missing or too many", skipped, path
    )
  if not examples:
    raise UserError(f"no sample, {path}; give GLUE's own file")
  return examples


def _label(text: str, form: _Format, path: pathlib.Path, number: int) -> float:
  if form.labels:
    if text not in form.labels:
      raise UserError(
        f"label {text[:40]!r} is not one of {', '.join(form.labels)}, {path}:{number}; correct the line"
      )
    return form.labels.index(text)
  try:
    value = float(text)
  except ValueError:
    value = math.nan
  if not math.isfinite(value):
    raise UserError(
      f"score {text[:40]!r} is not a finite number, {path}:{number}; correct the line"
    )
  return value
