"""Introns of yeast: exon or intron for each base of the genes that have introns, in the files of NCBI's genome R64.

Genes are split by chromosome, so that neighbours and recent copies on one chromosome are in one part. Bases are read as
in the other DNA tasks, on the strand that is translated.
"""

import pathlib
import re
from collections.abc import Mapping

import numpy as np

from discipline_jax.errors import UserError
from discipline_jax.files.fasta import Record
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.dna import ALPHABET
from discipline_jax.tasks.examples import Example
from discipline_jax.tasks.readers.fasta import read_fasta, symbols_of
from discipline_jax.tasks.readers.lines import read_lines
from discipline_jax.tasks.tags import Tags

LABELS = ("exon", "intron")
# The chromosomes of validation and test, by the last two digits of their accession (NC_001133 is chromosome I);
# each part has about a sixth of the genes. All others are training.
PARTS = {"validation": ("40", "44"), "test": ("34", "39")}
_CHROMOSOME = re.compile(r"Chromosome:(NC_0011(\d\d)\.\d+)")
_GENE = re.compile(r"GeneID:(\d+)")


def introns(data_dir: pathlib.Path) -> Task:
  """Builds the task to tell exon and intron apart at each base; F1 of bases, and beside it F1 of whole introns."""
  folder = data_dir / "dna"
  genes = folder / "GCF_000146045.2_R64_genes_with_introns.fsa"
  table = folder / "GCF_000146045.2_R64_introns.txt"
  return Task(
    "dna_introns",
    ALPHABET,
    Tags(LABELS, "f1", whole="intron"),
    None,
    read=lambda: read_genes(genes, table),
    files=(genes, table),
  )


def read_genes(genes: pathlib.Path, table: pathlib.Path) -> dict[str, list[Example]]:
  """Reads genes and their introns, by part.

  Args:
    genes: FASTA with headers `>name GeneID:.. Chromosome:.. Start:.. Stop:.. Strand:..`.
    table: lines `GeneID name start stop` with tabs between them; the first base of a gene is 1, and both ends are in.

  Raises:
    UserError: a file is wrong; with file and line.
  """
  found = read_introns(table)
  parts: dict[str, list[Example]] = {"train": [], "validation": [], "test": []}
  seen: set[str] = set()
  for record in read_fasta(genes, _where(genes)):
    place = f"{record.path}:{record.line}"
    gene, part = _gene(record), _part(record)
    sequence = symbols_of(record, ALPHABET, "a nucleotide or an IUPAC code")
    if gene in seen or gene not in found:
      what = "is there twice" if gene in seen else f"has no intron in {table.name}"
      raise UserError(f"gene {gene} {what}, {place}; correct the file")
    seen.add(gene)
    label = np.zeros(len(sequence), np.int8)
    for start, stop, line in found[gene]:
      if stop > len(sequence):
        raise UserError(
          f"an intron to base {stop} of gene {gene}, which has {len(sequence)}, {table}:{line}; correct the line"
        )
      label[start - 1 : stop] = 1
    parts[part].append(Example(sequence, label))
  lost = sorted(found.keys() - seen)
  if lost:
    raise UserError(f"no gene {lost[0]}, {genes}; {_where(genes)}")
  for part, samples in parts.items():
    if not samples:
      raise UserError(f"no gene of the {part} part, {genes}; {_where(genes)}")
  return parts


def read_introns(path: pathlib.Path) -> Mapping[str, list[tuple[int, int, int]]]:
  """Returns the introns of each gene: the first and the last base, from 1, and the line of the file.

  Raises:
    UserError: the file or a line is wrong, or introns of a gene meet.
  """
  found: dict[str, list[tuple[int, int, int]]] = {}
  for number, line in enumerate(read_lines(path, _where(path)), 1):
    fields = line.split("\t")
    if len(fields) != 4 or not (fields[2].isdecimal() and fields[3].strip().isdecimal()):
      raise UserError(
        f"{line[:60]!r} is not `GeneID name start stop` with tabs between them, {path}:{number}; correct the line"
      )
    start, stop = int(fields[2]), int(fields[3])
    others = found.setdefault(fields[0], [])
    if not 1 <= start <= stop or any(
      start <= end + 1 and first <= stop + 1 for first, end, _ in others
    ):
      raise UserError(
        f"an intron from {start} to {stop} is empty, or meets another one of its gene, {path}:{number}; correct the"
        " line"
      )
    others.append((start, stop, number))
  return found


def _gene(record: Record) -> str:
  match = _GENE.search(record.header)
  if match is None:
    raise UserError(
      f"no GeneID in the header {record.header[:40]!r}, {record.path}:{record.line}; write `GeneID:851262`"
    )
  return match[1]


def _part(record: Record) -> str:
  match = _CHROMOSOME.search(record.header)
  if match is None:
    raise UserError(
      f"no chromosome of yeast in the header {record.header[:60]!r}, {record.path}:{record.line}; write"
      " `Chromosome:NC_001133.9`"
    )
  return next((part for part, numbers in PARTS.items() if match[2] in numbers), "train")


def _where(path: pathlib.Path) -> str:
  return f"get {path.name} from github.com/kmccue/yeast_data and put it at {path}, or set --config.data_dir"
