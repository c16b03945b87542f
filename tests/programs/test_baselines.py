"""The baselines of a comparison: counts against scikit-learn's, and tasks whose best answer is known."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from discipline_jax.errors import UserError
from discipline_jax.metrics import score
from discipline_jax.programs import baselines
from discipline_jax.programs.baselines import count_symbols, fit_baselines
from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.tasks.features import CLS, NUM_SPECIAL, PAD, SEP
from tests.testdata import tiny


def encode(texts, alphabet):
  width = max(map(len, texts)) + 2
  symbols = np.full((len(texts), width), PAD, np.uint8)
  for row, text in zip(symbols, texts, strict=True):
    row[: len(text) + 2] = [CLS, *(NUM_SPECIAL + alphabet.index(letter) for letter in text), SEP]
  return symbols


def test_counts_by_hand():
  counts = count_symbols(encode(["ABA"], "AB"), NUM_SPECIAL + 2).toarray()[0]
  # A, B; AA, AB, BA, BB; AAA, AAB, ABA, ...; four in a row do not occur.
  assert counts[:6].tolist() == [2, 1, 0, 1, 1, 0]
  assert counts[6:14].tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
  assert counts[14:].tolist() == [0] * 16


def test_counts_are_those_of_scikit_learn(monkeypatch):
  """Every column of its vectorizer is one of ours; also over several blocks of rows."""
  monkeypatch.setattr(baselines, "_ROWS", 7)
  rng = np.random.default_rng(0)
  texts = ["".join(rng.choice(list("ACGT"), rng.integers(1, 30))) for _ in range(20)]
  ours = count_symbols(encode(texts, "ACGT"), NUM_SPECIAL + 4).toarray()
  vectorizer = CountVectorizer(analyzer="char", ngram_range=(1, 4), lowercase=False)
  theirs = vectorizer.fit_transform(texts).toarray()
  start = {1: 0, 2: 4, 3: 20, 4: 84}
  for gram, column in vectorizer.vocabulary_.items():
    place = start[len(gram)] + sum(
      "ACGT".index(letter) * 4**i for i, letter in enumerate(reversed(gram))
    )
    np.testing.assert_array_equal(ours[:, place], theirs[:, column])
  assert ours.sum() == theirs.sum()


def test_large_alphabets_share_columns(monkeypatch):
  monkeypatch.setattr(baselines, "_COLUMNS", 1 << 8)
  monkeypatch.setattr(baselines, "_SHIFT", np.uint64(64 - 8))
  rng = np.random.default_rng(0)
  symbols = rng.integers(NUM_SPECIAL, NUM_SPECIAL + 200, size=(30, 50)).astype(np.uint8)
  counts = count_symbols(symbols, NUM_SPECIAL + 200)
  assert counts.shape == (30, 200 + 3 * 256)
  assert counts.sum() == 30 * (50 + 49 + 48 + 47)
  in_pairs = counts[:, 200:456].toarray().sum(0)
  assert (in_pairs > 0).mean() > 0.9  # 1,470 pairs are spread over the columns
  same = count_symbols(symbols[::-1].copy(), NUM_SPECIAL + 200)
  np.testing.assert_array_equal(same.toarray(), counts.toarray()[::-1])


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
