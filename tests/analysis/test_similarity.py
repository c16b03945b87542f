"""Similarities against SciPy, against explicit kernels, and against what they must not depend on."""

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes, subspace_angles
from scipy.stats import ortho_group

from discipline_jax.analysis.moments import Moments
from discipline_jax.analysis.similarity import (
  authors_pwcca,
  cca,
  cka_debiased,
  compare,
  effective_rank,
  similarities,
)


@pytest.fixture
def rng():
  return np.random.default_rng(0)


def sums(x, y, sizes=None):
  """Returns the sums over two representations that come in batches of these sizes."""
  moments = Moments([x.shape[1], y.shape[1]], [(0, 1)], seed=0)
  ends = np.cumsum(sizes) if sizes else []
  for rows in zip(np.split(x, ends), np.split(y, ends), strict=True):
    moments.add(list(rows))
  moments.finish()
  return moments


def related(rng, tokens=300, first=7, second=5):
  """Returns two representations that share three directions, away from 0, in float32."""
  shared = rng.normal(size=(tokens, 3))
  x = shared @ rng.normal(size=(3, first)) + 0.5 * rng.normal(size=(tokens, first)) + 4
  y = shared @ rng.normal(size=(3, second)) + 0.5 * rng.normal(size=(tokens, second)) - 30
  return x.astype(np.float32), y.astype(np.float32)


def test_canonical_correlations_are_cosines_of_angles_between_subspaces(rng):
  x, y = related(rng)
  moments = sums(x, y)
  found = cca(*moments.own, moments.cross[0, 1])
  centred = [one - one.mean(0) for one in (x.astype(np.float64), y.astype(np.float64))]
  expected = np.cos(subspace_angles(*centred))[::-1]
  np.testing.assert_allclose(found.correlations, np.sort(expected)[::-1], atol=1e-6)
  q, _ = np.linalg.qr(centred[0])
  left = np.linalg.svd(q.T @ np.linalg.qr(centred[1])[0])[0][:, :5]
  weights = np.abs((q @ left).T @ centred[0]).sum(1)
  assert found.pwcca[0] == pytest.approx(
    weights @ expected[np.argsort(-expected)] / weights.sum(), abs=1e-6
  )
  assert found.pwcca[0] != pytest.approx(found.pwcca[1], abs=1e-4), "it is not symmetric"
  assert similarities(*moments.own, moments.cross[0, 1])["cca"] == pytest.approx(
    expected.mean(), abs=1e-6
  )


def test_procrustes_is_scipys(rng):
  x, y = related(rng, first=6, second=6)
  a, b = (one - one.mean(0) for one in (x.astype(np.float64), y.astype(np.float64)))
  a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
  rotation, _ = orthogonal_procrustes(b, a)
  distance = np.square(a - b @ rotation).sum()
  assert compare(x, y)[0]["procrustes"] == pytest.approx(1 - distance / 2, abs=1e-6)


def hsic(k, m):
  """Returns the estimate of Song et al. 2012, equation 5, of n x n kernels."""
  n, ones = len(k), np.ones(len(k))
  k, m = (one - np.diag(np.diag(one)) for one in (k, m))
  return (
    np.trace(k @ m)
    + (ones @ k @ ones) * (ones @ m @ ones) / ((n - 1) * (n - 2))
    - 2 / (n - 2) * (ones @ k @ m @ ones)
  ) / (n * (n - 3))


def test_kernel_alignment_is_that_of_explicit_kernels(rng):
  x, y = related(rng, tokens=80)
  k, m = (one.astype(np.float64) @ one.astype(np.float64).T for one in (x, y))
  found, _ = compare(x, y)
  assert found["cka_debiased"] == pytest.approx(
    hsic(k, m) / (hsic(k, k) * hsic(m, m)) ** 0.5, abs=1e-6
  )
  centre = np.eye(80) - 1 / 80
  k, m = centre @ k @ centre, centre @ m @ centre
  assert found["cka"] == pytest.approx(
    (k * m).sum() / np.linalg.norm(k) / np.linalg.norm(m), abs=1e-6
  )
  scaled = [one / one.std(0) for one in (x.astype(np.float64), y.astype(np.float64))]
  assert found["cka_standardised"] == pytest.approx(compare(*scaled)[0]["cka"], abs=1e-6)


@pytest.mark.parametrize("sizes", [[1] * 299, [7] * 42, [299]])
def test_batches_change_nothing(rng, sizes):
  x, y = related(rng)
  whole, parts = sums(x, y), sums(x, y, sizes)
  for pair in ("cross", "null"):
    expected = similarities(*whole.own, getattr(whole, pair)[0, 1])
    found = similarities(*parts.own, getattr(parts, pair)[0, 1])
    assert found == pytest.approx(expected, abs=1e-10)


def test_more_tokens_than_a_block(rng):
  x, y = related(rng, tokens=9000)
  whole, parts = sums(x, y), sums(x, y, [5000, 100, 3000])
  assert similarities(*parts.own, parts.null[0, 1]) == pytest.approx(
    similarities(*whole.own, whole.null[0, 1]), abs=1e-10
  )
  assert whole.own[0].count == 9000
  np.testing.assert_allclose(whole.own[0].scatter, 9000 * np.cov(x.T, bias=True), rtol=1e-4)


def test_identical_representations_are_1(rng):
  x, _ = related(rng)
  for name, value in compare(x, x)[0].items():
    assert value == pytest.approx(1, abs=1e-9), name


def test_maps_that_change_nothing(rng):
  x, y = (one.astype(np.float64) for one in related(rng))
  plain, _ = compare(x, y)
  rotated, _ = compare(3 * x @ ortho_group.rvs(7, random_state=1) + 2, y)
  for name in ("cca", "pwcca_reverse", "svcca", "cka", "cka_debiased", "procrustes"):
    assert rotated[name] == pytest.approx(plain[name], abs=1e-6), name
  mapped, _ = compare(x @ (rng.normal(size=(7, 7)) + 3 * np.eye(7)), y)
  assert mapped["cca"] == pytest.approx(plain["cca"], abs=1e-6)
  assert mapped["pwcca_reverse"] == pytest.approx(plain["pwcca_reverse"], abs=1e-6)
  assert mapped["cka"] != pytest.approx(plain["cka"], abs=1e-3)


def test_unrelated_data_with_few_tokens():
  """Only the estimate without bias, and the null, tell that there is no relation."""
  found = []
  for seed in range(100):
    rng = np.random.default_rng(seed)
    found.append(compare(*rng.normal(size=(2, 64, 40)), seed=seed))
  means = {
    name: [np.mean([one[i][name] for one in found]) for i in range(2)] for name in found[0][0]
  }
  assert abs(means["cka_debiased"][0]) < 0.01
  assert means["cka"][0] > 0.35
  assert means["pwcca"][0] > 0.7
  for name, (value, null) in means.items():
    assert value == pytest.approx(null, abs=0.02), name


def test_the_null_of_related_data_is_that_of_unrelated_data(rng):
  found, null = compare(*related(rng))
  assert found["cca"] > 0.5 > 0.25 > null["cca"]
  assert abs(null["cka_debiased"]) < 0.05 < found["cka_debiased"]


def test_values_that_are_not_defined():
  x = np.ones((50, 4))
  y = np.random.default_rng(0).normal(size=(50, 3))
  found, _ = compare(x, y)
  assert {*found.values()} - {0.0} == {None}
  assert effective_rank(sums(x, y).own[0]) is None
  constant = y.copy()
  constant[:, 1] = 7
  assert compare(constant, y)[0]["cca"] == pytest.approx(1), "of the two directions there are"
  for tokens in (1, 2, 3):
    few, _ = compare(y[:tokens], y[:tokens])
    assert few["cka_debiased"] is None
  with pytest.raises(ValueError, match="not finite"):
    compare(np.where(y > 2, np.nan, y), y)
  with pytest.raises(ValueError, match="tokens"):
    Moments([3, 3], [(0, 1)], seed=0).add([y, y[:49]])
  with pytest.raises(ValueError, match="no token"):
    compare(y[:0], y[:0])


def test_effective_rank(rng):
  q = ortho_group.rvs(4, random_state=0)
  x = np.concatenate([q[:2], -q[:2]])  # centred, two equal singular values
  assert effective_rank(sums(x, x).own[0]) == pytest.approx(2)


def test_directions_below_the_noise_of_float32_do_not_count(rng):
  x, y = related(rng)
  doubled = np.concatenate([x, x[:, :1]], axis=1)
  moments = sums(doubled, y)
  assert len(cca(*moments.own, moments.cross[0, 1]).correlations) == 5
  moments = sums(doubled, doubled)
  assert len(cca(*moments.own, moments.cross[0, 1]).correlations) == 7


def test_the_authors_form_with_and_without_centring(rng):
  x, y = (one.astype(np.float64) for one in related(rng))
  own, other = x - x.mean(0), y - y.mean(0)
  assert authors_pwcca(own, other, 1e-9) == pytest.approx(compare(x, y)[0]["pwcca"], abs=1e-6)
  assert authors_pwcca(x, y, 1e-3) > authors_pwcca(own, other, 1e-3), "a common mean is a relation"


def test_the_estimate_without_bias_may_be_below_0():
  values = [
    cka_debiased(
      *(one := sums(*np.random.default_rng(seed).normal(size=(2, 20, 5)))).own, one.cross[0, 1]
    )
    for seed in range(20)
  ]
  assert min(values) < 0 < max(values)
