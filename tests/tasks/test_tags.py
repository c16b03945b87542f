"""Tests tags of symbols: how they are read, trained on, scored and written, with values from hand and scikit-learn."""

import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.metrics

from discipline_jax.errors import UserError
from discipline_jax.metrics import score
from discipline_jax.models import TokenClassifier
from discipline_jax.tasks.answer import Layout
from discipline_jax.tasks.answers import from_json
from discipline_jax.tasks.examples import Example
from discipline_jax.tasks.tags import Tags, runs_f1

NAMES = ("C", "E", "H")
ANSWER = Tags(NAMES)
LAYOUT = Layout(np.array([5, 4], np.int32), 1)
GROUPS = np.arange(2, dtype=np.int32)


def aligned(text, symbols="ACDE", ignored=None):
  return Tags.aligned(Tags.parse(text, "a.csv:3"), symbols, "a.csv:3", ignored)


def logits_for(predicted, classes=3, seed=0):
  """Returns logits whose largest class is `predicted`."""
  rng = np.random.default_rng(seed)
  return (rng.random((*predicted.shape, classes)) + np.eye(classes)[predicted]).astype(np.float32)


class TestReading:
  @pytest.mark.parametrize(
    "text",
    [
      "HHEC",
      " HHEC ",
      "H H E C",
      "HH\nEC",
      '["H", "H", "E", "C"]',
      "['H', 'H', 'E', 'C']",
    ],
  )
  def test_letters_words_and_lists_are_the_same(self, text):
    assert aligned(text) == ("H", "H", "E", "C")

  def test_words_of_several_letters(self):
    assert aligned("helix helix strand coil") == ("helix", "helix", "strand", "coil")
    assert aligned("NOUN", ["cat"]) == ("NOUN",)
    assert aligned("1 0 1 1") == ("1", "0", "1", "1")
    assert aligned("[1, 0, 1.0, 1]") == ("1", "0", "1", "1")

  def test_commas_are_tags_where_letters_or_a_list_say_so(self):
    assert aligned("H,HC") == ("H", ",", "H", "C")
    assert aligned(", H , C") == (",", "H", ",", "C")
    assert aligned(", , , NN") == (",", ",", ",", "NN")
    assert aligned("a, b c, d") == ("a,", "b", "c,", "d")
    assert aligned('["H,", "H,", "E,", "C"]') == ("H,", "H,", "E,", "C")

  def test_what_is_not_scored(self):
    assert aligned("HHX-", ignored="X") == ("H", "H", None, "-")
    assert aligned('["H", null, "C", "X"]', ignored="X") == ("H", None, "C", None)

  def test_numbers_that_are_not_scored(self):
    """As classes, equal numbers are one."""
    assert aligned("0.0 1.0 -1.0 1", ignored="-1") == ("0.0", "1.0", None, "1")
    assert aligned("[0, 1, -1, -1.0]", ignored="-1.0") == ("0", "1", None, None)
    assert aligned("HHxX", ignored="X") == ("H", "H", "x", None)

  @pytest.mark.parametrize("word", ["nan", "NaN", "NA", "None", "null", "N/A"])
  def test_words_for_none_are_no_tags(self, word):
    text = f"H {word} E C"
    with pytest.raises(UserError, match=f"a.csv:3; .*task.ignore_label={word} "):
      aligned(text)
    with pytest.raises(UserError, match="a.csv:3"):
      aligned(f'["H", "{word}", "E", "C"]')
    assert aligned(text, ignored=word) == ("H", None, "E", "C")

  def test_nan_of_json_is_not_scored(self):
    assert aligned("[1, NaN, 0, null]") == ("1", None, "0", None)
    assert aligned("NAAN") == ("N", "A", "A", "N")
    assert aligned("- ? . N") == ("-", "?", ".", "N")

  @pytest.mark.parametrize("text", ["['H', nan, 'C']", "['H', null, 'C']"])
  def test_the_remedy_for_a_list_that_cannot_be_read(self, text):
    with pytest.raises(UserError, match=r"double quotes.* \(null for a position"):
      aligned(text, "ACD")
    assert aligned('["H", null, "C"]', "ACD") == ("H", None, "C")

  def test_base_pairs(self):
    assert aligned("(..)") == tuple("(..)")
    assert aligned("[()]") == tuple("[()]")
    for text in (">>..", "<>><", "}..<"):
      assert aligned(text) == tuple(text), "strands of genes, say"
    for text in ("(...", "...)", ")..(", "([))", "(>.)"):
      with pytest.raises(UserError, match="a.csv:3"):
        aligned(text)

  @pytest.mark.parametrize(
    "text",
    ["", "  ", "HHE", "HHECC", "H H E", "HHEC H", '["H", "H"]', '["H", "H", "E", "C"', "['H' 1]",
     "H, H, E, C", "H; H; E; C;", "H ,H ,E ,C",
     '["H", "H", "E", ["C"]]', '["H", "H", "E", ""]', "HH\0C", '{"a": 1}'],
  )  # fmt: skip
  def test_what_is_no_label(self, text):
    with pytest.raises(UserError, match="a.csv:3"):
      aligned(text)

  def test_a_word_for_a_missing_label_is_refused_but_not_a_tag(self):
    assert Tags.refused(["nan", "NA", "-", ".", "HHEC", None]).keys() == {"nan", "NA"}

  def test_tags_of_a_table(self):
    answer = Tags.fit({"train": [("10", "9"), ("9", None)], "test": [("9",)]}, "mcc", "a.csv")
    assert answer == Tags(("9", "10"), "mcc")
    assert answer.encode(("10", None, "9")).tolist() == [1, -1, 0]
    assert Tags.keys(("H", None, "E", "H")) == {"H", "E"}

  @pytest.mark.parametrize(
    ("labels", "metric"),
    [([("H", "H")], "mcc"), ([(None,)], "mcc"), ([("H", "E", "C")], "f1")],
  )
  def test_what_cannot_be_learnt(self, labels, metric):
    with pytest.raises(UserError, match="a.csv"):
      Tags.fit({"all": labels}, metric, "a.csv")


class TestTraining:
  def test_targets_stand_at_the_tokens_of_their_symbols(self):
    examples = [Example("ACD", np.array([2, -1, 0])), Example("ACDEF", np.array([1, 1, 2, 2, 2]))]
    targets = ANSWER.targets(examples, LAYOUT)  # the second one is cut to two symbols
    assert targets["labels"].tolist() == [[-1, 2, -1, 0, -1], [-1, 1, 1, -1, -1]]
    np.testing.assert_array_equal(ANSWER.counts(targets), [2, 2])
    parts = {"labels": targets["labels"].reshape(2, 1, 5)}
    np.testing.assert_array_equal(ANSWER.counts(parts), [[2], [2]])
    assert ANSWER.head == TokenClassifier(3)
    assert ANSWER.members(targets).tolist() == [[True, False, True], [False, True, False]]

  def test_losses(self):
    """Outputs may be narrower than targets. Of the first row two positions are scored, with shares 1/2 and 1/4."""
    labels = np.array([[-1, 0, -1, 1, -1], [-1, -1, -1, -1, -1]], np.int8)
    outputs = np.zeros((2, 4, 3), np.float32)
    outputs[0, 1] = np.log([2, 1, 1])
    outputs[0, 3] = np.log([2, 1, 1])
    losses = ANSWER.losses(jnp.asarray(outputs), {"labels": jnp.asarray(labels)})
    np.testing.assert_allclose(losses, [-np.log(1 / 2) - np.log(1 / 4), 0], rtol=1e-6)

  def test_a_window_answers_for_its_own_symbols_alone(self):
    label = np.arange(10, dtype=np.int8) % 3
    own = ANSWER.window(label, slice(4, 9), slice(5, 7))
    assert own.tolist() == [-1, 2, 0, -1, -1]


CASES = {
  "random": ([[0, 1, 2, -1], [2, 2, 1, 0]], [[0, 2, 2, 1], [2, 1, 1, 0]]),
  "one_class": ([[1, 1, -1, -1], [1, 1, 1, 1]], [[1, 1, 0, 0], [1, 1, 1, 1]]),
  "a_class_only_predicted": ([[0, 1, -1, 1], [0, 0, 1, 1]], [[2, 1, 0, 1], [0, 2, 1, 1]]),
  "one_position": ([[-1, 2, -1, -1], [-1, -1, -1, -1]], [[0, 2, 0, 0], [1, 1, 1, 1]]),
  "a_row_without": ([[0, 1, 2, 1], [-1, -1, -1, -1]], [[0, 1, 1, 1], [0, 0, 0, 0]]),
  "all_wrong": ([[0, 1, 2, 1], [1, -1, 0, 0]], [[1, 2, 0, 0], [2, 0, 1, 1]]),
}


class TestScores:
  @pytest.mark.parametrize("case", CASES)
  def test_scores_are_those_of_scikit_learn_over_all_scored_positions(self, case):
    labels, predicted = map(np.array, CASES[case])
    chosen = labels >= 0
    pair = labels[chosen], predicted[chosen]
    expected = {
      "accuracy": sklearn.metrics.accuracy_score(*pair),
      "macro_f1": sklearn.metrics.f1_score(*pair, average="macro", zero_division=0),
      "mcc": sklearn.metrics.matthews_corrcoef(*pair),
    }
    for metric, value in expected.items():
      answer = Tags(NAMES, metric)
      targets = {"labels": labels.astype(np.int8)}
      measured = answer.measure(logits_for(predicted), targets, GROUPS)
      assert measured.score == pytest.approx(100 * value)
      assert measured.measures[metric] == pytest.approx(100 * value)
      assert measured.collapsed == (len({*pair[1].tolist()}) == 1)
      assert score(metric, measured.labels, measured.predicted) == pytest.approx(100 * value)
    of_each = sklearn.metrics.precision_recall_fscore_support(
      *pair, labels=[0, 1, 2], zero_division=0
    )
    found = [
      [
        one[name] / (1 if name == "number" else 100)
        for one in measured.measures["classes"].values()
      ]
      for name in ("precision", "recall", "f1", "number")
    ]
    np.testing.assert_allclose(found, of_each)
    assert measured.measures["number"] == chosen.sum()

  def test_large_random_positions(self):
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 3, (20, 50)).astype(np.int8)
    predicted = np.where(
      rng.random((20, 50)) < 0.6, np.maximum(labels, 0), rng.integers(3, size=(20, 50))
    )
    measured = Tags(NAMES, "mcc").measure(
      logits_for(predicted), {"labels": labels}, np.arange(20, dtype=np.int32)
    )
    chosen = labels >= 0
    expected = sklearn.metrics.matthews_corrcoef(labels[chosen], predicted[chosen])
    assert measured.score == pytest.approx(100 * expected)
    loss = sklearn.metrics.log_loss(
      labels[chosen],
      np.exp(logits_for(predicted))[chosen]
      / np.exp(logits_for(predicted))[chosen].sum(-1, keepdims=True),
    )
    assert measured.loss == pytest.approx(loss, rel=1e-5)

  def test_outputs_may_lack_positions_that_none_needs(self):
    labels = np.array([[-1, 0, 1, -1, -1, -1]], np.int8)
    measured = ANSWER.measure(
      logits_for(np.array([[0, 0, 1]])), {"labels": labels}, np.zeros(1, np.int32)
    )
    assert measured.score == 100
    assert measured.labels.tolist() == measured.predicted.tolist() == labels.tolist()

  def test_whole_runs(self):
    """Of the true runs (1-2, 4-4 and 0-1) one has both its ends right; two are predicted, and one spurious."""
    labels = np.array([[0, 1, 1, 0, 1], [1, 1, 0, 0, -1]])
    predicted = np.array([[0, 1, 1, 0, 0], [1, 0, 0, 1, -1]])
    assert runs_f1(labels, predicted, 1) == pytest.approx(100 * 2 * 1 / (3 + 3))
    assert runs_f1(labels, labels, 1) == 100
    assert runs_f1(0 * labels, 0 * labels, 1) == 0
    answer = Tags(("exon", "intron"), "f1", whole="intron")
    measured = answer.measure(
      logits_for(np.maximum(predicted, 0), 2), {"labels": labels.astype(np.int8)}, GROUPS
    )
    assert measured.measures["whole_intron_f1"] == pytest.approx(100 / 3)

  def test_whole_runs_of_sequences_that_were_cut_are_unknown(self):
    """One of two sequences of four symbols is read to its third one."""
    answer = Tags(("exon", "intron"), "f1", whole="intron")
    examples = [Example("ACGT", np.array([0, 1, 1, 1], np.int8)), Example("A", np.ones(1, np.int8))]
    for length, has_runs in ((5, False), (6, True)):
      targets = answer.targets(examples, Layout(np.array([length, 3], np.int32), 1))
      outputs = logits_for(np.maximum(targets["labels"], 0), 2)
      measured = answer.measure(outputs, targets, np.arange(2, dtype=np.int32))
      assert ("whole_intron_f1" in measured.measures) == has_runs
      assert "accuracy" in measured.measures


class TestPredictions:
  OUTPUTS = np.log(np.array([[[1, 1, 1], [2, 1, 1], [1, 1, 6], [1, 1, 1], [1, 1, 1]]], np.float32))
  ONE = Layout(np.array([4], np.int32), 1)

  def test_a_line_for_each_position(self):
    assert ANSWER.columns == ["position", "prediction", "p_C", "p_E", "p_H"]
    (lines,) = ANSWER.rows(self.OUTPUTS, self.ONE)
    assert [line[:2] for line in lines] == [[1, "C"], [2, "H"]]
    np.testing.assert_allclose(
      [line[2:] for line in lines], [[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]], rtol=1e-6
    )

  def test_or_for_each_sequence(self):
    assert list(ANSWER.texts(self.OUTPUTS, self.ONE)) == [[["CH", "0.5000 0.7500"]]]
    words = Tags(("coil", "e", "helix"))
    assert list(words.texts(self.OUTPUTS, self.ONE)) == [[["coil helix", "0.5000 0.7500"]]]

  def test_description(self):
    targets = {"labels": np.array([[-1, 2, 2, 0]], np.int8)}
    assert ANSWER.describe(targets) == {"tags": "C 1, E 0, H 2"}
    assert ANSWER.summary == "3 tags"
    assert from_json(ANSWER.to_json()) == ANSWER
