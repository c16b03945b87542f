"""BERT-base as Devlin et al. (2019) trained it, with the steps kept that the paper fine-tunes from.

  python -m discipline_jax.main --config=configs/pretrain_bert_base.py

By itself it takes the Wikipedia of TensorFlow Datasets; BooksCorpus is not public any more. A folder of text can hold
what there is of both: --config.corpus.name=text --config.corpus.path=DIR.
A million updates of 256 rows; the last tenth at 512 tokens.
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
