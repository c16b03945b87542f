"""BERT-like encoders in Flax NNX, loaded from Hugging Face's checkpoints."""

from discipline_jax.models.config import ModelConfig, read_config
from discipline_jax.models.encoder import Encoder, EncoderOutput
from discipline_jax.models.heads import Classifier, SequenceClassifier
from discipline_jax.models.huggingface import load

__all__ = [
  "Classifier",
  "Encoder",
  "EncoderOutput",
  "ModelConfig",
  "SequenceClassifier",
  "load",
  "read_config",
]
