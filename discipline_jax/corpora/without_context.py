"""Computes the loss of predictions without context: a network with a lower loss has learnt from neighbours."""

import numpy as np
from jaxtyping import Int

from discipline_jax.corpora.masking import Masking


def loss_without_context(
  seen: Int[np.ndarray, " tokens"], predicted: Int[np.ndarray, " tokens"], masking: Masking | None
) -> float:
  """Returns the mean loss, in nats, of a model that knows how frequent tokens are and how they are masked, and no more.

  At the place of a token to predict, the model sees the mask token, the token itself or a random one. It may use what
  it sees there, but no neighbour. So it predicts by Bayes' rule from the frequencies of the training rows.

  Args:
    seen: how often each token that can be predicted stands in training rows, whole numbers [tokens]. One is added to
      each count, so that a token which did not occur can be predicted.
    predicted: how often each of these tokens stands in held-out rows, whole numbers [tokens], not all 0.
    masking: how the tokens are masked; None if the token to predict is never shown, as in a left-to-right model.
  """
  share = (seen + 1) / (seen + 1).sum()
  truth = predicted / predicted.sum()
  unseen = float(-(truth * np.log(share)).sum())
  if masking is None:
    return unseen
  # A token y is shown because it is the token to predict, or because it replaces that token at random.
  same, random = masking.same * share, masking.random * share / len(share)
  # The probability that y is shown, whatever the token to predict is.
  shown = same + masking.random / len(share)
  loss = masking.mask * unseen
  if masking.same or masking.random:
    own = np.log(shown) - np.log(same + random)  # the loss where the token itself is shown
    loss += float((masking.same + masking.random / len(share)) * (truth * own).sum())
  if masking.random:
    # Over all other tokens y: log P(y is shown) - log P(the token is to be predicted, and y is shown).
    others = np.log(shown).sum() - np.log(shown) - (len(share) - 1) * np.log(random)
    loss += float(masking.random / len(share) * (truth * others).sum())
  return loss
