"""Describes a fine-tuning in named lines, as `--dry-run` shows them."""

import numpy as np

from discipline_jax.models.hilbert_cnn import HilbertConfig
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_plan import Plan
from discipline_jax.tasks.answer import Targets
from discipline_jax.tasks.examples import Alphabet
from discipline_jax.tasks.features import NUM_SPECIAL, Features
from discipline_jax.training.sharding import describe_mesh

_BINS = 8  # bins in the histogram of lengths
_SYMBOLS = 12  # most symbols that are shown


def describe(program: Finetuning) -> dict[str, str]:
  """Returns named lines about the data, the model and the training, as `--dry-run` shows them."""
  plan, config = program.plan, program.plan.config
  features, answer, split = plan.features, plan.task.answer, plan.splits[0]
  counts = ", ".join(f"{features.num_sequences(part)} {name}" for name, part in split.items())
  return {
    "task": f"{plan.task.name}: {sum(features.parts.values())} samples of up to {features.symbols.shape[1]} tokens,"
    f" {answer.summary}, {answer.metric}",
    "split": f"{counts}; seeds {plan.seeds}",
    **({} if features.windows is None else {"windows": features.windows.describe}),
    **({} if plan.parts.grouping is None else {"groups": plan.parts.grouping}),
    "lengths": f"inputs are padded to {', '.join(map(str, np.unique(plan.lengths)))} tokens; {_padding(program):.1f}%"
    " of the tokens of an epoch are padding",
    **answer.describe(_of_samples(plan)),
    **({"scale": _scale(plan.scales)} if plan.scales[0] else {}),
    **_choices(plan),
    "tokens": _histogram(features.lengths),
    **({} if plan.task.alphabet is None else {"symbols": _symbols(plan.task.alphabet, features)}),
    "model": f"{plan.model.config.summary}, {config.model.init} ({plan.model.checkpoint or 'no checkpoint'}),"
    f" {config.model.dtype}",
    "token map": _token_map(plan) + _trained_rows(plan),
    "training": f"{program.num_steps} updates of {config.train.batch_size}"
    f" {'samples' if features.windows is None else 'windows'}"
    f" ({'train.epochs' if config.train.steps is None else 'train.steps, in place of train.epochs'}),"
    f" {config.train.optimizer} at rate {config.train.learning_rate:g}"
    f"{'' if config.train.parameters == 'all' else f', of {config.train.parameters} alone'}",
    "devices": describe_mesh(program.mesh),
  }


def _of_samples(plan: Plan) -> Targets:
  """Returns the targets of all samples: of a sequence in windows with one answer, those of its first window."""
  features = plan.features
  if features.windows is None or plan.task.answer.of_positions:
    return features.targets
  return {name: target[features.windows.firsts] for name, target in features.targets.items()}


def _padding(program: Finetuning) -> float:
  """Returns how much of an epoch is padding, in percent."""
  batches = (
    program.batches.at(step, slice(0, 1)) for step in range(program.batches.steps_per_epoch)
  )
  positions = sum(int((indices >= 0).sum()) * length for indices, length in batches)
  return 100 * (
    1 - program.plan.features.lengths[program.plan.splits[0]["train"]].sum() / positions
  )


def _symbols(alphabet: Alphabet, features: Features) -> str:
  """Returns the most frequent symbols and their shares."""
  names = [*alphabet.symbols, *(["others"] if alphabet.is_open else [])]
  symbols = features.each_symbol_once()
  counts = np.bincount(symbols.ravel(), minlength=NUM_SPECIAL + len(names))[NUM_SPECIAL:]
  order = [i for i in np.argsort(-counts, kind="stable")[:_SYMBOLS] if counts[i]]
  shown = ", ".join(f"{names[i]} {100 * counts[i] / counts.sum():.2g}%" for i in order)
  number = int((counts > 0).sum())
  return shown + (f"; {number - len(order)} more" if number > len(order) else "")


def _token_map(plan: Plan) -> str:
  """Returns the kind of token map, why it was chosen, and how many symbols have rows of special tokens."""
  table = plan.sub_tables[0]
  special = plan.model.vocabulary.special_ids
  ordinary = ~np.isin(plan.features.symbol_ids, special)
  taken = int(np.isin(table.rows[table.lookup][ordinary], special).sum())
  reason = "" if plan.token_map_reason is None else f" (auto: {plan.token_map_reason})"
  return f"{plan.token_map}{reason}" + (
    f"; {taken} symbols have rows of special tokens" if taken else ""
  )


def _trained_rows(plan: Plan) -> str:
  if isinstance(plan.model.config, HilbertConfig):  # its table of letters is fixed
    return ""
  rows, size = len(plan.sub_tables[0].rows), plan.model.config.vocab_size
  return f"; {rows} of {size} embedding rows are trained"


def _histogram(lengths: np.ndarray) -> str:
  if np.ptp(lengths) == 0:
    return f"all {lengths[0]} tokens"
  counts, edges = np.histogram(lengths, min(_BINS, int(np.ptp(lengths)) + 1))
  tallest = counts.max()
  bars = [
    f"{low:4.0f} to {high:4.0f} {'▇' * round(20 * count / tallest):20} {count}"
    for count, low, high in zip(counts, edges, edges[1:], strict=False)
  ]
  return ("\n" + " " * 11).join(bars)


def _choices(plan: Plan) -> dict[str, str]:
  """Returns lines about strands and weights of classes, if they are not what they are by default."""
  lines = {}
  if plan.complement is not None:
    also = "; elsewhere, outputs are the mean of those for both" if plan.averages_strands else ""
    lines["strands"] = f"training reads either strand of each sample, at random{also}"
  if plan.class_weights is not None:
    pairs = zip(plan.task.answer.labels, plan.class_weights.T, strict=True)
    shown = ", ".join(f"{label} {_range(weights)}" for label, weights in pairs)
    lines["weights"] = f"{shown} (of classes, in the loss)"
  return lines


def _range(values: np.ndarray) -> str:
  """Returns the value of all replicas, or the lowest and the highest one."""
  low, high = f"{values.min():.3g}", f"{values.max():.3g}"
  return low if low == high else f"{low} to {high}"


def _scale(scales: list[dict[str, np.float32]]) -> str:
  parts = ", ".join(f"{scale['mean']:g} ± {scale['std']:g}" for scale in scales)
  return (
    f"values are standardised for training, by the mean and deviation of the training part: {parts}"
  )
