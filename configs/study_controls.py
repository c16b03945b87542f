"""Asks what of a pre-trained network helps: its statistics, its values, some of its layers, or what training changes.

  python -m discipline_jax.main --config=configs/study_controls.py --config.data_dir=DATA

Two tasks with two seeds each: MiniLM (6 layers x 384) on splice junctions, and BERT-tiny (2 layers x 128) on a tenth of
protein stability. The networks are pre-trained, from scratch, `statistics` (each tensor random, with the mean and the
deviation of the checkpoint's), `shuffled` (its entries in random order), and pre-trained in the lower or in the upper
half of their layers alone. Of the pre-trained ones and those from scratch, training also changes only the embeddings,
LayerNorms, pooler and head (`norms`), or only the head. The paper has no numbers for these.
"""

from discipline_jax import grids
from discipline_jax.grids import grid


def get_config():
  cells = [
    *_controls("dna_splice", "minilm", 6, 1.0),
    *_controls("protein_stability", "bert_tiny", 2, 0.1),
  ]
  return grids.study(cells, change=_change)


def _controls(task, model, num_layers, fraction):
  """Returns the cells of a task."""
  half = num_layers // 2
  shared = {"models": (model,), "fractions": (fraction,)}
  halves = (tuple(range(half)), tuple(range(half, num_layers)))
  return [
    *grid((task,), inits=("pretrained", "scratch", "statistics", "shuffled"), **shared),
    *grid((task,), layers=halves, **shared),
    *grid((task,), inits=("pretrained", "scratch"), parameters=("norms", "head"), **shared),
  ]


def _change(config, cell):
  config.replicas = 2
  config.train.update(epochs=3, learning_rate=3e-4, grad_accumulation=1, warmup_steps=20)
  config.eval.every_steps = 45
  if cell.parameters != "all":
    config.train.learning_rate = 3e-3  # few parameters need larger steps
