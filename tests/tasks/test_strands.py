"""Tests the second strand of DNA: symbols, samples, and the tasks that have none."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from discipline_jax.errors import UserError
from discipline_jax.models.heads import TokenClassifier
from discipline_jax.models.tokenizer import make_vocabulary
from discipline_jax.tasks import dna, glue, protein
from discipline_jax.tasks.examples import Example
from discipline_jax.tasks.features import PAD, featurise
from discipline_jax.tasks.strands import (
  both_strands,
  canonical_strand,
  complements,
  other_strand,
  reverse_complement,
)
from discipline_jax.training.samples import _other_strand
from tests.tasks.own_tables import read, written

# The bases that each letter stands for (NC-IUB 1984).
IUPAC = {
  **{base: base for base in "ACGT"},
  "R": "AG",
  "Y": "CT",
  "S": "CG",
  "W": "AT",
  "K": "GT",
  "M": "AC",
  "B": "CGT",
  "D": "AGT",
  "H": "ACT",
  "V": "ACG",
  "N": "ACGT",
}
PARTNER = {"A": "T", "C": "G", "G": "C", "T": "A"}


@pytest.mark.parametrize("letter", IUPAC)
def test_the_partner_of_a_code_stands_for_the_partners_of_its_bases(letter):
  other = reverse_complement(letter)
  assert {*IUPAC[other]} == {PARTNER[base] for base in IUPAC[letter]}
  assert reverse_complement(letter.lower()) == other.lower()


def test_words():
  assert reverse_complement("AACGT") == "ACGTT"
  assert reverse_complement("acN") == "Ngt"
  assert reverse_complement("AUG") is None
  assert both_strands({"AC", "CC", "Q"}) == {"AC", "GT", "CC", "GG", "Q"}


def strands_of(task, sequences, max_length=20):
  """Returns the features of sequences, and what the device makes of them for the other strand."""
  examples = [Example(one, None) for one in sequences]
  task = dataclasses.replace(task, read=lambda: {"all": examples})
  features = featurise(task, make_vocabulary(task.alphabet.symbols, 64), max_length)
  complement = complements(task, "average")
  found = _other_strand(jnp.asarray(features.symbols), jnp.asarray(complement))
  np.testing.assert_array_equal(other_strand(features.symbols, complement), found)
  return features.symbols, np.asarray(found)


@pytest.mark.parametrize("has_special", [True, False])
def test_samples_on_the_device_are_those_of_the_reverse_complements(has_special, tmp_path):
  task = dataclasses.replace(dna.splice(tmp_path), add_special_tokens=has_special)
  sequences = ["ACGTN", "A", "GATTACARYSWKMBD", "TTTTTTTTTTTTTT"]
  ours, found = strands_of(task, sequences)
  expected, back = strands_of(task, [reverse_complement(one) for one in sequences])
  np.testing.assert_array_equal(found, expected)
  np.testing.assert_array_equal(back, ours)
  assert found.dtype == ours.dtype
  complement = complements(task, "average")
  for both in zip(ours, found, strict=True):
    one, other = (row[row != PAD] for row in both)
    first = canonical_strand(one, complement).tolist()
    assert first == canonical_strand(other, complement).tolist()
    assert first == min(one.tolist(), other.tolist())


def test_own_tables_know_the_symbols_of_both_strands(tmp_path):
  path = written(tmp_path, "sequence,label\nAAC,1\nACC,2\n")
  assert read(path).alphabet.symbols == ("A", "C")
  task = read(path, reverse_complement="augment")
  assert task.alphabet.symbols == ("A", "C", "G", "T")
  # The last number is that of all symbols that training did not see.
  assert complements(task, "augment").tolist() == [0, 2, 1, 6, 5, 4, 3, 7]
  task = read(path, symbols="kmers", k=2, reverse_complement="augment")
  assert task.alphabet.symbols == ("AA", "AC", "CC", "GG", "GT", "TT")
  assert complements(task, "augment").tolist() == [0, 2, 1, 8, 7, 6, 5, 4, 3, 9]


def positions(task):
  """Returns the task with a head that answers at each position."""
  answer = type("Tags", (type(task.answer),), {"head": TokenClassifier(2)})
  return dataclasses.replace(task, answer=answer(task.answer.labels))


@pytest.mark.parametrize("name", ["protein", "text", "own", "rna", "words", "positions"])
def test_other_tasks_are_refused(name, tmp_path):
  def own(rows, **changes):
    path = written(tmp_path, f"sequence,label\n{rows[0]},1\n{rows[1]},2\n")
    return read(path, reverse_complement="average", **changes)

  task = {
    "protein": lambda: protein.stability(tmp_path, skip_invalid=False),
    "text": lambda: glue.glue("sst2", tmp_path, "files"),
    "own": lambda: own(("MKL", "AC")),
    "rna": lambda: own(("ACGU", "AC")),
    "words": lambda: own(("log in", "log out"), symbols="words"),
    "positions": lambda: positions(dna.splice(tmp_path)),
  }[name]()
  with pytest.raises(UserError, match=r"task\.reverse_complement"):
    complements(task, "average")
