"""Asks the paper's questions in small, with two seeds; made to fit into 90 minutes on two quiet CPU cores.

  python -m discipline_jax.main --config=configs/study_small.py --config.data_dir=DATA

- MiniLM on splice junctions, pre-trained and from scratch.
- BERT-tiny on eleven tasks, pre-trained, from scratch, and with new word embeddings: text whose tokens are moved by
  1,000 rows, proteins, DNA and music. Inputs are cut to 128 tokens.
- Four kept steps of a BERT of 4 x 256 that is pre-trained on the text in DATA/text/enwiki (as `pretrain_small`, but
  for 1,600 updates), on splice junctions and protein stability, and the same network from scratch.
- The same two tasks from a BERT of 4 x 128: pre-trained on nesting brackets, on uniform symbols, and from scratch.

A task whose files are not below DATA fails alone. Other places for the two models: --config.models.minilm=DIR
--config.models.bert_tiny=DIR. The paper has no numbers for networks of these sizes.
"""

from discipline_jax.configs import artificial_small, pretrain_small

from discipline_jax import grids
from discipline_jax.grids import DNA, MUSIC, PROTEIN, grid

_TEXT = ("glue_cola", "glue_sst2", "glue_mrpc", "glue_stsb")
_OTHERS = (*PROTEIN, *(task for task in DNA if task != "dna_h4"), *MUSIC)
_TWO = ("dna_splice", "protein_stability")
_LONG = 128  # tokens


def get_config():
  pretrainings = {"text": _pretrain_text()}
  for name in ("nesting", "uniform"):
    pretrainings[name] = artificial_small.get_config().runs[f"pretrain_{name}"]
    pretrainings[name].train.steps = 2000
  cells = [
    *grid(("dna_splice",), models=("minilm",), inits=("pretrained", "scratch")),
    *_tiny(_TEXT, "shift"),
    *_tiny(_OTHERS, "random"),
    *grid(_TWO, models=("text",), steps=(*pretrainings["text"].checkpoint.keep_steps, None)),
    *grid(_TWO, models=("nesting", "uniform")),
    *grid(_TWO, models=("text", "nesting"), inits=("scratch",), steps=(0,)),  # take their sizes
  ]
  return grids.study(cells, labels=_labels, change=_change, pretrainings=pretrainings)


def _tiny(tasks, token_map):
  inits = ("pretrained", "scratch", "re_emb")
  return grid(tasks, models=("bert_tiny",), inits=inits, maps=(token_map,))


def _pretrain_text():
  config = pretrain_small.get_config()
  config.corpus.path = "{data_dir}/text/enwiki"
  config.train.update(steps=1600, phases=(15, 1))
  config.eval.max_examples = 512
  config.checkpoint.keep_steps = (0, 500, 1500)
  return config


def _labels(cell):
  return {"corpus": cell.model} if cell.model in ("text", "nesting", "uniform") else {}


def _change(config, cell):
  config.replicas = 2
  config.task.max_length = _LONG
  config.train.update(steps=400, learning_rate=5e-4, grad_accumulation=1, warmup_steps=40)
  if cell.model == "minilm":
    config.train.update(steps=240, learning_rate=1e-4)
  elif cell.model == "text":
    config.train.update(steps=160, learning_rate=3e-4)
  config.eval.update(every_steps=40, max_examples=256, select="best")
  config.checkpoint.every_steps = 80
