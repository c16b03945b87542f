"""Secondary structure of proteins: helix, strand or coil for each residue, in FLIP's files and in those of CB513.

FLIP's split (Dallago et al. 2021) has the proteins of NetSurfP-2.0 (Klausen et al. 2019) in three states; CB513 (Cuff
and Barton 1999), as NetSurfP-2.0 and ProtTrans score it, has three and eight. Residues that were not seen in the
structure, and of CB513 those of a chain that are not in the set, are neither trained on nor scored. Residues are read
as in the other protein tasks.
"""

import io
import pathlib
import zipfile
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from discipline_jax.errors import UserError
from discipline_jax.files.fasta import Record, parse
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.examples import Example
from discipline_jax.tasks.protein import ALPHABET
from discipline_jax.tasks.readers.fasta import symbols_of
from discipline_jax.tasks.readers.lines import keep_valid, read_lines
from discipline_jax.tasks.tags import Tags

# H: helix (G, H and I of eight states), E: strand (B and E), C: all others.
THREE = tuple("HEC")
EIGHT = tuple("GHIBETSC")  # as DSSP has them, with C for its blank
_COLUMNS = ("input", "dssp3", "dssp8", "disorder", "cb513_mask")


def ss3(data_dir: pathlib.Path, *, skip_invalid: bool = False) -> Task:
  """Builds the task to tell helix, strand and coil apart: FLIP's parts, and CB513 as `test_cb513`.

  Proteins of FLIP that CB513 has, too, are left out of training and validation.
  """
  flip, cb513 = _files(data_dir)

  def read() -> Mapping[str, list[Example]]:
    further = read_cb513(cb513, THREE, "dssp3", skip_invalid)
    known = {one.sequence for one in further}
    parts = read_flip(flip, skip_invalid)
    for part in ("train", "validation"):
      parts[part] = [one for one in parts[part] if one.sequence not in known]
    return parts | {"test_cb513": further}

  return Task("protein_ss3", ALPHABET, Tags(THREE), None, read, files=(flip, cb513))


def ss8(data_dir: pathlib.Path, *, skip_invalid: bool = False) -> Task:
  """Builds the task to tell DSSP's eight states apart, on CB513 alone; rows of equal sequences share a part."""
  _, path = _files(data_dir)

  def read() -> Mapping[str, list[Example]]:
    return {"all": _grouped(read_cb513(path, EIGHT, "dssp8", skip_invalid))}

  return Task("protein_ss8", ALPHABET, Tags(EIGHT), None, read, files=(path,), grouped=True)


def read_flip(path: pathlib.Path, skip_invalid: bool = False) -> dict[str, list[Example]]:
  """Reads FLIP's archive: sequences, labels and masks, each a FASTA file with the same names.

  Args:
    path: the archive.
    skip_invalid: leave out invalid samples and log their number, instead of raising an error.

  Raises:
    UserError: the archive or a sample is wrong; with file and line.
  """
  sequences, labels, masks = (
    list(_records(path, f"splits/{name}.fasta")) for name in ("sequences", "sampled", "mask")
  )
  others = [{record.name: record for record in records} for records in (labels, masks)]
  parts: dict[str, list[Example]] = {"train": [], "validation": [], "test": []}

  def example(record: Record) -> tuple[str, Example]:
    label, mask = (_of_name(records, record) for records in others)
    sequence = symbols_of(record, ALPHABET, "an amino acid")
    return _part(label), _example(sequence, _text(label), _text(mask), THREE, label)

  for part, one in keep_valid(sequences, example, skip_invalid, path):
    parts[part].append(one)
  for part, samples in parts.items():
    if not samples:
      raise UserError(f"no sample of the {part} part, {path}; {_where(path)}")
  return parts


def read_cb513(
  path: pathlib.Path, states: tuple[str, ...], column: str, skip_invalid: bool = False
) -> list[Example]:
  """Reads the table of CB513: five columns, with blanks between the residues.

  Args:
    path: the table.
    states: the labels.
    column: `dssp3` or `dssp8`.
    skip_invalid: see `read_flip`.

  Raises:
    UserError: the table or a row is wrong; with file and line.
  """
  header, *lines = read_lines(path, _where(path))
  if tuple(name.strip() for name in header.split(",")) != _COLUMNS:
    raise UserError(f"the columns are not {', '.join(_COLUMNS)}, {path}:1; {_where(path)}")

  def example(numbered: tuple[int, str]) -> Example:
    number, line = numbered
    fields = [field.split() for field in line.split(",")]
    record = Record("", [], path, number)
    if len(fields) != len(_COLUMNS):
      raise UserError(
        f"{len(fields)} fields, not the {len(_COLUMNS)} of the header, {path}:{number}; correct the line"
      )
    own = dict(zip(_COLUMNS, fields, strict=True))
    if len(own["disorder"]) != len(own["cb513_mask"]):
      raise UserError(f"the masks are not equally long, {path}:{number}; correct the line")
    mask = "".join(
      _both(*pair, record) for pair in zip(own["disorder"], own["cb513_mask"], strict=True)
    )
    whole = Record(
      "", ["".join(own["input"])], path, number - 1
    )  # so that an error names this line
    sequence = symbols_of(whole, ALPHABET, "an amino acid")
    return _example(sequence, "".join(own[column]), mask, states, record)

  rows = [(number, line) for number, line in enumerate(lines, 2) if line.strip()]
  return keep_valid(rows, example, skip_invalid, path)


def _both(seen: str, chosen: str, record: Record) -> str:
  """Returns `1` if both masks hold 1."""
  for value in (seen, chosen):
    if value not in ("0.0", "1.0"):
      raise UserError(
        f"{value[:40]!r} in a mask is neither 0.0 nor 1.0, {record.path}:{record.line}; correct the line"
      )
  return "1" if seen == chosen == "1.0" else "0"


def _example(
  sequence: str, states: str, mask: str, names: tuple[str, ...], record: Record
) -> Example:
  """Returns a sample whose label is -1 where the mask is 0; raises UserError if the three do not fit."""
  place = f"{record.path}:{record.line}"
  if not len(sequence) == len(states) == len(mask):
    raise UserError(
      f"{len(states)} labels and {len(mask)} values of a mask for {len(sequence)} residues, {place}; correct the file"
    )
  wrong = {*states} - {*names} or {*mask} - {"0", "1"}
  if wrong:
    raise UserError(
      f"{min(wrong)!r} is neither a state ({''.join(names)}) nor 0 or 1 of a mask, {place}; correct the file"
    )
  table: np.ndarray = np.full(256, -1, np.int8)
  table[[ord(name) for name in names]] = np.arange(len(names))
  label = table[np.frombuffer(states.encode(), np.uint8)]
  chosen = np.frombuffer(mask.encode(), np.uint8) == ord("1")
  return Example(sequence, np.where(chosen, label, np.int8(-1)))


def _grouped(examples: Iterable[Example]) -> list[Example]:
  """Returns the samples with a group for each different sequence."""
  groups: dict[str, int] = {}
  return [
    Example(str(one.sequence), one.label, group=groups.setdefault(str(one.sequence), len(groups)))
    for one in examples
  ]


def _records(path: pathlib.Path, member: str) -> Iterator[Record]:
  """Yields the records of a FASTA file in an archive, with the file in the archive as their path."""
  try:
    with zipfile.ZipFile(path) as archive, archive.open(member) as file:
      lines = io.TextIOWrapper(file, encoding="utf-8").read().splitlines()
  except FileNotFoundError:
    raise UserError(f"no file {path}; {_where(path)}") from None
  except (OSError, KeyError, zipfile.BadZipFile, UnicodeDecodeError, RuntimeError) as error:
    raise UserError(f"{member} cannot be read ({error}), {path}; {_where(path)}") from None
  yield from parse(lines, path / member)


def _of_name(records: Mapping[str, Record], record: Record) -> Record:
  name = record.name
  if name not in records:
    raise UserError(
      f"no label or no mask for {name[:40]!r}, {record.path}:{record.line}; correct the archive"
    )
  return records[name]


def _text(record: Record) -> str:
  return "".join(record.lines)


def _part(record: Record) -> str:
  """Returns the part that a header such as `>id SET=train VALIDATION=False` names."""
  fields = dict(word.split("=", 1) for word in record.header.split()[1:] if "=" in word)
  part = {
    ("train", "False"): "train",
    ("train", "True"): "validation",
    ("test", "False"): "test",
  }.get((fields.get("SET", ""), fields.get("VALIDATION", "")))
  if part is None:
    raise UserError(
      f"the header {record.header[:80]!r} names no part, {record.path}:{record.line}; write `>id SET=train"
      " VALIDATION=False`, SET=train VALIDATION=True, or SET=test VALIDATION=False"
    )
  return part


def _files(data_dir: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
  folder = data_dir / "secondary_structure"
  return folder / "splits.zip", folder / "CB513_HHblits.csv"


def _where(path: pathlib.Path) -> str:
  source = {
    "splits.zip": "splits/secondary_structure/splits.zip from github.com/J-SNACKKB/FLIP",
    "CB513_HHblits.csv": "CB513_HHblits.csv from github.com/omarperacha/ps4-dataset",
  }[path.name]
  return f"get {source} and put it at {path}, or set --config.data_dir"
