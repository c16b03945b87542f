"""The sentences of a comparison, over made-up predictions for each case that can be."""

import itertools

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score

from discipline_jax.comparison.verdict import Candidate, conclude, difference

SEEDS, SAMPLES = 3, 200


def candidate(name, rights, *, samples=SAMPLES, is_network=True, collapsed=False, shift=0):
  """Makes a model of two classes whose first `rights[seed]` samples are right, counted from sample `shift` on."""
  labels = np.tile(np.arange(samples) % 2, (len(rights), 1))
  predicted = 1 - labels
  for row, truth, right in zip(predicted, labels, rights, strict=True):
    places = (shift + np.arange(right)) % samples
    row[places] = truth[places]
  units = np.tile(np.arange(samples), (len(rights), 1))
  return Candidate(name, is_network, units, labels, predicted, collapsed)


def constant(samples=SAMPLES, seeds=SEEDS):
  labels = np.tile(np.arange(samples) % 2, (seeds, 1))
  units = np.tile(np.arange(samples), (seeds, 1))
  return Candidate("constant", False, units, labels, np.zeros_like(labels))


def linear(rights, **settings):
  return candidate("linear", rights, is_network=False, **settings)


def concluded(*candidates, metric="accuracy", limits=()):
  result = conclude(metric, candidates, limits)
  return result, " ".join(result["sentences"])


def test_a_clear_winner():
  result, text = concluded(
    candidate("pretrained", (190, 188, 191)),
    candidate("scratch", (150, 149, 151)),
    linear((130, 130, 131)),
    constant(),
  )
  assert result["best"] == result["best_network"] == "pretrained"
  assert "Best on test is pretrained with accuracy 94.8, 19.8 above the next best, scratch" in text
  assert "200 test samples in each of 3 seeds" in text
  assert "Both intervals leave out 0" in text
  assert "So pre-training helps here." in text
  assert "pretrained is 29.7 above the linear model" in text


def test_pre_training_hurts():
  result, text = concluded(
    candidate("pretrained", (150, 149, 151)),
    candidate("scratch", (190, 188, 191)),
    linear((130, 130, 131)),
    constant(),
  )
  assert result["best"] == "scratch"
  assert "So pre-training hurts here." in text


def test_samples_tell_apart_but_seeds_do_not():
  _, text = concluded(
    candidate("pretrained", (190, 150, 170)),
    candidate("scratch", (160, 149, 125)),
    linear((130, 130, 131)),
    constant(),
  )
  assert "The interval over samples leaves out 0, but that over seeds does not" in text
  assert "So pre-training helps with these seeds" in text
  assert "here." not in text


def test_equal_differences_of_all_seeds_are_no_certainty():
  result, text = concluded(
    candidate("pretrained", (190, 191, 192)),
    candidate("scratch", (150, 151, 152)),
    linear((130, 130, 131)),
    constant(),
  )
  assert result["differences"][0]["by_seeds"] is None
  assert "that over seeds says nothing" in text
  assert "helps here" not in text


def test_runs_that_are_not_told_apart():
  _, text = concluded(
    candidate("pretrained", (181, 179, 180)),
    candidate("scratch", (179, 180, 179), shift=40),
    linear((130, 130, 131)),
    constant(),
  )
  assert "The interval over samples holds 0: these runs do not tell the two apart." in text
  assert "Whether pre-training helps, these runs do not show." in text


def test_a_tie():
  result, text = concluded(
    candidate("pretrained", (180, 180, 180)),
    candidate("scratch", (180, 180, 180)),
    linear((130, 130, 131)),
    constant(),
  )
  assert "pretrained and scratch both have the best test score, accuracy 90.0" in text
  assert "these runs do not tell the two apart" in text
  assert result["differences"][0]["mean"] == 0
  assert result["differences"][0]["by_samples"] == (0, 0)


@pytest.mark.parametrize("winner", ["linear", "constant"])
def test_a_baseline_wins(winner):
  simple = (150, 151, 149) if winner == "linear" else (60, 61, 62)
  result, text = concluded(
    candidate("pretrained", (90, 92, 91)),
    candidate("scratch", (80, 81, 79)),
    linear(simple),
    constant(),
  )
  what = {"linear": "the linear model", "constant": "one answer for all samples"}[winner]
  assert result["best"] == winner
  assert f"Best on test is {winner} " in text
  assert f"No network is better than {what}, which takes seconds." in text
  assert "Pretrained is 5.5 above scratch" in text
  assert result["best_network"] == "pretrained"


def test_a_network_within_the_interval_of_one_answer_for_all():
  _, text = concluded(
    candidate("pretrained", (104, 102, 101)),
    candidate("scratch", (80, 81, 79)),
    linear((60, 61, 60)),
    constant(),
  )
  assert "pretrained is not told apart from one answer for all samples" in text
  assert "no network has shown that it learnt anything" in text


def test_a_network_that_the_linear_model_equals():
  _, text = concluded(
    candidate("pretrained", (181, 179, 180)),
    candidate("scratch", (120, 121, 119)),
    linear((179, 180, 178), shift=40),
    constant(),
  )
  assert "not told apart from the linear model" in text
  assert "pretrained is better than one answer for all samples" in text


def test_all_collapsed():
  result, text = concluded(
    candidate("pretrained", (100, 101, 100), collapsed=True),
    candidate("scratch", (100, 100, 100), collapsed=True),
    linear((150, 151, 152)),
    constant(),
  )
  assert "nothing here says anything about pre-training" in text
  assert "helps" not in text
  assert "hurts" not in text
  assert sum("predicts (nearly) the same" in one for one in result["limits"]) == 2


def test_one_collapsed():
  _, text = concluded(
    candidate("pretrained", (190, 191, 189)),
    candidate("scratch", (100, 100, 100), collapsed=True),
    linear((150, 151, 152)),
    constant(),
  )
  assert "As scratch collapsed, their difference says nothing about pre-training." in text
  assert "helps" not in text


def test_few_samples_and_two_seeds():
  result, text = concluded(
    candidate("pretrained", (10, 9), samples=12),
    candidate("scratch", (8, 8), samples=12),
    linear((7, 6), samples=12),
    constant(12, 2),
    limits=("what longer training would give",),
  )
  assert "12 test samples in each of 2 seeds" in text
  assert any("12 test samples are few" in one for one in result["limits"])
  assert any("there are 2" in one for one in result["limits"])
  assert result["limits"][-1] == "what longer training would give"


def test_one_init_alone():
  result, text = concluded(
    candidate("scratch", (180, 181, 182)), linear((130, 130, 131)), constant()
  )
  assert result["best"] == "scratch"
  assert "pre-training" not in text


def values(name, noise, *, is_network=True, seeds=SEEDS):
  """Makes a model of values with so much noise in the predictions; `inf`: one value for all samples."""
  rng = np.random.default_rng(1)
  labels = np.tile(rng.normal(size=SAMPLES), (seeds, 1)).astype(np.float32)
  rng = np.random.default_rng([len(name), 7])
  predicted = (
    np.zeros_like(labels) if np.isinf(noise) else labels + noise * rng.normal(size=labels.shape)
  )
  units = np.tile(np.arange(SAMPLES), (seeds, 1))
  return Candidate(name, is_network, units, labels, predicted.astype(np.float32))


def test_values():
  result, text = concluded(
    values("pretrained", 0.3),
    values("scratch", 3.0),
    values("linear", 1.5, is_network=False),
    values("constant", np.inf, is_network=False),
    metric="spearman",
  )
  assert result["best"] == "pretrained"
  assert "Best on test is pretrained with spearman " in text
  assert "above the linear model" in text
  assert "So pre-training helps here." in text


def test_one_value_for_all_beats_networks_that_are_wrong():
  wrong = [
    Candidate(one.name, True, one.units, one.labels, -one.predicted)
    for one in (values("pretrained", 1.0), values("scratch", 0.5))
  ]
  result, text = concluded(
    *wrong,
    values("linear", 0.5, is_network=False),
    values("constant", np.inf, is_network=False),
    metric="pearson",
  )
  assert result["best"] == "linear"
  assert "No network is better than the linear model" in text


def test_difference_against_other_implementations():
  """The mean by scikit-learn, the interval over seeds by SciPy, and that over samples by all resamples of few."""
  rng = np.random.default_rng(3)
  labels = np.tile(rng.integers(2, size=4), (2, 1))
  first, second = (rng.integers(2, size=(2, 4)) for _ in range(2))
  units = np.tile(np.arange(4), (2, 1))
  found = difference(
    "accuracy",
    Candidate("a", True, units, labels, first),
    Candidate("b", True, units, labels, second),
  )
  scores = [
    [100 * accuracy_score(*pair) for pair in zip(labels, one, strict=True)]
    for one in (first, second)
  ]
  by_seed = np.subtract(*scores)
  assert found.mean == pytest.approx(by_seed.mean())
  if np.ptp(by_seed):
    interval = stats.ttest_rel(*scores).confidence_interval(0.95)
    assert found.by_seeds == pytest.approx((interval.low, interval.high))
  else:
    assert found.by_seeds is None
  each = 100 * ((first == labels).astype(float) - (second == labels)).mean(0)
  all_means = [np.mean(each[list(drawn)]) for drawn in itertools.product(range(4), repeat=4)]
  low, high = np.quantile(all_means, [0.025, 0.975])
  assert found.by_samples == pytest.approx((low, high), abs=13)  # steps of 100 / 4 / 2


@pytest.mark.parametrize("seed", range(20))
def test_the_sentence_agrees_with_the_numbers(seed):
  """Whatever is predicted: who is said to be best has the highest mean, and no claim goes beyond an interval."""
  rng = np.random.default_rng(seed)
  rights = rng.integers(60, 200, size=(3, SEEDS))
  result, text = concluded(
    candidate("pretrained", rights[0]),
    candidate("scratch", rights[1], shift=int(rng.integers(100))),
    linear(rights[2]),
    constant(),
  )
  means = dict(zip(("pretrained", "scratch", "linear"), rights.mean(1) / 2, strict=True))
  means["constant"] = 50.0
  assert means[result["best"]] == pytest.approx(max(means.values()))
  pairs = {(one["first"], one["second"]): one for one in result["differences"]}
  low, high = pairs["pretrained", "scratch"]["by_samples"]
  assert ("helps" in text.replace("Whether pre-training helps", "")) == (low > 0)
  assert ("hurts" in text) == (high < 0)


def of_positions(one, number=5):
  """Gives each sample so many scored positions, which are all as it was, and one that is not scored."""
  labels, predicted = (
    np.pad(np.repeat(own[..., None], number, axis=2), ((0, 0), (0, 0), (0, 1)), constant_values=-1)
    for own in (one.labels, one.predicted)
  )
  return Candidate(one.name, one.is_network, one.units, labels, predicted, one.collapsed)


def test_whole_samples_are_drawn_anew_not_positions():
  """Equal positions of a sample say nothing that it does not: the intervals are those of samples."""
  ones = candidate("pretrained", (34, 33, 35), samples=40), candidate("scratch", (30, 29, 28), samples=40)  # fmt: skip
  whole = difference("accuracy", *ones)
  assert difference("accuracy", *map(of_positions, ones)) == whole
  assert whole.by_samples[0] < whole.by_samples[1]


def test_positions_are_counted_beside_samples():
  others = (candidate("scratch", (20, 21, 19), samples=40), linear((26, 27, 28), samples=40))
  symbol = candidate("symbol", (30, 29, 28), samples=40, is_network=False)
  everyone = (candidate("pretrained", (39, 38, 40), samples=40), *others, symbol, constant(40))
  result, text = concluded(*map(of_positions, everyone))
  assert "on 40 test samples (200 scored positions; samples are drawn anew with all of" in text
  assert "pretrained is 25.0 above one answer for each symbol, which takes seconds" in text
  assert any("40 test samples are few, however many positions" in one for one in result["limits"])


def test_unequal_positions_of_seeds_and_a_network_that_learnt_nothing():
  labels = np.full((2, 4, 3), -1)
  labels[0, :, 0], labels[1, :, :2] = [0, 1, 0, 0], [[0, 1]] * 4
  units = np.tile(np.arange(4), (2, 1))
  networks = [
    Candidate(name, True, units, labels, np.where(labels < 0, -1, 1 - labels), True)
    for name in ("pretrained", "scratch")
  ]
  simple = [
    Candidate(name, False, units, labels, np.where(labels < 0, -1, 0))
    for name in ("constant", "symbol", "linear")
  ]
  result, text = concluded(*networks, *simple)
  assert "4 test samples (4 to 8 scored positions" in text
  assert "No network is better than one answer for all positions" in text
  assert "(nearly) the same for all validation positions" in text
  assert sum("for all validation positions" in one for one in result["limits"]) == 2


def test_several_labels_are_no_positions():
  rng = np.random.default_rng(0)
  labels = np.tile(rng.integers(2, size=(200, 4)), (2, 1, 1))
  units = np.tile(np.arange(200), (2, 1))

  def of_share(name, share, is_network=True):
    right = rng.random(labels.shape) < share
    logits = np.where(right == (labels > 0), 1, -1).astype(np.float32)
    return Candidate(name, is_network, units, labels, logits)

  _, text = concluded(
    of_share("pretrained", 0.9),
    of_share("scratch", 0.6),
    of_share("linear", 0.7, is_network=False),
    Candidate("constant", False, units, labels, np.ones(labels.shape, np.float32)),
    metric="micro_f1",
  )
  assert "on 200 test samples in each of 2 seeds" in text
  assert "above the linear model, which takes seconds" in text
