"""Tests corpora of sequences: FASTA and lines, symbols, vocabularies, errors and warnings."""

import gzip
import json
import re

import numpy as np
import pytest

from discipline_jax import defaults
from discipline_jax.corpora.prepare import prepare
from discipline_jax.corpora.sequences import SequenceFiles, Symbols, overlap
from discipline_jax.corpora.source import Source, record
from discipline_jax.errors import UserError

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def config_for(path, **fields):
  config = defaults.pretrain()
  config.cache_dir = str(path.parent / "cache")
  config.corpus.update(path=str(path), length=(16,), validation=0.2)
  config.objective.kind = "mlm"
  with config.ignore_type():
    config.update_from_flattened_dict({"corpus.symbols": "characters"} | fields)
  return config


def read_sequences(path, symbols, lengths):
  return SequenceFiles.open([path], symbols, lengths).read(0)


def rows(prepared, part="train"):
  """Returns the tokens of the instances, sorted."""
  tokens = prepared.vocabulary.tokens
  ids = prepared.records(part, 16).first(1000)["ids"]
  return sorted([tokens[i] for i in row if tokens[i] != "[PAD]"] for row in ids)


@pytest.mark.parametrize(
  ("text", "symbols", "expected"),
  [
    ("ACGT", Symbols("characters"), [*"ACGT"]),
    (" A C  G\tT ", Symbols("characters"), [*"ACGT"]),
    ("ACG CGT GTA", Symbols("characters"), [*"ACGTA"]),
    ("ACGT TTGA", Symbols("characters"), [*"ACGTTTGA"]),
    ("acGt", Symbols("characters", case="upper"), [*"ACGT"]),
    ("acGt", Symbols("characters"), [*"acGt"]),
    ("ACGTA", Symbols("kmers", 3), ["ACG", "CGT", "GTA"]),
    ("ACG CGT GTA", Symbols("kmers", 3), ["ACG", "CGT", "GTA"]),
    ("ACG CGT GTA", Symbols("kmers", 4), ["ACGT", "CGTA"]),
    ("A C G T A", Symbols("kmers", 3), ["ACG", "CGT", "GTA"]),
    ("acgta", Symbols("kmers", 4, "upper"), ["ACGT", "CGTA"]),
    ("AC", Symbols("kmers", 3), []),
    ("c1 Cl  Br", Symbols("words"), ["c1", "Cl", "Br"]),
  ],
)
def test_symbols_of_a_line(text, symbols, expected):
  assert symbols.split(symbols.read(text)) == expected


@pytest.mark.parametrize(
  ("words", "k"),
  [
    ("ACG CGT GTA", 3),
    ("AC CG", 2),
    ("ACG CGT TTA", None),
    ("A C G", None),
    ("ACG", None),
    ("", None),
  ],
)
def test_overlapping_kmers_are_recognised(words, k):
  assert overlap(words.split()) == k


FASTA = ">one first record\nACGT\nACGG\n;a comment\n\n>two\nTTTTTTTT*\n>three\n>four\nCCAA\n"


@pytest.mark.parametrize("name", ["a.fa", "a.FASTA", "a.fna", "a.faa", "a.fasta.gz", "a.txt"])
def test_fasta(tmp_path, name):
  """Headers are not sequences, and lines are joined. In `a.txt` only the content shows what it is."""
  path = tmp_path / name
  text = FASTA if name != "a.txt" else f">zero\n{'ACGT' * 6}\n{FASTA}"
  (gzip.open if name.endswith("gz") else open)(path, "wb").write(text.encode())
  found = [one.paragraphs[0] for one in read_sequences(path, Symbols("characters"), (16,))]
  assert found[-3:] == ["ACGTACGG", "TTTTTTTT", "CCAA"]
  places = [one.place for one in read_sequences(path, Symbols("characters"), (16,))]
  if name == "a.fa":
    assert places == [f"{path}:{line}" for line in (1, 6, 9)]


def test_fasta_without_a_header(tmp_path):
  path = tmp_path / "a.fa"
  path.write_text("ACGT\n>one\nACGT\n")
  with pytest.raises(UserError, match=rf"{path}:1;"):
    list(read_sequences(path, Symbols("characters"), (16,)))


def test_gaps_of_dna_are_left_out_but_not_those_of_proteins(tmp_path):
  dna, protein = tmp_path / "a.fa", tmp_path / "b.fa"
  dna.write_text(f">a\nACGT{'N' * 30}GGNG\n>b\nACGT\n")
  protein.write_text(f">a\nMKLV{'N' * 30}WYFE\n>b\nMKLV\n")
  found = [
    [one.paragraphs[0] for one in read_sequences(path, Symbols("characters"), (16,))]
    for path in (dna, protein)
  ]
  assert found == [["ACGT", "GGNG", "ACGT"], [f"MKLV{'N' * 30}WYFE", "MKLV"]]


def test_long_sequences_are_cut_and_a_single_one_can_be_held_out_from(tmp_path):
  rng = np.random.default_rng(0)
  genome = "".join(rng.choice([*"ACGT"], 5000))
  path = tmp_path / "a.fa"
  path.write_text(f">one\n{genome}\n")
  found = [one.paragraphs[0] for one in read_sequences(path, Symbols("characters"), (16, 32))]
  assert "".join(found) == genome
  assert len(found) == 20
  path.write_text(f">one\n{genome}\n>two\nACGT\n")
  found = [one.paragraphs[0] for one in read_sequences(path, Symbols("characters"), (16, 32))]
  assert "".join(found) == genome + "ACGT"
  assert {len(one) for one in found[:-1]} == {1000}
  prepared = prepare(config_for(path, **{"corpus.length": (16, 32)}))
  assert prepared.description["statistics"]["tokens"] == 5004


def test_characters(tmp_path):
  path = tmp_path / "a.txt"
  path.write_text("ACGT\nGGTT\nA C G T C A\n\nTTAA\nCCGG\n")  # one sequence a line
  prepared = prepare(config_for(path))
  assert prepared.vocabulary.tokens == (*SPECIAL, *"ACGT")
  found = rows(prepared) + rows(prepared, "validation")
  assert sorted("".join(row[1:-1]) for row in found) == ["ACGT", "ACGTCA", "CCGG", "GGTT", "TTAA"]
  assert prepared.description["symbols"] == "characters"
  # transformers reads sequences with and without blanks
  from transformers import PreTrainedTokenizerFast

  tokenizer = PreTrainedTokenizerFast.from_pretrained(str(prepared.directory))
  assert tokenizer.tokenize("ACX") == tokenizer.tokenize("A C X") == ["A", "C", "[UNK]"]
  assert (tokenizer.pad_token, tokenizer.mask_token) == ("[PAD]", "[MASK]")


def test_rows_of_a_long_sequence_are_full(tmp_path):
  path = tmp_path / "a.txt"
  path.write_text("\n".join(["ACGGT" * 14, "TTACC" * 14, "GATCA" * 14]))
  prepared = prepare(config_for(path))
  assert [len(row) for row in rows(prepared)] == 10 * [16]


def test_kmers(tmp_path):
  path = tmp_path / "a.txt"
  path.write_text("ACGTA\nGGTTC\nTTAAG\nCCGGA\nAC\n")
  prepared = prepare(config_for(path, **{"corpus.symbols": "kmers", "corpus.k": 3}))
  expected = {s[i : i + 3] for s in ("ACGTA", "GGTTC", "TTAAG", "CCGGA") for i in range(3)}
  assert prepared.vocabulary.tokens == (*SPECIAL, *sorted(expected))
  assert ["[CLS]", "ACG", "CGT", "GTA", "[SEP]"] in rows(prepared) + rows(prepared, "validation")


def test_the_rarest_symbols_are_unknown_if_there_is_no_room(tmp_path):
  path = tmp_path / "a.txt"
  path.write_text("\n".join(["AC" * 10 + "G", "CA" * 10, "AACC" * 5, "ACAC"]))
  prepared = prepare(config_for(path, **{"model.config.vocab_size": 7}))
  assert prepared.vocabulary.tokens == (*SPECIAL, "A", "C")
  assert prepared.description["statistics"]["unknown"] == pytest.approx(1 / 65)


@pytest.fixture
def cased(tmp_path):
  """Returns a model of 3-mers whose tokenizer writes in lower case, as without tokenizer_config.json."""
  folder = tmp_path / "model"
  folder.mkdir()
  tokens = [*SPECIAL, *(a + b + c for a in "ATCG" for b in "ATCG" for c in "ATCG")]
  (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
  (folder / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": len(tokens)}))
  return folder, tuple(tokens)


def write_kmers(path, count=30):
  rng = np.random.default_rng(0)
  lines = []
  for _ in range(count):
    letters = "".join(rng.choice([*"ACGT"], 20))
    lines.append(" ".join(letters[i : i + 3] for i in range(18)))
  path.write_text("\n\n".join(lines))
  return path


def test_a_text_whose_case_the_tokenizer_changes(cased, tmp_path, caplog):
  folder, tokens = cased
  path = write_kmers(tmp_path / "a.txt")
  fields = {"corpus.vocabulary": str(folder), "corpus.symbols": None}
  with pytest.raises(UserError, match=rf"100% .*{path}:1.* {folder}.*symbols=words.*do_lower_case"):
    prepare(config_for(path, **fields))
  # the remedies
  prepared = prepare(config_for(path, **fields | {"corpus.symbols": "words"}))
  assert prepared.vocabulary.tokens == tokens
  assert prepared.description["statistics"]["unknown"] == 0
  assert "--config.masking.span=3" in caplog.text
  assert prepared.vocabulary.encode("ACG") == [tokens.index("ACG")]
  same = prepare(config_for(path, **fields | {"corpus.symbols": "kmers", "corpus.k": 3}))
  assert rows(same) == rows(prepared)
  (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
  assert prepare(config_for(path, **fields)).description["statistics"]["unknown"] == 0


@pytest.mark.parametrize(
  ("fields", "facts"),
  [
    ({"corpus.symbols": "kmers", "corpus.k": 4}, r"corpus\.k=3"),
    ({"corpus.symbols": "characters"}, r"corpus\.symbols=kmers .*corpus\.k=3"),
  ],
)
def test_symbols_that_a_vocabulary_does_not_have(cased, tmp_path, fields, facts):
  path = write_kmers(tmp_path / "a.txt")
  with pytest.raises(UserError, match=rf"100% .*{path}:1.*{cased[0]}.*{facts}"):
    prepare(config_for(path, **{"corpus.vocabulary": str(cased[0])} | fields))


def test_small_letters_that_a_vocabulary_does_not_have(tmp_path):
  path = tmp_path / "a.txt"
  path.write_text("ACGT\nGGTT\nTTAA\nCCGG\n")
  folder = prepare(config_for(path)).directory
  (folder / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": 9}))
  path.write_text(path.read_text().lower())
  fields = {"corpus.vocabulary": str(folder)}
  with pytest.raises(UserError, match=rf"100% .*{path}:1.*--config\.corpus\.case=upper"):
    prepare(config_for(path, **fields))
  assert prepare(config_for(path, **fields | {"corpus.case": "upper"}))


def test_both_cases_of_a_letter_are_said(tmp_path, caplog):
  path = tmp_path / "a.fa"
  path.write_text(">a\nACGTacgt\n>b\nGGttAA\n")
  prepare(config_for(path))
  assert "--config.corpus.case=upper" in caplog.text
  caplog.clear()
  assert prepare(config_for(path, **{"corpus.case": "upper"})).vocabulary.tokens[5:] == (*"ACGT",)
  assert "corpus.case" not in caplog.text


@pytest.mark.parametrize(
  ("text", "fields", "facts"),
  [
    ("ACGT\nGG", {"corpus.symbols": "letters"}, r"'letters' .*: characters, words, kmers$"),
    ("ACGT\nGG", {"corpus.symbols": "kmers"}, r"corpus\.k = None"),
    ("ACGT\nGG", {"corpus.symbols": "kmers", "corpus.k": 0}, r"corpus\.k = 0"),
    ("ACGT\nGG", {"corpus.k": 3}, r"'characters' with corpus\.k = 3"),
    ("ACGT\nGG", {"corpus.symbols": None, "corpus.k": 3}, r"corpus\.k = 3 "),
    ("ACGT\nGG", {"corpus.symbols": None, "corpus.case": "upper"}, r"corpus\.case = 'upper' "),
    ("ACGT\nGG", {"corpus.case": "lower"}, r"'lower' .*: as_is, upper$"),
    ("ACGT\nGG", {"corpus.name": "tfds"}, r"corpus\.name = 'tfds'"),
    ("AC\nGG\n", {"corpus.symbols": "kmers", "corpus.k": 3}, r"3-mer, .*a\.txt"),
    ("AAAA\nAAA\nAA\n", {}, "single type"),
    ("A\nC\n" * 30, {"objective.kind": "mlm_nsp"}, "two sentences.*objective.kind=mlm"),
    ("", {}, r"a\.txt"),
  ],
)
def test_mistakes(tmp_path, text, fields, facts):
  path = tmp_path / "a.txt"
  path.write_text(text)
  with pytest.raises(UserError, match=facts):
    prepare(config_for(path, **fields))


@pytest.mark.parametrize(
  ("text", "facts"),
  [
    ("@one\nACGT\n+\nFFFF\n@two\nACGG\n+\nFFFF\n", "FASTQ"),
    ("ACGT,0\nGGTA,1\n", "table, with ','"),
    ("ACGT\t0\n\nGGTA\t1\n", "table, with '.t'"),
    ("1 ACGT\n2 GGTA\n", "begin with numbers"),
    ("".join(f"{i}. ACGTACGT\n" for i in range(900)), "begin with numbers"),
  ],
)
def test_lines_that_are_no_sequences(tmp_path, text, facts):
  path = tmp_path / "a.txt"
  path.write_text(text)
  with pytest.raises(UserError, match=rf"{path} .*{facts}|lines of {path} {facts}"):
    list(read_sequences(path, Symbols("characters"), (16,)))


@pytest.mark.parametrize(
  ("text", "kind"),
  [("C1CC1\nN,N\n", "characters"), ("1 2\n3 4\n", "words"), ("1,2\n", "characters")],
)
def test_lines_that_look_like_tables_and_are_none(tmp_path, text, kind):
  (tmp_path / "a.txt").write_text(text)
  assert list(read_sequences(tmp_path / "a.txt", Symbols(kind), (16,)))


def test_both_thymine_and_uracil_are_said(tmp_path, caplog):
  path = tmp_path / "a.txt"
  path.write_text("ACGT\nACGU\n")
  prepare(config_for(path))
  assert "both T and U" in caplog.text


@pytest.mark.parametrize("line", ["//", "&gt;two"])
def test_lines_of_other_formats_in_fasta(tmp_path, line):
  path = tmp_path / "a.fa"
  path.write_text(f">one\nACGT\n{line}\nACGG\n")
  with pytest.raises(UserError, match=f"{line}.*{path}:3"):
    list(read_sequences(path, Symbols("characters"), (16,)))


def test_words_without_blanks(tmp_path):
  path = tmp_path / "a.txt"
  path.write_text("\n".join(["ACGT" * 8, "GGTT" * 9, "TTAC" * 7]))
  with pytest.raises(UserError, match=rf"{path}:1; .*symbols=characters"):
    prepare(config_for(path, **{"corpus.symbols": "words"}))


def test_carriage_returns(tmp_path):
  path = tmp_path / "a.fa"
  path.write_bytes(FASTA.replace("\n", "\r").encode())
  found = list(read_sequences(path, Symbols("characters"), (16,)))
  assert [one.paragraphs[0] for one in found] == ["ACGTACGG", "TTTTTTTT", "CCAA"]
  assert found[-1].place == f"{path}:9"


def test_no_room_for_most_symbols(tmp_path):
  path = write_kmers(tmp_path / "a.txt")
  fields = {"corpus.symbols": "kmers", "corpus.k": 3, "model.config.vocab_size": 20}
  with pytest.raises(UserError, match=rf"{path}:1\).*vocab_size"):
    prepare(config_for(path, **fields))


@pytest.mark.parametrize("name", ["a.fa", "a.txt"])
def test_fasta_is_no_text(tmp_path, name):
  path = tmp_path / name
  path.write_text(f">one record\n{'ACGT' * 20}\n>two\nACGT\n")
  config = config_for(path, **{"corpus.symbols": None, "model.config.vocab_size": 100})
  with pytest.raises(UserError, match=rf"{path}; .*corpus\.symbols=characters"):
    prepare(config)


def test_pairs_are_of_several_parts(tmp_path):
  """A sequence has several parts, so that a second segment can follow the first one."""
  rng = np.random.default_rng(0)
  path = tmp_path / "a.txt"
  path.write_text("\n".join("".join(rng.choice([*"ACGT"], 60)) for _ in range(40)))
  config = config_for(path)
  config.objective.kind = "mlm_nsp"
  labels = prepare(config).records("train", 16).first(1000)["label"]
  assert 0.3 < labels.mean() < 0.8


def test_names_and_records(tmp_path):
  path = tmp_path / "a.txt"
  path.write_text("ACGT\nGGTT\n")
  configs = [
    config_for(path),
    config_for(path, **{"corpus.case": "upper"}),
    config_for(path, **{"corpus.symbols": "words"}),
    config_for(path, **{"corpus.symbols": "kmers", "corpus.k": 2}),
    config_for(path, **{"corpus.symbols": "kmers", "corpus.k": 3}),
  ]
  assert len({Source(config).key([]) for config in configs}) == len(configs)
  assert record(configs[-1]) == {
    "corpus": "text",
    "symbols": "kmers",
    "k": 3,
    "case": "as_is",
    "text": False,
  }
  prepared = prepare(configs[0])
  config = config_for(path, **{"corpus.symbols": "words"})
  config.corpus.path = str(prepared.directory)
  with pytest.raises(UserError, match=f"symbols 'characters'.* 'words', {prepared.directory}"):
    prepare(config)


def test_a_text_of_another_script(tmp_path):
  from tests.corpora.test_source import prepare_vocabulary

  path = tmp_path / "a.txt"
  path.write_text("One ಕನ್ನಡ two ಭಾಷೆ three.\n\n" * 8)
  folder = prepare_vocabulary(tmp_path)
  fields = {"corpus.symbols": None, "corpus.vocabulary": str(folder)}
  with pytest.raises(UserError, match=rf"% .*{path}:1.*{folder} has no .*vocab_size"):
    prepare(config_for(path, **fields))
  # the remedy
  prepare(config_for(path, **fields | {"corpus.vocabulary": None, "model.config.vocab_size": 130}))


def test_words_that_are_too_long(tmp_path):
  """A few such words are few tokens, but most of the letters."""
  rng = np.random.default_rng(0)
  path = tmp_path / "a.txt"
  path.write_text(
    "\n\n".join(
      f"This is sequence number {i}: {''.join(rng.choice([*'acgt'], 150))}" for i in range(40)
    )
  )
  fields = {"corpus.symbols": None, "model.config.vocab_size": 300}
  with pytest.raises(UserError, match=rf"\d% .*{path}:1.* 100 letters.*symbols=characters"):
    prepare(config_for(path, **fields))


def test_a_text_that_repeats_itself_is_said(tmp_path, caplog):
  path = tmp_path / "a.txt"
  fields = {"corpus.symbols": None, "model.config.vocab_size": 150}
  rng = np.random.default_rng(0)
  texts = [" ".join(rng.choice([*"abcdefghij"], 30)) + "." for _ in range(300)]
  path.write_text("\n\n".join(texts))
  statistics = prepare(config_for(path, **fields)).description["statistics"]
  assert statistics["repeated"] == 0
  assert statistics["copies"][0] == 0
  assert "repeat" not in caplog.text
  path.write_text("\n\n".join([*texts, "a b.", "b c.", *texts]))  # a file twice
  copies, held_out = prepare(config_for(path, **fields)).description["statistics"]["copies"]
  assert 0.9 * held_out < copies <= held_out
  assert f"{copies} of {held_out} held-out documents" in caplog.text
  path.write_text("\n\n".join(texts[:30] * 10))
  statistics = prepare(config_for(path, **fields)).description["statistics"]
  assert statistics["repeated"] == pytest.approx(0.9)
  assert re.search(r"\b90% ", caplog.text)
  caplog.clear()
  path.write_text("\n\n".join("abcde" * 20 for _ in range(2)) + "\n" + "ACGTTGCA" * 1000)
  prepare(config_for(path))
  assert "repeats itself" in caplog.text
