"""Repeats the paper's tables 5 to 8: proteins, DNA and music, with six models, scratch and models made for them.

  python -m discipline_jax.main --config=configs/study_nontext.py --config.data_dir=DATA --config.models.plus_tfm=DIR
  python -m discipline_jax.main --config=configs/study_nontext.py --config.data_dir=DATA --config.study.only='dna_*'

71 runs of six seeds each, every seed with its own random token map, with the paper's settings. DIR is what
`discipline_jax.models.plus_tfm` writes; without it the three runs of PLUS-TFM fail alone. It wants GPUs;
`--config.study.shard=2/8` is for the second of eight. Expected: the test scores of tables 5 and 6, and the validation
scores of tables 7 and 8 (proteins on average 64.4 with BERT, 49.5 from scratch; DNA 85.8 and 77.7; composer 35.7 and
22.8). They are the paper's: this study has not been run as a whole.
"""

from discipline_jax import grids
from discipline_jax.grids import DNA, NON_TEXT, PROTEIN, grid


def get_config():
  cells = [
    *grid(NON_TEXT, models=("bert", "roberta", "albert", "bert_chinese", "bert_large")),
    *grid(NON_TEXT, models=("bert", "bert_large"), inits=("scratch",)),
    *grid(NON_TEXT, inits=("re_emb",)),
    *grid(PROTEIN, models=("plus_tfm",)),
    *grid(DNA, models=("hilbert_cnn",), inits=("scratch",)),
  ]
  return grids.study(cells, labels=lambda _: {"version": "v2", "table": "5"})
