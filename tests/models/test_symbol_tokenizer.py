"""Tests that tokenizers of symbols split texts as tasks do, in the library's own steps."""

import random

import pytest
from tokenizers import Tokenizer

from discipline_jax.models.symbol_tokenizer import lift_limit, symbol_tokenizer, tokenizer_files
from discipline_jax.models.tokenizer import load_vocabulary
from discipline_jax.tasks.symbols import Spelling

SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}


def make(symbols, kind, *, k=3, is_upper=False, aliases=None, length=1000, add_special=True):
  ids = {name: 2 * i for i, name in enumerate([*SPECIAL.values(), *symbols])}
  return symbol_tokenizer(
    ids,
    SPECIAL,
    2 * len(ids),
    kind=kind,
    k=k,
    is_upper=is_upper,
    aliases=aliases or {},
    max_length=length,
    add_special_tokens=add_special,
  )


# Letters that mean something in regular expressions, letters of several bytes, and a mark that joins the one before.
LETTERS = [*"aAbZ0^]-[\\.&:éß日", "\u0301", "\U0001d538"]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_kmers(k):
  """A text has its overlapping k-mers, whatever its letters are; k-mers that are not known are unknown tokens."""
  draw = random.Random(k)
  texts = ["".join(draw.choices(LETTERS, k=draw.randint(k, 30))) for _ in range(40)]
  spelling = Spelling("kmers", k)
  known = sorted({kmer for text in texts[:30] for kmer in spelling.split(text, "")})
  tokenizer = make(known, "kmers", k=k)
  for text in texts:
    expected = [one if one in known else "[UNK]" for one in spelling.split(text, "")]
    assert tokenizer.encode(text).tokens == ["[CLS]", *expected, "[SEP]"]
    assert tokenizer.encode(" ".join(text)).ids == tokenizer.encode(text).ids
  assert tokenizer.encode(texts[0][: k - 1]).tokens == ["[CLS]", "[SEP]"]


def test_upper_case_is_that_of_ascii():
  tokenizer = make("ABSß", "characters", is_upper=True)
  assert tokenizer.encode("aBßsé").tokens[1:-1] == ["A", "B", "ß", "S", "[UNK]"]


def test_aliases():
  tokenizer = make("AT", "characters", is_upper=True, aliases={"U": "T"})
  assert tokenizer.encode("uaT").tokens[1:-1] == ["T", "A", "T"]


@pytest.mark.parametrize(
  ("kind", "text", "expected"),
  [
    ("characters", "[CLS]", ["[", "C", "L", "S", "]"]),
    ("characters", "A [PAD]", ["A", "[", "P", "A", "[UNK]", "]"]),
    ("words", "[MASK] [CLS][SEP] A", ["[UNK]", "[UNK]", "A"]),
    ("words", "A [unused row 1] [PAD]", ["A", "[UNK]", "[UNK]", "[UNK]", "[UNK]"]),
    ("kmers", "A[PAD]", ["[UNK]", "[UNK]"]),
    ("smiles", "A[PAD]C", ["A", "[UNK]", "C"]),
  ],
)
def test_no_text_gives_a_special_token(kind, text, expected):
  symbols = ["AAAAA"] if kind == "kmers" else [*"[]CLSPA"]
  assert make(symbols, kind, k=5).encode(text).tokens[1:-1] == expected


@pytest.mark.parametrize(
  ("kind", "texts", "kept"),
  [
    ("characters", ["ABABABAB", " A B A BABAB"], "A B A"),
    ("words", ["AB A A AB", "  AB\tA\xa0A\nAB"], "AB A A"),
    ("integers", ["1,02 ,+3 4", "[1, 2, 3, 4]"], "1 2 3"),
    ("kmers", ["ABABABAB"], "AB BA AB"),
    ("smiles", ["BrCl[1+]Cl", "BrCl[1+]4[Br]Cl"], "Br Cl [1+]"),
  ],
)
@pytest.mark.parametrize("add_special", [True, False])
def test_a_long_sequence_is_cut_unless_the_limit_is_lifted(
  kind, texts, kept, add_special, tmp_path
):
  symbols = ["A", "B", "AB", "BA", "1", "2", "3", "4"]
  if kind == "kmers":
    symbols = ["AB", "BA"]
  elif kind == "smiles":
    symbols = ["Br", "Cl", "[1+]", "4"]
  length = 5 if add_special else 3
  tokenizer = make(symbols, kind, k=2, length=length, add_special=add_special)
  around = ["[CLS]", "[SEP]"][: 2 * add_special]
  expected = [*around[:1], *kept.split(), *around[1:]]
  for text in texts:
    assert tokenizer.encode(text).tokens == expected
  files = tokenizer_files(tokenizer, SPECIAL, max_length=length, has_segments=True)
  for name, content in files.items():
    (tmp_path / name).write_text(content, encoding="utf-8")
  # A model that is trained further may take longer sequences.
  whole = load_vocabulary(tmp_path).tokenizer.encode(texts[0]).tokens
  assert len(whole) > length
  assert whole[: length - add_special] == expected[: length - add_special]


def test_other_tokenizers_have_no_limit_to_lift(tmp_path):
  from tests.testdata.small_files import write_model

  write_model(tmp_path)
  tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
  before = tokenizer.to_str()
  lift_limit(tokenizer)
  assert tokenizer.to_str() == before
