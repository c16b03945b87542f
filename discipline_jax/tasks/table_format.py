"""Says how a table of the user's own is written: the fields of a config's `task` that a reader needs."""

import dataclasses

from ml_collections import ConfigDict

from discipline_jax.errors import UserError
from discipline_jax.tasks.answers import KINDS
from discipline_jax.tasks.readers.rows import Column
from discipline_jax.tasks.symbols import CASES, SYMBOLS, Spelling


@dataclasses.dataclass(frozen=True)
class Format:
  """Settings for reading a table: fields of a config's `task`, which `defaults` explains."""

  sequence_column: str
  label_column: str
  splits: str | None
  symbols: str
  kind: str
  skip_invalid: bool
  k: int = 3
  case: str = "as_is"
  label_separator: str | None = None
  label_pattern: str | None = None
  group_column: str | None = None
  ignore_label: str | None = None
  reverse_complement: str = "off"

  @property
  def spelling(self) -> Spelling:
    """The way in which the table writes sequences."""
    return Spelling(self.symbols, self.k, self.case)

  @property
  def sequence_columns(self) -> tuple[str, ...]:
    """The columns of a sequence, or of the two sequences of a pair, which have a comma between their names."""
    return tuple(name.strip() for name in self.sequence_column.split(","))

  @property
  def binary_columns(self) -> tuple[str, ...]:
    """The columns of 0 and 1 that `label_column` names with commas between them; empty if it names one column."""
    if self.kind != "multilabel" or "," not in self.label_column:
      return ()
    return tuple(name.strip() for name in self.label_column.split(","))

  @property
  def extra_columns(self) -> list[Column]:
    """The columns beside those of sequence, label and split: of the group, the second sequence, and 0 and 1."""
    return [
      *([] if self.group_column is None else [Column(self.group_column, "task.group_column")]),
      *(Column(name, "task.sequence_column") for name in self.sequence_columns[1:]),
      *(Column(name, "task.label_column") for name in self.binary_columns),
    ]

  def check(self) -> None:
    """Raises UserError if the value of a field is not one of its choices."""
    for name, value, choices in (
      ("symbols", self.symbols, SYMBOLS),
      ("case", self.case, CASES),
      ("kind", self.kind, tuple(KINDS)),
    ):
      if value not in choices:
        raise UserError(f"task.{name} = {value!r} is not one of: {', '.join(choices)}")
    if self.symbols == "smiles" and self.case == "upper":
      raise UserError(
        "task.case = 'upper' would make other atoms of the aromatic ones of SMILES (c is an aromatic C); set"
        " --config.task.case=as_is"
      )
    if self.group_column is not None and self.splits is not None:
      raise UserError(
        f"task.group_column = {self.group_column!r} is for random parts, but task.splits = {self.splits!r} gives the"
        " parts; unset one of the two"
      )
    if self.ignore_label is not None and self.kind != "tagging":
      raise UserError(
        f"task.ignore_label = {self.ignore_label!r} is for task.kind=tagging, not {self.kind}; unset it"
        + (" (NaN is a value that is not scored)" if self.kind == "position_regression" else "")
      )
    pair = self.sequence_columns
    if len(pair) > 2 or len({*pair}) < len(pair) or "" in pair:
      raise UserError(
        f"task.sequence_column = {self.sequence_column!r} is neither one column nor two different ones with a comma"
        " between them; set --config.task.sequence_column"
      )
    if len(pair) == 2 and KINDS[self.kind].of_positions:
      raise UserError(
        f"task.sequence_column = {self.sequence_column!r} is a pair of sequences, and task.kind={self.kind} is for the"
        " symbols of one; name one column"
      )
    names = self.binary_columns
    if len({*names}) < len(names) or "" in names:
      raise UserError(
        f"task.label_column = {self.label_column!r} has an empty name, or one twice; name each column of 0 and 1 once"
      )
    if self.k < 1:
      raise UserError(f"task.k = {self.k} letters; set --config.task.k to at least 1")
    if self.k != Spelling.k and self.symbols != "kmers":
      raise UserError(
        f"task.k = {self.k} is for k-mers, but task.symbols = {self.symbols!r}; set --config.task.symbols=kmers, or"
        " leave task.k unset"
      )


def task_format(task: ConfigDict) -> Format:
  """Returns the format that the `task` of a config describes."""
  return Format(**{field.name: task[field.name] for field in dataclasses.fields(Format)})
