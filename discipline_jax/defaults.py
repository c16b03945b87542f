"""Defines the default configs that the files in `configs/` change: every field, with its unit and meaning.

The values of `finetune` are the paper's for non-text data: Adam, learning rate 1e-5, linear decay to 0, no warm-up,
no weight decay, batch 32 as 16 x 2, dropout 0.1, 20 epochs, evaluation every 3,000 updates, six runs. The values of
`pretrain` are BERT's (Devlin et al. 2019, appendix A.2). Gradients are clipped as in BERT's code, but Adam is Optax's,
with bias correction and an epsilon of 1e-8; that code has no bias correction and 1e-6.
"""

import dataclasses
import typing
from typing import Any

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

from discipline_jax.errors import UserError
from discipline_jax.models.config import ModelConfig


def finetune() -> ConfigDict:
  """Returns the config of fine-tuning; a config file sets at least `task.name`, and a checkpoint or sizes."""
  return ConfigDict(
    {
      "mode": "finetune",
      "seed": 0,  # seed of the split, the data order, the head, dropout and the token map
      "replicas": 1,  # number of runs, with seed, seed + 1, ..., trained together
      "data_dir": placeholder(str),  # unset: $DISCIPLINE_DATA, else ~/.cache/discipline_jax
      "cache_dir": "~/.cache/discipline_jax",  # for compiled programs, and features of files over 1 MiB
      "task": {
        "name": placeholder(str),  # one of discipline_jax.tasks
        "train_fraction": 1.0,  # share of the training set that is used, in (0, 1]
        "standardise": False,  # True: trains on (value - mean) / deviation of the training part; predictions are values
        "group_identity": placeholder(float),  # in (0, 1]: sequences this alike share a part
        # DNA: off | augment (training reads either strand, drawn anew in each update) | average (and evaluation and
        # prediction take the mean of the outputs for both)
        "reverse_complement": "off",
        "max_length": placeholder(int),  # tokens, [CLS] and [SEP] counted; unset: the task's own
        # Sequences over max_length: cut (at the end) | windows (overlapping; see docs/own_data.md); unset: cut, and in
        # prediction as the run was trained.
        "long": placeholder(str),
        "stride": placeholder(int),  # symbols from a window to the next; unset: half a window
        # The next fields are for the task `custom`, a table of one's own.
        "path": placeholder(str),  # .csv .tsv .jsonl .fasta, .gz .xz; {split}: a file a part
        "splits": placeholder(str),  # column that says the part; unset: random, 90/5/5
        "group_column": placeholder(str),  # column with a group that no random split tears apart
        "sequence_column": "sequence",  # FIRST,SECOND: pairs of sequences
        "label_column": "label",  # multilabel: also several columns of 0 and 1, with commas between their names
        # FASTA: text between name, label and split of a header; ' ': the label is all words in between
        "label_separator": placeholder(str),
        # FASTA: regular expression with a group (?P<label>...), with splits also (?P<split>...)
        "label_pattern": placeholder(str),
        # characters | words (blanks between them) | integers | kmers (overlapping) | smiles; for mode = embed with a
        # checkpoint also text: its tokenizer reads whole rows
        "symbols": "characters",
        "k": 3,  # letters of a k-mer, for symbols kmers: ACGT has the 3-mers ACG and CGT
        "case": "as_is",  # as_is: a and A are two symbols | upper: a is read as A
        "alphabet": placeholder(str),  # all symbols that may occur; unset: those of training
        # classification | regression | multilabel (of a sequence) | tagging | position_regression (of each symbol)
        "kind": "classification",
        "ignore_label": placeholder(str),  # tagging: the tag of symbols that do not count
        # accuracy f1 (of the second class) macro_f1 mcc | spearman pearson | micro_f1 macro_f1 average_precision;
        # unset: accuracy | spearman | micro_f1
        "metric": placeholder(str),
        "skip_invalid": False,  # protein, music, custom: True leaves out samples that cannot be read
        "source": "files",  # GLUE: files (of its own layout) | tfds (TensorFlow Datasets)
        "keep_last_segment": False,  # music: True keeps the last segment of a piece, under 128 notes
        "sort_by": "segment",  # music: sort notes by onset within a segment, as the authors do | piece
        "vote": "majority",  # music: majority | first (the first segment decides, as in the authors' script)
      },
      "token_map": {
        # auto: identity for text, a model of the task's discipline, and mode = embed, else random, the authors' map
        "kind": "auto",  # auto | identity | shift | random_shift | random | frequent | unused | table
        "shift": 1000,  # rows, for kind shift
        "seed": placeholder(int),  # seed of the first map, + 1 a replica; unset: seed
        "path": placeholder(str),  # a .npy file, for kind table; {seed}: the map's seed
        "keep_special": False,  # True: special tokens keep their own rows
      },
      "model": {
        **_model("pretrained"),
        # numbers of the layers that have the checkpoint's weights, as (0, 1); the others are random; unset: all
        "pretrained_layers": placeholder(tuple),
      },
      "train": {
        "batch_size": 32,  # samples of an update, over all devices
        "grad_accumulation": 2,  # parts of an update, computed one after the other to save memory
        "epochs": 20,
        "steps": placeholder(int),  # updates; wins over epochs
        "learning_rate": 1e-5,
        "optimizer": "adam",  # adam | adamw | adagrad | adamax | radam | novograd
        "parameters": "all",  # all | norms (embeddings, LayerNorms, pooler, head) | head; the others stay as they are
        "warmup_steps": 0,
        "weight_decay": 0.0,  # decoupled, not on biases and LayerNorm
        "max_grad_norm": placeholder(float),  # gradients are clipped to this norm; unset: never
        # balanced: a loss counts n / (k n_c) times, for n samples in k classes, n_c of them in its class; unset: once
        "class_weights": placeholder(str),
        "log_every_steps": 10,
      },
      "eval": {
        "every_steps": 3000,  # updates between evaluations on validation; the last one is always evaluated
        "batch_size": 64,
        "max_examples": -1,  # validation samples (with all of their windows) used during training; -1: all
        "select": "best",  # weights that are tested: best (on validation) | last
      },
      "checkpoint": {
        "every_steps": 1000,
      },
      "predict": {  # mode = predict: applies the model of a finished --workdir to task.path
        "output": placeholder(str),  # a .csv file
        # of tags and values of symbols: long (a line for each symbol) | string (one for each sequence)
        "format": "long",
        # columns of the table to write as well, with commas between them; FASTA has name and header
        "keep_columns": placeholder(str),
        "replicas": "best",  # best (on validation) | all (mean of their probabilities or values, with their spread)
      },
      "embed": {  # mode = embed: writes the vector of each row of task.path, of a checkpoint or a finished --workdir
        "output": placeholder(str),  # a .npz or .parquet file
        # mean (over the tokens of a row) | pooled (what a classifier reads of a row) | tokens (each one)
        "pooling": "mean",
        # 0 (embeddings) to the number of layers; -1 is the last, -2 the one before; unset: the last
        "layer": placeholder(int),
        "keep_columns": placeholder(str),  # as for predict
      },
      "export": {  # mode = export: writes the model of a finished --workdir
        "output": placeholder(str),  # a directory, in Hugging Face's format
      },
      "inspect": _inspect(),
      "mesh": _mesh(),
    }
  ).lock()  # a misspelt field in a config file is an error, too


def pretrain() -> ConfigDict:
  """Returns the config of pre-training; a config file sets at least `corpus.name`, or the user sets `corpus.path`."""
  return ConfigDict(
    {
      "mode": "pretrain",
      "seed": 0,  # seed of weights, held-out documents, instances, their order, masks and dropout
      "cache_dir": "~/.cache/discipline_jax",  # for compiled programs and prepared corpora
      "corpus": {
        "name": "text",  # text | tfds (TensorFlow Datasets) | uniform | flat | nesting
        # a file or folder of text, or of sequences; for tfds a name; or a folder that corpora.prepare wrote
        "path": placeholder(str),
        # model whose tokenizer is used; unset: model.checkpoint's, or one of vocab_size tokens is trained
        "vocabulary": placeholder(str),
        # for sequences: characters | words (blanks between them) | kmers (overlapping); unset: text
        "symbols": placeholder(str),
        "k": placeholder(int),  # letters of a k-mer
        "case": "as_is",  # for sequences: as_is | upper (small letters, as in soft-masked DNA, become capitals)
        "lowercase": True,  # for a tokenizer that is trained: lower case without accents, as BERT uncased
        "language": "en",  # language of the text, an ISO 639 code, for splitting it into sentences
        "lines": 930_000,  # lines of an artificial corpus, held-out ones counted
        "length": (128, 512),  # tokens of a row in each phase; a length may come again
        "draws": 1,  # dupe factor: how often instances are sampled from the text, each time differently
        "validation": 0.005,  # share of the documents or lines that is held out, at least one of 16 million characters
      },
      "objective": {
        "kind": "mlm_nsp",  # mlm | mlm_nsp (BERT) | mlm_sop (ALBERT) | causal (left to right)
      },
      "masking": {
        "rate": 0.15,  # share of a row's tokens that are predicted
        "mask": 0.8,  # share of these that become the mask token
        "same": 0.1,  # share of these that stay
        "random": 0.1,  # share of these that become a random token
        "span": placeholder(int),  # tokens in a row masked together; unset: corpus.k, else 1
        "max_positions": placeholder(int),  # most predicted tokens a row; unset: by rate
      },
      "model": _model("scratch"),
      "remat": False,  # True computes layers again for the gradient, which saves memory
      "train": {
        "batch_size": 256,  # rows of an update, over all devices
        "grad_accumulation": 1,  # parts of an update, computed one after the other to save memory
        "steps": 1_000_000,  # updates
        "phases": (0.9, 0.1),  # share of the steps at each of corpus.length
        "learning_rate": 1e-4,
        "optimizer": "adamw",  # adam | adamw | adagrad | adamax | radam | novograd
        "warmup_steps": 10_000,
        "weight_decay": 0.01,  # decoupled, not on biases and LayerNorm
        "max_grad_norm": 1.0,  # gradients are clipped to this norm; 0: never
        "log_every_steps": 100,
      },
      "eval": {
        "every_steps": 10_000,  # updates between evaluations on held-out rows; the last one is always evaluated
        "batch_size": 256,
        "max_examples": 10_000,  # held-out rows that are used, at the length of the first phase
      },
      "checkpoint": {
        "every_steps": 1000,
        "keep_steps": (
          0,
          20_000,
          200_000,
          500_000,
          1_000_000,
        ),  # weights after these steps are kept for good, and after the last one
      },
      "inspect": _inspect(),
      "mesh": _mesh(),
    }
  ).lock()


def study(runs: dict, *, labels: dict | None = None, models: dict | None = None) -> ConfigDict:
  """Returns the config of a study, several runs side by side.

  Args:
    runs: their configs, by name.
    labels: by the name of a run, what its config does not say: which number of the paper it repeats; see `grids`.
    models: checkpoints by a name that runs can give as their model.checkpoint.
  """
  return ConfigDict(
    {
      "mode": "study",
      "data_dir": placeholder(str),  # for all runs, and for {data_dir} in a corpus.path
      "cache_dir": "~/.cache/discipline_jax",  # for all runs
      "study": {
        "only": placeholder(str),  # a pattern such as dna_*; with the pre-trainings before these
        "shard": placeholder(str),  # K/N: part K of N, for machines without common locks
      },
      "models": models or {},
      "labels": labels or {},
      "runs": runs,  # a model.checkpoint may be NAME or NAME@STEP of a pre-training among them
    }
  ).lock()


def transfer(size: str) -> ConfigDict:
  """Returns the config of pre-training on corpora without meaning (Chiang and Lee 2022): MLM, 100,000 updates of 300.

  Args:
    size: layers x hidden size: `8x512`, as in that paper, or `12x768`.
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
    # a directory in Hugging Face's format, WORKDIR@STEP, or a hub id, also with a revision: ID@REVISION
    "checkpoint": placeholder(str),
    "revision": placeholder(str),  # branch, tag or commit; unset: the checkpoint's, or main
    # pretrained | scratch | re_emb (pretrained, word embeddings drawn anew) | statistics, shuffled (pretrained, each
    # tensor drawn anew with its mean and deviation, or its entries in random order)
    "init": init,
    "config": {  # sizes under Hugging Face's names, if there is no checkpoint; unset: ModelConfig's
      field.name: placeholder((typing.get_args(field.type) or (field.type,))[0])
      for field in dataclasses.fields(ModelConfig)
    },
    "dtype": "float32",  # dtype of the arithmetic: float32 | bfloat16; weights are float32
    "dropout": placeholder(float),  # rate for hidden states and head; unset: the checkpoint's
    "attention_dropout": placeholder(float),  # rate for attention weights; unset: the checkpoint's
  }


def _inspect() -> dict[str, Any]:
  """Returns the fields of mode = inspect, which compiles the updates of a config and says what they cost."""
  return {
    "chips": placeholder(str),  # v5e:2x4 (a TPU slice), h100:8 (GPUs); unset: those of this machine
    "output": placeholder(str),  # a .json file for all numbers
  }


def _mesh() -> dict[str, int]:
  """Returns the number of devices along each axis; -1: all devices that the other axes leave."""
  return {"data": -1, "fsdp": 1, "tensor": 1}


# Models by the name that can follow the name of a config: `--config=dna_splice:roberta`. Models of one discipline have
# its symbols in their own vocabulary, so they need no token map.
MODELS: dict[str, dict[str, Any]] = {
  "bert": {"model.checkpoint": "google-bert/bert-base-uncased"},
  "bert_large": {"model.checkpoint": "google-bert/bert-large-uncased"},
  "bert_chinese": {"model.checkpoint": "google-bert/bert-base-chinese"},
  "bert_multilingual": {"model.checkpoint": "google-bert/bert-base-multilingual-cased"},
  "minilm": {"model.checkpoint": "sentence-transformers/all-MiniLM-L6-v2"},
  "bert_tiny": {"model.checkpoint": "google/bert_uncased_L-2_H-128_A-2"},
  "roberta": {"model.checkpoint": "FacebookAI/roberta-base"},
  "albert": {"model.checkpoint": "albert/albert-base-v1"},
  "electra": {"model.checkpoint": "google/electra-base-discriminator"},
  "distilbert": {"model.checkpoint": "distilbert/distilbert-base-uncased"},
  "prot_bert": {"model.checkpoint": "Rostlab/prot_bert", "token_map.kind": "identity"},
  "plus_tfm": {"token_map.kind": "identity"},  # model.checkpoint: what models.plus_tfm wrote
  "hilbert_cnn": {
    "token_map.kind": "identity",
    "model.init": "scratch",
    "model.config.model_type": "hilbert_cnn",
    # The settings of its authors, Yin et al. 2018.
    "train.learning_rate": 3e-3,
    "train.batch_size": 300,
    "train.grad_accumulation": 1,
    "eval.every_steps": 10,
  },
}


def use_model(config: ConfigDict, name: str) -> ConfigDict:
  """Returns `config` with one of `MODELS`, and the settings that belong to it."""
  if name not in MODELS:
    raise UserError(
      f"no model {name!r}; after the config's name and a colon give one of: {', '.join(MODELS)}"
    )
  with config.ignore_type():  # a placeholder has no type yet
    config.update_from_flattened_dict(MODELS[name])
  return config


def shifted_glue(task: str, model: str) -> ConfigDict:
  """Returns the paper's settings for GLUE: three epochs, three runs, the last weights, shifted tokens."""
  config = finetune()
  config.task.name = task
  config.token_map.kind = "shift"
  config.replicas = 3
  config.train.epochs = 3
  config.eval.select = "last"
  return use_model(config, model)


def read(fields: dict) -> ConfigDict:
  """Returns the config of a fine-tuning from the content of its config.json.

  Fields that an older version did not have get their defaults, and fields that this version does not have are dropped.
  """
  config = finetune()
  with config.ignore_type():
    _fill(config, fields)
  return config


def _fill(config: ConfigDict, fields: dict) -> None:
  for name in config.keys() & fields.keys():
    if isinstance(config[name], ConfigDict):
      _fill(config[name], fields[name])
    else:
      config[name] = fields[name]
