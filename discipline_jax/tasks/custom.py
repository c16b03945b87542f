"""Makes a task of the user's own table: sequences of symbols, each with a label."""

import collections
import itertools
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from absl import logging

from discipline_jax.errors import UserError
from discipline_jax.letters import both_cases, look_alikes, thymine_and_uracil
from discipline_jax.tasks.answers import KINDS
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.class_names import class_key, class_name, class_names, sort_labels
from discipline_jax.tasks.examples import Alphabet, Example
from discipline_jax.tasks.own_table import Sample, read_parts
from discipline_jax.tasks.readers.tables import Row, json_text
from discipline_jax.tasks.strands import both_strands
from discipline_jax.tasks.symbols import (
  Spelling,
  joined_words,
  split_atoms,
)
from discipline_jax.tasks.table_format import Format
from discipline_jax.tasks.tags import warn_of_unused

_COMMAS = re.compile(r"\S(\s*,\s*\S)+")  # as lists are written


def custom(path: str | None, form: Format, alphabet: str | None, metric: str | None) -> Task:
  """Makes a task of a table. The table is read at once, because its content decides the classes and the symbols.

  Args:
    path: a table (see `readers.tables.read_table`). If it holds `{split}`, there is one file for train, one for
      validation and, if it exists, one for test.
    form: how to read it.
    alphabet: all symbols, as one string of characters or with blanks between them; None: the symbols of
      the training part. For k-mers it gives the letters; their symbols always come from the training part.
    metric: a metric of the kind of answer; None for its default.

  Raises:
    UserError: a table, label or symbol that cannot be read, with file and line.
  """
  if path is None:
    raise UserError(
      "task.path is not set; set --config.task.path to a CSV, TSV, JSONL or FASTA file"
    )
  form.check()
  kind = KINDS[form.kind]
  metric = kind.choose_metric(metric)
  allowed = None if alphabet is None else _allowed(alphabet, form)
  parts = read_parts(path, form, allowed)
  if form.ignore_label is not None:
    warn_of_unused(form.ignore_label, itertools.chain(*parts.values()), path)
  trained = parts["train" if "train" in parts else "all"]
  counts: collections.Counter[str] = collections.Counter()
  for _, own, _ in trained:
    counts.update(own)
  _warn_of_spelling(counts, trained, form, path)
  answer = kind.fit(
    {part: [label for _, _, label in rows] for part, rows in parts.items()}, metric, path
  )
  given = allowed if allowed is not None and form.symbols != "kmers" else set(counts)
  if form.reverse_complement != "off":
    given = both_strands(given)
  symbols = Alphabet(tuple(sort_labels(given)), is_open=True)
  groups = _numbered_groups(row for rows in parts.values() for row, _, _ in rows)
  examples = {
    part: [
      Example(sequence, answer.encode(label), group=groups.get(row.place), first=row.first)
      for sequence, (row, _, label) in zip(
        encode([own for _, own, _ in rows], symbols), rows, strict=True
      )
    ]
    for part, rows in parts.items()
  }
  return Task(
    "custom",
    symbols,
    answer,
    None,
    lambda: examples,
    stratified=True,
    grouped=form.group_column is not None,
    pairs=len(form.sequence_columns) == 2,
  )


def _numbered_groups(rows: Iterable[Row]) -> dict[str, int]:
  """Returns the number of each row's group by the row's place; nothing if there are no groups.

  Equal numbers are one group, and names that may be meant as one are logged, as with classes.
  """
  texts = {row.place: class_name(json_text(row.extra[0]).strip()) for row in rows if row.extra}
  numbers = {key: i for i, key in enumerate(class_names(texts.values(), "groups"))}
  return {place: numbers[class_key(text)] for place, text in texts.items()}


def _allowed(alphabet: str, form: Format) -> set[str]:
  """Returns the symbols, or of k-mers the letters, that `task.alphabet` gives."""
  kind = "characters" if form.symbols == "kmers" else form.symbols
  if kind == "characters" and _COMMAS.fullmatch(alphabet):
    raise UserError(
      f"task.alphabet = {alphabet!r} has commas, which would be symbols; write the letters without them"
    )
  return set(Spelling(kind, case=form.case, has_blanks=True).split(alphabet, "task.alphabet"))


def _warn_of_spelling(
  counts: Mapping[str, int], trained: Sequence[Sample], form: Format, path: str
) -> None:
  """Logs what may not be meant in how the training part writes its sequences."""
  if form.symbols in ("characters", "kmers"):
    letters = both_cases(counts)
    if letters:
      logging.warning(
        "the letters %s occur in both cases, which are different symbols, %s; if lower case only marks a region (soft"
        " masking), set --config.task.case=upper",
        " ".join(letters),
        path,
      )
    if thymine_and_uracil(counts):
      logging.warning(
        "both T and U occur, the same base in DNA and RNA, as two symbols, %s; write them alike",
        path,
      )
    others = look_alikes(counts)
    if others:
      logging.warning(
        "letters outside ASCII may look like others, but are different symbols, %s: %s; correct them if they are not"
        " meant",
        path,
        ", ".join(f"{one!r} ({unicodedata.name(one, 'no name').lower()})" for one in others[:5]),
      )
  if form.symbols == "characters":
    atoms = split_atoms(counts, [own for _, own, _ in trained])
    if atoms:
      logging.warning(
        "each character is a symbol, so atoms of two letters (%s) are read as two symbols, %s; to keep atoms whole,"
        " set --config.task.symbols=smiles",
        ", ".join(atoms),
        path,
      )
  elif form.symbols == "words":
    joined = joined_words(counts)
    if joined:
      remedy = (
        "set --config.task.symbols=characters, which leaves blanks out"
        if all(letter in counts for letter in joined[0])
        else "write the missing blanks"
      )
      logging.warning(
        "%d of %d symbols are several other symbols without blanks, such as %s, %s; if blanks are missing there, %s",
        len(joined),
        len(counts),
        " ".join(joined)[:40],
        path,
        remedy,
      )


def encode(sequences: Iterable[Sequence[str]], alphabet: Alphabet) -> list[str | np.ndarray]:
  """Replaces symbols by their numbers, except in texts; unknown symbols get the number after the last one."""
  numbers = {symbol: i for i, symbol in enumerate(alphabet.symbols)}
  return [
    symbols
    if isinstance(symbols, str)
    else np.array([numbers.get(symbol, len(numbers)) for symbol in symbols], np.int32)
    for symbols in sequences
  ]
