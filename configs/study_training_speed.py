"""Repeats the paper's curves of the training loss: BERT against scratch, on shifted text, proteins, DNA and music.

  python -m discipline_jax.main --config=configs/study_training_speed.py --config.data_dir=DATA

32 runs with the paper's settings (three seeds for GLUE, else six), which are also in `study_glue` and `study_nontext`;
here they are evaluated every 500 updates, which shows after how many updates BERT has the best score of scratch.
Expected: the loss of BERT falls faster on all tasks but SST-2 (figures 3, 6 and 7 of the paper's second version), and
about the scores of tables 3 and 5. They are the paper's: this study has not been run as a whole.
"""

from discipline_jax import grids
from discipline_jax.grids import GLUE, NON_TEXT, grid


def get_config():
  inits = ("pretrained", "scratch")
  cells = [*grid(GLUE, inits=inits, maps=("shift",)), *grid(NON_TEXT, inits=inits)]
  return grids.study(
    cells,
    labels=lambda cell: {"version": "v2", "table": "3" if cell.task in GLUE else "5"},
    change=_change,
  )


def _change(config, cell):
  del cell
  config.eval.every_steps = 500
