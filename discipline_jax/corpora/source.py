"""What a corpus is made from: a text or a grammar, and the vocabulary of its tokens, as a config asks for them."""

import functools
import hashlib
import json
import pathlib
from collections.abc import Iterator

import numpy as np
from absl import logging
from jaxtyping import Float64
from ml_collections import ConfigDict
from tokenizers import Tokenizer

from discipline_jax import progress
from discipline_jax.corpora import artificial
from discipline_jax.corpora.blocks import Block, line_blocks, text_blocks, tokenise
from discipline_jax.corpora.instances import PAIRING_OF
from discipline_jax.corpora.prepared import DESCRIPTION
from discipline_jax.corpora.text import Document, find_files, read_documents, read_tfds
from discipline_jax.corpora.vocabulary import SPECIAL_TOKENS, symbol_tokenizer, train_wordpiece
from discipline_jax.errors import UserError
from discipline_jax.models.config import read_config
from discipline_jax.models.huggingface import resolve
from discipline_jax.models.tokenizer import Vocabulary, load_vocabulary

TEXTS = ("text", "tfds")
ARTIFICIAL = ("uniform", "flat", "nesting")
# Part of every name: to be raised when the same corpus is prepared in another way.
_VERSION = 1


class Source:
  """What the corpus of a config is made from; a text is read each time that it is asked for.

  Attributes:
    pairing: of the two segments of an instance, see `instances`.
    vocabulary: the chosen one, or None where one is made here.
  """

  def __init__(self, config: ConfigDict):
    """Looks for the files of `config.corpus.path`; raises UserError where there are none."""
    self._config, self._corpus = config, config.corpus
    self._is_text = config.corpus.name in TEXTS
    self.pairing = PAIRING_OF[config.objective.kind]
    has_files = config.corpus.path is not None and config.corpus.name != "tfds"
    self._files = find_files(pathlib.Path(config.corpus.path).expanduser()) if has_files else []

  @functools.cached_property
  def vocabulary(self) -> Vocabulary | None:
    return chosen_vocabulary(self._config)

  def key(self) -> str:
    """The name of the prepared corpus, made of all that it is made from."""
    settings = self._corpus.to_dict() | {"pairing": self.pairing, "seed": self._config.seed}
    if self._files:
      del settings["path"]  # the content counts
    settings["vocab_size"] = _vocab_size(self._config)
    if self.vocabulary is not None:
      settings["vocabulary"] = self.vocabulary.fingerprint()
    digest = hashlib.sha256(json.dumps([_VERSION, settings], sort_keys=True).encode())
    for file in self._files:
      with file.open("rb") as content:
        digest.update(hashlib.file_digest(content, "sha256").digest())
    return f"{self._corpus.name}-{digest.hexdigest()[:16]}"

  def tokenizer(self) -> Tokenizer:
    """That of the chosen vocabulary, or one that is made: of symbols, or learnt from the text."""
    if not self._is_text:
      return symbol_tokenizer(self._num_symbols())
    if self.vocabulary is not None:
      assert self.vocabulary.tokenizer is not None
      return self.vocabulary.tokenizer
    size = self._config.model.config.vocab_size
    paragraphs = (text for one in self._documents() for text in one.paragraphs)
    counted = progress.bar(paragraphs, desc="vocabulary", unit=" paragraphs", unit_scale=True)
    tokenizer = train_wordpiece(counted, size, lowercase=self._corpus.lowercase)
    if tokenizer.get_vocab_size() != size:
      logging.warning(
        "The corpus is small: it gives a vocabulary of %d tokens, not of %d",
        tokenizer.get_vocab_size(),
        size,
      )
    return tokenizer

  def blocks(self) -> Iterator[Block]:
    """The corpus, in parts of which one process makes one."""
    if self._is_text:
      return text_blocks(self._documents(), self.pairing)
    return line_blocks(
      self._corpus.name, self._corpus.lines, self._config.seed, self._frequencies()
    )

  def _documents(self) -> Iterator[Document]:
    return (
      read_tfds(self._corpus.path) if self._corpus.name == "tfds" else read_documents(self._files)
    )

  def _frequencies(self) -> Float64[np.ndarray, " symbols"]:
    """Those of the tokens of a text, or Zipf's."""
    if self.vocabulary is None:
      return artificial.zipf(self._num_symbols())
    counts = np.zeros(len(self.vocabulary.tokens), np.int64)
    for block in text_blocks(self._documents(), "none"):
      for sentences in tokenise(block.documents, self._corpus.language, self.vocabulary):
        counts += np.bincount(np.concatenate(sentences), minlength=len(counts))
    counts[list(self.vocabulary.special_ids)] = 0
    return artificial.ranked(counts, self._num_symbols())

  def _num_symbols(self) -> int:
    size = _vocab_size(self._config)
    if size is not None and size < len(SPECIAL_TOKENS) + 2:
      raise UserError(
        f"model.config.vocab_size = {size} leaves no symbols beside {len(SPECIAL_TOKENS)} special tokens; set more"
      )
    return artificial.NUM_SYMBOLS if size is None else size - len(SPECIAL_TOKENS)


def chosen_vocabulary(config: ConfigDict) -> Vocabulary | None:
  """That of a model: of `corpus.vocabulary`, or for a text of the model that is gone on with; None where none is given.

  Raises:
    UserError: a model without a tokenizer of text, or of another size than the config's.
  """
  source = vocabulary_source(config)
  if source is None:
    return None
  directory = resolve(source, weights=False)
  has_config = (directory / "config.json").is_file()
  vocabulary = load_vocabulary(directory, read_config(directory).vocab_size if has_config else None)
  if vocabulary.tokenizer is None or len(vocabulary.tokens) == len(vocabulary.special_ids):
    raise UserError(f"no tokenizer of text, {source}; set another corpus.vocabulary")
  size = config.model.config.vocab_size
  is_used = config.corpus.name in TEXTS  # not only counted with
  if is_used and size is not None and size != len(vocabulary.tokens):
    raise UserError(
      f"model.config.vocab_size = {size}, but {source} has {len(vocabulary.tokens)} tokens; unset it"
    )
  return vocabulary


def vocabulary_source(config: ConfigDict) -> str | None:
  """The model whose tokenizer `chosen_vocabulary` takes."""
  is_text = config.corpus.name in TEXTS
  return config.corpus.vocabulary or (config.model.checkpoint if is_text else None)


def _vocab_size(config: ConfigDict) -> int | None:
  """Of a vocabulary that is made here: as the config says, or as the model has it that is gone on with."""
  if config.model.checkpoint is None:
    return config.model.config.vocab_size
  return read_config(resolve(config.model.checkpoint, weights=False)).vocab_size


def check_corpus(config: ConfigDict) -> None:
  """Raises UserError for settings of `config.corpus` that do not go together; reads nothing."""
  corpus = config.corpus
  if config.objective.kind not in PAIRING_OF:
    raise UserError(
      f"objective.kind = {config.objective.kind!r} is not one of: {', '.join(PAIRING_OF)}"
    )
  names = (*TEXTS, *ARTIFICIAL)
  if corpus.name not in names:
    raise UserError(f"corpus.name = {corpus.name!r} is not one of: {', '.join(names)}")
  if corpus.name in TEXTS and corpus.path is None:
    wanted = {
      "text": "a file or folder of text",
      "tfds": "a data set such as wikipedia/20230601.en",
    }[corpus.name]
    raise UserError(f"corpus.path is not set; set --config.corpus.path to {wanted}")
  path = pathlib.Path(corpus.path or ".").expanduser()
  if corpus.name != "tfds" and not path.exists():
    raise UserError(f"no such file or folder, {path}; set --config.corpus.path")
  if (
    corpus.name in TEXTS
    and vocabulary_source(config) is None
    and config.model.config.vocab_size is None
  ):
    raise UserError(
      "neither corpus.vocabulary nor model.config.vocab_size is set; set one: a model whose vocabulary to take, or"
      " how many tokens to learn"
    )
  if (
    corpus.name in ARTIFICIAL
    and not (path / DESCRIPTION).is_file()
    and (corpus.vocabulary is None) != (corpus.path is None)
  ):
    raise UserError(
      "an artificial corpus has the frequencies of a text with both corpus.path and corpus.vocabulary, or Zipf's with"
      " neither; set both or none"
    )
  if not corpus.length or not 0 < corpus.validation < 1 or corpus.draws < 1 or corpus.lines < 2:
    raise UserError(
      f"corpus.length = {corpus.length}, validation = {corpus.validation}, draws = {corpus.draws}, lines ="
      f" {corpus.lines}: give at least one length, a share between 0 and 1, at least 1 draw, and at least 2 lines"
    )
  if min(corpus.length) < 5:
    raise UserError(
      f"corpus.length = {corpus.length} leaves no room for text beside special tokens; give at least 5"
    )
