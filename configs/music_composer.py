"""Fine-tunes BERT to name the composer of a piano piece (MAESTRO v1): segments of 128 notes vote on it.

  python -m discipline_jax.main --config=configs/music_composer.py

Needs music/maestro-v1.0.0.csv and the MIDI files that it names in music/maestro-v1.0.0/, below --config.data_dir; they
are downloaded if they are missing. Expected test accuracy (from arXiv version 1 of the paper): 55.2 with BERT, 36 from
scratch (--config.model.init=scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "music_composer"
  config.token_map.kind = "random"
  config.replicas = 6
  return defaults.use_model(config, model)
