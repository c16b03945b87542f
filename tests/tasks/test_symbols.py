"""Tests how sequences are split into symbols, and how unexpected spellings are found."""

import collections

import pytest
from ml_collections import ConfigDict

from discipline_jax import defaults
from discipline_jax.errors import UserError
from discipline_jax.letters import both_cases
from discipline_jax.models.tokenizer import make_vocabulary
from discipline_jax.tasks.answers import Class
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.features import featurise
from discipline_jax.tasks.readers.rows import Column
from discipline_jax.tasks.symbols import (
  Spelling,
  check_known,
  joined_words,
  letters_with_blanks,
  split_atoms,
)
from discipline_jax.tasks.unlabelled import read_unlabelled
from tests.tasks.own_tables import read, written


@pytest.mark.parametrize(
  ("spelling", "sequence", "symbols"),
  [
    (Spelling("kmers"), "ACGT", ["ACG", "CGT"]),
    (Spelling("kmers", k=1), "ACA", ["A", "C", "A"]),
    (Spelling("kmers", k=4), "AC\nGT\n", ["ACGT"]),
    (Spelling("kmers", k=2, case="upper"), "aCg", ["AC", "CG"]),
    (Spelling("kmers", k=2, has_blanks=True), "A C GT", ["AC", "CG", "GT"]),
    (Spelling("kmers", k=2), ["A", "C", "G"], ["AC", "CG"]),
    (Spelling("kmers", k=2), ["AC", "CG"], ["AC", "CG"]),
    (Spelling("kmers", k=2), "['A', 'C', 'G']", ["AC", "CG"]),
    (Spelling("characters", case="upper"), "acGß", "ACGß"),
    (Spelling("characters"), "A\r\nC\n", "AC"),
    (Spelling("characters", has_blanks=True), " A CG T ", "ACGT"),
    (Spelling("words", case="upper"), "the Cat", ["THE", "CAT"]),
    (Spelling("integers"), "[60, 62]", ["60", "62"]),
    (Spelling("integers"), "[60 -62\n 64]", ["60", "-62", "64"]),
    (Spelling("integers"), "[60. 62.]", ["60", "62"]),
    (Spelling("integers"), "(60, 62.0)", ["60", "62"]),
    (Spelling("characters"), "[60, 62]", ["60", "62"]),
    (Spelling("characters"), "[60 62]", ["60", "62"]),
    (Spelling("words"), "['A', \"C d\"]", ["A", "C d"]),
    (Spelling("characters"), '["A", "C"]', ["A", "C"]),
    (Spelling("characters"), "[2H]O[2H]", "[2H]O[2H]"),  # heavy water
    (Spelling("characters"), "[Na+].[Cl-]", "[Na+].[Cl-]"),
    (Spelling("characters"), "[13C]", "[13C]"),
    (Spelling("smiles"), "C[C@H](Cl)Brc1%12[Na+]\n", ["C", "[C@H]", "(", "Cl", ")", "Br", *"c1", "%12", "[Na+]"]),
    (Spelling("smiles"), "[13C]#N.O=C", ["[13C]", *"#N.O=C"]),
    (Spelling("smiles"), "['Cl', '[2H]']", ["Cl", "[2H]"]),
    (Spelling("smiles"), "Cn1cSc2ccF", [*"Cn1cSc2ccF"]),  # Sc is scandium in brackets only
    (Spelling("words"), "[a] b]", ["[a]", "b]"]),
    (Spelling("characters"), "NA", "NA"),  # a peptide
    (Spelling("words"), "null", ["null"]),
  ],
)  # fmt: skip
def test_split(spelling, sequence, symbols):
  assert spelling.split(sequence, "a.csv:3") == symbols


@pytest.mark.parametrize(
  ("spelling", "sequence", "facts"),
  [
    (Spelling("kmers"), "AC", ["2", "task.k = 3"]),
    (Spelling("kmers"), ["ACG", "AC"], ["'AC'", "task.k = 3"]),
    (Spelling("kmers"), "ACG CGT", ["' '", "task.symbols=words"]),
    (Spelling("kmers"), "", ["empty"]),
    (Spelling("characters"), " nan ", ["'nan'"]),
    (Spelling("kmers"), "#N/A", ["'#N/A'"]),
    (Spelling("smiles"), "C[NH3+", ["'C[NH3+'", "bracket"]),
    (Spelling("smiles"), "C[]C]", ["bracket"]),
    (Spelling("smiles"), "CCO ethanol", ["' '", "column"]),
    (Spelling("smiles"), "nan", ["'nan'"]),
    (Spelling("characters"), "60 62", ["' '", "words (or integers)"]),
    (Spelling("words"), "['A' 'C']", ["commas"]),
    (Spelling("integers"), "[60, x]", ["'[60, x]'", "commas"]),
    (Spelling("integers"), "[60, None]", ["'None'"]),
    (Spelling("integers"), "[[60, 62], [1]]", ["'[60, 62]'"]),
    (Spelling("integers"), "[]", ["empty"]),
    (Spelling("integers"), "[60.5, 62]", ["'60.5'", "task.symbols=words"]),
  ],
)  # fmt: skip
def test_what_is_no_sequence(spelling, sequence, facts):
  with pytest.raises(UserError, match="a.csv:3;") as raised:
    spelling.split(sequence, "a.csv:3")
  assert "\n" not in str(raised.value)
  for fact in facts:
    assert fact in str(raised.value)


def test_kmers_of_a_table(tmp_path):
  path = written(tmp_path, "sequence,label\nACGT,0\nCGTT,1\n")
  task = read(path, symbols="kmers", k=3)
  assert task.alphabet.symbols == ("ACG", "CGT", "GTT")
  vocabulary = make_vocabulary(
    ["GTT", "ACG", "CGT"], 9
  )  # as a model of 3-mers has them, in its own order
  features = featurise(task, vocabulary, 20)
  assert features.symbols.tolist() == [[1, 3, 4, 2], [1, 4, 5, 2]]
  assert features.symbol_ids.tolist() == [0, 2, 3, 6, 7, 5, 1]
  with pytest.raises(UserError, match=f"'T'.*task.alphabet, {path}:2;"):
    read(path, alphabet="ACG", symbols="kmers")
  assert read(path, alphabet="ACGTN", symbols="kmers").alphabet == task.alphabet


@pytest.mark.parametrize(
  "changes",
  [
    {"k": 0, "symbols": "kmers"},
    {"case": "lower"},
    {"case": "upper", "symbols": "smiles"},
    {"label_column": "sequence"},
  ],
)
def test_wrong_fields(changes, tmp_path):
  path = written(tmp_path, "sequence,label\nACGT,0\nCGTT,1\n")
  (name, value), *_ = changes.items()
  with pytest.raises(UserError, match=f"task.{name} = {value!r}"):
    read(path, **changes)


class TestBlanks:
  def test_letters_with_blanks_of_which_some_are_missing(self, tmp_path, caplog):
    path = written(tmp_path, "sequence,label\nM K V,0\nM KV L,1\nMK,1\n")
    task = read(path)
    assert task.alphabet.symbols == ("K", "L", "M", "V")
    assert [one.sequence for one in task.read()["all"]] == ["MKV", "MKVL", "MK"]
    assert f"{path}; some are missing, as in KV" in caplog.text
    assert read(path, symbols="kmers", k=2).alphabet.symbols == ("KV", "MK", "VL")

  def test_the_words_of_such_a_table_are_said(self, tmp_path, caplog):
    path = written(tmp_path, "sequence,label\nM K V M L K,0\nM KV L K L M,1\n")
    assert read(path, symbols="words").alphabet.symbols == ("K", "KV", "L", "M", "V")
    assert "1 of 5 symbols" in caplog.text
    assert "task.symbols=characters" in caplog.text

  def test_which_words_are_several(self):
    assert joined_words(collections.Counter([*"ACGTACGT", "AC"])) == ["AC"]
    assert joined_words({"ACG": 4, "CGT": 2, "GTA": 1, "ACGCGT": 1}) == ["ACGCGT"]
    assert joined_words({"A": 90, "C": 5, "mask": 5}) == [], "not made of others"
    assert joined_words({"1": 90, "2": 5, "12": 5}) == [], "a number"
    assert joined_words({"a": 5, "to": 5, "ato": 1, "aa": 1}) == [], "words have many lengths"

  def test_which_blanks_are_between_letters(self):
    assert letters_with_blanks(["A C", "ACGT", ["A C"], None]) == (True, [])
    assert letters_with_blanks(["AC GT", "A C"]) == (False, ["AC", "GT"])
    assert letters_with_blanks(["ACGT", " AC\n"]) == (False, [])


class TestCase:
  def test_upper(self, tmp_path):
    path = written(tmp_path, "sequence,label\nAcgT,0\naCC,1\n")
    assert read(path).alphabet.symbols == ("A", "C", "T", "a", "c", "g")
    task = read(path, case="upper", alphabet="acgt")
    assert task.alphabet.symbols == ("A", "C", "G", "T")
    assert [one.sequence for one in task.read()["all"]] == ["ACGT", "ACC"]

  def test_soft_masked_letters_are_said(self, tmp_path, caplog):
    path = written(tmp_path, ">a 0\nACgt\n>b 1\nGTac\n", "a.fa")
    read(path)
    assert "task.case=upper" in caplog.text
    caplog.clear()
    read(path, case="upper")
    assert "task.case" not in caplog.text

  @pytest.mark.parametrize(
    ("rows", "is_said"),
    [("ACGT,0\nACGU,1\n", True), ("ACGT,0\nACGA,1\n", False), ("MTUL,0\nMKTA,1\n", False)],
  )
  def test_both_thymine_and_uracil_are_said(self, rows, is_said, tmp_path, caplog):
    read(written(tmp_path, f"sequence,label\n{rows}"))
    assert ("T and U" in caplog.text) == is_said

  def test_sequences_that_may_be_missing_are_said(self, tmp_path, caplog):
    read(written(tmp_path, "sequence,label\nACGT,0\nNA,1\nNA,0\n"))
    assert "2 sequences are 'NA'" in caplog.text
    assert "a.csv:3" in caplog.text

  def test_letters_that_look_like_others_are_said(self, tmp_path, caplog):
    """A warning names a Cyrillic A and a full-width C, but not the letters of a table without ASCII letters."""
    read(written(tmp_path, "sequence,label\nACGT,0\n\u0410\uff23GT,1\n"))
    assert (
      "'\u0410' (cyrillic capital letter a), '\uff23' (fullwidth latin capital letter c)"
      in caplog.text
    )
    caplog.clear()
    read(written(tmp_path, "sequence,label\n\u0410\u0411,0\n\u0411\u0410,1\n"))
    assert "ASCII" not in caplog.text

  def test_which_letters_have_both_cases(self):
    assert both_cases("ACGTacgt") == ["a", "c", "g", "t"]
    assert both_cases("ACGTN-n*") == ["n"]
    assert both_cases(["ACg", "GCA"]) == ["g"]
    assert both_cases("ACGT") == []
    assert both_cases("acgt") == []
    assert both_cases("CcNn(=O)") == [], "aromatic atoms of SMILES"
    assert both_cases("CcNnOl") == [], "l is always lower case"

  @pytest.mark.parametrize(
    ("trained", "others", "facts"),
    [
      ("ACGT", "acgt", ["4 of 4", "task.case=upper"]),
      ("acgt", "ACGT", ["4 of 4", "task.case=upper"]),
      ("ACGT", "1234", ["4 of 4", "task.symbols"]),
      ("ACGT", "ACxyz", ["3 of 5", "task.symbols"]),
    ],
  )
  def test_a_part_of_other_symbols(self, trained, others, facts, tmp_path):
    rows = f"{trained},0,train\n{trained},1,train\n{trained},1,test\n{others},1,dev\n"
    path = written(tmp_path, f"sequence,label,part\n{rows}")
    with pytest.raises(UserError, match=f"{path}:5;") as raised:
      read(path, splits="part")
    for fact in facts:
      assert fact in str(raised.value)
    if "task.case=upper" in facts:
      assert read(path, splits="part", case="upper").alphabet.symbols == ("A", "C", "G", "T")

  def test_half_of_the_symbols_may_be_unknown(self, caplog):
    remedies = {"upper": "U", "lower": "L", "mixed": "M", "other": "O"}
    check_known([("a:1", "ACxy"), ("a:2", "AC")], {"A", "C"}, remedies)
    assert not caplog.messages, "another count tells of them"
    check_known([("a:1", "AC"), ("a:2", "Ac")], {"A", "C"}, remedies)
    (message,) = caplog.messages
    assert message.startswith("1 of 4 ")
    assert "a:2; " in message
    assert message.endswith(" U")
    with pytest.raises(UserError, match="3 of 5 .*a:2; O"):
      check_known([("a:1", "AC"), ("a:2", "xyz")], {"A", "C"}, remedies)
    for own, remedy in {("a", "x", "c"): "U", ("Bb", "x"): "O", ("THE", "CAT"): "M"}.items():
      with pytest.raises(UserError, match=f"a:1; .*{remedy}$"):
        check_known([("a:1", own)], {"A", "C", "The", "Cat"}, remedies)
    with pytest.raises(UserError, match="a:1; .*L$"):
      check_known([("a:1", ["THE"])], {"the"}, remedies)

  def test_symbols_that_the_model_has_in_upper_case(self, tmp_path, caplog):
    """The model knows A C G T; the table has them in lower case."""
    vocabulary = make_vocabulary([*"ACGT", "x", "y", "z", "w"], 13)
    path = written(tmp_path, "sequence,label\nacgt,0\nac,1\n")
    featurise(read(path), vocabulary, 20)
    assert "task.case=upper" in caplog.text
    caplog.clear()
    assert featurise(read(path, case="upper"), vocabulary, 20).symbol_ids.tolist()[3:7] == [5, 6, 7, 8]  # fmt: skip
    featurise(read(written(tmp_path, "sequence,label\nQR,0\nAC,1\n")), vocabulary, 20)
    assert "task.case" not in caplog.text


def test_atoms_of_two_letters_are_said(tmp_path, caplog):
  path = written(tmp_path, "sequence,label\nCCl(=O),0\nBrC,1\nc1ccccc1,0\n")
  read(path)
  assert "(Cl, Br)" in caplog.text
  assert split_atoms(collections.Counter("CCl"), ["CCl"]) == [], "no sign of SMILES"
  assert split_atoms(collections.Counter("Cl=l"), ["Cl=l"]) == [], "an l of its own"


class TestUnlabelled:
  """Tables to predict are read as the training table was."""

  def read(self, path, task, trained, keep=(), **options):
    config = defaults.finetune().task
    config.update(options)
    described = ConfigDict({**defaults.finetune().task.to_dict(), **trained})
    return read_unlabelled(path, task, config, trained=described, pairs=False, keep=keep)

  def test_blanks_between_the_names_of_two_columns(self, tmp_path):
    task = Task("texts", None, Class(("x", "y")), 20, read=dict, pairs=True)
    path = written(tmp_path, "b,a\nsecond one,first one\n")
    config = defaults.finetune().task
    config.sequence_column = "a, b"
    *_, (example,) = read_unlabelled(path, task, config, trained=None, pairs=True)
    assert (example.sequence, example.second) == ("first one", "second one")

  def test_kmers_and_case(self, tmp_path):
    fields = {"symbols": "kmers", "k": 2, "case": "upper"}
    task = read(written(tmp_path, "sequence,label\nacgt,0\nCGTT,1\n"), **fields)
    assert task.alphabet.symbols == ("AC", "CG", "GT", "TT")
    new = written(tmp_path, "id;sequence\nx;acg\ny;T T\n", "new.csv")
    rows, symbols, examples = self.read(
      new, task, fields, keep=[Column("id", "predict.keep_columns")]
    )
    assert [row.extra for row in rows] == [("x",), ("y",)]
    assert [[*own] for own in symbols] == [["AC", "CG"], ["TT"]]
    assert [one.sequence.tolist() for one in examples] == [[0, 1], [3]]

  def test_lower_case(self, tmp_path):
    task = read(written(tmp_path, "sequence,label\nACGT,0\nCGTT,1\n"))
    new = written(tmp_path, "sequence\nACGTACGT\nacg\n", "new.csv")
    rows, *_ = self.read(new, task, {})
    assert len(rows) == 2
    new = written(tmp_path, "sequence\nA\nacg\n", "new.csv")
    with pytest.raises(UserError, match=f"3 of 4 .*{new}:3; .*task.case=upper"):
      self.read(new, task, {})
    *_, examples = self.read(new, task, {}, case="upper")
    assert [one.sequence for one in examples] == ["A", "ACG"]

  def test_rows_of_unknown_symbols_are_said(self, tmp_path, caplog):
    task = read(written(tmp_path, "sequence,label\nACGT,0\nCGTT,1\n"))
    new = written(tmp_path, "sequence\nACGTACGT\nacg\nAC\n", "new.csv")
    self.read(new, task, {})
    assert (
      f"1 rows do not occur in training, so their predictions say nothing; the first is {new}:3"
      in (caplog.text)
    )
    assert f"no symbol 'a', 'c', 'g', first at {new}:3" in caplog.text
