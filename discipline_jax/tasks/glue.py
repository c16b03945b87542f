"""GLUE tasks (Wang et al. 2019) without WNLI, read from the download layout `glue_data/<name>/`.

The files are tab-separated and have no quoting. As in the paper, a model is trained on the training set and tested on
the validation set, because the labels of GLUE's test sets are not public. MNLI has two validation sets, matched and
mismatched.
"""

import dataclasses
import math
import pathlib

from absl import logging

from discipline_jax.errors import UserError
from discipline_jax.tasks.answers import Class, Value
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.examples import Example
from discipline_jax.tasks.glue_tfds import read_tfds
from discipline_jax.tasks.readers.lines import read_lines

MAX_LENGTH = 128
_SOURCES = ("files", "tfds")


@dataclasses.dataclass(frozen=True)
class _Format:
  """Describes the files of one task.

  Attributes:
    folder: the name of the folder below glue_data.
    texts: the names of the columns with the one or two texts.
    label: the name of the column with the label.
    labels: the names of the classes; empty if the label is a number.
    metric: the metric that the paper reports.
    columns: the names of all columns, if the file has no header line.
    parts: (name of the split, name of its file) for each split.
    ragged: True if the published file has lines with missing columns; GLUE's own readers leave them out too.
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
  """Builds a GLUE task.

  Args:
    name: one of NAMES.
    data_dir: the folder that holds glue_data/ for `files`, or will hold tensorflow_datasets/ for `tfds`.
    source: `files` for GLUE's own files, `tfds` for TensorFlow Datasets.

  Raises:
    UserError: the source is unknown.
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
    Class(form.labels, form.metric) if form.labels else Value(form.metric),
    MAX_LENGTH,
    read,
    files=tuple(files.values()) if source == "files" else (),
    pairs=len(form.texts) == 2,
  )


def _read(path: pathlib.Path, form: _Format) -> list[Example]:
  """Reads the samples of one file."""
  lines = read_lines(
    path,
    f"get {form.folder} from GLUE (gluebenchmark.com/tasks) and put its files into {path.parent},"
    " or set --config.data_dir",
  )
  header = list(form.columns) or lines[0].split("\t")
  for column in (*form.texts, form.label):
    if header.count(column) != 1:
      raise UserError(
        f"{header.count(column)} columns named {column!r}, not one, among {', '.join(header)[:200]}, {path}:1;"
        " use the file that GLUE publishes"
      )
  places = [header.index(column) for column in (*form.texts, form.label)]
  examples, skipped = [], 0
  for number, line in enumerate(lines, 1):
    if (number == 1 and not form.columns) or not line.strip():
      continue
    if "\0" in line:
      raise UserError(f"the line has a NUL character, {path}:{number}; correct the line")
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
      raise UserError(f"a text is empty, {path}:{number}; correct the line")
    examples.append(
      Example(texts[0], _label(label, form, path, number), texts[1] if len(texts) == 2 else None)
    )
  if skipped:
    logging.warning(
      "%d lines of %s are left out: they lack a column or a text, or have too many", skipped, path
    )
  if not examples:
    raise UserError(f"the file has no samples, {path}; use the file that GLUE publishes")
  return examples


def _label(text: str, form: _Format, path: pathlib.Path, number: int) -> int | float:
  """Returns the number of the class, or the value, that stands on line `number`."""
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
