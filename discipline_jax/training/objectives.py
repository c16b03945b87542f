"""Defines the objectives of pre-training: which tokens are predicted, and the losses of a batch.

- `mlm`, masked language modelling: predicts tokens that are hidden (RoBERTa, Liu et al. 2019).
- `mlm_nsp` also predicts whether the second segment of a row follows the first one in the text (next sentence
  prediction; BERT, Devlin et al. 2019, section 3.1).
- `mlm_sop` also predicts whether the two segments are in the right order (sentence order prediction; ALBERT, Lan et al.
  2020).
- `causal` predicts each token from those before it (an ablation of BERT, Devlin et al. 2019, section 5.1).
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

# For each `objective.kind`, the name of the loss of its tokens, and of the loss of its pairs of segments.
KINDS: dict[str, tuple[str, str | None]] = {
  "mlm": ("mlm", None),
  "mlm_nsp": ("mlm", "nsp"),
  "mlm_sop": ("mlm", "sop"),
  "causal": ("lm", None),
}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RowBatch:
  """Rows of tokens before any is hidden, as `corpora.records` reads them.

  Attributes:
    ids: UInt [rows, length], or in training [parts, rows, length]: token ids, padded.
    boundary: Int32 [rows] or [parts, rows]: position where the second segment begins, or where a row without one ends.
    label: Int32 [rows] or [parts, rows]: 1 if the second segment is a random one, or the two are swapped; else 0.
  """

  ids: Leaf
  boundary: Leaf
  label: Leaf


class Objective:
  """Chooses what is predicted in a batch, and adds up its losses.

  Attributes:
    tokens: name of the loss of the tokens: `mlm` or `lm`.
    segments: name of the loss of the pairs of segments: `nsp` or `sop`, or None if they are not predicted.
  """

  def __init__(self, kind: str, masking: Masking, vocabulary: Vocabulary):
    """Prepares an objective for the rows of a vocabulary.

    Args:
      kind: one of `KINDS`.
      masking: how tokens are hidden; not used by `causal`.
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
    """Returns the loss of the tokens in a model that does not look at context, see `corpora.without_context`.

    Args:
      train: token ids of training rows, which tell the model how frequent each token is.
      held_out: token ids of the rows whose tokens are predicted.
    """
    is_masked = self.tokens == "mlm"
    can_be = self._is_candidate if is_masked else np.arange(len(self._is_candidate)) != self._pad_id
    # A left-to-right model has nothing to predict the first token of a row from.
    first = 0 if is_masked else 1
    seen, predicted = (
      np.bincount(rows[:, first:].ravel(), minlength=len(can_be))[can_be]
      for rows in (train, held_out)
    )
    return loss_without_context(seen, predicted, self._masking if is_masked else None)

  def hide(self, key: jax.Array, ids: Integer[Array, "rows length"]) -> MaskedBatch:
    """Chooses the tokens to predict and hides them.

    With `causal` nothing is hidden, because the model cannot see the next token anyway.
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
    """Returns three sums over a batch for the tokens, and three for the pairs of segments if they are predicted.

    For `mlm` they are the loss `mlm_loss`, the number of right predictions `mlm_accuracy`, and the number of
    predictions `mlm_count`.

    Args:
      forward: the model.
      params: its parameters.
      rows: the rows before tokens were hidden.
      hidden: what `hide` returned for these rows.
      key: key for dropout; None: no dropout.
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
    """Returns the mean losses and accuracies, and the sum of these losses as `loss`, which training makes smaller.

    Args:
      sums: what `sums` returned.
      counts: the numbers of predictions to divide by; None: the ones in `sums`.
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
  """Makes the loss of pre-training: the mean over the predicted tokens of an update, plus that over its pairs.

  Args:
    forward: the model.
    objective: what is predicted.
    seed: seed of masks and dropout, which also depend on the number of the update.
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

  The function takes parameters, and a pair of the rows and the number of their batch. The masks depend on that number
  alone, so each evaluation hides the same tokens.
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
  # A comparison selects the label's logit. Indexing would make the gradient a scatter, which is slow.
  is_label = jax.lax.broadcasted_iota(jnp.int32, logits.shape, logits.ndim - 1) == labels[..., None]
  label_logits = jnp.where(is_label, logits, 0).sum(-1)
  losses = jax.nn.logsumexp(logits, axis=-1) - label_logits
  # No argmax, which is slow on CPU. If the label's logit shares the highest value with others, it counts as right.
  is_right = label_logits >= jax.lax.stop_gradient(logits).max(-1)
  return {
    f"{task}_loss": (weights * losses).sum(),
    f"{task}_accuracy": (weights * is_right).sum(),
    f"{task}_count": weights.sum(),
  }
