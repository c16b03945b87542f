"""Masks tokens for a masked language model, on the device, inside the training step."""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int, Int32

from discipline_jax.models.layers import hash_bits


@dataclasses.dataclass(frozen=True)
class Masking:
  """How tokens are masked (Devlin et al. 2019, section 3.1, and its appendix C.2 for other mixes).

  Attributes:
    rate: share of a row's candidates that are predicted.
    mask: share of the predicted tokens that become the mask token.
    same: share of them that stay.
    random: share of them that become any ordinary token.
    max_positions: the most that are predicted in a row; None for the share of a full row, rounded up.
  """

  rate: float = 0.15
  mask: float = 0.8
  same: float = 0.1
  random: float = 0.1
  max_positions: int | None = None

  def __post_init__(self):
    shares = (self.mask, self.same, self.random)
    if not 0 < self.rate <= 1 or min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
      raise ValueError(
        f"masking of rate {self.rate}, mask {self.mask}, same {self.same}, random {self.random}: the rate must be in"
        " (0, 1], and the three shares add to 1"
      )
    if self.max_positions is not None and self.max_positions < 1:
      raise ValueError(f"masking.max_positions = {self.max_positions} is less than 1")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MaskedBatch:
  """What a masked language model is trained on.

  Attributes:
    ids: the rows with some tokens replaced.
    positions: of the tokens to predict, in rising order; surplus places hold 0.
    labels: the tokens that stood there.
    weights: 1 for a token to predict, 0 in a surplus place.
  """

  ids: Int32[Array, "batch length"]
  positions: Int32[Array, "batch places"]
  labels: Int32[Array, "batch places"]
  weights: Float32[Array, "batch places"]


def mask_tokens(
  key: jax.Array,
  ids: Int[Array, "batch length"],
  candidates: Bool[Array, "batch length"],
  masking: Masking,
  *,
  mask_id: int,
  ordinary_ids: Int32[Array, " ordinary"],
) -> MaskedBatch:
  """Chooses tokens of each row, and replaces them.

  Of a row with n candidates exactly round(rate * n) are chosen, at least one where there is one, and at most
  `max_positions`; every choice is as likely as any other.

  Args:
    key: one PRNG key for the batch.
    ids: token ids.
    candidates: False where a token must not be predicted: special ones and padding.
    masking: static.
    mask_id: id of the mask token.
    ordinary_ids: what a random replacement may be: no special token is among them.
  """
  length = ids.shape[1]
  places = min(masking.max_positions or math.ceil(masking.rate * length), length)
  order_key, fate_key, token_key = jax.random.split(key, 3)
  # By number of candidates, rounded as Python does: float32 falls to the other side of some halves.
  chosen_of = [min(n, places, max(1, round(masking.rate * n))) for n in range(length + 1)]
  chosen = jnp.array(chosen_of)[candidates.sum(1)]
  # The candidates with the highest random numbers, of 31 bits; a tie falls to the earlier one.
  lots = (hash_bits(order_key, ids.shape) >> 1).astype(jnp.int32)
  _, positions = jax.lax.top_k(jnp.where(candidates, lots, -1), places)
  is_chosen = jnp.arange(places)[None] < chosen[:, None]
  positions = jnp.sort(jnp.where(is_chosen, positions, ids.shape[1]), axis=1)
  is_chosen = positions < ids.shape[1]
  positions = jnp.where(is_chosen, positions, 0).astype(jnp.int32)
  labels = jnp.take_along_axis(ids, positions, axis=1).astype(jnp.int32)
  fate = jax.random.uniform(fate_key, positions.shape)
  drawn = jax.random.randint(token_key, positions.shape, 0, len(ordinary_ids))
  replaced = jnp.where(fate < masking.mask, mask_id, labels)
  replaced = jnp.where(fate >= masking.mask + masking.same, ordinary_ids[drawn], replaced)
  rows = jnp.arange(len(ids))[:, None]
  # Surplus places write outside the row, which drops what is written.
  targets = jnp.where(is_chosen, positions, ids.shape[1])
  masked = ids.astype(jnp.int32).at[rows, targets].set(replaced, mode="drop")
  return MaskedBatch(masked, positions, labels, is_chosen.astype(jnp.float32))
