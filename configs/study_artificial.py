"""Repeats the paper's table 2: proteins after pre-training on corpora without meaning, on Kannada, and from scratch.

  python -m discipline_jax.main --config=configs/study_artificial.py --config.data_dir=DATA
  python -m discipline_jax.main --config=configs/study_artificial.py:12x768 --config.data_dir=DATA

Pre-trains four networks of 8 layers x 512 (or 12 x 768) for 100,000 updates, as Chiang and Lee (2022) did: on symbols
that are all equally likely, on pairs, on nesting brackets, and on Kannada, whose text is in DATA/text/kannada. Each,
and scratch, is fine-tuned on the three protein tasks, with six seeds: 19 runs, which want GPUs. Positions after the
128th are not pre-trained. Expected: the test scores of table 2 (on average scratch 48.5, uniform 49.3, flat 50.3,
nesting 57.0, Kannada 60.4). They are the paper's: this study has not been run as a whole.
"""

from discipline_jax.configs import (
  pretrain_flat,
  pretrain_kannada,
  pretrain_nesting,
  pretrain_uniform,
)

from discipline_jax import grids
from discipline_jax.grids import PROTEIN, grid


def get_config(size: str = "8x512"):
  pretrainings = {
    "uniform": pretrain_uniform.get_config(size),
    "flat": pretrain_flat.get_config(size),
    "nesting": pretrain_nesting.get_config(size),
    "kannada": pretrain_kannada.get_config(size),
  }
  pretrainings["kannada"].corpus.path = "{data_dir}/text/kannada"
  cells = [
    *grid(PROTEIN, models=("nesting",), inits=("scratch",), steps=(0,)),  # takes its sizes
    *grid(PROTEIN, models=pretrainings),
  ]
  return grids.study(cells, labels=_labels, pretrainings=pretrainings)


def _labels(cell):
  own = {"corpus": cell.model} if cell.init == "pretrained" else {"model": "scratch"}
  return {"version": "v2", "table": "2", "setting": "artificial_pretraining", **own}
