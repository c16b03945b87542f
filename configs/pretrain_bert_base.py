"""Pre-trains BERT-base as Devlin et al. (2019) did, and keeps the steps that the paper fine-tunes from.

  python -m discipline_jax.main --config=configs/pretrain_bert_base.py
  python -m discipline_jax.main --config=pretrain_bert_base --config.corpus.name=text --config.corpus.path=DIR

Makes a million updates of 256 rows, the last tenth of them with rows of 512 tokens. The first command takes Wikipedia
from TensorFlow Datasets. BooksCorpus is not public any more: if you have a copy of it, put both into a folder of text,
DIR. Expected: the steps 0, 20,000, 200,000, 500,000 and 1,000,000 in runs/pretrain_bert_base/steps, and the held-out
losses and accuracies in result.json.
"""

from discipline_jax import defaults


def get_config():
  config = defaults.pretrain()
  config.corpus.update(
    name="tfds",
    path="wikipedia/20230601.en",
    vocabulary="google-bert/bert-base-uncased",
    draws=10,
  )
  return config
