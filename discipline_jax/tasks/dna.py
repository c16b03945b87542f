"""DNA tasks: yeast histone occupancy (Pokholok et al. 2005) and splice junctions (UCI), in the files of Hilbert-CNN.

Each nucleotide is one token. As in the authors' code, each of the four letters and of the eleven IUPAC ambiguity codes
(the splice set has N, D, S and R) is a symbol with its own embedding row. Lower case is read as upper case, and U as T.
Any other letter is an error.
"""

import pathlib

from discipline_jax.errors import UserError
from discipline_jax.letters import upper
from discipline_jax.tasks.answers import Class
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.examples import Alphabet, Example
from discipline_jax.tasks.readers.lines import read_lines

ALPHABET = Alphabet(tuple("ACGTRYSWKMBDHVN"), {"U": "T"})
SPLICE_LABELS = ("EI", "IE", "N")


def histone(name: str, file: str, data_dir: pathlib.Path) -> Task:
  """Builds the task to tell if a histone binds a sequence of 500 letters (1) or not (0).

  Args:
    name: the name of the task.
    file: the name of its file in `data_dir`/dna.
    data_dir: the folder of all data.
  """
  path = data_dir / "dna" / file
  return Task(
    name,
    ALPHABET,
    Class(("0", "1")),
    max_length=502,
    read=lambda: {"all": read_histone(path)},
    files=(path,),
  )


def splice(data_dir: pathlib.Path) -> Task:
  """Builds the task to tell if 60 letters have an exon-intron (EI) or intron-exon (IE) boundary, or neither (N)."""
  path = data_dir / "dna" / "splice.txt"
  return Task(
    "dna_splice",
    ALPHABET,
    Class(SPLICE_LABELS),
    max_length=62,
    read=lambda: {"all": read_splice(path)},
    files=(path,),
  )


def read_histone(path: pathlib.Path) -> list[Example]:
  """Reads a file with three lines for each sample: `>name`, the sequence, and the label 0 or 1.

  Raises:
    UserError: the file or one of its lines is wrong.
  """
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
  """Reads a file with a line `class, name, sequence` for each sample; the class is EI, IE or N.

  Blanks around the three fields are ignored.

  Raises:
    UserError: the file or one of its lines is wrong.
  """
  examples = []
  for number, line in enumerate(read_lines(path, _where(path)), 1):
    if not line.strip():
      continue
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != 3:
      raise UserError(
        f"{len(fields)} fields, not the three `class, name, sequence`, {path}:{number}; correct the line"
      )
    if fields[0] not in SPLICE_LABELS:
      raise UserError(
        f"class {fields[0][:40]!r} is not one of {', '.join(SPLICE_LABELS)}, {path}:{number}; correct the line"
      )
    examples.append(Example(_sequence(fields[2], path, number), SPLICE_LABELS.index(fields[0])))
  return examples


def _sequence(text: str, path: pathlib.Path, number: int) -> str:
  """Returns the sequence on line `number` in upper case."""
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
  return f"get data/{path.name} from github.com/Doulrs/Hilbert-CNN and put it at {path}, or set --config.data_dir"
