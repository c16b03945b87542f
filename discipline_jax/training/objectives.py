"""The objectives of pre-training: which tokens are predicted, and the losses of a batch.

There are BERT's two objectives (Devlin et al. 2019, section 3.1), ALBERT's order of segments (Lan et al. 2020),
RoBERTa's masks alone (Liu et al. 2019), and BERT's ablation, a left-to-right language model.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int32, Integer

from discipline_jax.corpora.masking import MaskedBatch, Masking, mask_tokens
from discipline_jax.corpora.without_context import loss_without_context
from discipline_jax.models.functional import PretrainingForward
from discipline_jax.models.tokenizer import Vocabulary
from discipline_jax.streams import HELD_OUT_MASKS, PRETRAINING
from discipline_jax.training.state import Leaf
from discipline_jax.training.update import GetLoss, Loss

# The names of the two losses of each `objective.kind`: of the tokens, and of the pairs of segments.
KINDS: dict[str, tuple[str, str | None]] = {
  "mlm": ("mlm", None),
  "mlm_nsp": ("mlm", "nsp"),
  "mlm_sop": ("mlm", "sop"),
  "causal": ("lm", None),
}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RowBatch:
  """Rows of unmasked instances, as `corpora.records` reads them.

  Attributes:
    ids: UInt [rows, length], or in training [parts, rows, length]: token ids, padded.
    boundary: Int32 [rows] or [parts, rows]: position where the second segment begins, or where the row ends.
    label: Int32, likewise: label of the pair of segments.
  """

  ids: Leaf
  boundary: Leaf
  label: Leaf


class Objective:
  """Chooses what is predicted in a batch, and adds up its losses.

  Attributes:
    tokens: name of the loss of the tokens.
    segments: name of the loss of the pairs of segments; None if there is none.
  """

  def __init__(self, kind: str, masking: Masking, vocabulary: Vocabulary):
    """Args:
    kind: one of `KINDS`.
    masking: how a masked language model's tokens are masked.
    vocabulary: vocabulary of the rows.
    """
    self.tokens, self.segments = KINDS[kind]
    self._masking = masking
    self._pad_id, self._mask_id = vocabulary.pad_id, vocabulary.mask_id
    size, special = len(vocabulary.tokens), np.array(vocabulary.special_ids)
    self._is_candidate = ~np.isin(np.arange(size), special)
    self._ordinary_ids = np.flatnonzero(self._is_candidate).astype(np.int32)

  def loss_without_context(
    self,
    train: Integer[np.ndarray, "train_rows length"],
    held_out: Integer[np.ndarray, "held_out_rows length"],
  ) -> float:
    """Returns the loss of the tokens that needs no context, see `corpora.without_context`.

    Args:
      train: rows that tell how frequent tokens are.
      held_out: rows whose tokens are predicted.
    """
    is_masked = self.tokens == "mlm"
    can_be = self._is_candidate if is_masked else np.arange(len(self._is_candidate)) != self._pad_id
    first = 0 if is_masked else 1  # the first token of a row follows none
    seen, predicted = (
      np.bincount(rows[:, first:].ravel(), minlength=len(can_be))[can_be]
      for rows in (train, held_out)
    )
    return loss_without_context(seen, predicted, self._masking if is_masked else None)

  def hide(self, key: jax.Array, ids: Integer[Array, "rows length"]) -> MaskedBatch:
    """Chooses the tokens to predict and hides them.

    A left-to-right model predicts each next token, which it cannot see, so nothing is hidden from it.
    """
    ids = ids.astype(jnp.int32)
    if self.tokens == "mlm":
      return mask_tokens(
        key,
        ids,
        jnp.asarray(self._is_candidate)[ids],
        self._masking,
        mask_id=self._mask_id,
        ordinary_ids=jnp.asarray(self._ordinary_ids),
      )
    labels = ids[:, 1:]
    positions = jnp.broadcast_to(jnp.arange(labels.shape[1])[None], labels.shape)
    return MaskedBatch(ids, positions, labels, (labels != self._pad_id).astype(jnp.float32))

  def sums(
    self,
    forward: PretrainingForward,
    params: dict,
    rows: RowBatch,
    hidden: MaskedBatch,
    key: jax.Array | None,
  ) -> dict[str, Float32[Array, ""]]:
    """Returns sums over a batch, for each task: the loss (`mlm_loss`), the number of right predictions
    (`mlm_accuracy`), and the number of predictions (`mlm_count`).
    """
    is_token = rows.ids != self._pad_id
    segments = (jnp.arange(rows.ids.shape[1])[None] >= rows.boundary[:, None]) & is_token
    output = forward(
      params, hidden.ids, is_token, segments.astype(jnp.int32), hidden.positions, key
    )
    assert output.prediction_logits is not None
    sums = _sums(self.tokens, output.prediction_logits, hidden.labels, hidden.weights)
    if self.segments is not None:
      assert output.seq_relationship_logits is not None
      is_row = is_token[:, 0].astype(jnp.float32)
      sums |= _sums(self.segments, output.seq_relationship_logits, rows.label, is_row)
    return sums

  def means(self, sums: dict, counts: dict | None = None) -> dict:
    """Returns mean losses and accuracies, and as `loss` the sum of the mean losses, which training lowers.

    Args:
      sums: of `sums`.
      counts: the counts to divide by, if they are not those in `sums`.
    """
    counts = sums if counts is None else counts
    tasks = [task for task in (self.tokens, self.segments) if task is not None]
    means = {
      f"{task}_{what}": sums[f"{task}_{what}"] / jnp.maximum(1, counts[f"{task}_count"])
      for task in tasks
      for what in ("loss", "accuracy")
    }
    return {"loss": sum(means[f"{task}_loss"] for task in tasks), **means}


def pretraining_loss(forward: PretrainingForward, objective: Objective, seed: int) -> GetLoss:
  """Makes the loss of pre-training: the mean losses over all tokens and all pairs of segments of an update.

  Args:
    forward: the model.
    objective: predicts tokens, and pairs of segments.
    seed: seed of masks and dropout, whose keys also depend on the number of the update.
  """

  def get_loss(step: jax.Array, batch: RowBatch, _) -> Loss:
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), PRETRAINING), step)
    mask_key, dropout_key = jax.random.split(key)
    num_parts = len(batch.ids)
    hidden = jax.vmap(objective.hide)(jax.random.split(mask_key, num_parts), batch.ids)
    counts = {f"{objective.tokens}_count": hidden.weights.sum()}
    if objective.segments is not None:
      counts[f"{objective.segments}_count"] = jnp.float32(batch.label.size)

    def loss_of(params: dict, rows: RowBatch, hidden: MaskedBatch, key: jax.Array):
      sums = objective.sums(forward, params, rows, hidden, key)
      return objective.means(sums, counts)["loss"], sums

    return Loss(
      loss_of,
      (batch, hidden, jax.random.split(dropout_key, num_parts)),
      metrics=lambda of_parts: objective.means(jax.tree.map(lambda x: x.sum(0), of_parts)),
    )

  return get_loss


def held_out_sums(forward: PretrainingForward, objective: Objective):
  """Makes the function that adds up losses over a batch of held-out rows, without dropout.

  The function takes the rows and the number of the batch: a batch of one number always has the same masks.
  """

  def function(params: dict, numbered: tuple[RowBatch, jax.Array], *_) -> dict:
    rows, number = numbered
    hidden = objective.hide(jax.random.fold_in(jax.random.key(HELD_OUT_MASKS), number), rows.ids)
    return objective.sums(forward, params, rows, hidden, None)

  return function


def _sums(
  task: str,
  logits: Float[Array, "*places classes"],
  labels: Int32[Array, "*places"],
  weights: Float32[Array, "*places"],
) -> dict[str, Float32[Array, ""]]:
  # The label's logit by comparison and not by indexing, whose gradient would be a scatter.
  is_label = jax.lax.broadcasted_iota(jnp.int32, logits.shape, logits.ndim - 1) == labels[..., None]
  label_logits = jnp.where(is_label, logits, 0).sum(-1)
  losses = jax.nn.logsumexp(logits, axis=-1) - label_logits
  # No argmax, which is slow on CPU. If several logits are the highest, the label's one counts.
  is_right = label_logits >= jax.lax.stop_gradient(logits).max(-1)
  return {
    f"{task}_loss": (weights * losses).sum(),
    f"{task}_accuracy": (weights * is_right).sum(),
    f"{task}_count": weights.sum(),
  }
