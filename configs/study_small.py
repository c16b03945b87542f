"""Asks the paper's questions in small: 90 minutes on two CPU cores, with two seeds.

  python -m discipline_jax.main --config=configs/study_small.py --config.data_dir=DATA

Fine-tunes MiniLM on splice junctions, and BERT-tiny on eleven tasks: text whose tokens are moved by 1,000 rows, proteins,
DNA and music; pre-trained, from scratch, and with new word embeddings. Pre-trains three BERTs of 4 layers: on the text in
DATA/text/enwiki, and on brackets and symbols without meaning; and fine-tunes four kept steps of the first one, and the last
of the others, on splice junctions and protein stability. A task whose files are not below DATA fails alone. Other places for
the two models: --config.models.minilm=DIR --config.models.bert_tiny=DIR.
"""

from discipline_jax.configs import artificial_small, pretrain_small

from discipline_jax import grids
from discipline_jax.grids import DNA, MUSIC, PROTEIN, grid

_DNA = tuple(task for task in DNA if task != "dna_h4")  # 14,601 samples that double the time
_TEXT = ("glue_cola", "glue_sst2", "glue_mrpc", "glue_stsb")
_INITS = ("pretrained", "scratch", "re_emb")
_STEPS = (0, 800, 2000, 2200)


def get_config():
  pretrainings = {"text": _pretrain_text()}
  for name in ("nesting", "uniform"):
    pretrainings[name] = artificial_small.get_config().runs[f"pretrain_{name}"]
    pretrainings[name].train.steps = 1000
  two = ("dna_splice", "protein_stability")
  cells = [
    *grid(("dna_splice",), models=("minilm",), inits=("pretrained", "scratch")),
    *grid(_TEXT, models=("bert_tiny",), inits=_INITS, maps=("shift",)),
    *grid((*PROTEIN, *_DNA, *MUSIC), models=("bert_tiny",), inits=_INITS),
    *grid(two, models=("text",), steps=_STEPS),
    *grid(two, models=("nesting", "uniform")),
    *grid(two, models=("nesting",), inits=("scratch",), steps=(0,)),  # takes its sizes
  ]
  return grids.study(cells, labels=_labels, change=_change, pretrainings=pretrainings)
