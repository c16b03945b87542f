"""Has what all answers about each position of a sequence have in common, whatever they say of it.

Their targets are `labels` [samples, tokens]: -1 or NaN where a token is not scored, as special tokens and padding are.
"""

import abc
import ast
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from discipline_jax.errors import UserError
from discipline_jax.metrics import is_scored
from discipline_jax.tasks.answer import Answer, Layout, Targets
from discipline_jax.tasks.examples import Example

# What begins as a list does: a bracket, then a quote, a number, or a word for none.
_LIST = re.compile(r"""\s*\[\s*(["'+\d]|-[\d.]|\.\d|null|None|NaN|nan|true|True|false|False)""")


class PositionAnswer(Answer):
  """An answer for each symbol of a sequence.

  Attributes:
    unscored: the label of a position that is neither trained on nor scored.
    cell_columns: names of the columns that `predict` writes for a position, after its number.
    text_columns: names of the columns that it writes for a whole sequence.
  """

  form = "positions"
  of_positions = True
  unscored: ClassVar[float]
  text_columns: ClassVar[tuple[str, ...]]

  @property
  @abc.abstractmethod
  def cell_columns(self) -> list[str]: ...

  @abc.abstractmethod
  def cells(self, outputs: np.ndarray) -> list[list[Any]]:
    """Returns the values of `cell_columns` for each symbol of a sequence.

    Args:
      outputs: outputs [symbols, ...] for the symbols.
    """

  @abc.abstractmethod
  def text(self, outputs: np.ndarray) -> list[str]:
    """Returns the values of `text_columns` for a sequence; see `cells`."""

  @abc.abstractmethod
  def label_dtype(self) -> type:
    """Returns the dtype of labels."""

  def targets(self, examples: Sequence[Example], layout: Layout) -> dict[str, np.ndarray]:
    shape = (len(examples), int(layout.lengths.max()))
    labels: np.ndarray = np.full(shape, self.unscored, self.label_dtype())
    for row, example, length in zip(labels, examples, layout.lengths, strict=True):
      end = length - layout.start
      row[layout.start : end] = example.label[: end - layout.start]
    return {"labels": labels}

  def window(self, label: np.ndarray, symbols: slice, decided: slice) -> np.ndarray:
    own = np.full_like(label[symbols], self.unscored)
    inner = slice(decided.start - symbols.start, decided.stop - symbols.start)
    own[inner] = label[decided]
    return own

  def counts(self, targets: Targets) -> Float[Array, "*batch"]:
    labels = jnp.asarray(targets["labels"])
    scored = ~jnp.isnan(labels) if jnp.issubdtype(labels.dtype, jnp.floating) else labels >= 0
    return scored.sum(-1, dtype=jnp.float32)

  @property
  def columns(self) -> list[str]:
    return ["position", *self.cell_columns]

  def rows(self, outputs: np.ndarray, layout: Layout) -> Iterator[list[list[Any]]]:
    for own in layout.of_symbols(outputs):
      yield [[place, *cells] for place, cells in enumerate(self.cells(own), 1)]

  def texts(self, outputs: np.ndarray, layout: Layout) -> Iterator[list[list[Any]]]:
    """Yields the one line of each sequence that `predict` writes if a sequence is to have one; see `rows`."""
    for own in layout.of_symbols(outputs):
      yield [self.text(own)]


def widened(
  values: np.ndarray, labels: np.ndarray, unscored: float
) -> Int[np.ndarray, "samples tokens"] | Float[np.ndarray, "samples tokens"]:
  """Returns predictions as wide as the labels, with `unscored` where these are not scored.

  Args:
    values: predictions [samples, tokens]; there may be fewer tokens, if the others are not scored.
    labels: see `PositionAnswer`.
    unscored: as there.
  """
  whole = np.full(labels.shape, unscored, labels.dtype)
  whole[:, : values.shape[1]] = values
  return np.where(is_scored(labels), whole, whole.dtype.type(unscored))


def read_list(text: str, place: str) -> list | None:
  """Returns the list that a text such as `[0.5, null]` or `['H', 'E']` shows; None if it does not begin as a list does.

  Raises:
    UserError: it begins so, and cannot be read.
  """
  if not _LIST.match(text):
    return None
  try:
    values = json.loads(text)
  except (ValueError, RecursionError):
    try:
      values = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
      values = None
  if not isinstance(values, list):
    raise UserError(
      f"a list that cannot be read, {text.strip()[:40]!r}, {place}; write texts in double quotes, or numbers, with"
      " commas between them (null for a position without one), and a bracket at each end"
    )
  return values


def check_length(items: Sequence, symbols: Sequence[str], place: str) -> None:
  """Raises UserError if there is not one label for each symbol."""
  if len(items) != len(symbols):
    raise UserError(
      f"{len(items)} labels for a sequence of {len(symbols)} symbols, {place}; give one for each, in the same order"
    )
