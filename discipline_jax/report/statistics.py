"""Says how far the differences between models can be trusted: over seeds, over samples, and over tasks.

There are two kinds of chance. Another seed (another split, order, head, or token map) gives another score: that is
measured by the seeds that both models share. Other test samples give another score: that is measured by resampling
them. A bootstrap over the seeds of one task is never made, because two to six values say too little about their spread.

References:
  Student, The probable error of a mean, 1908. Efron, Tibshirani, An introduction to the bootstrap, 1993. Agarwal,
  Schwarzer, Castro, Courville, Bellemare, Deep reinforcement learning at the edge of the statistical precipice, 2021.
  Benjamini, Hochberg, Controlling the false discovery rate, 1995.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int, Num
from scipy import special, stats

_BLOCK = 1 << 22  # samples that are resampled together

# (labels [samples], predicted [samples], counts [resamples, samples]) -> scores [resamples]: as
# `functools.partial(metrics.resampled, "accuracy")`. Sample i counts `counts[r, i]` times in resample r.
Score = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def paired_interval(
  a: Sequence[float] | Float[np.ndarray, " seeds"],
  b: Sequence[float] | Float[np.ndarray, " seeds"],
  level: float = 0.95,
) -> tuple[float, float, float]:
  """Returns the mean of `a - b` and the ends of Student's interval for it.

  Args:
    a: scores of one model, by seed.
    b: scores of the other one, of the same seeds.
    level: the confidence.

  Raises:
    ValueError: fewer than two seeds, which have no interval, or unequal numbers of them.
  """
  differences = _differences(a, b)
  mean = float(differences.mean())
  quantile = special.stdtrit(len(differences) - 1, (1 + level) / 2)  # of Student's distribution
  half = float(quantile * _standard_error(differences))
  return mean, mean - half, mean + half


def paired_p_value(
  a: Sequence[float] | Float[np.ndarray, " seeds"],
  b: Sequence[float] | Float[np.ndarray, " seeds"],
) -> float:
  """Returns the p-value of Student's paired test that the two models are equal; NaN if all differences are the same.

  Args:
    a: scores of one model, by seed.
    b: scores of the other one, of the same seeds.

  Raises:
    ValueError: as `paired_interval`.
  """
  differences = _differences(a, b)
  if np.ptp(differences) < 1e-9:  # no spread, as with two seeds on few samples, is no certainty
    return math.nan
  ratio = differences.mean() / _standard_error(differences)
  return float(2 * special.stdtr(len(differences) - 1, -abs(ratio)))


def paired_bootstrap(
  score: Score,
  labels: Num[np.ndarray, "seeds samples ..."],
  a: Num[np.ndarray, "seeds samples ..."],
  b: Num[np.ndarray, "seeds samples ..."],
  *,
  resamples: int,
  seed: int,
  units: Int[np.ndarray, "seeds samples"] | None = None,
) -> tuple[float, float, float]:
  """Returns the mean over seeds of `score(a) - score(b)`, and the ends of its 95% interval over scored samples.

  The interval is that of the percentile bootstrap. Both models have the same resamples, and so have all seeds if their
  samples are the same; if each seed has its own split, each is resampled by itself.

  Args:
    score: scores many resamples at once, `functools.partial(metrics.resampled, metric)`.
    labels: true classes or values of what was scored: samples or, where samples vote, groups.
    a: what one model predicted for them.
    b: what the other model predicted for them.
    resamples: how many are drawn.
    seed: of the draw.
    units: numbers of what was scored, to tell whether seeds have the same samples; None: they have.

  Raises:
    ValueError: fewer than two samples.
  """
  (result,) = paired_bootstraps(score, labels, [a], b, resamples=resamples, seed=seed, units=units)
  return result


def paired_bootstraps(
  score: Score,
  labels: Num[np.ndarray, "seeds samples ..."],
  models: Sequence[Num[np.ndarray, "seeds samples ..."]],
  b: Num[np.ndarray, "seeds samples ..."],
  *,
  resamples: int,
  seed: int,
  units: Int[np.ndarray, "seeds samples"] | None = None,
) -> list[tuple[float, float, float]]:
  """Returns what `paired_bootstrap` returns for each of several models that are compared with one.

  They have the same resamples, which are drawn once: that is most of the time.

  Args:
    models: what each of the models predicted.
    score, labels, b, resamples, seed, units: see `paired_bootstrap`.
  """
  index = np.arange(labels.shape[1])
  is_shared = units is None or bool((units == units[0]).all())

  def differences(*drawn: np.ndarray, axis: int) -> np.ndarray:
    del axis  # the last one
    counts = [_count(one) for one in drawn]
    scores = [
      np.mean([score(labels[i], one[i], counts[i % len(counts)]) for i in range(len(one))], axis=0)
      for one in (*models, b)
    ]
    return np.stack(scores[:-1]) - scores[-1]

  whole = differences(index, axis=-1)[:, 0]
  drawn_apart = 1 if is_shared else len(labels)
  ends = _percentiles([index] * drawn_apart, differences, resamples, seed)
  return [
    (float(one), float(low), float(high)) for one, low, high in zip(whole, *ends, strict=True)
  ]


def task_interval(
  differences: Sequence[Float[np.ndarray, " _"]], *, resamples: int, seed: int
) -> tuple[float, float, float]:
  """Returns the mean over tasks of the mean difference, and the ends of its 95% interval by the stratified bootstrap.

  Seeds are resampled within each task (Agarwal et al. 2021, section 4.1).

  Args:
    differences: of the scores of two models, for each task those of the seeds that they share, at least two.
    resamples: how many are drawn.
    seed: of the draw.

  Raises:
    ValueError: fewer than two tasks, whose seeds alone are too few for a bootstrap.
  """
  _check_tasks(differences)

  def mean(*drawn: np.ndarray, axis: int) -> np.ndarray:
    return np.asarray(np.mean([one.mean(axis) for one in drawn], axis=0))

  whole = float(mean(*differences, axis=-1))
  low, high = _percentiles(differences, mean, resamples, seed)
  return whole, float(low), float(high)


def probability_of_improvement(
  a: Sequence[Float[np.ndarray, " _"]],
  b: Sequence[Float[np.ndarray, " _"]],
  *,
  resamples: int,
  seed: int,
) -> tuple[float, float, float]:
  """Returns how likely a run of one model beats a run of the other, averaged over tasks, with a 95% interval.

  Within a task it is the Mann-Whitney statistic divided by the number of pairs, where equal scores count half; the
  interval is that of the stratified bootstrap (Agarwal et al. 2021, section 4.3).

  Args:
    a: scores of one model, for each task those of its seeds, at least two.
    b: scores of the other model, for the same tasks.
    resamples: how many are drawn.
    seed: of the draw.

  Raises:
    ValueError: fewer than two tasks.
  """
  _check_tasks(a)

  def probability(*drawn: np.ndarray, axis: int) -> np.ndarray:
    del axis  # the last one
    pairs = zip(drawn[: len(a)], drawn[len(a) :], strict=True)
    each = [np.sign(x[..., :, None] - y[..., None, :]).mean((-2, -1)) for x, y in pairs]
    return np.asarray((1 + np.mean(each, axis=0)) / 2)

  data = [*a, *b]
  low, high = _percentiles(data, probability, resamples, seed)
  return float(probability(*data, axis=-1)), float(low), float(high)


def adjusted_p_values(p_values: Float[np.ndarray, " tests"]) -> Float[np.ndarray, " tests"]:
  """Returns the p-values adjusted for their number (Benjamini and Hochberg); a NaN is no test and stays NaN.

  Args:
    p_values: of all tests that are looked at together.
  """
  adjusted = np.full(len(p_values), np.nan)
  known = ~np.isnan(p_values)
  if known.any():
    adjusted[known] = stats.false_discovery_control(p_values[known], method="bh")
  return adjusted


def _differences(a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray) -> np.ndarray:
  if len(a) != len(b) or len(a) < 2:
    raise ValueError(f"{len(a)} and {len(b)} scores; give two or more seeds that both models have")
  return np.asarray(a, np.float64) - np.asarray(b, np.float64)


def _standard_error(differences: np.ndarray) -> float:
  return float(differences.std(ddof=1) / len(differences) ** 0.5)


def _check_tasks(values: Sequence[np.ndarray]) -> None:
  if len(values) < 2:
    raise ValueError("one task; the seeds of one task are too few for a bootstrap")


def _count(drawn: np.ndarray) -> np.ndarray:
  """Returns how often each sample was drawn in each resample, given numbers of samples [..., samples]."""
  rows = drawn.reshape(-1, drawn.shape[-1])
  places = rows + rows.shape[1] * np.arange(len(rows))[:, None]
  return np.bincount(places.ravel(), minlength=rows.size).reshape(rows.shape)


def _percentiles(
  data: Sequence[np.ndarray], statistic: Callable[..., np.ndarray], resamples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the ends of the 95% interval of each value of a statistic, whose samples are drawn independently."""
  interval = stats.bootstrap(
    tuple(data),
    statistic,
    n_resamples=resamples,
    batch=max(1, _BLOCK // max(map(len, data))),
    vectorized=True,
    axis=-1,
    method="percentile",
    rng=np.random.default_rng(seed),
  ).confidence_interval
  return np.asarray(interval.low), np.asarray(interval.high)
