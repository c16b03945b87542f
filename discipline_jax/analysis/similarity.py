"""Similarities of two representations of the same tokens, computed from sums over tokens (`analysis.moments`).

All but `cka` of raw features and `authors_pwcca` are of centred features. A similarity says little by itself: with few
tokens for their features, unrelated representations are similar, too. So each is computed a second time with the tokens
of one representation in random order, the null.

References:
  CCA: Hotelling 1936. SVCCA: Raghu et al. 2017. PWCCA: Morcos, Raghu, Bengio 2018. CKA: Kornblith et al. 2019, with the
  estimator without bias of Song et al. 2012. Effective rank: Roy, Vetterli 2007.
"""

import contextlib
import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Float64

from discipline_jax.analysis.moments import Cross, Moments, Own

_SHARE = 0.99  # of the variance that SVCCA keeps
ENOUGH = 10  # tokens for each feature


@dataclasses.dataclass(frozen=True)
class CCA:
  """The canonical correlations of two representations, in falling order.

  Attributes:
    correlations: as many as the smaller of both ranks.
    first_weights, second_weights: for each of them, how much of the first (second) representation its direction holds:
      the sum over features of the absolute product of the direction and the feature.
  """

  correlations: Float64[np.ndarray, " rank"]
  first_weights: Float64[np.ndarray, " rank"]
  second_weights: Float64[np.ndarray, " rank"]

  @property
  def pwcca(self) -> tuple[float, float]:
    """The mean correlation, weighted by how much of the first, and of the second, representation each one holds."""
    first, second = (
      float(weights @ self.correlations / weights.sum())
      for weights in (self.first_weights, self.second_weights)
    )
    return first, second

  @property
  def mean(self) -> float:
    """The mean correlation."""
    return float(self.correlations.mean())


def cca(x: Own, y: Own, cross: Cross, *, share: float = 1.0) -> CCA:
  """Returns the canonical correlations of two representations.

  A direction counts if its singular value is above the number of features times float32's epsilon times the largest.

  Args:
    x, y, cross: the sums over both, and over their pairs.
    share: of the variance of each representation that is kept, in its largest principal components.

  Raises:
    ValueError: a representation whose features are all constant.
  """
  x_values, x_vectors = _principal(x, share)
  y_values, y_vectors = _principal(y, share)
  between = (x_vectors / x_values).T @ cross.scatter(x, y) @ (y_vectors / y_values)
  left, correlations, right = np.linalg.svd(between, full_matrices=False)
  return CCA(
    np.clip(correlations, 0, 1),
    np.abs((left.T * x_values) @ x_vectors.T).sum(1),
    np.abs((right * y_values) @ y_vectors.T).sum(1),
  )


def cka(x: Own, y: Own, cross: Cross, *, standardised: bool = False) -> float | None:
  """Returns the linear centred kernel alignment with its bias: near 1 for unrelated data with few tokens.

  Args:
    x, y, cross: the sums over both, and over their pairs.
    standardised: whether each feature is divided by its standard deviation, so that a few large ones do not decide
      alone; a constant feature stays 0.

  Returns:
    A number from 0 to 1; None if all features of one are constant.
  """
  xx, yy, xy = x.scatter, y.scatter, cross.scatter(x, y)
  if standardised:
    own, other = (_inverse(np.sqrt(np.maximum(0, np.diag(one)))) for one in (xx, yy))
    xx, yy, xy = xx * np.outer(own, own), yy * np.outer(other, other), xy * np.outer(own, other)
  scale = np.linalg.norm(xx) * np.linalg.norm(yy)
  return float(np.square(xy).sum() / scale) if scale > 0 else None


def cka_debiased(x: Own, y: Own, cross: Cross) -> float | None:
  """Returns the linear centred kernel alignment from estimators without bias: 0 on average for unrelated data.

  It may be below 0.

  Returns:
    The alignment; None if there are fewer than four tokens, or if the estimate of one representation's own alignment is
    not above 0, so that there is nothing to divide by.
  """
  if x.count < 4:
    return None
  own, other = (_hsic(one, one, _with_itself(one)) for one in (x, y))
  return _hsic(x, y, cross) / (own * other) ** 0.5 if min(own, other) > 0 else None


def procrustes(x: Own, y: Own, cross: Cross) -> float | None:
  """Returns how well an orthogonal map takes one representation to the other, from 0 to 1.

  It is the sum of the singular values of the cross scatter over both lengths (Frobenius norms): 1 - d / 2 with d the
  squared distance that the best orthogonal map leaves between the centred representations of length 1.

  Returns:
    The similarity; None if all features of one are constant.
  """
  scale = (np.trace(x.scatter) * np.trace(y.scatter)) ** 0.5
  nuclear = np.linalg.svd(cross.scatter(x, y), compute_uv=False).sum()
  return float(nuclear / scale) if scale > 0 else None


def effective_rank(x: Own) -> float | None:
  """Returns the exponential of the entropy of the singular values, divided by their sum; None if all are 0."""
  values = np.sqrt(np.maximum(0, np.linalg.eigvalsh(x.scatter)))
  if not values.any():
    return None
  shares = values[values > 0] / values.sum()
  return float(np.exp(-(shares * np.log(shares)).sum()))


def similarities(x: Own, y: Own, cross: Cross) -> dict[str, float | None]:
  """Returns all similarities by name; None where one is not defined.

  Args:
    x, y, cross: the sums over both, and over their pairs or, for the null, over random pairs.
  """
  whole: CCA | None = None
  main: CCA | None = None
  with contextlib.suppress(ValueError):  # constant features
    whole, main = cca(x, y, cross), cca(x, y, cross, share=_SHARE)
  forward, backward = (None, None) if whole is None else whole.pwcca
  return {
    "pwcca": forward,
    "pwcca_reverse": backward,
    "cca": None if whole is None else whole.mean,
    "svcca": None if main is None else main.mean,
    "cka": cka(x, y, cross),
    "cka_debiased": cka_debiased(x, y, cross),
    "cka_standardised": cka(x, y, cross, standardised=True),
    "procrustes": procrustes(x, y, cross),
  }


def compare(
  x: Float[np.ndarray, "tokens first"], y: Float[np.ndarray, "tokens second"], *, seed: int = 0
) -> tuple[Mapping[str, float | None], Mapping[str, float | None]]:
  """Returns all similarities of two representations, and their null.

  Args:
    x, y: representations of the same tokens.
    seed: of the null's random order.

  Raises:
    ValueError: unequal numbers of tokens, no token, or values that are not finite.
  """
  if not len(x):
    raise ValueError("no token")
  sums = Moments([x.shape[1], y.shape[1]], [(0, 1)], seed=seed)
  sums.add([x, y])
  sums.finish()
  own, other = sums.own
  return similarities(own, other, sums.cross[0, 1]), similarities(own, other, sums.null[0, 1])


def authors_pwcca(
  x: Float[np.ndarray, "tokens first"], y: Float[np.ndarray, "tokens second"], ridge: float
) -> float:
  """Returns PWCCA as the authors of the paper compute it: features as they are, and a ridge on the sums of products.

  Args:
    x, y: representations of the same tokens; the authors give the first thousand.
    ridge: is added to the diagonals: 1.5e-3 for stability, 1e-3 for fluorescence, 1e-4 for localization.
  """
  x, y = x.astype(np.float64), y.astype(np.float64)
  own, other = (_inverse_root(one.T @ one + ridge * np.eye(one.shape[1])) for one in (x, y))
  left, correlations, _ = np.linalg.svd(own @ (x.T @ y) @ other, full_matrices=False)
  weights = np.abs((x @ own @ left).T @ x).sum(1)
  return float(weights @ np.clip(correlations, 0, 1) / weights.sum())


def _principal(x: Own, share: float) -> tuple[np.ndarray, np.ndarray]:
  """Returns the singular values of the centred representation in falling order, and their directions as columns."""
  squares, vectors = np.linalg.eigh(x.scatter)
  values, vectors = np.sqrt(np.maximum(0, squares[::-1])), vectors[:, ::-1]
  if values[0] <= len(values) * np.finfo(np.float64).eps * np.abs(x.products).max() ** 0.5:
    raise ValueError("all features are constant")
  number = int((values > len(values) * np.finfo(np.float32).eps * values[0]).sum())
  if share < 1:
    explained = np.cumsum(np.square(values)) / np.square(values).sum()
    number = min(number, int(np.searchsorted(explained, share)) + 1)
  return values[:number], vectors[:, :number]


def _with_itself(x: Own) -> Cross:
  """Returns the sums over pairs of a representation with itself."""
  cross = Cross(0, 0)
  cross.products, cross.norms = x.products, x.squared_norms
  cross.first_weighted = cross.second_weighted = x.weighted
  return cross


def _hsic(x: Own, y: Own, cross: Cross) -> float:
  """Returns the estimate without bias of the Hilbert-Schmidt independence criterion with linear kernels.

  Song et al. 2012, equation 5, written without the n x n kernels K and L, whose diagonals count as 0.
  """
  n = x.count
  product = np.square(cross.products).sum() - cross.norms  # trace of K L
  sums = [
    float(one.total @ one.total) - one.norms for one in (x, y)
  ]  # of all entries of K, and of L
  rows = (  # sum over tokens of their row sums in K times those in L
    x.total @ cross.products @ y.total
    - x.total @ cross.first_weighted
    - y.total @ cross.second_weighted
    + cross.norms
  )
  return float(
    (product + sums[0] * sums[1] / ((n - 1) * (n - 2)) - 2 * rows / (n - 2)) / (n * (n - 3))
  )


def _inverse(values: np.ndarray) -> np.ndarray:
  return np.divide(1, values, out=np.zeros_like(values), where=values > 0)


def _inverse_root(matrix: np.ndarray) -> np.ndarray:
  values, vectors = np.linalg.eigh(matrix)
  return (vectors / np.sqrt(values)) @ vectors.T
