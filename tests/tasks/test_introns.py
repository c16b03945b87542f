"""Tests the files of yeast's introns: small ones by hand, and the real ones by what they must be."""

import pytest

from discipline_jax import tasks
from discipline_jax.errors import UserError
from discipline_jax.tasks.introns import PARTS, read_genes

GENES = (
  ">A GeneID:1 Chromosome:NC_001133.9 Start:1 Stop:8 Strand:-\nATGGTACT\n"
  ">B GeneID:2 Chromosome:NC_001134.8 Start:1 Stop:4 Strand:+\natgn\n"
  ">C GeneID:3 Chromosome:NC_001140.6 Start:1 Stop:4 Strand:+\nATGA\n"
)
INTRONS = "1\tA\t2\t3\n1\tA\t6\t8\n2\tB\t1\t4\n3\tC\t4\t4\n"


def written(folder, genes=GENES, introns=INTRONS):
  paths = folder / "genes.fsa", folder / "introns.txt"
  for path, text in zip(paths, (genes, introns), strict=True):
    path.write_text(text)
  return paths


def test_genes_by_hand(tmp_path):
  parts = read_genes(*written(tmp_path))
  found = {part: [(one.sequence, one.label.tolist()) for one in own] for part, own in parts.items()}
  assert found == {
    "train": [("ATGGTACT", [0, 1, 1, 0, 0, 1, 1, 1])],
    "test": [("ATGN", [1, 1, 1, 1])],
    "validation": [("ATGA", [0, 0, 0, 1])],
  }


@pytest.mark.parametrize(
  ("genes", "introns", "place"),
  [
    (GENES, INTRONS.replace("3\tC\t4\t4", "3\tC\t4\t5"), "introns.txt:4"),
    (GENES, INTRONS.replace("6\t8", "3\t8"), "introns.txt:2"),
    (GENES, INTRONS.replace("6\t8", "4\t8"), "introns.txt:2"),
    (GENES, INTRONS.replace("6\t8", "8\t6"), "introns.txt:2"),
    (GENES, INTRONS.replace("6\t8", "0\t1"), "introns.txt:2"),
    (GENES, INTRONS.replace("1\tA\t2\t3", "1 A 2 3"), "introns.txt:1"),
    (GENES, INTRONS + "9\tZ\t1\t2\n", "genes.fsa"),
    (GENES + ">D GeneID:4 Chromosome:NC_001133.9\nACG\n", INTRONS, "genes.fsa:7"),
    (GENES + ">A GeneID:1 Chromosome:NC_001133.9\nACG\n", INTRONS, "genes.fsa:7"),
    (GENES.replace("GeneID:2", "Gene:2"), INTRONS, "genes.fsa:3"),
    (GENES.replace("NC_001134.8", "chrII"), INTRONS, "genes.fsa:3"),
    (GENES.replace("NC_001134.8", "NC_001133.9"), INTRONS, "genes.fsa"),
    (GENES.replace("ATGGTACT", "ATGGTAXT"), INTRONS, "genes.fsa:2"),
  ],
)  # fmt: skip
def test_mistakes_name_their_place(genes, introns, place, tmp_path):
  with pytest.raises(UserError, match=place):
    read_genes(*written(tmp_path, genes, introns))


def test_the_real_files(shared):
  """270 genes with 280 introns, 65,861 of 302,978 bases; without them each gene reads from ATG to a stop, in frame."""
  parts = tasks.get("dna_introns", shared / "data").read()
  assert {part: len(own) for part, own in parts.items()} == {
    "train": 182,
    "validation": 43,
    "test": 45,
  }
  assert {*PARTS} == {"validation", "test"}
  genes = [one for own in parts.values() for one in own]
  assert sum(len(one.sequence) for one in genes) == 302978
  assert sum(int(one.label.sum()) for one in genes) == 65861
  starts = 0
  for one in genes:
    coding = "".join(
      base for base, is_intron in zip(one.sequence, one.label, strict=True) if not is_intron
    )
    assert len(coding) % 3 == 0
    assert coding.startswith("ATG")
    assert coding[-3:] in ("TAA", "TAG", "TGA")
    text = "".join("ei"[label] for label in one.label)
    starts += text.count("ei") + text.startswith("i")
  assert starts == 280
