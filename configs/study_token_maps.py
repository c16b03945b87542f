"""Compares token maps on proteins, DNA and music: random rows, the most frequent tokens, and rows that BERT never saw.

  python -m discipline_jax.main --config=configs/study_token_maps.py --config.data_dir=DATA

48 runs of six seeds each, with the paper's settings: BERT with each of the three maps, `re_emb` and scratch with the
most frequent tokens (table 2 of the paper's first version), and scratch with random rows. Expected: random and
frequent rows score alike (table 5 of the second version has random ones), and the `[unusedN]` rows as low as scratch.
The numbers are the paper's: this study has not been run as a whole.
"""

from discipline_jax import grids
from discipline_jax.grids import NON_TEXT, grid


def get_config():
  cells = [
    *grid(NON_TEXT, maps=("random", "frequent", "unused")),
    *grid(NON_TEXT, inits=("re_emb", "scratch"), maps=("frequent",)),
    *grid(NON_TEXT, inits=("scratch",)),
  ]
  return grids.study(cells, labels=_labels)


def _labels(cell):
  if cell.token_map == "random":
    return {"version": "v2", "table": "5"}
  return {"version": "v1", "table": "2"}
