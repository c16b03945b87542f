"""Protein tasks: localization, stability and fluorescence, in the FASTA files of PLUS (Min et al. 2019).

Each residue is one token: one of the twenty amino acids, or X for an unknown one. As in the code of PLUS, O is read as
K, U as C, and B and Z as X. J, a stop `*` and a gap `-` are read as X too, and lower case as upper case. Any other
character is an error.
"""

import math
import pathlib
from collections.abc import Callable

from discipline_jax.errors import UserError
from discipline_jax.files.fasta import Record
from discipline_jax.tasks.answer import Answer
from discipline_jax.tasks.answers import Class, Value
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.examples import Alphabet, Example
from discipline_jax.tasks.readers.fasta import read_fasta, symbols_of
from discipline_jax.tasks.readers.lines import keep_valid

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
  """Builds the task to tell where in the cell a protein works: ten classes.

  The data are DeepLoc's (Almagro Armenteros et al. 2017).
  """
  return _task("localization", data_dir, 512, Class(LOCATIONS), _location, skip_invalid)


def stability(data_dir: pathlib.Path, *, skip_invalid: bool = False) -> Task:
  """Builds the task to predict how stable a small designed protein is: one value (Rocklin et al. 2017)."""
  return _task("stability", data_dir, 52, Value(), _value, skip_invalid)


def fluorescence(data_dir: pathlib.Path, *, skip_invalid: bool = False) -> Task:
  """Builds the task to predict how bright a variant of avGFP is: the logarithm of a value (Sarkisyan et al. 2016)."""
  return _task("fluorescence", data_dir, 239, Value(), _value, skip_invalid)


def _task(
  kind: str,
  data_dir: pathlib.Path,
  max_length: int,
  answer: Answer,
  read_label: Callable[[str], int | float],
  skip_invalid: bool,
) -> Task:
  """Builds the task over the three files `<kind>_train.fa`, `<kind>_dev.fa` and `<kind>_test.fa`."""
  files = {
    part: data_dir / "protein" / f"{kind}_{name}.fa"
    for part, name in {"train": "train", "validation": "dev", "test": "test"}.items()
  }
  return Task(
    f"protein_{kind}",
    ALPHABET,
    answer,
    max_length,
    read=lambda: {
      part: read_protein(path, read_label, skip_invalid) for part, path in files.items()
    },
    files=tuple(files.values()),
  )


def read_protein(
  path: pathlib.Path, read_label: Callable[[str], int | float], skip_invalid: bool = False
) -> list[Example]:
  """Reads the samples of a FASTA file with headers `>name label ...`.

  Args:
    path: the file.
    read_label: turns the second word of a header into a label, or raises ValueError with a description of valid words.
    skip_invalid: leave out invalid samples and log their number, instead of raising an error.

  Raises:
    UserError: the file or a sample is wrong; with file and line.
  """
  where = f"get {path.name} from the PLUS page (ailab.snu.ac.kr/PLUS) and put it at {path}, or set --config.data_dir"

  def example(record: Record) -> Example:
    words = record.header.split()
    if len(words) < 2:
      raise UserError(
        f"no label in the header {record.header[:40]!r}, {path}:{record.line}; write `>name label`"
      )
    try:
      label = read_label(words[1])
    except ValueError as error:
      raise UserError(
        f"label {words[1][:40]!r} is not {error}, {path}:{record.line}; correct the line"
      ) from None
    return Example(symbols_of(record, ALPHABET, "an amino acid"), label)

  return keep_valid(read_fasta(path, where), example, skip_invalid, path)


def _value(word: str) -> float:
  """Reads a number; raises ValueError if it is not finite."""
  try:
    value = float(word)
  except ValueError:
    value = math.nan
  if not math.isfinite(value):
    raise ValueError("a finite number")
  return value


def _location(word: str) -> int:
  """Reads a location such as `Nucleus-U`; the suffix says membrane-bound (M), soluble (S) or unknown (U)."""
  name, _, form = word.rpartition("-")
  if name not in LOCATIONS or form not in ("M", "S", "U"):
    raise ValueError(f"one of {', '.join(LOCATIONS)} with -M, -S or -U after it")
  return LOCATIONS.index(name)
