"""Tests splits and arrays of features against values computed by hand."""

import json

import numpy as np
import pytest
import tokenizers

from discipline_jax.errors import UserError
from discipline_jax.models.tokenizer import Vocabulary, load_vocabulary, make_vocabulary
from discipline_jax.tasks.answers import Class, Value
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.examples import Alphabet, Example
from discipline_jax.tasks.features import featurise
from discipline_jax.tasks.splits import equally_long, make_split

ALPHABET = Alphabet(tuple("ACGT"), {"U": "T"})
# [PAD] [UNK] [CLS] [SEP] [MASK] A C G T and three unused rows
VOCABULARY = make_vocabulary("ACGT", 12)
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "cat", "##s", "runs", ".")


def task(parts: dict[str, list[Example]] | list[Example], alphabet=ALPHABET, **changes) -> Task:
  """Returns a task of two classes."""
  parts = {"all": parts} if isinstance(parts, list) else parts
  fields = {"answer": Class(("no", "yes")), "max_length": 20, **changes}
  return Task("made", alphabet, read=lambda: parts, **fields)


class TestDrawnParts:
  def test_they_are_90_5_5_and_lose_nothing(self):
    split = make_split({"all": 3190}, seed=7)
    assert {name: len(part) for name, part in split.items()} == {
      "train": 2870,
      "validation": 160,
      "test": 160,
    }
    np.testing.assert_array_equal(np.sort(np.concatenate(list(split.values()))), np.arange(3190))

  def test_they_depend_on_the_seed_alone(self):
    drawn = [make_split({"all": 100}, seed)["train"] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])

  def test_train_fraction_is_the_first_part_and_leaves_the_rest_alone(self):
    whole, part = make_split({"all": 1000}, 3), make_split({"all": 1000}, 3, train_fraction=0.01)
    np.testing.assert_array_equal(part["train"], whole["train"][:9])
    np.testing.assert_array_equal(part["test"], whole["test"])
    assert len(make_split({"all": 1000}, 3, train_fraction=1e-9)["train"]) == 1

  @pytest.mark.parametrize("fraction", [0, -0.5, 1.01, float("nan")])
  def test_train_fraction_out_of_range(self, fraction):
    with pytest.raises(UserError, match=r"task.train_fraction = .* is not in \(0, 1\]"):
      make_split({"all": 100}, 0, fraction)

  def test_too_few_samples(self):
    with pytest.raises(UserError, match="10 samples cannot be split 90/5/5"):
      make_split({"all": 10}, 0)


class TestStratifiedParts:
  """Every part has each class in its share of all samples, right to within one sample."""

  @pytest.mark.parametrize(
    "counts",
    [
      [500, 500],
      [970, 29, 1],
      [2, 1, 2, 1, 500],
      [7, 4],  # the fewest that can be split
      [15, 14],
      [1] * 37,
      [203, 101, 53, 21, 17, 3],
    ],
  )
  def test_shares(self, counts):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    held_out = round(len(labels) * 0.05)
    sizes = {"train": len(labels) - 2 * held_out, "validation": held_out, "test": held_out}
    for seed in range(50):
      split = make_split({"all": len(labels)}, seed, strata=labels)
      assert {name: len(part) for name, part in split.items()} == sizes, "replicas must stack"
      np.testing.assert_array_equal(
        np.sort(np.concatenate(list(split.values()))), np.arange(len(labels))
      )
      for part in split.values():
        own = np.bincount(labels[part], minlength=len(counts))
        assert (np.abs(own - np.array(counts) * len(part) / len(labels)) < 1).all()

  def test_a_class_of_two_is_never_all_held_out(self):
    labels = np.repeat([0, 1, 2], [30, 2, 30])
    for seed in range(200):
      assert 1 in labels[make_split({"all": 62}, seed, strata=labels)["train"]]

  def test_every_sample_is_as_likely_in_each_part(self):
    """This holds for the first and the last samples in the order of the labels, too."""
    labels = np.arange(22) / 7
    hits = np.zeros((2, 22))
    for seed in range(2200):
      split = make_split({"all": 22}, seed, strata=labels)
      hits[0, split["validation"]] += 1
      hits[1, split["test"]] += 1
    # 100 on average; six standard deviations to each side
    assert hits.min() > 40
    assert hits.max() < 160

  def test_values_are_spread_over_their_range(self):
    values = np.random.default_rng(0).normal(size=1000)
    rank = np.argsort(np.argsort(values))
    for seed in range(20):
      split = make_split({"all": 1000}, seed, strata=values)
      for name in ("validation", "test"):
        # one of each 20 in their order, so that of any 100 there are 4 to 6
        hundreds = np.bincount(rank[split[name]] // 100, minlength=10)
        assert hundreds.min() >= 4
        assert hundreds.max() <= 6

  def test_they_depend_on_the_seed_alone(self):
    labels = np.arange(100) % 3
    drawn = [make_split({"all": 100}, seed, strata=labels) for seed in (1, 1, 2)]
    for part in ("train", "validation", "test"):
      np.testing.assert_array_equal(drawn[0][part], drawn[1][part])
      assert set(drawn[0][part]) != set(drawn[2][part])

  def test_they_are_shuffled(self):
    """eval.max_examples and train_fraction take the first ones."""
    labels = np.repeat([0, 1], 500)
    split = make_split({"all": 1000}, 0, strata=labels)
    for part in split.values():
      assert set(labels[part[:12]]) == {0, 1}
    tenth = make_split({"all": 1000}, 0, train_fraction=0.1, strata=labels)
    np.testing.assert_array_equal(tenth["train"], split["train"][:90])
    np.testing.assert_array_equal(tenth["test"], split["test"])

  def test_too_few_samples(self):
    with pytest.raises(UserError, match="10 samples cannot be split 90/5/5"):
      make_split({"all": 10}, 0, strata=np.arange(10))

  def test_a_class_of_one_sample_stays_in_training(self):
    labels = np.repeat([0, 1, 2], [40, 1, 40])
    for seed in range(200):
      split = make_split({"all": 81}, seed, strata=labels, classes=labels)
      assert 40 in split["train"]
      assert {name: len(part) for name, part in split.items()} == {
        "train": 73,
        "validation": 4,
        "test": 4,
      }
      assert sorted(np.concatenate(list(split.values()))) == list(range(81))

  def test_classes_change_no_split_that_has_all_of_them_in_training(self):
    labels = np.arange(100) % 3
    for seed in range(20):
      plain = make_split({"all": 100}, seed, strata=labels)
      kept = make_split({"all": 100}, seed, strata=labels, classes=labels)
      for name, part in plain.items():
        np.testing.assert_array_equal(part, kept[name])

  def test_given_parts_stay_as_they_are(self):
    parts = {"train": 5, "validation": 3}
    free, stratified = make_split(parts, 1), make_split(parts, 1, strata=np.arange(8) % 2)
    for part in ("train", "validation", "test"):
      np.testing.assert_array_equal(free[part], stratified[part])


class TestGivenParts:
  def test_they_stay_as_they_are_and_training_is_shuffled(self):
    split = make_split({"train": 50, "validation": 3, "test": 2}, seed=1)
    assert list(split) == ["train", "validation", "test"]
    np.testing.assert_array_equal(np.sort(split["train"]), np.arange(50))
    assert not np.array_equal(split["train"], np.arange(50))
    np.testing.assert_array_equal(split["validation"], [50, 51, 52])
    np.testing.assert_array_equal(split["test"], [53, 54])

  def test_the_validation_part_is_the_test_where_there_is_no_other(self):
    split = make_split({"train": 5, "validation": 3, "test_mismatched": 2}, seed=1)
    np.testing.assert_array_equal(split["validation"], [5, 6, 7])
    np.testing.assert_array_equal(split["test"], [5, 6, 7])
    np.testing.assert_array_equal(split["test_mismatched"], [8, 9])

  def test_train_fraction_is_rounded_up_and_leaves_the_rest_alone(self):
    parts = {"train": 55, "validation": 3}
    whole, tenth = make_split(parts, 2), make_split(parts, 2, train_fraction=0.1)
    np.testing.assert_array_equal(tenth["train"], whole["train"][:6])
    np.testing.assert_array_equal(tenth["validation"], [55, 56, 57])

  def test_only_the_order_of_training_depends_on_the_seed(self):
    first, second = (make_split({"train": 50, "validation": 3}, seed) for seed in (1, 2))
    assert not np.array_equal(first["train"], second["train"])
    np.testing.assert_array_equal(first["validation"], second["validation"])


class TestSymbols:
  def test_by_hand(self):
    features = featurise(
      task({"train": [Example("ACGU", 1)], "validation": [Example("T", 0), Example("CC", 1)]}),
      VOCABULARY,
      max_length=9,
    )
    np.testing.assert_array_equal(
      features.symbols, [[1, 3, 4, 5, 6, 2], [1, 6, 2, 0, 0, 0], [1, 4, 4, 2, 0, 0]]
    )
    np.testing.assert_array_equal(features.lengths, [6, 3, 4])
    np.testing.assert_array_equal(features.targets["labels"], [1, 0, 1])
    np.testing.assert_array_equal(features.groups, [0, 1, 2])
    np.testing.assert_array_equal(features.symbol_ids, [0, 2, 3, 5, 6, 7, 8])
    assert features.segments is None
    assert features.parts == {"train": 1, "validation": 2}
    assert (features.symbols.dtype, features.targets["labels"].dtype) == (np.uint8, np.int32)

  def test_long_sequences_are_cut_counted_and_said(self, caplog):
    features = featurise(
      task([Example("ACGTACGT", 0), Example("AC", 0), Example("ACG", 0)]), VOCABULARY, max_length=5
    )
    np.testing.assert_array_equal(
      features.symbols, [[1, 3, 4, 5, 2], [1, 3, 4, 2, 0], [1, 3, 4, 5, 2]]
    )
    np.testing.assert_array_equal(features.lengths, [5, 4, 5])
    assert "1 of 3 sequences are longer than task.max_length = 5 tokens and were cut" in caplog.text

  def test_values_to_predict_are_floats(self):
    features = featurise(
      task([Example("A", 0.25), Example("C", -3)], answer=Value()), VOCABULARY, 9
    )
    assert features.targets["labels"].dtype == np.float32
    np.testing.assert_array_equal(features.targets["labels"], [0.25, -3])

  def test_numbers_with_ids_of_their_own_and_no_brackets(self):
    """Music is such a task: its symbols are ids, it has no [CLS] and [SEP], and its samples are parts of pieces."""
    alphabet = Alphabet(tuple(str(i) for i in range(300)), ids=tuple(range(100, 400)))
    examples = [
      Example(np.array([0, 1, 255], np.uint8), 0, group=4),
      Example(np.array([299], np.int32), 1, group=4),
    ]
    features = featurise(
      task(examples, alphabet, add_special_tokens=False), make_vocabulary([], 400), max_length=3
    )
    np.testing.assert_array_equal(features.symbols, [[3, 4, 258], [302, 0, 0]])
    assert features.symbols.dtype == np.uint16
    np.testing.assert_array_equal(features.lengths, [3, 1])
    np.testing.assert_array_equal(features.groups, [4, 4])
    np.testing.assert_array_equal(features.symbol_ids, [0, 2, 3, *range(100, 400)])

  def test_ids_of_their_own_that_the_model_lacks(self):
    alphabet = Alphabet(("0", "1"), ids=(11, 12))
    with pytest.raises(UserError, match="take 13 ids, but the model's vocabulary has 12;"):
      featurise(task([Example(np.array([0]), 0)], alphabet), VOCABULARY, 9)

  def test_a_symbol_without_a_token_counts_only_where_it_occurs(self):
    alphabet = Alphabet(tuple("ACGTN"))
    features = featurise(task([Example("ACGT", 0)], alphabet), VOCABULARY, 9)
    np.testing.assert_array_equal(features.symbols, [[1, 3, 4, 5, 6, 2]])
    with pytest.raises(UserError, match="tokenizer has no token for N of task made;"):
      featurise(task([Example("ACN", 0)], alphabet), VOCABULARY, 9)


def vocabulary_of(directory, words: tuple[str, ...]) -> Vocabulary:
  """Returns a WordPiece tokenizer as BERT has it, read from its file."""
  ids = {word: i for i, word in enumerate(words)}
  tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(ids, unk_token="[UNK]"))
  tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
  tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
  tokenizer.save(str(directory / "tokenizer.json"))
  (directory / "config.json").write_text(json.dumps({"model_type": "bert"}))
  return load_vocabulary(directory, len(words))


class TestTexts:
  def test_single_texts_by_hand(self, tmp_path):
    features = featurise(
      task([Example("a dogs runs.", 1), Example("cat", 0)], None),
      vocabulary_of(tmp_path, WORDS),
      max_length=20,
    )
    # those that occur, in the order of their ids, after [PAD], [CLS] and [SEP]
    assert [WORDS[i] for i in features.symbol_ids] == [
      "[PAD]", "[CLS]", "[SEP]", "a", "dog", "cat", "##s", "runs", "."
    ]  # fmt: skip
    np.testing.assert_array_equal(features.symbols, [[1, 3, 4, 6, 7, 8, 2], [1, 5, 2, 0, 0, 0, 0]])
    np.testing.assert_array_equal(features.lengths, [7, 3])
    np.testing.assert_array_equal(features.targets["labels"], [1, 0])
    assert features.segments is None

  def test_pairs_by_hand(self, tmp_path):
    features = featurise(
      task([Example("a dog", 1, "cats"), Example("zebra", 0, "a")], None),
      vocabulary_of(tmp_path, WORDS),
      max_length=20,
    )
    np.testing.assert_array_equal(
      features.symbol_ids[features.symbols],
      [[2, 5, 6, 3, 7, 8, 3], [2, 1, 3, 5, 3, 0, 0]],
    )
    np.testing.assert_array_equal(features.segments, [[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0]])
    np.testing.assert_array_equal(features.lengths, [7, 5])
    # only the padding is symbol 0
    np.testing.assert_array_equal(
      features.symbols == 0, np.arange(7) >= np.array(features.lengths)[:, None]
    )

  def test_the_longer_of_a_pair_is_cut_first_counted_and_said(self, tmp_path, caplog):
    vocabulary = vocabulary_of(tmp_path, WORDS)
    examples = [
      Example("dog dog dog dog dog", 0, "cat"),
      Example("dog", 0, "cat cat cat cat cat"),
      Example("dog dog dog dog", 0, "cat cat cat cat"),
      Example("dog dog", 0, "cat cat"),
    ]
    features = featurise(task(examples, None), vocabulary, max_length=7)
    np.testing.assert_array_equal(
      features.symbol_ids[features.symbols],
      [
        [2, 6, 6, 6, 3, 7, 3],
        [2, 6, 3, 7, 7, 7, 3],
        [2, 6, 6, 3, 7, 7, 3],
        [2, 6, 6, 3, 7, 7, 3],
      ],
    )
    assert "3 of 4 sequences are longer than task.max_length = 7 tokens and were cut" in caplog.text
    # the tokenizer is left as it was
    assert vocabulary.encode("dog " * 9) == [6] * 9

  def test_many_tokens_take_two_bytes_and_come_back(self, tmp_path):
    words = (*WORDS[:5], *(f"w{i}" for i in range(400)))
    vocabulary = vocabulary_of(tmp_path, words)
    chosen = np.random.default_rng(0).integers(5, 405, (20, 30))
    texts = [" ".join(words[i] for i in row) for row in chosen]
    features = featurise(task([Example(text, 0) for text in texts], None), vocabulary, 40)
    assert features.symbols.dtype == np.uint16
    np.testing.assert_array_equal(features.symbol_ids[features.symbols][:, 1:-1], chosen)
    assert len(features.symbol_ids) == 3 + len(np.unique(chosen))

  def test_a_model_of_symbols_has_no_tokenizer_for_text(self):
    with pytest.raises(UserError, match="the model has no tokenizer for text; set --config.model"):
      featurise(task([Example("a dog", 0)], None), VOCABULARY, 9)

  def test_real_wordpiece_pairs_are_the_ids_that_a_tokenizer_gives_one_by_one(self, shared):
    vocabulary = load_vocabulary(shared / "models" / "minilm-l6-uncased", 30522)
    pairs = [("How big is it?", "Unbelievably big."), ("No.", "It's 12,000 km away - or more")]
    features = featurise(
      task([Example(first, 0, second) for first, second in pairs], None), vocabulary, 128
    )
    for row, segments, length, (first, second) in zip(
      features.symbol_ids[features.symbols],
      features.segments,
      features.lengths,
      pairs,
      strict=True,
    ):
      one, other = vocabulary.encode(first), vocabulary.encode(second)
      np.testing.assert_array_equal(row[:length], [101, *one, 102, *other, 102])
      np.testing.assert_array_equal(
        segments[:length], [0] * (len(one) + 2) + [1] * (len(other) + 1)
      )
      assert not row[length:].any()
      assert not segments[length:].any()


class TestGroups:
  @pytest.mark.parametrize("sizes", [[5] * 40, [60, 30, 10, 5, 5, *[1] * 90], [30, 30, 30]])
  def test_a_group_is_in_one_part(self, sizes):
    groups = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    held_out = round(len(groups) * 0.05)
    parts = set()
    for seed in range(30):
      split = make_split({"all": len(groups)}, seed, groups=groups)
      assert sorted(np.concatenate(list(split.values()))) == list(range(len(groups)))
      owners = [set(groups[part]) for part in split.values()]
      assert sum(map(len, owners)) == len(sizes)
      parts.add(frozenset(owners[2]))
      for name in ("validation", "test"):
        assert 0 < len(split[name]) <= max(held_out, min(sizes))
    assert len(parts) > 1

  def test_replicas_have_parts_of_one_length(self):
    groups = np.repeat(np.arange(30), np.arange(1, 31))
    splits = [make_split({"all": len(groups)}, seed, groups=groups) for seed in range(5)]
    equal = equally_long(splits)
    for name in ("train", "validation", "test"):
      (length,) = {len(split[name]) for split in equal}
      assert length == min(len(split[name]) for split in splits)
      np.testing.assert_array_equal(equal[3][name], splits[3][name][:length])

  def test_too_few_groups(self):
    with pytest.raises(UserError, match="2 group"):
      make_split({"all": 40}, 0, groups=np.arange(40) % 2)
