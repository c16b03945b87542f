"""A task: a data set, and the answer that it asks for."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from discipline_jax.tasks.answer import Answer
from discipline_jax.tasks.answers import from_json
from discipline_jax.tasks.examples import Alphabet, Example


@dataclasses.dataclass(frozen=True)
class Task:
  """A data set, and the answer that it asks for.

  Attributes:
    name: the key that `tasks.get` takes.
    alphabet: symbols of its sequences; None for text, which the model's tokenizer splits.
    answer: the kind of answer, with its metric.
    max_length: longest input in tokens, special tokens counted; None for as many as the model can take.
    read: reads all samples, by part: `all`, which is split at random, or `train`, `validation` and `test`.
      If there is no `test`, the validation part is the test. Further `test_...` parts are scored beside it. Raises
      UserError with file and line if a file is not as published.
    files: the files that `read` reads.
    add_special_tokens: whether a sequence gets [CLS] before and [SEP] after it.
    stratified: whether a random split has similar shares of each label in all parts.
    grouped: whether a random split has all samples of a group in one part.
    pairs: whether a sample is two sequences of symbols, or two texts.
    windows: whether longer sequences are cut into overlapping windows, and not cut at the end.
    stride: most symbols from the start of a window to that of the next one; None: half a window.
  """

  name: str
  alphabet: Alphabet | None
  answer: Answer
  max_length: int | None
  read: Callable[[], Mapping[str, Sequence[Example]]]
  files: tuple[pathlib.Path, ...] = ()
  add_special_tokens: bool = True
  stratified: bool = False
  grouped: bool = False
  pairs: bool = False
  windows: bool = False
  stride: int | None = None

  def to_json(self) -> dict[str, Any]:
    """Returns the fields for `from_json`: all that using a trained model needs, so no samples."""
    return {
      "name": self.name,
      "alphabet": None if self.alphabet is None else dataclasses.asdict(self.alphabet),
      "answer": self.answer.to_json(),
      "max_length": self.max_length,
      "add_special_tokens": self.add_special_tokens,
      "pairs": self.pairs,
      "windows": self.windows,
      "stride": self.stride,
    }

  @classmethod
  def from_json(cls, fields: Mapping[str, Any]) -> "Task":
    """Makes a task without samples from the fields of `to_json`, also of version 0.1, which had other names."""
    alphabet = fields["alphabet"]
    if alphabet is not None:
      alphabet = Alphabet(
        tuple(alphabet["symbols"]),
        alphabet["aliases"],
        None if alphabet["ids"] is None else tuple(alphabet["ids"]),
        alphabet["is_open"],
        alphabet.get("unknown_symbol"),
      )
    answer = fields.get("answer")
    if answer is None:
      answer = {"kind": "regression", "metric": fields["metric"]}
      if fields["labels"]:
        answer |= {"kind": "classification", "labels": fields["labels"]}
    return cls(
      fields["name"],
      alphabet,
      from_json(answer),
      fields["max_length"],
      read=dict,
      add_special_tokens=fields.get("add_special_tokens", fields.get("bracketed", True)),
      pairs=fields.get("pairs", False),
      windows=fields.get("windows", False),
      stride=fields.get("stride"),
    )
