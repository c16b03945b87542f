"""Resolves a config into the source of a corpus: texts or artificial lines, and the vocabulary of its tokens."""

import concurrent.futures
import functools
import hashlib
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import logging
from jaxtyping import Float64
from ml_collections import ConfigDict
from tokenizers import Tokenizer

from discipline_jax.corpora import artificial
from discipline_jax.corpora.blocks import Settings, TokenCounter
from discipline_jax.corpora.cores import usable_cores
from discipline_jax.corpora.instances import PAIRING_OF
from discipline_jax.corpora.prepared import DESCRIPTION
from discipline_jax.corpora.ranges import Texts
from discipline_jax.corpora.sequences import SequenceFiles, check_symbols, symbols_of
from discipline_jax.corpora.symbol_vocabulary import SymbolCounter, tokenizer_of_symbols
from discipline_jax.corpora.tally import Tally
from discipline_jax.corpora.text import TextFiles, find_files
from discipline_jax.corpora.tfds_records import TfdsRecords
from discipline_jax.corpora.vocabulary import (
  SPECIAL_TOKENS,
  WordCounter,
  symbol_tokenizer,
  train_wordpiece,
)
from discipline_jax.errors import UserError
from discipline_jax.files.copies import fetched
from discipline_jax.files.places import place
from discipline_jax.models.config import read_config
from discipline_jax.models.locate import resolve
from discipline_jax.models.tokenizer import Vocabulary, load_vocabulary

TEXTS = ("text", "tfds")
ARTIFICIAL = ("uniform", "flat", "nesting")
# It is part of the name of every prepared corpus. Raise it when users must prepare their corpora again.
VERSION = 1
_OF_SYMBOLS = ("symbols", "k", "case")  # fields of `corpus` that only sequences use

Counter = WordCounter | SymbolCounter | TokenCounter


class Source:
  """The source of a config's corpus. Texts are not kept in memory: each use reads them again.

  Attributes:
    config: as given.
    files: the files of the text, if it is in files.
    is_text: False for an artificial corpus.
    symbols: how sequences are cut into symbols; None for other corpora.
    instances: the settings of the instances.
  """

  def __init__(self, config: ConfigDict):
    """Finds the files of `config.corpus.path`; raises UserError if there are none."""
    self.config, self._corpus = config, config.corpus
    self.is_text = config.corpus.name in TEXTS
    self.symbols = symbols_of(config)
    self.instances = Settings(
      self._corpus.language,
      row_lengths(config),
      self._corpus.draws,
      PAIRING_OF[config.objective.kind],
      self._corpus.validation,
      config.seed,
    )
    has_files = config.corpus.path is not None and config.corpus.name != "tfds"
    self.base = fetched(place(config.corpus.path)) if has_files else None
    self.files = [] if self.base is None else find_files(self.base)

  @functools.cached_property
  def vocabulary(self) -> Vocabulary | None:
    """The vocabulary that the config names, or None if one is made from the corpus."""
    return chosen_vocabulary(self.config)

  def settings(self) -> dict[str, Any]:
    """Returns all that decides about the prepared corpus but the content of the files, ready for JSON."""
    settings = json.loads(json.dumps(self._corpus.to_dict()))
    if self.files:
      path = place(self._corpus.path)
      settings["path"] = str(path.resolve() if isinstance(path, pathlib.Path) else path)
    settings |= {"pairing": self.instances.pairing, "seed": self.config.seed}
    own = {name: settings.pop(name) for name in _OF_SYMBOLS}
    if self.symbols is not None:
      settings |= own
    settings["vocab_size"] = _vocab_size(self.config)
    if self.vocabulary is not None:
      settings["vocabulary"] = self.vocabulary.fingerprint()
    return settings

  def key(self, digests: Sequence[str]) -> str:
    """Returns the name of the prepared corpus: a digest of the settings, the vocabulary and the files' content.

    Args:
      digests: the SHA-256 digests of the files.
    """
    settings = self.settings()
    if self.files:
      del settings["path"]  # the same files at another place give the same corpus
    digest = hashlib.sha256(json.dumps([VERSION, settings], sort_keys=True).encode())
    for one in digests:
      digest.update(bytes.fromhex(one))
    return f"{self._corpus.name}-{digest.hexdigest()[:16]}"

  @functools.cached_property
  def texts(self) -> Texts | None:
    """The text of the corpus, or the one that gives an artificial corpus its frequencies; None without a text.

    Raises:
      UserError: it cannot be read.
    """
    if self._corpus.name == "tfds":
      return TfdsRecords.open(self._corpus.path)
    if self.symbols is not None:
      return SequenceFiles.open(self.files, self.symbols, self._corpus.length)
    return TextFiles(tuple(self.files)) if self.files else None

  @property
  def counter(self) -> Counter | None:
    """Names what must be counted in the text before the corpus can be made; None if nothing."""
    if self.symbols is not None:
      return SymbolCounter(self.symbols)
    if self.is_text:
      return WordCounter(self._corpus.lowercase) if self.vocabulary is None else None
    if self.vocabulary is None:
      return None
    assert self.vocabulary.tokenizer is not None
    return TokenCounter(self._corpus.language, self.vocabulary.tokenizer.to_str())

  def tokenizer(self, tally: Tally | None) -> Tokenizer:
    """Returns the tokenizer of the named vocabulary, or makes one: of symbols, or trained on the words.

    Args:
      tally: what `counter` counted in all documents.
    """
    if not self.is_text:
      return symbol_tokenizer(self._num_symbols())
    if self.symbols is not None:
      assert tally is not None
      given = (self.vocabulary, self.special_tokens)
      return tokenizer_of_symbols(
        tally.counts, self.symbols, *given, self.config.model.config.vocab_size
      )
    if self.vocabulary is not None:
      assert self.vocabulary.tokenizer is not None
      return self.vocabulary.tokenizer
    assert tally is not None
    size = self.config.model.config.vocab_size
    tokenizer = train_wordpiece(tally, size, lowercase=self._corpus.lowercase)
    if tokenizer.get_vocab_size() != size:
      logging.warning(
        "The corpus is small: its vocabulary has %d tokens, not model.config.vocab_size = %d",
        tokenizer.get_vocab_size(),
        size,
      )
    return tokenizer

  @property
  def special_tokens(self) -> tuple[str, ...]:
    """The tokens of the vocabulary for padding, unknown words, the start, the end and masks."""
    given = self.vocabulary if self.is_text else None
    if given is None:
      return SPECIAL_TOKENS
    ids = (given.pad_id, given.unk_id, given.cls_id, given.sep_id, given.mask_id)
    return tuple(given.tokens[i] for i in ids)

  def frequencies(self, tally: Tally | None) -> Float64[np.ndarray, " symbols"]:
    """Returns the frequencies of artificial symbols: a text's if `corpus.path` is set, otherwise Zipf's.

    Args:
      tally: what `counter` counted in all documents.
    """
    if tally is None:
      return artificial.zipf(self._num_symbols())
    assert self.vocabulary is not None
    counts = np.zeros(len(self.vocabulary.tokens), np.int64)
    for number, count in tally.counts.items():
      counts[int(number)] = count
    counts[list(self.vocabulary.special_ids)] = 0
    return artificial.ranked(counts, self._num_symbols())

  def _num_symbols(self) -> int:
    """Returns how many symbols an artificial corpus has."""
    size = _vocab_size(self.config)
    if size is not None and size < len(SPECIAL_TOKENS) + 2:
      raise UserError(
        f"model.config.vocab_size = {size} leaves less than 2 symbols beside {len(SPECIAL_TOKENS)} special tokens; set"
        f" at least {len(SPECIAL_TOKENS) + 2}"
      )
    return artificial.NUM_SYMBOLS if size is None else size - len(SPECIAL_TOKENS)


def file_digests(files: Sequence[pathlib.Path]) -> list[str]:
  """Returns the SHA-256 digests of files, in hexadecimal; several are read at once.

  Raises:
    FileNotFoundError: a file is gone.
  """

  def digest(file: pathlib.Path) -> str:
    with file.open("rb") as content:
      return hashlib.file_digest(content, "sha256").hexdigest()

  with concurrent.futures.ThreadPoolExecutor(usable_cores()) as pool:
    return list(pool.map(digest, files))


def record(config: ConfigDict) -> dict[str, Any]:
  """Returns what is kept beside a pre-trained model about its corpus, ready for JSON.

  Returns:
    `corpus`: the kind of corpus, `corpus.name`. `symbols`, `k`, `case`: how its sequences were read, as in
    `config.corpus`; None for text and artificial corpora. `text`: True if it was read as natural text.
  """
  return {
    "corpus": config.corpus.name,
    "symbols": config.corpus.symbols,
    "k": config.corpus.k,
    "case": config.corpus.case if config.corpus.symbols else None,
    "text": config.corpus.name in TEXTS and config.corpus.symbols is None,
  }


def describe_vocabulary(config: ConfigDict) -> str:
  """Returns a few words about the vocabulary that is used."""
  corpus, source, size = config.corpus, vocabulary_source(config), config.model.config.vocab_size
  if corpus.name in ARTIFICIAL:
    return "of its own symbols"
  if source is not None:
    return f"of {source}"
  most = "" if size is None else f", at most {size:,} tokens"
  own = {"characters": "its characters", "words": "its words", "kmers": f"its {corpus.k}-mers"}
  return (
    f"of {own[corpus.symbols]}{most}"
    if corpus.symbols
    else f"a WordPiece of {size:,} tokens, trained on it"
  )


def chosen_vocabulary(config: ConfigDict) -> Vocabulary | None:
  """Returns the vocabulary of `corpus.vocabulary`, or for a text corpus of `model.checkpoint`; None if unset.

  Raises:
    UserError: the model has no tokenizer for text, or the vocabulary's size is not `model.config.vocab_size`.
  """
  source = vocabulary_source(config)
  if source is None:
    return None
  directory = resolve(source, weights=False)
  has_config = (directory / "config.json").is_file()
  vocabulary = load_vocabulary(directory, read_config(directory).vocab_size if has_config else None)
  if len(vocabulary.tokens) == len(vocabulary.special_ids) or (
    vocabulary.tokenizer is None and config.corpus.symbols is None
  ):
    raise UserError(
      f"no tokenizer for text, {source}; set another --config.corpus.vocabulary, or for sequences"
      " --config.corpus.symbols"
    )
  size = config.model.config.vocab_size
  is_used = config.corpus.name in TEXTS  # an artificial corpus only takes its frequencies
  if is_used and size is not None and size != len(vocabulary.tokens):
    raise UserError(
      f"model.config.vocab_size = {size}, but {source} has {len(vocabulary.tokens)} tokens; unset it"
    )
  return vocabulary


def vocabulary_source(config: ConfigDict) -> str | None:
  """Returns the model whose vocabulary `chosen_vocabulary` returns: a hub id, a directory or WORKDIR@STEP."""
  is_text = config.corpus.name in TEXTS
  return config.corpus.vocabulary or (config.model.checkpoint if is_text else None)


def _vocab_size(config: ConfigDict) -> int | None:
  """Returns the size of the vocabulary to make: the checkpoint's if there is one, otherwise the config's."""
  if config.model.checkpoint is None:
    return config.model.config.vocab_size
  return read_config(resolve(config.model.checkpoint, weights=False)).vocab_size


def row_lengths(config: ConfigDict) -> tuple[int, ...]:
  """Returns the different lengths of rows; a length may come again in a later phase."""
  return tuple(dict.fromkeys(config.corpus.length))


def check_corpus(config: ConfigDict) -> None:
  """Raises UserError if settings of `config.corpus` are wrong or contradict one another; reads no file."""
  corpus = config.corpus
  if config.objective.kind not in PAIRING_OF:
    raise UserError(
      f"objective.kind = {config.objective.kind!r} is not one of: {', '.join(PAIRING_OF)}"
    )
  names = (*TEXTS, *ARTIFICIAL)
  if corpus.name not in names:
    raise UserError(f"corpus.name = {corpus.name!r} is not one of: {', '.join(names)}")
  if corpus.name in TEXTS and corpus.path is None:
    kind = {
      "text": "a file or folder of text",
      "tfds": "a data set such as wikipedia/20230601.en",
    }[corpus.name]
    raise UserError(f"corpus.path is not set; set --config.corpus.path to {kind}")
  path = pathlib.Path() if corpus.name == "tfds" else fetched(place(corpus.path or "."))
  if corpus.name != "tfds" and not path.exists():
    raise UserError(f"no such file or folder, {path.absolute()}; set --config.corpus.path")
  check_symbols(config)
  if (
    corpus.name in TEXTS
    and corpus.symbols is None
    and vocabulary_source(config) is None
    and config.model.config.vocab_size is None
  ):
    raise UserError(
      "neither corpus.vocabulary nor model.config.vocab_size is set; set --config.corpus.vocabulary to a model, to use"
      " its vocabulary, or --config.model.config.vocab_size to the number of tokens to train a vocabulary of"
    )
  if (
    corpus.name in ARTIFICIAL
    and not (path / DESCRIPTION).is_file()
    and (corpus.vocabulary is None) != (corpus.path is None)
  ):
    raise UserError(
      f"corpus.path = {corpus.path!r}, but corpus.vocabulary = {corpus.vocabulary!r}: an artificial corpus uses both"
      " (for the frequencies of a text's tokens) or none (for Zipf's); set both, or unset both"
    )
  if not corpus.length or not 0 < corpus.validation < 1 or corpus.draws < 1 or corpus.lines < 2:
    raise UserError(
      f"corpus.length = {corpus.length}, validation = {corpus.validation}, draws = {corpus.draws}, lines ="
      f" {corpus.lines}: there must be a length, a validation share in (0, 1), at least 1 draw (the dupe factor) and at"
      " least 2 lines; set --config.corpus.length, validation, draws or lines"
    )
  if min(corpus.length) < 5:
    raise UserError(
      f"corpus.length = {corpus.length} leaves no room for text beside special tokens; set at least 5"
    )
