"""Comparisons with scratch: against the statistics called directly, and files that cannot be used."""

import functools
import json

import numpy as np
import pytest

from discipline_jax import metrics
from discipline_jax.report import curves, statistics
from discipline_jax.report.collect import collect_tree
from discipline_jax.report.compare import RESAMPLES, compare
from discipline_jax.report.sentences import sentences
from discipline_jax.report.tree import read
from tests.report import run_folders


def compared(folder):
  tree = read(folder)
  return compare(collect_tree(tree), curves.read_all(tree.runs)[0])


def arrays(folder):
  with np.load(folder / "predictions.npz") as file:
    return dict(file)


@pytest.fixture
def splice(tmp_path):
  run_folders.finetuned(tmp_path / "bert", right=(0.9, 0.84, 0.72))
  run_folders.finetuned(tmp_path / "scratch", right=(0.6, 0.62, 0.66), init="scratch")
  return tmp_path


@pytest.mark.parametrize("metric", ["accuracy", "mcc", "spearman"])
def test_one_task(metric, tmp_path):
  ours = run_folders.finetuned(tmp_path / "bert", metric=metric, right=(0.9, 0.84, 0.72))
  theirs = run_folders.finetuned(
    tmp_path / "scratch", metric=metric, right=(0.6, 0.62, 0.66), init="scratch"
  )
  (row,) = compared(tmp_path).by_task.itertuples()
  assert (row.run, row.against, row.task, row.variant) == ("bert", "scratch", "splice", "bert")
  scores = ours["test"]["runs"], theirs["test"]["runs"]
  assert (row.difference, row.low_seeds, row.high_seeds) == pytest.approx(
    statistics.paired_interval(*scores)
  )
  assert row.p_value == row.p_adjusted == pytest.approx(statistics.paired_p_value(*scores))
  own, other = arrays(tmp_path / "bert"), arrays(tmp_path / "scratch")
  order = np.argsort(own["test.units"], axis=1)
  expected = statistics.paired_bootstrap(
    functools.partial(metrics.resampled, metric),
    *(
      np.take_along_axis(one, order, axis=1)
      for one in (own["test.labels"], own["test.predicted"], other["test.predicted"])
    ),
    resamples=RESAMPLES,
    seed=0,
    units=np.sort(own["test.units"], axis=1),
  )
  assert (row.low_samples, row.high_samples) == pytest.approx(expected[1:])
  assert expected[0] == pytest.approx(row.difference, abs=1e-4)
  assert row.samples == len(np.unique(own["test.units"]))
  assert row.remark == ""


def test_samples_in_another_order_are_laid_side_by_side(splice):
  expected = compared(splice).by_task.iloc[0]
  found = arrays(splice / "scratch")
  order = np.random.default_rng(0).permutation(found["test.units"].shape[1])
  for name in ("units", "labels", "predicted"):
    found[f"test.{name}"] = found[f"test.{name}"][:, order]
  np.savez(splice / "scratch" / "predictions.npz", **found)
  row = compared(splice).by_task.iloc[0]
  assert (row["low_samples"], row["high_samples"]) == (
    expected["low_samples"],
    expected["high_samples"],
  )


def test_only_shared_seeds_are_paired(splice):
  path = splice / "scratch" / "config.json"
  path.write_text(json.dumps(json.loads(path.read_text()) | {"seed": 1}))
  row = compared(splice).by_task.iloc[0]
  assert row["seeds"] == [1, 2]
  # Its seeds 1 and 2 have the scores 60 and 62.
  assert row["difference"] == pytest.approx((84 - 60 + 72 - 62) / 2)


def test_one_seed_has_no_interval_over_seeds(tmp_path):
  run_folders.finetuned(tmp_path / "bert", right=(0.9,))
  run_folders.finetuned(tmp_path / "scratch", right=(0.7,), init="scratch")
  row = compared(tmp_path).by_task.iloc[0]
  assert row["difference"] == pytest.approx(20)
  assert np.isnan([row["low_seeds"], row["p_value"], row["p_adjusted"]]).all()
  assert row["low_samples"] < 20 < row["high_samples"]


def test_seeds_with_equal_differences_have_no_interval(tmp_path):
  run_folders.finetuned(tmp_path / "bert", right=(0.9, 0.8))
  run_folders.finetuned(tmp_path / "scratch", right=(0.7, 0.6), init="scratch")
  row = compared(tmp_path).by_task.iloc[0]
  assert row["difference"] == pytest.approx(20)
  assert np.isnan([row["low_seeds"], row["high_seeds"], row["p_value"]]).all()


def test_runs_of_older_versions_have_no_interval_over_samples(tmp_path):
  run_folders.finetuned(tmp_path / "bert")
  run_folders.finetuned(tmp_path / "scratch", init="scratch", has_predictions=False)
  found = compared(tmp_path)
  assert np.isnan(found.by_task.iloc[0]["low_samples"])
  assert found.notes == ()


def other_samples(found):
  found["test.units"] = found["test.units"] + 5000


def other_labels(found):
  found["test.labels"][:, 0] = 1 - found["test.labels"][:, 0]
  found["test.predicted"][:, 0] = 1 - found["test.predicted"][:, 0]


@pytest.mark.parametrize("change", [other_samples, other_labels])
def test_other_samples_are_not_paired(change, splice):
  found = arrays(splice / "scratch")
  change(found)
  np.savez(splice / "scratch" / "predictions.npz", **found)
  result = compared(splice)
  assert np.isnan(result.by_task.iloc[0]["low_samples"])
  assert not np.isnan(result.by_task.iloc[0]["low_seeds"])


BROKEN = {
  "cut": lambda data, _: data[: len(data) // 2],
  "empty": lambda *_: b"",
  "text": lambda *_: b"accuracy 93",
  "flipped": lambda data, _: data.replace(b"predicted", b"Predicted"),
}
FOREIGN = {
  "other_scores": lambda found: found.update({"test.predicted": 1 - found["test.predicted"]}),
  "fewer_seeds": lambda found: found.update({"seeds": found["seeds"][:2]}),
  "one_dimension": lambda found: found.update({"test.labels": found["test.labels"][0]}),
  "fractions": lambda found: found.update({"test.predicted": found["test.predicted"] + 0.5}),
  "nan": lambda found: found.update({"test.labels": np.full(found["test.labels"].shape, np.nan)}),
  "text": lambda found: found.update({"test.predicted": found["test.predicted"].astype(str)}),
  "huge": lambda found: found.update({"test.predicted": found["test.predicted"] + 2**30}),
  "negative": lambda found: found.update({"test.predicted": found["test.predicted"] - 2}),
  "no_samples": lambda found: found.update(
    {name: found[name][:, :0] for name in ("test.units", "test.labels", "test.predicted")}
  ),
  "pickled": lambda found: found.update({"test.labels": np.array([[object()]])}),
}


@pytest.mark.parametrize("name", [*BROKEN, *FOREIGN])
def test_predictions_that_cannot_be_used_are_named_and_left_out(name, splice):
  path = splice / "bert" / "predictions.npz"
  if name in FOREIGN:
    found = arrays(splice / "bert")
    FOREIGN[name](found)
    np.savez(path, **found)
  if name in BROKEN:
    path.write_bytes(BROKEN[name](path.read_bytes(), None))
  result = compared(splice)
  assert len([note for note in result.notes if str(path) in note]) == 1
  assert np.isnan(result.by_task.iloc[0]["low_samples"])
  assert not np.isnan(result.by_task.iloc[0]["low_seeds"])


def test_updates_until_scratchs_best(tmp_path):
  """Scratch is best after 30 updates, with 70 on average; bert has that after 20, re_emb never."""
  run_folders.finetuned(
    tmp_path / "scratch",
    init="scratch",
    right=(0.5, 0.6),
    curve={10: [50, 50], 20: [60, 62], 30: [68, 72], 40: [66, 72]},
  )
  run_folders.finetuned(
    tmp_path / "bert", right=(0.7, 0.8), curve={10: [80, 50], 20: [70, 70], 30: [60, 60]}
  )
  run_folders.finetuned(
    tmp_path / "re_emb", init="re_emb", right=(0.7, 0.7), curve={10: [80, 50], 30: [69, 70]}
  )
  table = compared(tmp_path).by_task.set_index("run")
  assert table["updates"]["bert"] == 20
  assert table["scratch_updates"].tolist() == [30, 30]
  assert table["updates"].isna()["re_emb"]


def test_the_run_from_scratch_that_is_most_alike(tmp_path):
  small = {"network": "bert 6 x 384"}
  run_folders.finetuned(tmp_path / "a_large", init="scratch")
  run_folders.finetuned(tmp_path / "b_small", init="scratch", **small)
  run_folders.finetuned(tmp_path / "c_other_task", init="scratch", task="dna_h3", **small)
  run_folders.finetuned(tmp_path / "d_hilbert", init="scratch", network="hilbert_cnn 4 x 64")
  run_folders.finetuned(tmp_path / "bert")
  run_folders.finetuned(tmp_path / "minilm", model="MiniLM", **small)
  run_folders.finetuned(tmp_path / "alone", task="dna_h4")
  found = compared(tmp_path)
  table = found.by_task.set_index("run")
  assert table["against"].to_dict() == {
    "bert": "a_large",
    "minilm": "b_small",
    "d_hilbert": "a_large",
  }
  assert table["remark"]["d_hilbert"] == "network differs"
  assert [note for note in found.notes if note.endswith(": alone")]


def test_without_a_run_from_scratch_nothing_is_compared(tmp_path):
  run_folders.finetuned(tmp_path / "bert")
  found = compared(tmp_path)
  assert len(found.by_task) == len(found.over_tasks) == 0


def test_over_tasks_and_the_number_of_tests(tmp_path):
  tasks = {
    "dna_h3": (0.9, 0.8, 0.7),
    "dna_h4": (0.7, 0.8, 0.6),
    "protein_stability": (0.5, 0.9, 0.6),
  }
  results = {}
  for task, right in tasks.items():
    for init, shares in (("pretrained", right), ("scratch", (0.6, 0.6, 0.64))):
      path = tmp_path / f"{task}_{init}"
      results[task, init] = run_folders.finetuned(path, task=task, init=init, right=shares)
  found = compared(tmp_path)
  p_values = found.by_task["p_value"].to_numpy()
  np.testing.assert_allclose(found.by_task["p_adjusted"], statistics.adjusted_p_values(p_values))
  assert list(zip(found.over_tasks["discipline"], found.over_tasks["tasks"], strict=True)) == [
    ("DNA", 2),
    ("all", 3),
  ]
  for row, names in zip(found.over_tasks.itertuples(), (list(tasks)[:2], list(tasks)), strict=True):
    ours, theirs = (
      [np.array(results[task, init]["test"]["runs"]) for task in names]
      for init in ("pretrained", "scratch")
    )
    draw = {"resamples": RESAMPLES, "seed": 0}
    differences = [a - b for a, b in zip(ours, theirs, strict=True)]
    assert (row.difference, row.low, row.high) == pytest.approx(
      statistics.task_interval(differences, **draw)
    )
    assert (row.probability, row.probability_low, row.probability_high) == pytest.approx(
      statistics.probability_of_improvement(ours, theirs, **draw)
    )


def test_a_log_that_cannot_be_read_is_named_with_its_line(splice):
  path = splice / "bert" / "metrics.jsonl"
  path.write_text(path.read_text() + '{"step": 4')
  number = len(path.read_text().splitlines())
  (splice / "scratch" / "metrics.jsonl").unlink()
  runs = read(splice).runs
  found, notes = curves.read_all(runs)
  assert found == {}
  assert [note for note in notes if f"{path}:{number}" in note]
  assert [note for note in notes if str(splice / "scratch" / "metrics.jsonl") in note]
  assert compare(collect_tree(read(splice)), found).by_task["updates"].isna().all()


def test_a_curve_has_the_steps_of_all_replicas_and_few_points(tmp_path):
  records = [
    {"step": step, "split": "train", "replica": replica, "loss": step + replica}
    for step in range(1, 301)
    for replica in (0, 1)
  ]
  records += [{"step": 301, "split": "train", "replica": 0, "loss": 1.0}]
  records += [{"step": 302, "split": "train", "replica": i, "loss": float("nan")} for i in (0, 1)]
  (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, records)))
  curve = curves.read(tmp_path / "metrics.jsonl", {"train": "loss", "validation": "loss"})["train"]
  assert curve.steps.tolist() == list(range(1, 301))
  thin = curve.thinned()
  assert thin.steps.tolist() == [*range(8, 297, 8), 300]
  assert thin.values[:, 0].tolist() == [4.5, 5.5]  # the mean of 1 to 8, and of 2 to 9
  assert curves.updates_until(curve, 10.5) == 10
  assert curves.updates_until(curve, 1000.0) is None


def test_sentences_say_what_the_intervals_allow(tmp_path):
  for name, init, right in (
    ("scratch", "scratch", (0.5, 0.52, 0.48)),
    ("better", "pretrained", (0.9, 0.93, 0.88)),
    ("twin", "pretrained", (0.5, 0.52, 0.48)),
  ):
    run_folders.finetuned(tmp_path / name, init=init, right=right, samples=100, model=name)
  (tmp_path / "twin" / "predictions.npz").write_bytes(
    (tmp_path / "scratch" / "predictions.npz").read_bytes()
  )
  collected = collect_tree(read(tmp_path))
  said = {one.split(" has ")[0].split(": ")[1]: one for one in sentences(compare(collected, {}))}
  better = next(one for name, one in said.items() if "better" in name)
  assert "has accuracy 90.3, scratch 50.0: 40.3 above it" in better
  assert "Both intervals leave out 0" in better
  twin = next(one for name, one in said.items() if "twin" in name)
  assert "level with it" in twin
  assert "do not tell the two apart" in twin
  (tmp_path / "better" / "predictions.npz").unlink()
  alone = [one for one in sentences(compare(collected, {})) if "better" in one]
  assert "no predictions" in alone[0]
