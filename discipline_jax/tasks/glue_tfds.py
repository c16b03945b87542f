"""GLUE from TensorFlow Datasets, which needs no TensorFlow for it: `tfds.data_source` over ArrayRecord files."""

import pathlib
from collections.abc import Mapping
from typing import Any

from discipline_jax.errors import UserError
from discipline_jax.tasks.base import Example

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
  """Reads a task, after downloading it into `folder` where it is not there yet.

  Args:
    name: of the task in TensorFlow Datasets, below `glue/`.
    parts: the file of GLUE's own layout for each part.
    labels: names of the classes in our order; none where the label is a value.
    folder: of TensorFlow Datasets.

  Raises:
    UserError: TensorFlow Datasets is not installed, or its data cannot be had.
  """
  try:
    import tensorflow_datasets as tfds  # seconds, and an extra of its own
    import tensorflow_datasets.text.glue
  except ImportError as error:
    raise UserError(
      f"task.source = 'tfds' needs TensorFlow Datasets ({error}); pip install 'discipline-jax[tfds]'"
    ) from None
  try:
    builder = tfds.builder(f"glue/{name}", data_dir=folder, file_format="array_record")
    builder.download_and_prepare()
    sources = {part: builder.as_data_source(split=_split(file)) for part, file in parts.items()}
  except Exception as error:  # of the library, of its downloads and of the operating system
    reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
    raise UserError(
      f"TensorFlow Datasets has no glue/{name} ({reason}), {folder}; set task.source=files and put GLUE's own files"
      " below --config.data_dir"
    ) from None
  texts = next(columns for columns in _TEXTS if set(columns) <= set(builder.info.features))
  names = builder.info.features["label"].names if labels else []
  # Where the classes are named in another way they stand in the same order.
  order = [labels.index(own) if own in labels else i for i, own in enumerate(names)]

  def example(record: Mapping[str, Any]) -> Example:
    first, *second = (record[column].decode("utf-8") for column in texts)
    label = order[int(record["label"])] if labels else float(record["label"])
    return Example(first, label, second[0] if second else None)

  return {part: [example(record) for record in source] for part, source in sources.items()}


def _split(file: str) -> str:
  return file.removesuffix(".tsv").replace("dev", "validation")
