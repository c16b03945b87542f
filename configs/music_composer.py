"""The composer of a piano piece, over MAESTRO v1: segments of 128 notes vote on it.

  python -m discipline_jax.main --config=configs/music_composer.py

Needs music/maestro-v1.0.0.csv and the MIDI files that it names in music/maestro-v1.0.0/ below --config.data_dir.
The paper's test accuracy (first version): 55.2 (BERT) against 36 (scratch).
"""

from discipline_jax import defaults


def get_config(model: str = "bert"):
  config = defaults.finetune()
  config.task.name = "music_composer"
  config.replicas = 6
  return defaults.use_model(config, model)
