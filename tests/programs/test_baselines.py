"""The baselines of a comparison, on tasks whose best answer is known."""

import numpy as np
import pytest

from discipline_jax.errors import UserError
from discipline_jax.metrics import score
from discipline_jax.programs.baselines import fit_baselines
from discipline_jax.programs.finetuning_plan import make_plan
from tests.testdata import tiny


def config(path, **task):
  config = tiny.get_config()
  config.task.update({"name": "custom", "path": str(path), **task})
  config.train.batch_size = 4
  return config


def write(path, rows):
  path.write_text("sequence,label\n" + "".join(f"{one},{label}\n" for one, label in rows))
  return path


def sequences(count, rng):
  return ["".join(rng.choice(list("ACGT"), 12)) for _ in range(count)]


def test_classes(tmp_path):
  """The class is whether AC occurs: counts of pairs know it, and it is the more frequent one."""
  rng = np.random.default_rng(0)
  rows = [(one, "yes" if "AC" in one else "no") for one in sequences(600, rng)]
  plan = make_plan(config(write(tmp_path / "mine.csv", rows)))
  fitted = fit_baselines(plan)
  assert list(fitted) == ["constant", "linear"]
  for split, simple, linear in zip(plan.splits, fitted["constant"], fitted["linear"], strict=True):
    labels = plan.features.targets["labels"]
    largest = int(np.bincount(labels[split["train"]]).argmax())
    assert simple.setting == f"always {plan.task.answer.labels[largest]}"
    for part in ("validation", "test"):
      np.testing.assert_array_equal(simple.units[part], split[part])
      np.testing.assert_array_equal(simple.labels[part], labels[split[part]])
      assert (simple.predicted[part] == largest).all()
      np.testing.assert_array_equal(linear.units[part], split[part])
      assert score("accuracy", linear.labels[part], linear.predicted[part]) > 90


def test_the_f1_score_is_of_the_second_class(tmp_path):
  rng = np.random.default_rng(0)
  rows = [(one, "ab"[i % 5 == 0]) for i, one in enumerate(sequences(200, rng))]
  plan = make_plan(config(write(tmp_path / "mine.csv", rows), metric="f1"))
  assert {one.setting for one in fit_baselines(plan)["constant"]} == {"always b"}


def test_values(tmp_path):
  """The value is the number of As minus that of Ts."""
  rng = np.random.default_rng(0)
  rows = [(one, one.count("A") - one.count("T")) for one in sequences(400, rng)]
  plan = make_plan(config(write(tmp_path / "mine.csv", rows), kind="regression"))
  for simple, linear, split in zip(*fit_baselines(plan).values(), plan.splits, strict=True):
    mean = plan.features.targets["labels"][split["train"]].mean()
    np.testing.assert_allclose(simple.predicted["test"], mean, rtol=1e-5)
    assert score("spearman", linear.labels["test"], linear.predicted["test"]) > 95


def test_one_class_in_training(tmp_path):
  rng = np.random.default_rng(0)
  rows = [(one, "ab"[i == 0]) for i, one in enumerate(sequences(200, rng))]
  one_class = config(write(tmp_path / "mine.csv", rows), train_fraction=0.05)
  with pytest.raises(UserError, match="one class only, a"):
    fit_baselines(make_plan(one_class))


def test_several_labels(tmp_path):
  """The labels are A and T if AC and TT occur; c is in every row, so that it alone is the best constant answer."""
  rng = np.random.default_rng(0)
  rows = [(one, "a;" * ("AC" in one) + "t;" * ("TTT" in one) + "c") for one in sequences(600, rng)]
  plan = make_plan(config(write(tmp_path / "mine.csv", rows), kind="multilabel"))
  assert plan.task.answer.labels == ("a", "c", "t")
  for simple, linear in zip(*fit_baselines(plan).values(), strict=True):
    assert linear.predicted["test"].shape == (30, 3)
    assert score("micro_f1", linear.labels["test"], linear.predicted["test"]) > 90
    assert (linear.predicted["test"][:, 1] > 3).all()
    best = {}
    truth = plan.features.targets["labels"]
    for names in ("c", "a;c", "a;c;t"):
      guess = np.array([1.0 if one in names else -1.0 for one in plan.task.answer.labels])
      best[names] = score("micro_f1", truth, np.tile(guess, (len(truth), 1)))
    assert simple.setting == f"always {max(best, key=best.get)}"
    assert ((simple.predicted["test"] > 0).sum(1) == len(max(best, key=best.get).split(";"))).all()


@pytest.mark.parametrize(("metric", "always"), [("macro_f1", "a;b"), ("average_precision", "none")])
def test_one_set_of_labels_for_all_by_metric(metric, always, tmp_path):
  rng = np.random.default_rng(0)
  rows = [(one, ("a", "b", ";")[i % 3]) for i, one in enumerate(sequences(60, rng))]
  path = write(tmp_path / "mine.csv", rows)
  plan = make_plan(config(path, kind="multilabel", metric=metric))
  assert {one.setting for one in fit_baselines(plan)["constant"]} == {f"always {always}"}


def test_pairs(tmp_path):
  """Whether the first sequence has more As than the second one is linear in counts side by side, not in sums."""
  rng = np.random.default_rng(0)
  pairs = list(zip(sequences(600, rng), sequences(600, rng), strict=True))
  rows = "".join(f"{a},{b},{'ny'[a.count('A') > b.count('A')]}\n" for a, b in pairs)
  (tmp_path / "mine.csv").write_text("first,second,label\n" + rows)
  plan = make_plan(config(tmp_path / "mine.csv", sequence_column="first,second"))
  for linear in fit_baselines(plan)["linear"]:
    assert score("accuracy", linear.labels["test"], linear.predicted["test"]) > 85


def test_windows_are_read_as_whole_sequences(tmp_path):
  """The same baselines as of a model that can read the whole: units are sequences, no symbol is counted twice."""
  rng = np.random.default_rng(0)
  rows = [("".join(rng.choice(list("ACGT"), 4 + i % 40)), i % 7 + i % 3) for i in range(80)]
  path = write(tmp_path / "mine.csv", rows)
  whole = fit_baselines(make_plan(config(path, kind="regression")))
  cut = config(path, kind="regression", max_length=12, long="windows")
  windows = fit_baselines(make_plan(cut))
  for name in whole:
    for one, other in zip(whole[name], windows[name], strict=True):
      assert one.setting == other.setting
      np.testing.assert_array_equal(one.units["test"], other.units["test"])
      np.testing.assert_array_equal(one.labels["test"], other.labels["test"])
      np.testing.assert_allclose(one.predicted["test"], other.predicted["test"], rtol=1e-5)


@pytest.mark.parametrize("kind", ["tagging", "position_regression"])
def test_positions(kind, tmp_path):
  """In windows and without they are the same; what is masked is not scored."""
  rng = np.random.default_rng(0)
  tags = {"A": "h", "C": "h", "G": "s", "T": "x"}
  values = {"A": "1", "C": "2", "G": "-3", "T": "nan"}
  rows = [
    (one, "".join(tags[x] for x in one) if kind == "tagging" else " ".join(values[x] for x in one))
    for one in ("".join(rng.choice(list("ACGT"), 4 + i % 40)) for i in range(40))
  ]
  path = write(tmp_path / "mine.csv", rows)
  fields = {"kind": kind, "ignore_label": "x" if kind == "tagging" else None}
  whole = fit_baselines(make_plan(config(path, **fields)))
  windows = fit_baselines(make_plan(config(path, **fields, max_length=12, long="windows")))
  assert list(whole) == ["constant", "symbol", "linear"]
  for one, other in zip(whole["symbol"], windows["symbol"], strict=True):
    np.testing.assert_array_equal(one.units["test"], other.units["test"])
    np.testing.assert_array_equal(one.labels["test"], other.labels["test"])
    np.testing.assert_allclose(one.predicted["test"], other.predicted["test"], rtol=1e-6)
    np.testing.assert_allclose(one.predicted["test"], one.labels["test"], rtol=1e-6)
    for unit, own in zip(one.units["test"], one.labels["test"], strict=True):
      sequence = rows[unit][0]
      is_scored = own == own if kind == "position_regression" else own >= 0
      assert is_scored.tolist() == [
        i < len(sequence) and sequence[i] != "T" for i in range(len(own))
      ]
