"""The configurations that the files in `configs/` build on: every field, with its unit and meaning.

The values of `finetune` are the paper's for non-text data: Adam, learning rate 1e-5, linear decay to 0, no warm-up,
no weight decay, batch 32 as 16 x 2, dropout 0.1, 20 epochs, evaluation every 3,000 updates, six runs. Those of
`pretrain` are BERT's (Devlin et al. 2019, appendix A.2; gradients are clipped as in its code, but Adam is Optax's, with
bias correction and an epsilon of 1e-8 where that code has none and 1e-6).
"""

import dataclasses
import typing
from typing import Any

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

from discipline_jax.errors import UserError
from discipline_jax.models.config import ModelConfig


def finetune() -> ConfigDict:
  """Fine-tuning on non-text data; a config file sets at least `task.name`, and a checkpoint or sizes."""
  return ConfigDict(
    {
      "mode": "finetune",
      "seed": 0,  # of the split, the data order, the head, dropout and the token map
      "replicas": 1,  # runs with seed, seed + 1, ..., trained together
      "data_dir": placeholder(str),  # unset: $DISCIPLINE_DATA, else ~/.cache/discipline_jax
      "cache_dir": "~/.cache/discipline_jax",  # of compiled programs, and of features of files over 1 MiB
      "task": {
        "name": placeholder(str),  # one of discipline_jax.tasks
        "train_fraction": 1.0,  # share of the training set to use, in (0, 1]
        "max_length": placeholder(int),  # tokens with [CLS] and [SEP]; unset: the task's own
        # The next eight are for `custom`, one's own table (task.path).
        "path": placeholder(
          str
        ),  # .csv .tsv .jsonl .fasta, also .gz .xz; {split}: train, validation, test
        "splits": placeholder(
          str
        ),  # column that says train, validation or test; unset: drawn, 90/5/5
        "sequence_column": "sequence",
        "label_column": "label",
        "symbols": "characters",  # characters | words (blanks between them) | integers
        "alphabet": placeholder(
          str
        ),  # all symbols that there may be; unset: those of the training part
        "kind": "classification",  # classification | regression
        "metric": placeholder(
          str
        ),  # accuracy f1 (of the second class) macro_f1 mcc | spearman pearson; unset: the first
        "skip_invalid": False,  # protein, music, custom: True leaves samples out that cannot be read
        "source": "files",  # GLUE: files (of its own layout) | tfds (TensorFlow Datasets)
        "keep_last_segment": False,  # music: True keeps a piece's last segment, of less than 128 notes
        "sort_by": "segment",  # music: segment (notes by onset within each, as the authors) | piece
        "vote": "majority",  # music: majority | first (segment decides, as the authors' script)
      },
      "token_map": {
        "kind": "random",  # identity | shift | random_shift | random | frequent | unused | table
        "shift": 1000,  # rows, for `shift`
        "seed": placeholder(int),  # of the first replica's map, + 1 for each further; unset: seed
        "path": placeholder(str),  # a .npy file for `table`; {seed} in it becomes the map's seed
        "keep_special": False,  # True: special tokens keep their own rows
      },
      "model": _model("pretrained"),
      "train": {
        "batch_size": 32,  # samples an update, over all devices
        "grad_accumulation": 2,  # parts that an update's samples are cut into
        "epochs": 20,
        "steps": placeholder(int),  # updates; wins over epochs
        "learning_rate": 1e-5,
        "optimizer": "adam",  # adam | adamw | adagrad | adamax | radam | novograd
        "warmup_steps": 0,
        "weight_decay": 0.0,  # decoupled, not on biases and LayerNorm
        "max_grad_norm": placeholder(float),  # longer gradients are shortened to it; unset: none is
        "log_every_steps": 10,
      },
      "eval": {
        "every_steps": 3000,  # on validation; the last step always is
        "batch_size": 64,
        "max_examples": -1,  # of validation while training; -1: all
        "select": "best",  # whose weights are tested: best (on validation) | last
      },
      "checkpoint": {
        "every_steps": 1000,
      },
      "predict": {  # mode = predict: task.path over the model of a finished --workdir
        "output": placeholder(str),  # a .csv file
      },
      "export": {  # mode = export: the model of a finished --workdir
        "output": placeholder(str),  # a directory, in Hugging Face's format
      },
      "mesh": _mesh(),
    }
  ).lock()  # a misspelt field in a config file is an error, too


def pretrain() -> ConfigDict:
  """Pre-training; a config file sets at least `corpus.name`, or a user `corpus.path`."""
  return ConfigDict(
    {
      "mode": "pretrain",
      "seed": 0,  # of weights, held-out documents, instances, their order, masks and dropout
      "cache_dir": "~/.cache/discipline_jax",  # of compiled programs and prepared corpora
      "corpus": {
        "name": "text",  # text | tfds (TensorFlow Datasets) | uniform | flat | nesting
        "path": placeholder(
          str
        ),  # a file or folder of text; of tfds a name; a folder that corpora.prepare wrote
        "vocabulary": placeholder(
          str
        ),  # a model whose tokenizer to take; unset: model.checkpoint's, or one is learnt, of vocab_size tokens
        "lowercase": True,  # of a vocabulary that is learnt: small letters without accents, as BERT's uncased
        "language": "en",  # by which sentences are split, as a code of ISO 639
        "lines": 930_000,  # of an artificial corpus, held-out ones counted
        "length": (128, 512),  # tokens of a row in each phase
        "draws": 1,  # how often instances are drawn from the text; each is used before the first comes again
        "validation": 0.005,  # share of the documents or lines that is held out, but one of each 16 million characters
      },
      "objective": {
        "kind": "mlm_nsp",  # mlm | mlm_nsp (BERT) | mlm_sop (ALBERT) | causal (left to right)
      },
      "masking": {
        "rate": 0.15,  # share of a row's tokens that is predicted
        "mask": 0.8,  # share of these that becomes the mask token
        "same": 0.1,  # share that stays
        "random": 0.1,  # share that becomes any token
        "max_positions": placeholder(
          int
        ),  # the most that are predicted in a row; unset: rate * length, rounded up
      },
      "model": _model("scratch"),
      "remat": False,  # True: layers are computed again for the gradient, which saves memory
      "train": {
        "batch_size": 256,  # rows an update, over all devices
        "grad_accumulation": 1,  # parts that an update's rows are cut into
        "steps": 1_000_000,  # updates
        "phases": (0.9, 0.1),  # share of the steps at each of corpus.length
        "learning_rate": 1e-4,
        "optimizer": "adamw",  # adam | adamw | adagrad | adamax | radam | novograd
        "warmup_steps": 10_000,
        "weight_decay": 0.01,  # decoupled, not on biases and LayerNorm
        "max_grad_norm": 1.0,  # longer gradients are shortened to it; 0: none is
        "log_every_steps": 100,
      },
      "eval": {
        "every_steps": 10_000,  # on what is held out, always with the same masks; the last step always is
        "batch_size": 256,
        "max_examples": 10_000,  # held-out rows, at the first phase's length
      },
      "checkpoint": {
        "every_steps": 1000,
        "keep_steps": (
          0,
          20_000,
          200_000,
          500_000,
          1_000_000,
        ),  # kept for good; the last step is, too
      },
      "mesh": _mesh(),
    }
  ).lock()


def study(runs: dict[str, ConfigDict]) -> ConfigDict:
  """Several runs side by side.

  Args:
    runs: their configs, by name.
  """
  return ConfigDict(
    {
      "mode": "study",
      "cache_dir": "~/.cache/discipline_jax",  # of all runs
      "runs": runs,  # a model.checkpoint may be NAME or NAME@STEP of a pre-training among them
    }
  ).lock()


def transfer(size: str) -> ConfigDict:
  """Pre-training as in the study of corpora without meaning (Chiang and Lee 2022): masks alone, 100,000 updates of 300.

  Args:
    size: 8x512, as there, or 12x768.
  """
  sizes = {"8x512": (8, 512, 8), "12x768": (12, 768, 12)}
  if size not in sizes:
    raise UserError(
      f"no size {size!r}; after the config's name and a colon give one of: {', '.join(sizes)}"
    )
  layers, width, heads = sizes[size]
  config = pretrain()
  config.objective.kind = "mlm"
  config.corpus.length = (128,)
  config.model.config.update(
    num_hidden_layers=layers,
    hidden_size=width,
    num_attention_heads=heads,
    intermediate_size=4 * width,
  )
  config.train.update(batch_size=300, steps=100_000, phases=(1.0,), warmup_steps=5000)
  config.eval.batch_size = 300
  config.checkpoint.keep_steps = (0, 20_000, 100_000)
  return config


def _model(init: str) -> dict[str, Any]:
  return {
    "checkpoint": placeholder(
      str
    ),  # a directory in Hugging Face's format, WORKDIR@STEP or a hub id
    "init": init,  # pretrained | scratch | re_emb (pretrained, word embeddings drawn anew)
    "config": {  # sizes under Hugging Face's names, where there is no checkpoint; unset: ModelConfig's
      field.name: placeholder((typing.get_args(field.type) or (field.type,))[0])
      for field in dataclasses.fields(ModelConfig)
    },
    "dtype": "float32",  # of the arithmetic: float32 | bfloat16; weights are float32
    "dropout": placeholder(float),  # of hidden states and head; unset: the checkpoint's
    "attention_dropout": placeholder(float),  # of attention weights; unset: the checkpoint's
  }


def _mesh() -> dict[str, int]:
  """Devices along each axis; -1: all that the others leave."""
  return {"data": -1, "fsdp": 1, "tensor": 1}


# Models by the name that follows a config's: `--config=dna_splice:roberta`. Those of one discipline have its symbols in
# their own vocabulary, which no token map moves.
MODELS: dict[str, dict[str, Any]] = {
  "bert": {"model.checkpoint": "google-bert/bert-base-uncased"},
  "bert_large": {"model.checkpoint": "google-bert/bert-large-uncased"},
  "bert_chinese": {"model.checkpoint": "google-bert/bert-base-chinese"},
  "bert_multilingual": {"model.checkpoint": "google-bert/bert-base-multilingual-cased"},
  "roberta": {"model.checkpoint": "FacebookAI/roberta-base"},
  "albert": {"model.checkpoint": "albert/albert-base-v1"},
  "prot_bert": {"model.checkpoint": "Rostlab/prot_bert", "token_map.kind": "identity"},
  "plus_tfm": {"token_map.kind": "identity"},  # model.checkpoint: where models.plus_tfm wrote it
  "hilbert_cnn": {
    "token_map.kind": "identity",
    "model.init": "scratch",
    "model.config.model_type": "hilbert_cnn",
    # Its authors': Yin et al. 2018.
    "train.learning_rate": 3e-3,
    "train.batch_size": 300,
    "train.grad_accumulation": 1,
    "eval.every_steps": 10,
  },
}


def use_model(config: ConfigDict, name: str) -> ConfigDict:
  """`config` with one of `MODELS`, and what belongs to it."""
  if name not in MODELS:
    raise UserError(
      f"no model {name!r}; after the config's name and a colon give one of: {', '.join(MODELS)}"
    )
  with config.ignore_type():  # a placeholder has no type yet
    config.update_from_flattened_dict(MODELS[name])
  return config


def shifted_glue(task: str, model: str) -> ConfigDict:
  """The paper's settings for GLUE: three epochs, three runs, the last weights, tokens moved by 1,000 rows."""
  config = finetune()
  config.task.name = task
  config.token_map.kind = "shift"
  config.replicas = 3
  config.train.epochs = 3
  config.eval.select = "last"
  return use_model(config, model)


def read(fields: dict) -> ConfigDict:
  """The config of a run from what its config.json holds; a field that an older run did not know has its default."""
  config = finetune()
  with config.ignore_type():
    config.update(fields)
  return config
