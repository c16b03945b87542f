"""Tests token maps: the properties that each kind promises, and the examples in the paper."""

import dataclasses
import errno
import itertools
import os
import time

import numpy as np
import pytest

from discipline_jax.errors import UserError
from discipline_jax.models.tokenizer import load_vocabulary, make_vocabulary
from discipline_jax.tasks.token_maps import KINDS, choose_kind, make_map

SMALL = make_vocabulary("ACGT", 30)
LARGE = make_vocabulary("ACGT", 1500)
DEFAULTS = {"shift": 1000, "seed": 0, "path": None, "keep_special": False}


def mapped(kind, vocabulary=LARGE, **changes):
  """Returns the map of a task with the symbols A, C, G and T."""
  return make_map(kind, vocabulary, vocabulary.symbol_ids("ACGT"), **{**DEFAULTS, **changes})


AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
ENGLISH = ["the", "and", "of", *(f"{a}{b}{a}" for a in "abcdefgh" for b in "ijklmnopqrstuvwxyz")]
KMERS = ["".join(letters) for letters in itertools.product("ACGT", repeat=3)]


def test_the_remedy_for_letters_of_a_model_of_kmers():
  _, reason = choose_kind(make_vocabulary(KMERS, len(KMERS) + 9), "ACGT")
  assert "task.symbols=kmers --config.task.k=3" in reason
  assert "kmers" not in choose_kind(make_vocabulary(KMERS, len(KMERS) + 9), AMINO_ACIDS)[1]


def test_a_model_of_unused_tokens_alone():
  tokens = [f"[unused{i}]" for i in range(9)]
  assert choose_kind(make_vocabulary(tokens, 14), "ACGT")[0] == "random"


def test_rna_on_a_model_of_dna():
  assert "writes U" in choose_kind(make_vocabulary(list("ACGT"), 13), "ACGU")[1]
  assert "writes" not in choose_kind(make_vocabulary(list(AMINO_ACIDS), 30), "ACGU")[1]


@pytest.mark.parametrize(
  ("tokens", "symbols", "kind"),
  [
    (KMERS, KMERS, "identity"),
    (KMERS, KMERS[::3], "identity"),  # a small table has not all of them
    (KMERS, "ACGT", "random"),  # letters are not tokens of a model of 3-mers
    (KMERS, [a + b for a in KMERS[:8] for b in "ACGT"], "random"),  # 4-mers are not either
    ([*AMINO_ACIDS, *"XBZUO"], AMINO_ACIDS, "identity"),
    ([*AMINO_ACIDS, *"XBZUO"], "ACGT", "random"),  # a protein model on DNA
    (["A", "C", "G", "T", "AC", "ACC", "GTT", "TTA", "GGC"], "ACGT", "identity"),  # pieces
    ([*"abcdefghijklmnopqrstuvwxyz", *ENGLISH], "abcdefghijklmnopqrstuvwxyz", "random"),
    ([*"acgt", *AMINO_ACIDS, *ENGLISH], "ACGT", "random"),  # as BERT-cased, which has all letters
    (KMERS, None, "identity"),  # text
  ],
)
def test_auto_is_identity_for_a_model_of_the_discipline(tokens, symbols, kind):
  assert choose_kind(make_vocabulary(tokens, len(tokens) + 9), symbols)[0] == kind


def test_auto_does_not_mind_the_marks_of_word_beginnings():
  """With SentencePiece, the symbol A has the token `▁A`, and the parts of words have no such mark."""
  pieces = ["▁A", "▁C", "▁G", "▁T", "#", "AC", "▁ACC", "GTT", "TTA", "GGC", "CAT"]
  vocabulary = make_vocabulary(pieces, 20)
  marked = dataclasses.replace(
    vocabulary, encode=lambda symbol: [vocabulary.tokens.index(f"▁{symbol}")]
  )
  assert choose_kind(marked, "ACGT")[0] == "identity"


def test_auto_is_fast_on_large_vocabularies():
  """The time is not quadratic in the number of tokens: there are 65,536 8-mers."""
  kmers = ["".join(letters) for letters in itertools.product("ACGT", repeat=8)]
  vocabulary = make_vocabulary(kmers, len(kmers) + 5)
  started = time.perf_counter()
  assert choose_kind(vocabulary, kmers)[0] == "identity"
  assert time.perf_counter() - started < 10  # a quadratic one would take minutes


@pytest.mark.parametrize(
  ("model", "symbols", "kind"),
  [
    ("roberta-antibody", AMINO_ACIDS, "identity"),
    ("roberta-antibody", "ACGT", "random"),
    ("bert-tiny-uncased", "ACGT", "random"),
    ("bert-tiny-uncased", "abcdefghijklmnopqrstuvwxyz", "random"),
    ("minilm-l6-uncased", AMINO_ACIDS, "random"),
    ("minilm-l6-uncased", ["the", "cat", "a", "dog"], "random"),
    ("albert-smiles", ["C", "c", "(", ")", "=", "Cl", "Br", "[C@@H]", "[nH]"], "identity"),
    ("albert-smiles", ["C", "c", "(", ")", "=", "Cl", "Br", "[C@@H]", "[Xy]"], "random"),
    ("albert-smiles", [*"CcNnOo()=1", "Cl", "Br", "[C@@H]", "[Ca++]"], "identity"),
  ],
)
def test_auto_on_real_models(shared, model, symbols, kind):
  assert choose_kind(load_vocabulary(shared / "models" / model), symbols)[0] == kind


@pytest.mark.parametrize("kind", ["identity", "random", "frequent", "unused"])
@pytest.mark.parametrize("size", [30, 1500])
@pytest.mark.parametrize("count", [4, 20])
def test_symbols_never_have_rows_of_special_tokens(kind, size, count):
  """The authors' map gives the last ids the rows of special tokens; symbols may have just these ids."""
  tokens = [*(f"[unused{i}]" for i in range(size - 5 - 40)), *(f"word{i}" for i in range(40))][
    : size - 5
  ]
  vocabulary = make_vocabulary(tokens, size)
  symbols = np.arange(size - count, size, dtype=np.int32)
  if kind == "unused" and len(vocabulary.unused_ids) < count:
    return  # refused
  table = make_map(kind, vocabulary, symbols, **DEFAULTS)
  assert not set(table[symbols].tolist()) & set(vocabulary.special_ids)
  assert len(set(table[symbols].tolist())) == count
  if kind == "random":
    np.testing.assert_array_equal(np.sort(table), np.arange(size))


def test_identity():
  np.testing.assert_array_equal(mapped("identity"), np.arange(1500))


@pytest.mark.parametrize("shift", [0, 1, 1000, 1500, 12345, -3])
def test_shift_is_the_formula(shift):
  table = mapped("shift", shift=shift)
  assert [table[i] for i in (0, 1, 1499)] == [(i + shift) % 1500 for i in (0, 1, 1499)]


@pytest.mark.parametrize("kind", ["shift", "random_shift", "random"])
@pytest.mark.parametrize("keep_special", [False, True])
@pytest.mark.parametrize("vocabulary", [SMALL, LARGE])
def test_maps_of_all_rows_are_permutations(kind, keep_special, vocabulary):
  table = mapped(kind, vocabulary, keep_special=keep_special)
  np.testing.assert_array_equal(np.sort(table), np.arange(len(vocabulary.tokens)))
  if keep_special:
    np.testing.assert_array_equal(table[list(vocabulary.special_ids)], vocabulary.special_ids)


def test_random_has_the_form_of_the_authors_map():
  """The map is ids 1000 and up in random order, then 0 to 999: no id below D - 1000 gets a special or unused row."""
  table = mapped("random")
  np.testing.assert_array_equal(table[-1000:], np.arange(1000))
  np.testing.assert_array_equal(np.sort(table[:500]), np.arange(1000, 1500))
  assert not np.array_equal(table, mapped("random", seed=1))
  np.testing.assert_array_equal(table, mapped("random"))


def test_random_avoids_unused_rows_in_a_small_table():
  table = mapped("random", SMALL)
  assert not set(table[: 30 - 5 - 21]) & {*SMALL.special_ids, *SMALL.unused_ids}


def test_maps_have_their_own_random_stream():
  """The map must not be the permutation by which the same seed splits the data."""
  assert not np.array_equal(
    mapped("random_shift", seed=5), np.random.default_rng(5).permutation(1500)
  )


def test_unused():
  table = mapped("unused")
  assert [LARGE.tokens[i] for i in table[LARGE.symbol_ids("ACGT")]] == [
    "[unused0]",
    "[unused1]",
    "[unused2]",
    "[unused3]",
  ]
  assert table[LARGE.cls_id] == LARGE.cls_id


def test_too_few_rows_is_an_error():
  with pytest.raises(UserError, match="'frequent' .*4 .*0"):
    mapped("frequent")
  with pytest.raises(UserError, match="'unused' .*4 .*0"):
    mapped("unused", make_vocabulary("ACGT", 9))


def test_unknown_kind_names_the_kinds():
  with pytest.raises(UserError, match=f"token_map.kind = 'moved' .*{', '.join(KINDS)}"):
    mapped("moved")


class TestTable:
  def test_each_seed_reads_its_own_file(self, tmp_path):
    table = np.random.default_rng(0).permutation(1500).astype(np.uint16)
    np.save(tmp_path / "map-103.npy", table)
    np.testing.assert_array_equal(
      mapped("table", path=str(tmp_path / "map-{seed}.npy"), seed=103), table
    )

  @pytest.mark.parametrize(
    ("array", "facts"),
    [
      (np.arange(1499), r"1500 .*int64\(1499,\)"),
      (np.arange(1500)[None], r"1500 .*int64\(1, 1500\)"),
      (np.arange(1500.0), r"1500 .*float64\(1500,\)"),
      (np.arange(1500) + 1, r"1 .*1500 .*0\.\.1499"),
      (np.arange(1500) - 1, r"-1 .*1498 .*0\.\.1499"),
    ],
  )
  def test_unusable_arrays(self, tmp_path, array, facts):
    path = tmp_path / "map.npy"
    np.save(path, array)
    with pytest.raises(UserError, match=f"{facts}, {path}; .*token_map.path"):
      mapped("table", path=str(path))

  def test_an_archive_of_arrays_is_an_error(self, tmp_path):
    np.savez(tmp_path / "map.npz", np.arange(1500))
    with pytest.raises(UserError, match=f"1500 .*npz.*, {tmp_path}/map.npz; .*token_map.path"):
      mapped("table", path=str(tmp_path / "map.npz"))

  def test_no_path_no_file_and_pickles(self, tmp_path):
    with pytest.raises(UserError, match="--config.token_map.path"):
      mapped("table")
    with pytest.raises(UserError, match=f"{os.strerror(errno.ENOENT)}.*, {tmp_path}/none.npy; "):
      mapped("table", path=str(tmp_path / "none.npy"))
    np.save(tmp_path / "objects.npy", np.array([{}] * 1500), allow_pickle=True)
    with pytest.raises(UserError, match=f"allow_pickle.*, {tmp_path}/objects.npy; "):
      mapped("table", path=str(tmp_path / "objects.npy"))


@pytest.fixture(scope="module")
def vocabulary(shared):
  return load_vocabulary(shared / "models" / "minilm-l6-uncased", 30522)


class TestRealVocabulary:
  def test_the_example_of_shift_1000_in_the_paper(self, vocabulary):
    ids = vocabulary.encode("his healthy sense of satire is light and fun...")
    moved = make_map("shift", vocabulary, np.array([], np.int32), **DEFAULTS)[ids]
    text = " ".join(vocabulary.tokens[i] for i in moved).replace(" ##", "")
    assert text == "canadian franzme 1988pia leader watch sports czech at at at"

  def test_frequent_rows_are_the_most_common_words(self, vocabulary):
    table = mapped("frequent", vocabulary)
    assert [vocabulary.tokens[i] for i in table[vocabulary.symbol_ids("ACGT")]] == [
      "the",
      "of",
      "and",
      "in",
    ]

  def test_letters_are_single_lower_case_tokens(self, vocabulary):
    assert [vocabulary.tokens[i] for i in vocabulary.symbol_ids("ACGTN")] == [
      "a",
      "c",
      "g",
      "t",
      "n",
    ]
    assert (vocabulary.pad_id, vocabulary.cls_id, vocabulary.sep_id) == (0, 101, 102)

  def test_a_symbol_of_several_tokens_is_an_error(self, vocabulary):
    with pytest.raises(UserError, match="'acgtacgt'"):
      vocabulary.symbol_ids(["acgtacgt"])

  @pytest.mark.parametrize("seed", range(100, 106))
  def test_the_maps_of_the_paper_have_the_form_of_random(self, shared, vocabulary, seed):
    path = str(shared / "paper" / "token_maps" / "bert-base-uncased-{seed}.npy")
    table = mapped("table", vocabulary, path=path, seed=seed)
    np.testing.assert_array_equal(table[-1000:], np.arange(1000))
    np.testing.assert_array_equal(np.sort(table[:-1000]), np.arange(1000, 30522))

  def test_a_vocabulary_of_another_size_is_an_error(self, shared):
    with pytest.raises(UserError, match=r"\b30522 .*\b30521 .*minilm-l6-uncased"):
      load_vocabulary(shared / "models" / "minilm-l6-uncased", 30521)

  def test_a_vocabulary_that_transformers_does_not_know_is_a_symbol_table(self, shared):
    vocabulary = load_vocabulary(shared / "models" / "roberta-antibody", 25)
    assert len(vocabulary.tokens) == 25
    assert all(
      vocabulary.tokens[i] == letter
      for i, letter in zip(vocabulary.symbol_ids("ACD"), "ACD", strict=True)
    )
