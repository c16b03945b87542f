"""Tests the loss of predictions without context by the definition: a sum over all that can be shown."""

import numpy as np
import pytest

from discipline_jax.corpora.masking import Masking
from discipline_jax.corpora.without_context import loss_without_context

SEEN, PREDICTED = np.array([7, 2, 0, 3, 1]), np.array([5, 0, 1, 1, 2])
SHARE, TRUTH = (SEEN + 1) / (SEEN + 1).sum(), PREDICTED / PREDICTED.sum()


def by_definition(masking: Masking) -> float:
  """Adds up -P(token, shown) log P(token | shown), token by token; `None` is the mask token."""

  def shows(token, shown):
    if shown is None:
      return masking.mask
    return masking.same * (token == shown) + masking.random / len(SHARE)

  loss = 0.0
  for shown in (None, *range(len(SHARE))):
    total = sum(SHARE[token] * shows(token, shown) for token in range(len(SHARE)))
    for token in range(len(SHARE)):
      chance = TRUTH[token] * shows(token, shown)
      if chance:
        loss -= chance * np.log(SHARE[token] * shows(token, shown) / total)
  return loss


@pytest.mark.parametrize(
  "shares", [(0.8, 0.1, 0.1), (1.0, 0.0, 0.0), (0.8, 0.2, 0.0), (0.8, 0.0, 0.2), (0.0, 0.2, 0.8)]
)
def test_equals_the_definition(shares):
  masking = Masking(mask=shares[0], same=shares[1], random=shares[2])
  np.testing.assert_allclose(
    loss_without_context(SEEN, PREDICTED, masking), by_definition(masking), rtol=1e-12
  )


def test_what_is_never_shown_has_the_cross_entropy_of_frequencies():
  np.testing.assert_allclose(
    loss_without_context(SEEN, PREDICTED, None), -(TRUTH * np.log(SHARE)).sum(), rtol=1e-12
  )


def test_a_uniform_text():
  """Of n equally likely tokens, hidden ones cost log n, and ones that are always shown cost nothing."""
  counts = np.full(1000, 50)
  masking = Masking(mask=0.7, same=0.3, random=0.0)
  assert loss_without_context(counts, counts, masking) == pytest.approx(0.7 * np.log(1000))
