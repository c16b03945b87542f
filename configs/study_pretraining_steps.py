"""Repeats the paper's figures of pre-training steps: a BERT-base after 0 to 1,000,000 updates, on 16 tasks.

  python -m discipline_jax.main --config=configs/study_pretraining_steps.py --config.data_dir=DATA
  python -m discipline_jax.main --config=configs/study_pretraining_steps.py --config.data_dir=DATA \\
    --config.runs.pretrain.corpus.name=text --config.runs.pretrain.corpus.path=TEXT

Pre-trains as `pretrain_bert_base` does (a million updates, which wants a pod), then fine-tunes from its steps 0,
20,000, 200,000, 500,000 and 1,000,000, and from the published BERT: 96 runs, shifted GLUE with three seeds, proteins,
DNA and music with six and the most frequent tokens, as in the paper's first version. Expected: most of what
pre-training is worth is there after 20,000 updates (figures 3 and 4), and the scores of the published BERT in tables
A1 and 2. They are the paper's: this study has not been run as a whole.
"""

from discipline_jax.configs import pretrain_bert_base

from discipline_jax import grids
from discipline_jax.grids import GLUE, NON_TEXT, grid


def get_config():
  pretrain = pretrain_bert_base.get_config()
  steps = tuple(pretrain.checkpoint.keep_steps)
  cells = []
  for tasks, maps in ((GLUE, ("shift",)), (NON_TEXT, ("frequent",))):
    cells += [*grid(tasks, models=("pretrain",), maps=maps, steps=steps), *grid(tasks, maps=maps)]
  return grids.study(cells, labels=_labels, pretrainings={"pretrain": pretrain})


def _labels(cell):
  return {"version": "v1", "table": "A1" if cell.task in GLUE else "2"}
