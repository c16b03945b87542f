"""Holds BERT and its families in Flax NNX; reads and writes checkpoints in Hugging Face's format."""

from discipline_jax.models.config import ModelConfig, read_config
from discipline_jax.models.encoder import Encoder, EncoderOutput
from discipline_jax.models.heads import (
  Classifier,
  Head,
  MultipleChoice,
  Span,
  TokenClassifier,
)
from discipline_jax.models.huggingface import load
from discipline_jax.models.pretraining import Pretraining
from discipline_jax.models.save import save

__all__ = [
  "Classifier",
  "Encoder",
  "EncoderOutput",
  "Head",
  "ModelConfig",
  "MultipleChoice",
  "Pretraining",
  "Span",
  "TokenClassifier",
  "load",
  "read_config",
  "save",
]
