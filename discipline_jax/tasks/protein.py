"""Proteins: localization, stability and fluorescence, in the FASTA files of PLUS (Min et al. 2019).

A residue is one token: the twenty amino acids and X, the unknown one. As in the code of PLUS, O is read as K, U as C,
B and Z as X; and so are J, a stop `*`, a gap `-`, and lower case as upper case. Any other character is an error.
"""

import math
import pathlib
from collections.abc import Callable

from discipline_jax.errors import UserError
from discipline_jax.tasks.base import Alphabet, Example, Task, keep_valid
from discipline_jax.tasks.fasta import read_fasta

ALPHABET = Alphabet(
  tuple("ACDEFGHIKLMNPQRSTVWYX"),
  {"O": "K", "U": "C", "B": "X", "Z": "X", "J": "X", "*": "X", "-": "X"},
  unknown_symbol="X",
)
LOCATIONS = (
  "Cell.membrane",
  "Cytoplasm",
  "Endoplasmic.reticulum",
  "Extracellular",
  "Golgi.apparatus",
  "Lysosome/Vacuole",
  "Mitochondrion",
  "Nucleus",
  "Peroxisome",
  "Plastid",
)


def localization(data_dir: pathlib.Path, *, skip_invalid: bool = False) -> Task:
  """Where in the cell a protein works (DeepLoc, Almagro Armenteros et al. 2017), ten classes."""
  return _task("localization", data_dir, 512, LOCATIONS, "accuracy", _location, skip_invalid)


def stability(data_dir: pathlib.Path, *, skip_invalid: bool = False) -> Task:
  """How stable a small designed protein is (Rocklin et al. 2017), a value."""
  return _task("stability", data_dir, 52, (), "spearman", _value, skip_invalid)


def fluorescence(data_dir: pathlib.Path, *, skip_invalid: bool = False) -> Task:
  """How bright a variant of avGFP is (Sarkisyan et al. 2016), the logarithm of a value."""
  return _task("fluorescence", data_dir, 239, (), "spearman", _value, skip_invalid)


def _task(
  kind: str,
  data_dir: pathlib.Path,
  max_length: int,
  labels: tuple[str, ...],
  metric: str,
  read_label: Callable[[str], float],
  skip_invalid: bool,
) -> Task:
  files = {
    part: data_dir / "protein" / f"{kind}_{name}.fa"
    for part, name in {"train": "train", "validation": "dev", "test": "test"}.items()
  }
  return Task(
    f"protein_{kind}",
    ALPHABET,
    labels,
    metric,
    max_length,
    read=lambda: {
      part: read_protein(path, read_label, skip_invalid) for part, path in files.items()
    },
    files=tuple(files.values()),
  )


def read_protein(
  path: pathlib.Path, read_label: Callable[[str], float], skip_invalid: bool = False
) -> list[Example]:
  """Reads a FASTA file whose headers are `>name label ...`.

  Args:
    path: of the file.
    read_label: the second word of a header -> label; raises ValueError with what it should be.
    skip_invalid: leave out what is not as it should be, and log how much that was.

  Raises:
    UserError: with file and line.
  """
  where = f"get {path.name} from the PLUS page (ailab.snu.ac.kr/PLUS) and put it at {path}, or set --config.data_dir"

  def example(record) -> Example:
    words = record.header.split()
    if len(words) < 2:
      raise UserError(
        f"no label after the name in {record.header[:40]!r}, {path}:{record.line}; write `>name label`"
      )
    try:
      label = read_label(words[1])
    except ValueError as error:
      raise UserError(
        f"label {words[1][:40]!r} is not {error}, {path}:{record.line}; correct the line"
      ) from None
    return Example(record.symbols(ALPHABET, "an amino acid"), label)

  return keep_valid(read_fasta(path, where), example, skip_invalid, path)


def _value(word: str) -> float:
  try:
    value = float(word)
  except ValueError:
    value = math.nan
  if not math.isfinite(value):
    raise ValueError("a finite number")
  return value


def _location(word: str) -> int:
  name, _, form = word.rpartition("-")
  if name not in LOCATIONS or form not in ("M", "S", "U"):
    raise ValueError(f"one of {', '.join(LOCATIONS)} with -M, -S or -U after it")
  return LOCATIONS.index(name)
