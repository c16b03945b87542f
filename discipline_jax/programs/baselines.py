"""Predicts without a network, in seconds: one answer for all samples, and a linear model on counts of symbols.

They read the very arrays that the networks read, and are trained and scored on the same parts.
"""

import dataclasses
import warnings
from collections.abc import Mapping

import numpy as np
from jaxtyping import UInt

from discipline_jax.errors import UserError
from discipline_jax.programs.finetuning_plan import Plan
from discipline_jax.tasks.answers import KINDS
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.features import NUM_SPECIAL
from discipline_jax.tasks.splits import Split

LONGEST = 4  # symbols in a row that are counted
_COLUMNS = 1 << 18  # most counts for each number of symbols in a row; more share columns by hashing
_ROWS = 4096  # samples that are counted together, which bounds memory
_STRENGTHS = (0.01, 0.1, 1.0, 10.0)  # one over the L2 penalty, from strong to weak
_ITERATIONS = 300
# Hashing multiplies by 2^64 over the golden ratio, and keeps as many of the highest bits as number the columns.
_HASH = np.uint64(11400714819323198485)
_SHIFT = np.uint64(64 - (_COLUMNS.bit_length() - 1))


@dataclasses.dataclass(frozen=True)
class Baseline:
  """Holds the answers of a model without a network for one replica's split.

  Attributes:
    setting: such as `always N`.
    units: for `validation` and each test part, the number of each sample that is scored or, if samples vote, of each
      group.
    labels, predicted: likewise, the true and the predicted classes or values.
  """

  setting: str
  units: Mapping[str, np.ndarray]
  labels: Mapping[str, np.ndarray]
  predicted: Mapping[str, np.ndarray]


def check_kind(task: Task) -> None:
  """Raises UserError if there are no baselines for a task."""
  if task.windows:
    raise UserError(
      "task.long = 'windows' is not for the simple baselines, which read one input for a sequence; set"
      " --config.task.long=cut"
    )
  if not task.answer.has_baselines:
    able = " and ".join(kind for kind, answer in KINDS.items() if answer.has_baselines)
    raise UserError(
      f"task {task.name} asks for {task.answer.kind}, and the simple baselines answer for {able}"
      " alone; train each init with the config of the task (--config=custom for a table of your own) and a --workdir of"
      " its own, and compare them with python -m discipline_jax.report DIR"
    )


def fit_baselines(plan: Plan) -> dict[str, list[Baseline]]:
  """Fits the baselines to the training part of each replica.

  `constant` gives all samples the largest class of the training part (the second class, if the metric is its F1), or
  the mean of its values. `linear` is logistic or ridge regression on the counts of one to four symbols in a row,
  each divided by its maximum; its penalty is the one that scores best on validation.

  Args:
    plan: of a fine-tuning.

  Returns:
    By name, one for each replica.

  Raises:
    UserError: a training part with one class only.
  """
  counts = count_symbols(plan.features.symbols, len(plan.features.symbol_ids))
  fitted: dict[str, list[Baseline]] = {"constant": [], "linear": []}
  for split in plan.splits:
    linear = _linear(plan, split, counts)
    fitted["linear"].append(linear)
    fitted["constant"].append(_constant(plan, split, linear))
  return fitted


def count_symbols(symbols: UInt[np.ndarray, "samples length"], num_symbols: int):
  """Counts the runs of one to four symbols in each sample; special tokens and padding are no symbols.

  Args:
    symbols: see `Features`.
    num_symbols: how many symbols there are, special ones counted.

  Returns:
    A sparse matrix [samples, columns] of SciPy. If there are too many possible runs of some number of symbols, several
    share a column, by multiplicative hashing (Knuth, The art of computer programming, volume 3, section 6.4).
  """
  from scipy import sparse  # half a second, and only a comparison needs it

  base = max(1, num_symbols - NUM_SPECIAL)
  blocks = []
  for start in range(0, len(symbols), _ROWS):
    rows = symbols[start : start + _ROWS]
    columns, width = [], rows.shape[1]
    codes: np.ndarray = np.zeros(rows.shape, np.uint64)
    whole: np.ndarray = np.ones(rows.shape, bool)
    for n in range(1, min(LONGEST, width) + 1):
      last = rows[:, n - 1 :]
      codes = codes[:, : last.shape[1]] * np.uint64(base) + (last.astype(np.uint64) - NUM_SPECIAL)
      whole = whole[:, : last.shape[1]] & (last >= NUM_SPECIAL)
      size = min(base**n, _COLUMNS)
      places = codes if base**n <= _COLUMNS else (codes * _HASH) >> _SHIFT
      sample, _ = np.nonzero(whole)
      ones = np.ones(len(sample), np.float32)
      pair = (sample, places[whole].astype(np.int64))
      columns.append(sparse.csr_matrix((ones, pair), shape=(len(rows), size)))
    blocks.append(sparse.hstack(columns, format="csr"))
  return sparse.vstack(blocks, format="csr")


def _constant(plan: Plan, split: Split, linear: Baseline) -> Baseline:
  answer, targets = plan.task.answer, plan.features.targets
  if answer.labels:
    counts = np.bincount(targets["labels"][split["train"]], minlength=len(answer.labels))
    number = 1 if answer.metric == "f1" else int(counts.argmax())
    value, setting = float(number), f"always {answer.labels[number]}"
  else:
    value = float(targets["labels"][split["train"]].mean())
    setting = f"always {value:.4g}, the mean"
  predicted = {part: np.full_like(own, value) for part, own in linear.labels.items()}
  return Baseline(setting, linear.units, linear.labels, predicted)


def _linear(plan: Plan, split: Split, counts) -> Baseline:
  """Fits the linear model to counts of symbols."""
  from sklearn.preprocessing import MaxAbsScaler

  own_counts = counts[split["train"]]
  seen = np.flatnonzero(own_counts.getnnz(axis=0))  # the others would have no weight
  scaled = MaxAbsScaler().fit(own_counts[:, seen]).transform(counts[:, seen])
  return fit_linear(plan, split, scaled)


def fit_linear(plan: Plan, split: Split, scaled) -> Baseline:
  """Fits logistic or ridge regression with each penalty, and keeps the one that scores best on validation.

  Args:
    plan: of a fine-tuning.
    split: of one replica.
    scaled: what is known of each sample [samples, features], of similar size for all features; may be sparse.

  Raises:
    UserError: a training part with one class only.
  """
  from sklearn.exceptions import ConvergenceWarning
  from sklearn.linear_model import LogisticRegression, Ridge

  answer, labels = plan.task.answer, plan.features.targets["labels"]
  train, own = scaled[split["train"]], labels[split["train"]]
  if answer.labels and len(np.unique(own)) == 1:
    raise UserError(
      f"the training part has one class only, {answer.labels[own[0]]}; give more samples, or a larger"
      " task.train_fraction"
    )
  best, setting = None, ""
  model = LogisticRegression(max_iter=_ITERATIONS, warm_start=True) if answer.labels else Ridge()
  for strength in _STRENGTHS:
    model.set_params(**({"C": strength} if answer.labels else {"alpha": 1 / strength}))
    with warnings.catch_warnings():  # the setting says it
      warnings.simplefilter("ignore", ConvergenceWarning)
      model.fit(train, own)
    measured = {
      part: answer.measure(
        _outputs(model, scaled[samples], len(answer.labels)),
        {"labels": labels[samples]},
        plan.features.groups[samples],
      )
      for part, samples in split.items()
      if part != "train"
    }
    if best is None or measured["validation"].score > best["validation"].score:
      stopped = answer.labels and int(np.max(model.n_iter_)) >= _ITERATIONS
      setting = f"penalty {1 / strength:g}" + (", not converged" if stopped else "")
      best = measured
  assert best is not None
  return Baseline(
    setting,
    {
      part: answer.units(split[part].astype(np.int32), plan.features.groups[split[part]])
      for part in best
    },
    {part: one.labels for part, one in best.items()},
    {part: one.predicted for part, one in best.items()},
  )


def _outputs(model, inputs, num_classes: int) -> np.ndarray:
  """Returns what a network would give: for each class a number, the highest for the predicted one, or the value."""
  if not num_classes:
    return model.predict(inputs).astype(np.float32)[:, None]
  return np.eye(num_classes, dtype=np.float32)[model.predict(inputs)]
