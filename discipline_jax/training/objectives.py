"""What a model is pre-trained to do: the losses of a batch, and the steps that lower and measure them.

BERT's two objectives (Devlin et al. 2019, section 3.1), ALBERT's order of segments (Lan et al. 2020), RoBERTa's masks
alone (Liu et al. 2019), and BERT's ablation, a left-to-right language model.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Float32, Int32, UInt

from discipline_jax.corpora.masking import MaskedBatch, Masking, mask_tokens
from discipline_jax.models.functional import PretrainingForward
from discipline_jax.models.tokenizer import Vocabulary
from discipline_jax.training.accumulation import accumulated_gradient
from discipline_jax.training.compiler import compiler_options
from discipline_jax.training.replicas import over_replicas
from discipline_jax.training.sharding import BATCH, state_shardings
from discipline_jax.training.state import TrainState

# Streams of the seed of their own: the same seed also draws the parameters.
_TRAINING = 0x5EED
_EVALUATION = 0xE7A1

# What the tokens are predicted by, and what the pairs of segments, for each `objective.kind`; the names of the losses.
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
    ids: token ids, padded.
    boundary: where the second segment begins, or the row ends.
    label: of the two segments.
  """

  ids: UInt[Array, "*parts rows length"]
  boundary: Int32[Array, "*parts rows"]
  label: Int32[Array, "*parts rows"]


class Objective:
  """What is predicted in a batch, and how well it was."""

  def __init__(self, kind: str, masking: Masking, vocabulary: Vocabulary):
    """Args:
    kind: of `KINDS`.
    masking: of a masked language model.
    vocabulary: of the rows.
    """
    self.tokens, self.segments = KINDS[kind]
    self._masking = masking
    self._pad_id, self._mask_id = vocabulary.pad_id, vocabulary.mask_id
    size, special = len(vocabulary.tokens), np.array(vocabulary.special_ids)
    self._is_candidate = ~np.isin(np.arange(size), special)
    self._ordinary_ids = np.flatnonzero(self._is_candidate).astype(np.int32)

  def hide(self, key: jax.Array, ids: UInt[Array, "rows length"]) -> MaskedBatch:
    """Chooses the tokens to predict and hides them; those of a left-to-right model, each next one, it cannot see."""
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
    """Sums over a batch: of each task the loss (`mlm_loss`), how many are right (`mlm_accuracy`), and how many there
    are (`mlm_count`).
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
    """Mean losses and accuracies of `sums`, and as `loss` the sum of the mean losses, which is what is lowered."""
    counts = sums if counts is None else counts
    tasks = [task for task in (self.tokens, self.segments) if task is not None]
    means = {
      f"{task}_{what}": sums[f"{task}_{what}"] / jnp.maximum(1, counts[f"{task}_count"])
      for task in tasks
      for what in ("loss", "accuracy")
    }
    return {"loss": sum(means[f"{task}_loss"] for task in tasks), **means}


def make_train_step(
  forward: PretrainingForward,
  optimizer: optax.GradientTransformation,
  objective: Objective,
  mesh: Mesh,
  state: TrainState,
  seed: int,
) -> jax.stages.Wrapped:
  """Compiles `(state, batch [parts, rows, length]) -> (state, metrics)`; `state` is donated.

  What is masked and dropped out is keyed by the seed and the number of the update. The gradient is that of the mean
  losses over all tokens and rows of the update, however these are cut into parts.

  Args:
    forward: the model.
    optimizer: its state must match `state`.
    objective: what is predicted.
    mesh: rows are spread over its data and fsdp axes.
    state: of one replica; only its shapes are looked at.
    seed: of masks and dropout.
  """

  def update(state: TrainState, batch: RowBatch) -> tuple[TrainState, dict]:
    params = state.params
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), _TRAINING), state.step)
    mask_key, dropout_key = jax.random.split(key)
    num_parts = len(batch.ids)
    hidden = jax.vmap(objective.hide)(jax.random.split(mask_key, num_parts), batch.ids)
    counts = {f"{objective.tokens}_count": hidden.weights.sum()}
    if objective.segments is not None:
      counts[f"{objective.segments}_count"] = jnp.float32(batch.label.size)

    def loss_of(params: dict, rows: RowBatch, hidden: MaskedBatch, key: jax.Array):
      sums = objective.sums(forward, params, rows, hidden, key)
      return objective.means(sums, counts)["loss"], sums

    (loss, sums), gradient = accumulated_gradient(
      loss_of, params, batch, hidden, jax.random.split(dropout_key, num_parts)
    )
    changes, opt_state = optimizer.update(gradient, state.opt_state, params)
    metrics = objective.means(jax.tree.map(lambda x: x.sum(0), sums))
    metrics |= {"loss": loss, "grad_norm": optax.tree.norm(gradient)}
    params = optax.apply_updates(params, changes)
    return TrainState(state.step + 1, params, opt_state), metrics

  def step(state: TrainState, batch: RowBatch) -> tuple[TrainState, dict]:
    return over_replicas(lambda state: update(state, batch), state)

  shardings = state_shardings(mesh, state)
  return jax.jit(
    step,
    donate_argnums=0,
    compiler_options=compiler_options(),
    in_shardings=(shardings, NamedSharding(mesh, PartitionSpec(None, BATCH))),
    out_shardings=(shardings, NamedSharding(mesh, PartitionSpec())),
  )


def make_eval_step(
  forward: PretrainingForward, objective: Objective, mesh: Mesh, params: dict
) -> jax.stages.Wrapped:
  """Compiles `(params, batch [rows, length], number of the batch) -> sums [replicas]`, without dropout.

  The masks of a batch of some number are always the same.
  """

  def evaluate(params: dict, rows: RowBatch, number: jax.Array) -> dict:
    hidden = objective.hide(jax.random.fold_in(jax.random.key(_EVALUATION), number), rows.ids)
    return over_replicas(lambda one: objective.sums(forward, one, rows, hidden, None), params)

  return jax.jit(
    evaluate,
    compiler_options=compiler_options(),
    in_shardings=(state_shardings(mesh, params), NamedSharding(mesh, PartitionSpec(BATCH)), None),
    out_shardings=NamedSharding(mesh, PartitionSpec()),
  )


def _sums(
  task: str,
  logits: Float[Array, "*places classes"],
  labels: Int32[Array, "*places"],
  weights: Float32[Array, "*places"],
) -> dict[str, Float32[Array, ""]]:
  # The label's logit by comparison and not by its index: the gradient of that would be written one by one.
  is_label = jax.lax.broadcasted_iota(jnp.int32, logits.shape, logits.ndim - 1) == labels[..., None]
  label_logits = jnp.where(is_label, logits, 0).sum(-1)
  losses = jax.nn.logsumexp(logits, axis=-1) - label_logits
  # No argmax, which is slow on CPU: of equals the label counts as the highest.
  is_right = label_logits >= jax.lax.stop_gradient(logits).max(-1)
  return {
    f"{task}_loss": (weights * losses).sum(),
    f"{task}_accuracy": (weights * is_right).sum(),
    f"{task}_count": weights.sum(),
  }
