"""Recognises corpus files that hold neither plain text nor sequences, so that an error can say what they hold."""

import json
import pathlib
import re

from discipline_jax.errors import UserError
from discipline_jax.files.packed_text import MAGIC, head, kind_of

_FASTA = (".fa", ".faa", ".fasta", ".fas", ".fna", ".ffn", ".frn")
_TABLE = "a table and no text; write its texts into a .jsonl file, one object with a field `text` in each line"
# What files with these suffixes hold, and what to do.
_SUFFIXES = {
  ".csv": _TABLE,
  ".tsv": _TABLE,
  ".xlsx": _TABLE,
  ".parquet": _TABLE,
  ".json": "JSON and no text; write it as JSON lines (.jsonl), one object with a field `text` in each line",
  ".fastq": "FASTQ, which is not read; convert it to FASTA",
  ".fq": "FASTQ, which is not read; convert it to FASTA",
  ".gb": "a file of GenBank, which is not read; convert it to FASTA",
  ".gbk": "a file of GenBank, which is not read; convert it to FASTA",
  ".gff": "annotations and no sequences; give the FASTA file of the sequences",
  ".gtf": "annotations and no sequences; give the FASTA file of the sequences",
  ".vcf": "variants and no sequences; give the FASTA file of the sequences",
  ".bed": "regions and no sequences; give the FASTA file of the sequences",
}
_AS_TEXT = "save its text as a plain text file in UTF-8"
_HEAD = 4096  # bytes


def is_fasta(path: pathlib.Path, *, remedy: str) -> bool:
  """Returns whether a file is FASTA: by its suffix, or by a header line with a sequence after it.

  Args:
    path: the file, which may be compressed.
    remedy: what the user can do if the file cannot be opened.

  Raises:
    UserError: it cannot be opened.
  """
  if kind_of(path) in _FASTA:
    return True
  start = head(path, _HEAD, remedy).decode("utf-8", "replace").lstrip("\ufeff\r\n ")
  return re.match(r">[^\n]*\n[A-Za-z*-]{20,}\s*(\n|$)", start) is not None


def check_lines(path: pathlib.Path, *, remedy: str) -> None:
  """Raises UserError if a file that should have a sequence in each line is FASTQ or a table, or numbers its lines.

  Args:
    path: the file, which may be compressed.
    remedy: what the user can do if the file cannot be opened.
  """
  start = head(path, _HEAD, remedy).decode("utf-8", "replace").lstrip("\ufeff")
  whole = start.splitlines()[: None if len(start) < _HEAD else -1]
  found = [line.strip() for line in whole if line.strip()]
  if len(found) >= 4 and found[0].startswith("@") and found[2].startswith("+"):
    raise UserError(f"not sequences: {path} is {_SUFFIXES['.fastq']}")
  if len(found) < 2:
    return
  numbers = [re.match(r"[0-9]+(?=[\s.:)])", line) for line in found]
  if all(numbers):
    raise UserError(f"not sequences: the lines of {path} begin with numbers; take the numbers out")
  for separator in (",", "\t", ";"):
    counts = {line.count(separator) for line in found}
    if len(counts) == 1 and counts != {0}:
      raise UserError(
        f"not sequences: {path} is a table, with {separator!r} in each line; write a file that has only the"
        " sequences, one in each line"
      )


def check_kind(path: pathlib.Path, *, remedy: str) -> None:
  """Raises UserError if a file cannot be plain text or JSON lines, by its suffix or its first bytes.

  Args:
    path: the file, which may be compressed.
    remedy: what the user can do if the file cannot be opened.
  """
  suffix = kind_of(path)
  what = _SUFFIXES.get(suffix)
  start = b"" if what else head(path, _HEAD, remedy)
  if what is None:
    kinds = (kind for first, kind in MAGIC.items() if start.startswith(first))
    what = next((f"{kind}; {_AS_TEXT}" for kind in kinds), None)
  if what is None and b"\0" in start:
    what = f"a binary file or UTF-16 text; {_AS_TEXT}"
  if what is None and suffix != ".jsonl" and start.lstrip().startswith(b'{"'):
    what = _of_json(start)
  if what is not None:
    raise UserError(f"not text: {path} is {what}")


def _of_json(start: bytes) -> str | None:
  """Returns what a file is whose first line is a JSON object, or None for any other."""
  try:
    first = json.loads(start.lstrip().split(b"\n")[0])
  except ValueError:
    return None
  if not isinstance(first, dict):
    return None
  if "text" in first:
    return "JSON lines; let its name end in .jsonl"
  return "JSON lines without a field `text`; name the field of the text so, and let the file's name end in .jsonl"
