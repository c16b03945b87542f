"""Repeats the paper's table 3: eight GLUE tasks, as they are and with their tokens exchanged, for six models.

  python -m discipline_jax.main --config=configs/study_glue.py --config.data_dir=DATA
  python -m discipline_jax.main --config=configs/study_glue.py --config.data_dir=DATA --config.study.only='glue_mrpc*'

88 runs of three seeds each, with the paper's settings: text as it is with BERT and `re_emb`, tokens moved by 1,000
rows with BERT, RoBERTa, ALBERT, Chinese BERT, BERT-large and the two sizes from scratch, and tokens permuted at random
with BERT and from scratch. It wants GPUs; `--config.study.shard=2/8` is for the second of eight. Expected: the
validation scores of table 3 (BERT moved by 1,000 rows: GLUE score 66.6; from scratch 53.2). They are the paper's: this
study has not been run as a whole.
"""

from discipline_jax import grids
from discipline_jax.grids import GLUE, grid


def get_config():
  cells = [
    *grid(GLUE, inits=("pretrained", "re_emb"), maps=("identity",)),
    *grid(
      GLUE, models=("bert", "roberta", "albert", "bert_chinese", "bert_large"), maps=("shift",)
    ),
    *grid(GLUE, models=("bert", "bert_large"), inits=("scratch",), maps=("shift",)),
    *grid(GLUE, inits=("pretrained", "scratch"), maps=("random_shift",)),
  ]
  return grids.study(cells, labels=lambda _: {"version": "v2", "table": "3"})
