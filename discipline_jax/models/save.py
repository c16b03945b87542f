"""Writes a model to a directory in Hugging Face's format, which transformers can open."""

import json
import os
import pathlib
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from flax import nnx
from flax.traverse_util import flatten_dict
from jax.typing import DTypeLike
from safetensors.numpy import save as serialize

from discipline_jax.errors import UserError
from discipline_jax.files.places import Path, make_folder, place
from discipline_jax.files.whole_files import whole_file
from discipline_jax.models.config import ModelConfig
from discipline_jax.models.encoder import Encoder
from discipline_jax.models.heads import (
  ChoiceClassifier,
  PositionClassifier,
  SequenceClassifier,
  SpanClassifier,
  encoder_of,
)
from discipline_jax.models.names import checkpoint_name
from discipline_jax.models.pretraining import PretrainingModel

_HEAD: dict[type, str] = {
  Encoder: "Model",
  SequenceClassifier: "ForSequenceClassification",
  PositionClassifier: "ForTokenClassification",
  SpanClassifier: "ForQuestionAnswering",
  ChoiceClassifier: "ForMultipleChoice",
}
_TOKENIZER_FILES = (
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "vocab.txt",
  "vocab.json",
  "merges.txt",
  "added_tokens.json",
  "spiece.model",
  "sentencepiece.bpe.model",
  "input_ids.json",  # only exported models have it
)
_DTYPES = (jnp.float32, jnp.bfloat16)


def save(
  model: nnx.Module,
  directory: str | os.PathLike[str],
  *,
  dtype: DTypeLike = jnp.float32,
  labels: tuple[str, ...] = (),
  problem_type: str | None = None,
  tokenizer: Mapping[str, str] | None = None,
) -> None:
  """Writes `config.json`, `model.safetensors`, and the tokenizer files of the checkpoint that the model came from.

  Shared weights (the output layer of a language model and the word embeddings) are written once, as in transformers.
  `config.json` is written last, because a directory without it is not a checkpoint.

  Args:
    model: an `Encoder`, with or without a head.
    directory: where to write. It is made if it does not exist; a checkpoint in it is replaced.
    dtype: dtype of the weights on disk, float32 or bfloat16.
    labels: names of a classifier's classes; empty means `LABEL_0`, `LABEL_1` and so on.
    problem_type: what transformers calls the loss of a classifier of rows; None: regression with one output, else
      single_label_classification.
    tokenizer: the text of each file of the tokenizer; None copies the files of the checkpoint.

  Raises:
    UserError: the directory cannot be written.
    ValueError: another dtype, or the wrong number of labels.
  """
  if jnp.dtype(dtype) not in _DTYPES:
    raise ValueError(f"dtype {jnp.dtype(dtype).name} is not float32 or bfloat16")
  encoder = encoder_of(model)
  tensors = {}
  for path, leaf in flatten_dict(nnx.to_pure_dict(nnx.state(model))).items():
    name = _name(".".join(map(str, path)), encoder.config)
    tensors[name] = np.ascontiguousarray(np.asarray(leaf).astype(dtype))
  config = {
    **encoder.config.to_dict(),
    "architectures": [_architecture(model, encoder.config)],
    "dtype": jnp.dtype(dtype).name,
    **_labels(model, labels, problem_type),
  }
  folder = place(directory)
  try:
    make_folder(folder)
    with whole_file(folder / "model.safetensors") as file:
      file.write(serialize(tensors, metadata={"format": "pt"}))
    _write_tokenizer(
      _tokenizer_of(encoder.source)
      if tokenizer is None
      else {name: text.encode() for name, text in tokenizer.items()},
      folder,
    )
    with whole_file(folder / "config.json", text=True) as file:
      file.write(json.dumps(config, indent=2, sort_keys=True) + "\n")
  except OSError as error:
    raise UserError(
      f"cannot write a checkpoint ({error.strerror}), {folder}; give another directory, or free space"
    ) from None


def _tokenizer_of(source: pathlib.Path | None) -> dict[str, bytes]:
  """Returns the content of the tokenizer files of a checkpoint, if there is one."""
  if source is None:
    return {}
  paths = [source / name for name in _TOKENIZER_FILES]
  return {path.name: path.read_bytes() for path in paths if path.is_file()}


def _write_tokenizer(files: Mapping[str, bytes], directory: Path) -> None:
  """Writes the files of a tokenizer, and deletes others that it lacks, since they belong to another model."""
  for name in _TOKENIZER_FILES:
    if name in files:
      with whole_file(directory / name) as file:
        file.write(files[name])
    else:
      (directory / name).unlink(missing_ok=True)


def _name(name: str, config: ModelConfig) -> str:
  """Returns the name of a parameter in the checkpoint, with the encoder's prefix if the model has a head."""
  if not name.startswith("base_model."):
    return checkpoint_name(name, config)
  return f"{config.model_type}.{checkpoint_name(name.removeprefix('base_model.'), config)}"


def _architecture(model: nnx.Module, config: ModelConfig) -> str:
  """Returns the name of the class in transformers."""
  if isinstance(model, PretrainingModel):
    parts = (model.cls.predictions is not None, model.cls.seq_relationship is not None)
    head = {
      (True, True): "ForPreTraining",
      (True, False): "LMHeadModel" if config.is_decoder else "ForMaskedLM",
      (False, True): "ForNextSentencePrediction",
    }[parts]
  else:
    head = _HEAD[type(model)]
  return config.family.class_name + head


def _labels(model: nnx.Module, labels: tuple[str, ...], problem_type: str | None) -> dict:
  """Returns the fields of `config.json` from which transformers takes the number of a classifier's outputs."""
  if not isinstance(model, SequenceClassifier | PositionClassifier):
    return {}
  names = labels or tuple(f"LABEL_{i}" for i in range(model.num_labels))
  if len(names) != model.num_labels:
    raise ValueError(f"{len(names)} labels for {model.num_labels} outputs")
  kind = {}
  if isinstance(model, SequenceClassifier):
    by_number = "regression" if model.num_labels == 1 else "single_label_classification"
    kind["problem_type"] = problem_type or by_number
  return {
    "id2label": {str(i): name for i, name in enumerate(names)},
    "label2id": {name: i for i, name in enumerate(names)},
    **kind,
  }
