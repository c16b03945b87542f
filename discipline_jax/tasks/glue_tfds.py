"""Reads GLUE from TensorFlow Datasets without TensorFlow, through its data sources over ArrayRecord files."""

import pathlib
from collections.abc import Mapping
from typing import Any

from discipline_jax.errors import UserError
from discipline_jax.tasks.examples import Example

# The columns with the texts: a data set has one of these groups.
_TEXTS = (
  ("sentence1", "sentence2"),
  ("question1", "question2"),
  ("premise", "hypothesis"),
  ("question", "sentence"),
  ("sentence",),
)


def read_tfds(
  name: str, parts: Mapping[str, str], labels: tuple[str, ...], folder: pathlib.Path
) -> dict[str, list[Example]]:
  """Reads the samples of each split of a GLUE task; the task is downloaded first if `folder` does not have it.

  Args:
    name: the name of the task in TensorFlow Datasets, without `glue/`.
    parts: the name of the file in GLUE's own layout, for each split.
    labels: the names of the classes in the order of this project; empty if the label is a value.
    folder: the folder in which TensorFlow Datasets keeps its data.

  Raises:
    UserError: TensorFlow Datasets is not installed, or it cannot provide the data.
  """
  try:
    import tensorflow_datasets as tfds  # an optional dependency, and its import takes seconds
    import tensorflow_datasets.text.glue
  except ImportError as error:
    raise UserError(
      f"task.source = 'tfds' needs TensorFlow Datasets ({error}); pip install 'discipline-jax[tfds]'"
    ) from None
  try:
    builder = tfds.builder(f"glue/{name}", data_dir=folder, file_format="array_record")
    builder.download_and_prepare()
    sources = {part: builder.as_data_source(split=_split(file)) for part, file in parts.items()}
  except Exception as error:  # the library, its downloads and the operating system raise many kinds
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    raise UserError(
      f"cannot get glue/{name} from TensorFlow Datasets ({reason}), {folder}; try again, or set task.source=files and"
      " put GLUE's own files below --config.data_dir"
    ) from None
  texts = next(columns for columns in _TEXTS if set(columns) <= set(builder.info.features))
  names = builder.info.features["label"].names if labels else []
  # A class that is spelt differently there keeps its number, because these classes are in the same order here.
  order = [labels.index(own) if own in labels else i for i, own in enumerate(names)]

  def example(record: Mapping[str, Any]) -> Example:
    first, *second = (record[column].decode("utf-8") for column in texts)
    label = order[int(record["label"])] if labels else float(record["label"])
    return Example(first, label, second[0] if second else None)

  return {part: [example(record) for record in source] for part, source in sources.items()}


def _split(file: str) -> str:
  """Returns the name of the split in TensorFlow Datasets, for example `validation_matched` for `dev_matched.tsv`."""
  return file.removesuffix(".tsv").replace("dev", "validation")
