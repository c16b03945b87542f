"""Masks tokens for masked language modelling, on the device and inside the training step."""

import dataclasses
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int, Int32

from discipline_jax.models.layers import hash_bits


@dataclasses.dataclass(frozen=True)
class Masking:
  """Settings of masking (Devlin et al. 2019, section 3.1; appendix C.2 compares other shares).

  Attributes:
    rate: the share of a row's candidates that are chosen for prediction.
    mask: the share of the chosen tokens that become the mask token.
    same: the share of the chosen tokens that stay as they are.
    random: the share of the chosen tokens that become a random ordinary token.
    max_positions: the most tokens that are chosen in a row, or None for `rate` times the length of rows, rounded up.

  Raises:
    ValueError: the rate is not in (0, 1], the shares do not add up to 1, or `max_positions` is less than 1.
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
        f"masking.rate = {self.rate}, mask = {self.mask}, same = {self.same}, random = {self.random}: the rate must be"
        " in (0, 1] and each share at least 0, and the three shares add to 1"
      )
    if self.max_positions is not None and self.max_positions < 1:
      raise ValueError(f"masking.max_positions = {self.max_positions} is less than 1")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MaskedBatch:
  """Rows with masked tokens, and the tokens to predict.

  There is a fixed number of places for the chosen tokens of a row. A row with fewer chosen tokens has surplus places at
  the end.

  Attributes:
    ids: the rows, with some of the chosen tokens replaced.
    positions: positions of the chosen tokens in their row, in rising order; 0 in surplus places.
    labels: the original tokens at these positions.
    weights: 1 for a chosen token, 0 in surplus places.
  """

  ids: Int32[Array, "*batch length"]
  positions: Int32[Array, "*batch places"]
  labels: Int32[Array, "*batch places"]
  weights: Float32[Array, "*batch places"]


def mask_tokens(
  key: jax.Array,
  ids: Int[Array, "batch length"],
  candidates: Bool[Array, "batch length"],
  masking: Masking,
  *,
  mask_id: int,
  ordinary_ids: Int32[Array, " ordinary"],
) -> MaskedBatch:
  """Chooses random tokens of each row, and replaces them by the mask token, by random tokens, or not at all.

  In a row with n candidates, round(rate * n) tokens are chosen, but at least one if there is a candidate, and at most
  `max_positions`. All candidates are equally likely.

  Args:
    key: one PRNG key for the batch.
    ids: token ids.
    candidates: True for tokens that may be chosen, False for special tokens and padding.
    masking: the settings (static under `jax.jit`).
    mask_id: id of the mask token (static).
    ordinary_ids: ids that a random replacement is chosen from, which are those of all but the special tokens.

  Returns:
    The masked rows with min(max_positions, length) places for chosen tokens.
  """
  length = ids.shape[1]
  places = min(masking.max_positions or math.ceil(masking.rate * length), length)
  order_key, fate_key, token_key = jax.random.split(key, 3)
  # A table by the number of candidates, because in float32 some products of the rate would be rounded otherwise.
  chosen_of = [min(n, places, max(1, round(masking.rate * n))) for n in range(length + 1)]
  chosen = jnp.array(chosen_of)[candidates.sum(1)]
  # The candidates with the highest random numbers are chosen. They have 31 bits; of equal ones the earlier one wins.
  lots = (hash_bits(order_key, ids.shape) >> 1).astype(jnp.int32)
  _, positions = jax.lax.top_k(jnp.where(candidates, lots, -1), places)
  is_chosen = jnp.arange(places)[None] < chosen[:, None]
  positions = jnp.sort(jnp.where(is_chosen, positions, ids.shape[1]), axis=1)
  is_chosen = positions < ids.shape[1]
  positions = jnp.where(is_chosen, positions, 0).astype(jnp.int32)
  labels = jnp.take_along_axis(ids, positions, axis=1).astype(jnp.int32)
  fate = jax.random.uniform(fate_key, positions.shape)
  random = jax.random.randint(token_key, positions.shape, 0, len(ordinary_ids))
  replaced = jnp.where(fate < masking.mask, mask_id, labels)
  replaced = jnp.where(fate >= masking.mask + masking.same, ordinary_ids[random], replaced)
  rows = jnp.arange(len(ids))[:, None]
  # Surplus places write outside of the row, and `mode="drop"` drops that.
  targets = jnp.where(is_chosen, positions, ids.shape[1])
  masked = ids.astype(jnp.int32).at[rows, targets].set(replaced, mode="drop")
  return MaskedBatch(masked, positions, labels, is_chosen.astype(jnp.float32))
