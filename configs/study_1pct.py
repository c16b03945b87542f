"""Repeats the paper's runs on 1% of the training samples, until the training loss is near 0: BERT against scratch.

  python -m discipline_jax.main --config=configs/study_1pct.py --config.data_dir=DATA

28 runs: the eight GLUE tasks with tokens moved by 1,000 rows (three seeds), and six tasks on proteins and DNA (six
seeds; splice junctions and music have too few samples, as in the paper). Each makes 3,000 updates, and is evaluated
after every 100: the paper does not say how many it made. Expected: the validation scores of the first version's table
A1 (QNLI 72.9 with BERT, 54.7 from scratch). They are the paper's: this study has not been run as a whole.
"""

from discipline_jax import grids
from discipline_jax.grids import DNA, GLUE, PROTEIN, grid


def get_config():
  histones = tuple(task for task in DNA if task != "dna_splice")
  inits = ("pretrained", "scratch")
  cells = [
    *grid(GLUE, inits=inits, maps=("shift",), fractions=(0.01,)),
    *grid((*PROTEIN, *histones), inits=inits, fractions=(0.01,)),
  ]
  return grids.study(cells, labels=_labels, change=_change)


def _labels(cell):
  if cell.task not in GLUE:
    return {"version": "v2"}  # which has curves of these, and no table
  model = {"pretrained": "bert", "scratch": "bert_scratch"}[cell.init]
  return {"version": "v1", "table": "A1", "model": model}


def _change(config, cell):
  config.train.steps = 3000
  config.eval.every_steps = 100
  if cell.task == "glue_rte":  # of which 1% are 25 samples
    config.train.batch_size = 16
