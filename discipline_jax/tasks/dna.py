"""DNA: yeast histone occupancy (Pokholok et al. 2005) and splice junctions (UCI), as Hilbert-CNN publishes them.

A nucleotide is one token. The four letters and the eleven IUPAC ambiguity codes (N, D, S and R occur in the
splice set) are symbols of their own, each with its own embedding row, as in the authors' code; lower case is
read as upper case and U as T. Any other letter is an error.
"""

import pathlib

from discipline_jax.errors import UserError
from discipline_jax.tasks.base import Alphabet, Example, Task, read_lines, upper

ALPHABET = Alphabet(tuple("ACGTRYSWKMBDHVN"), {"U": "T"})
SPLICE_LABELS = ("EI", "IE", "N")


def histone(name: str, file: str, data_dir: pathlib.Path) -> Task:
  """A set of 500-letter sequences, bound by a histone (1) or not (0)."""
  path = data_dir / "dna" / file
  return Task(
    name,
    ALPHABET,
    labels=("0", "1"),
    metric="accuracy",
    max_length=502,
    read=lambda: {"all": read_histone(path)},
    files=(path,),
  )


def splice(data_dir: pathlib.Path) -> Task:
  """60 letters around an exon-intron (EI) or intron-exon (IE) boundary, or neither (N)."""
  path = data_dir / "dna" / "splice.txt"
  return Task(
    "dna_splice",
    ALPHABET,
    labels=SPLICE_LABELS,
    metric="accuracy",
    max_length=62,
    read=lambda: {"all": read_splice(path)},
    files=(path,),
  )


def read_histone(path: pathlib.Path) -> list[Example]:
  """Reads three lines a sample: `>name`, the sequence, the label 0 or 1."""
  lines = read_lines(path, _where(path))
  while lines and not lines[-1].strip():
    lines.pop()
  examples = []
  for start in range(0, len(lines), 3):
    name = lines[start]
    if not name.startswith(">"):
      raise UserError(
        f"expected a line `>name`, got {name[:40]!r}, {path}:{start + 1}; a sample is three"
        " lines: >name, sequence, label"
      )
    if (
      start + 2 >= len(lines)
      or lines[start + 1].startswith(">")
      or lines[start + 2].startswith(">")
    ):
      raise UserError(
        f"{name.strip()[:40]} lacks its sequence or label line, {path}:{start + 1}; a sample"
        " is three lines: >name, sequence, label"
      )
    sequence = _sequence(lines[start + 1], path, start + 2)
    label = lines[start + 2].strip()
    if label not in ("0", "1"):
      raise UserError(
        f"label {label[:40]!r} is not the integer 0 or 1, {path}:{start + 3}; correct the line"
      )
    examples.append(Example(sequence, int(label)))
  return examples


def read_splice(path: pathlib.Path) -> list[Example]:
  """Reads `class, name, sequence` a line, with padding blanks; classes EI, IE, N."""
  examples = []
  for number, line in enumerate(read_lines(path, _where(path)), 1):
    if not line.strip():
      continue
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != 3:
      raise UserError(
        f"{len(fields)} fields, not `class, name, sequence`, {path}:{number}; correct the line"
      )
    if fields[0] not in SPLICE_LABELS:
      raise UserError(
        f"class {fields[0][:40]!r} is not one of {', '.join(SPLICE_LABELS)}, {path}:{number}; correct the line"
      )
    examples.append(Example(_sequence(fields[2], path, number), SPLICE_LABELS.index(fields[0])))
  return examples


def _sequence(text: str, path: pathlib.Path, number: int) -> str:
  sequence = upper(text.strip())
  if not sequence:
    raise UserError(f"empty sequence, {path}:{number}; every sample needs one")
  unknown = ALPHABET.unknown(sequence)
  if unknown is not None:
    raise UserError(
      f"{unknown!r} is not a nucleotide or an IUPAC code ({''.join(ALPHABET.symbols)}),"
      f" {path}:{number}; correct the line"
    )
  return sequence


def _where(path: pathlib.Path) -> str:
  return f"get data/{path.name} of github.com/Doulrs/Hilbert-CNN and put it at {path}, or set --config.data_dir"
