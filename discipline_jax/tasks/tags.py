"""One of several classes for each symbol of a sequence, as secondary structure is."""

import dataclasses
import functools
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from absl import logging
from jaxtyping import Array, Bool, Float, Int, Int32

from discipline_jax.errors import UserError
from discipline_jax.metrics import CLASS_METRICS, class_details, scored
from discipline_jax.models.heads import TokenClassifier
from discipline_jax.tasks.answer import Layout, Measured, Targets, measured_by
from discipline_jax.tasks.class_names import (
  class_key,
  class_names,
  missing,
  refuse_control,
  sort_labels,
)
from discipline_jax.tasks.examples import Example
from discipline_jax.tasks.positions import PositionAnswer, check_length, read_list, widened
from discipline_jax.tasks.readers.rows import Row
from discipline_jax.tasks.readers.tables import json_text

_BRACKETS = {")": "(", "]": "[", "}": "{", ">": "<"}
_STRUCTURE = frozenset(".()[]{}<>")  # base pairs, as programs that fold RNA write them
_PAIRS = frozenset(
  "()[]"
)  # at least one of them; `<`, `>` and `.` alone may be strands and what is between genes
_BALANCE = "correct the line, or write letters for the tags if they are no brackets of base pairs"


@dataclasses.dataclass(frozen=True)
class Tags(PositionAnswer):
  """One of several classes for each symbol.

  Attributes:
    labels: names of the classes, by number.
    metric: one of `metrics.CLASS_METRICS`, over all positions.
    whole: the class whose unbroken runs are also scored as wholes, if no sequence was cut; None: no class.
  """

  kind = "tagging"
  metrics = ("accuracy", "macro_f1", "mcc", "f1")
  unscored = -1
  text_columns = ("prediction", "probability")
  labels: tuple[str, ...]
  metric: str = CLASS_METRICS[0]
  whole: str | None = None

  @classmethod
  def refused(cls, labels: Iterable[str | None]) -> Mapping[str, str]:
    """Returns words for a missing label; `-` and the like may be the tag of a sequence of one symbol."""
    words = missing(labels)
    return {word: why for word, why in words.items() if any(map(str.isalpha, word))}

  @classmethod
  def keys(cls, label: Sequence[str | None]) -> Collection[Hashable]:
    return {class_key(tag) for tag in {*label} if tag is not None}

  @classmethod
  def parse(cls, text: str | list, place: str) -> str | list:
    """Returns the list or the text that a cell has; `aligned` divides the text."""
    if isinstance(text, list):
      return text
    if not text.strip():
      raise UserError(f"no label, {place}; every row needs one")
    values = read_list(text, place)
    return text.strip() if values is None else values

  @classmethod
  def aligned(
    cls, label: str | list, symbols: Sequence[str], place: str, ignored: str | None
  ) -> tuple[str | None, ...]:
    """Returns the tag of each symbol, None where it is not scored.

    A text is one tag for each letter, or words between blanks. Equal numbers are one tag, also that which is ignored.
    """
    tags = _written(label, symbols, place)
    left_out = {tag for tag in {*tags} if _is_ignored(tag, ignored)}
    wrong = cls.refused({*tags} - left_out)
    if wrong:
      word = min(wrong, key=tags.index)
      raise UserError(
        f"the tag {word!r} of symbol {tags.index(word) + 1} {wrong[word]}, {place}; set"
        f" --config.task.ignore_label={word} if such symbols are not to be scored, or write another word"
      )
    if _STRUCTURE.issuperset(tags) and not _PAIRS.isdisjoint(tags):
      _check_pairs(tags, place)
    return tuple(None if tag in left_out else tag for tag in tags)

  @classmethod
  def fit(
    cls, labels: Mapping[str, Sequence[Sequence[str | None]]], metric: str, path: str
  ) -> "Tags":
    found: set[str | None] = set()
    for part in labels.values():
      for one in part:
        found.update(one)
    tags = class_names((tag for tag in found if tag is not None), "tags")
    names = tuple(sort_labels(tags.values()))
    if len(names) < 2:
      raise UserError(
        f"{f'only one tag, {names[0]!r}' if names else 'no position has a tag'}, {path}; give positions of another tag"
      )
    if metric == "f1" and len(names) > 2:
      raise UserError(
        f"task.metric = 'f1' needs two tags, but {path} has {len(names)}; set task.metric=macro_f1"
      )
    return cls(names, metric)

  def encode(self, label: Sequence[str | None]) -> Int[np.ndarray, " symbols"]:
    numbers = {
      tag: self.unscored if tag is None else self._numbers[class_key(tag)] for tag in {*label}
    }
    return np.array([numbers[tag] for tag in label], self.label_dtype())

  @property
  def head(self) -> TokenClassifier:
    return TokenClassifier(len(self.labels))

  def label_dtype(self) -> type:
    return np.int8 if len(self.labels) <= np.iinfo(np.int8).max else np.int32

  def targets(self, examples: Sequence[Example], layout: Layout) -> dict[str, np.ndarray]:
    found = super().targets(examples, layout)
    if self.whole is None:
      return found
    sizes = np.array([len(example.label) for example in examples])
    return found | {"is_cut": sizes > layout.lengths - 2 * layout.start}

  def members(self, targets: Targets) -> Bool[np.ndarray, "samples classes"]:
    tags = range(len(self.labels))
    return np.stack([(targets["labels"] == tag).any(1) for tag in tags], axis=1)

  def losses(
    self, outputs: Float[Array, "rows tokens classes"], targets: Targets
  ) -> Float[Array, " rows"]:
    """Returns the cross-entropy of each row, summed over the positions that are scored."""
    import optax  # only training needs it

    labels = targets["labels"][:, : outputs.shape[1]].astype(jnp.int32)
    losses = optax.softmax_cross_entropy_with_integer_labels(outputs, jnp.maximum(labels, 0))
    return jnp.where(labels >= 0, losses, 0).sum(1)

  def measure(
    self,
    outputs: Float[np.ndarray, "samples tokens classes"],
    targets: Targets,
    groups: Int32[np.ndarray, " samples"],
  ) -> Measured:
    del groups  # each sequence is a sample
    labels = targets["labels"]
    chosen = labels >= 0
    own, truth = outputs[chosen[:, : outputs.shape[1]]], labels[chosen]
    losses = np.logaddexp.reduce(own, axis=-1) - own[np.arange(len(truth)), truth]
    predicted = widened(outputs.argmax(-1), labels, self.unscored)
    collapsed = len(np.unique(predicted[labels >= 0])) == 1
    measured = measured_by(self.metric, losses, collapsed, labels, predicted)
    found = class_details(*scored(labels, predicted), self.labels)
    # Of a sequence that was cut, runs are unknown: one at the cut may go on, and others may follow.
    if self.whole is not None and not np.any(targets.get("is_cut", False)):
      tag = self.labels.index(self.whole)
      found |= {f"whole_{self.whole}_f1": runs_f1(labels, predicted, tag)}
    return dataclasses.replace(measured, measures=found)

  @property
  def cell_columns(self) -> list[str]:
    return ["prediction", *(f"p_{label}" for label in self.labels)]

  def cells(self, outputs: Float[np.ndarray, "symbols classes"]) -> list[list[Any]]:
    names = map(self.labels.__getitem__, outputs.argmax(-1))
    return [[name, *row] for name, row in zip(names, _softmax(outputs).tolist(), strict=True)]

  def text(self, outputs: Float[np.ndarray, "symbols classes"]) -> list[str]:
    between = "" if max(map(len, self.labels)) == 1 else " "
    tags = between.join(map(self.labels.__getitem__, outputs.argmax(-1)))
    return [tags, " ".join(map("{:.4f}".format, _softmax(outputs).max(-1)))]

  def describe(self, targets: Targets) -> dict[str, str]:
    labels = targets["labels"]
    counts = np.bincount(labels[labels >= 0], minlength=len(self.labels))
    return {"tags": ", ".join(map("{} {}".format, self.labels, counts))}

  @property
  def summary(self) -> str:
    return f"{len(self.labels)} tags"

  @functools.cached_property
  def _numbers(self) -> dict[Hashable, int]:
    return {class_key(name): number for number, name in enumerate(self.labels)}


def warn_of_unused(
  ignored: str, samples: Iterable[tuple[Row, Sequence[str], Any]], path: str
) -> None:
  """Logs that no symbol has the tag that is to be ignored, as if it is written in another case.

  Args:
    ignored: `task.ignore_label`.
    samples: the row, the symbols, and what `Tags.aligned` returned.
    path: the file, for the message.
  """
  for row, symbols, label in samples:
    if None in label:
      tags = _written(Tags.parse(row.label or "", row.place), symbols, row.place)
      if any(_is_ignored(tag, ignored) for tag in {*tags}):
        return
  logging.warning(
    "no symbol has the tag task.ignore_label = %r, %s; write it as the table does, or leave it unset",
    ignored,
    path,
  )


def runs_f1(
  labels: Int[np.ndarray, "sequences symbols"],
  predicted: Int[np.ndarray, "sequences symbols"],
  tag: int,
) -> float:
  """Returns the F1 score of unbroken runs of one tag, times 100; a run is right if both its ends are.

  Positions that are not scored end a run.
  """
  true, guessed = (_runs(one == tag) for one in (labels, predicted))
  return 100 * 2 * len(true & guessed) / max(1, len(true) + len(guessed))


def _runs(is_tag: np.ndarray) -> set[tuple[int, int, int]]:
  """Returns the sample, the first and the end of each run."""
  edges = np.diff(np.pad(is_tag, ((0, 0), (1, 1))).astype(np.int8), axis=1)
  samples, starts = np.nonzero(edges == 1)
  _, ends = np.nonzero(edges == -1)
  return set(zip(samples.tolist(), starts.tolist(), ends.tolist(), strict=True))


def _softmax(outputs: np.ndarray) -> np.ndarray:
  return np.exp(outputs - np.logaddexp.reduce(outputs, axis=-1, keepdims=True))


def _written(label: str | list, symbols: Sequence[str], place: str) -> list[str | None]:
  """Returns the tag of each symbol as the table has it, see `Tags.aligned`."""
  tags: list[str | None]
  if isinstance(label, list):
    tags = [_tag(value, place) for value in label]
  elif len(symbols) == 1 and not isinstance(symbols, str):
    tags = [label]  # a word, or another symbol of several letters
  elif any(map(str.isspace, label.replace("\n", ""))):
    tags = [*label.split()]
    _refuse_separators(label.split(), place)
  else:
    tags = list(label.replace("\n", ""))  # a sequence and its tags may go on in a further line
  refuse_control("".join(tag for tag in tags if tag is not None), place)
  check_length(tags, symbols, place)
  return tags


def _refuse_separators(words: Sequence[str], place: str) -> None:
  """Raises UserError if a comma or a semicolon stands between all words, which would be part of their tags."""
  for sign in ",;":
    # A sign alone is a tag, as that of punctuation.
    behind = all(one[1:].endswith(sign) for one in words[:-1])
    before = all(one[:-1].startswith(sign) for one in words[1:])
    if len(words) > 1 and (behind or before):
      raise UserError(
        f"{sign!r} between the tags, {place}; write blanks alone between them, or a list, as"
        ' ["H", "E"], if it is part of the tags'
      )


def _is_ignored(tag: str | None, ignored: str | None) -> bool:
  return tag is not None and ignored is not None and class_key(tag) == class_key(ignored)


def _tag(value: object, place: str) -> str | None:
  """Returns the tag that an element of a list is; None for null and NaN."""
  if value is None or value != value:
    return None
  if not isinstance(value, str | int | float) or not (tag := json_text(value).strip()):
    raise UserError(
      f"{str(value)[:40]!r} in a list of tags is neither text nor a number, {place}; correct the line"
    )
  return tag


def _check_pairs(tags: Sequence[str | None], place: str) -> None:
  """Raises UserError for brackets of base pairs that are not balanced."""
  opened: dict[str, int] = dict.fromkeys(_BRACKETS.values(), 0)
  for number, tag in enumerate(tags, 1):
    if tag in opened:
      opened[tag] += 1
    elif tag in _BRACKETS:
      opened[_BRACKETS[tag]] -= 1
      if opened[_BRACKETS[tag]] < 0:
        raise UserError(f"{tag!r} at position {number} closes no bracket, {place}; {_BALANCE}")
  for bracket, count in opened.items():
    if count:
      raise UserError(f"{count} of the brackets {bracket!r} are not closed, {place}; {_BALANCE}")
