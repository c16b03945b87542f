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
    span: how many neighbours are chosen together, and have the same fate. With overlapping k-mers it is k, because a
      single k-mer can be read from its neighbours; a run of k hides one letter (Ji et al. 2021, DNABERT).

  Raises:
    ValueError: the rate is not in (0, 1], the shares do not add up to 1, the span is less than 1, or `max_positions` is
      less than the span.
  """

  rate: float = 0.15
  mask: float = 0.8
  same: float = 0.1
  random: float = 0.1
  max_positions: int | None = None
  span: int = 1

  def __post_init__(self):
    shares = (self.mask, self.same, self.random)
    if not 0 < self.rate <= 1 or min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
      raise ValueError(
        f"masking.rate = {self.rate}, mask = {self.mask}, same = {self.same}, random = {self.random}: the rate must be"
        " in (0, 1] and each share at least 0, and the three shares add to 1"
      )
    if self.span < 1:
      raise ValueError(f"masking.span = {self.span} is less than 1")
    if self.max_positions is not None and self.max_positions < self.span:
      of_span = " token" if self.span == 1 else ", masking.span (corpus.k, if unset)"
      raise ValueError(
        f"masking.max_positions = {self.max_positions} is less than {self.span}{of_span}"
      )

  @property
  def summary(self) -> str:
    """Says in a few words what is masked, for messages."""
    rate, mask, same, random = (
      f"{100 * share:.4g}%" for share in (self.rate, self.mask, self.same, self.random)
    )
    runs = f" in runs of {self.span}" if self.span > 1 else ""
    most = "" if self.max_positions is None else f", at most {self.max_positions} a row"
    return (
      f"{rate} of the tokens are predicted{runs}{most}: {mask} of these are masked, {same} stay,"
      f" {random} become random ones"
    )


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
  `max_positions`. All candidates are equally likely. With a span, runs of so many neighbours are chosen instead, and
  the share of chosen tokens is the rate on average over rows.

  Args:
    key: one PRNG key for the batch.
    ids: token ids.
    candidates: True for tokens that may be chosen, False for special tokens and padding.
    masking: the settings (static under `jax.jit`).
    mask_id: id of the mask token (static).
    ordinary_ids: ids that a random replacement is chosen from: all ids but the special tokens'.

  Returns:
    The masked rows with min(max_positions, length) places for chosen tokens.
  """
  choose = _choose_tokens if masking.span == 1 else _choose_runs
  positions, fate, token_key = choose(key, candidates, masking)
  is_chosen = positions < ids.shape[1]
  positions = jnp.where(is_chosen, positions, 0).astype(jnp.int32)
  labels = jnp.take_along_axis(ids, positions, axis=1).astype(jnp.int32)
  random = jax.random.randint(token_key, positions.shape, 0, len(ordinary_ids))
  replaced = jnp.where(fate < masking.mask, mask_id, labels)
  replaced = jnp.where(fate >= masking.mask + masking.same, ordinary_ids[random], replaced)
  rows = jnp.arange(len(ids))[:, None]
  # Surplus places point outside the row, and `mode="drop"` drops what is written there.
  targets = jnp.where(is_chosen, positions, ids.shape[1])
  masked = ids.astype(jnp.int32).at[rows, targets].set(replaced, mode="drop")
  return MaskedBatch(masked, positions, labels, is_chosen.astype(jnp.float32))


# Positions of the chosen tokens in rising order, with the length of a row in surplus places; a random number in [0, 1)
# for each, which decides what becomes of the token; and the key for random tokens.
_Chosen = tuple[Int[Array, "batch places"], Float32[Array, "batch places"], jax.Array]


def _choose_tokens(
  key: jax.Array, candidates: Bool[Array, "batch length"], masking: Masking
) -> _Chosen:
  """Chooses single tokens; the number of them in a row depends on its candidates alone."""
  length = candidates.shape[1]
  places = min(masking.max_positions or math.ceil(masking.rate * length), length)
  order_key, fate_key, token_key = jax.random.split(key, 3)
  # For each number of candidates, how many are chosen. On the device, in float32, some would be rounded differently.
  chosen_of = [min(n, places, max(1, round(masking.rate * n))) for n in range(length + 1)]
  chosen = jnp.array(chosen_of)[candidates.sum(1)]
  # The candidates with the highest random numbers are chosen. The numbers have 31 bits; of equal ones the first wins.
  lots = (hash_bits(order_key, candidates.shape) >> 1).astype(jnp.int32)
  _, positions = jax.lax.top_k(jnp.where(candidates, lots, -1), places)
  is_chosen = jnp.arange(places)[None] < chosen[:, None]
  positions = jnp.sort(jnp.where(is_chosen, positions, length), axis=1)
  return positions, jax.random.uniform(fate_key, positions.shape), token_key


def _choose_runs(
  key: jax.Array, candidates: Bool[Array, "batch length"], masking: Masking
) -> _Chosen:
  """Chooses runs of `span` neighbours, which have the same fate.

  Each row is cut into runs from a random place on, and a share of the runs is chosen, so that all candidates are
  equally likely. Runs at the ends of a segment may be shorter. Of b runs with candidates, rate * b are chosen, rounded
  up or down at random, but at least one.
  """
  (rows, length), span = candidates.shape, masking.span
  runs = -(-length // span) + 1
  most = int(masking.rate * runs) + 1
  if masking.max_positions is not None:
    most = min(most, masking.max_positions // span)
  shift_key, order_key, count_key, fate_key, token_key = jax.random.split(key, 5)
  shift = jax.random.randint(shift_key, (rows, 1), 0, span)
  run = (jnp.arange(length)[None] + shift) // span
  has_candidate = jnp.zeros((rows, runs), bool).at[jnp.arange(rows)[:, None], run].max(candidates)
  lots = jnp.where(has_candidate, jax.random.uniform(order_key, (rows, runs)), 2.0)
  rank = jnp.argsort(jnp.argsort(lots, axis=1), axis=1)
  wanted = masking.rate * has_candidate.sum(1) + jax.random.uniform(count_key, (rows,))
  count = jnp.clip(jnp.floor(wanted).astype(jnp.int32), 1, most)
  is_chosen = candidates & (jnp.take_along_axis(rank, run, axis=1) < count[:, None])
  places = min(length, most * span)
  positions = jnp.sort(jnp.where(is_chosen, jnp.arange(length)[None], length), axis=1)[:, :places]
  fates = jax.random.uniform(fate_key, (rows, runs))
  fate = jnp.take_along_axis(fates, (jnp.minimum(positions, length - 1) + shift) // span, axis=1)
  return positions, fate, token_key
