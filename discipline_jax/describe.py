"""A plan in a few lines, as `--dry-run` and every run show it."""

import pathlib

import jax
import numpy as np

from discipline_jax.plan import Plan

_BINS = 8


def describe(plan: Plan, workdir: pathlib.Path) -> str:
  """What would run, what the data look like, and what is trained."""
  config, split = plan.config, plan.splits[0]
  source = plan.checkpoint or "no checkpoint"
  rows = {
    "task": f"{plan.task.name}: {len(plan.features.labels)} samples of up to {plan.features.symbols.shape[1]} tokens,"
    f" {f'{len(plan.task.labels)} classes' if plan.task.labels else 'values'}, {plan.task.metric}",
    "split": f"{', '.join(f'{len(part)} {name}' for name, part in split.items())}; seeds {plan.seeds}",
    "lengths": f"{', '.join(map(str, np.unique(plan.lengths)))} tokens are compiled; {_padding(plan):.1f}% of the"
    " positions of an epoch are padding",
    **_data(plan),
    "model": f"{plan.model_config.summary}, {config.model.init} ({source}), {config.model.dtype}",
    "token map": f"{config.token_map.kind}; {len(plan.sub_tables[0].rows)} of"
    f" {plan.model_config.vocab_size} embedding rows are trained",
    "training": f"{plan.num_steps} updates of {config.train.batch_size} samples,"
    f" {config.train.optimizer} {config.train.learning_rate:g}",
    "devices": f"{jax.device_count()} x {jax.devices()[0].device_kind}, mesh {dict(plan.mesh.shape)}",
    "workdir": str(workdir),
  }
  return "\n".join(f"{name:10} {value}" for name, value in rows.items())


def _padding(plan: Plan) -> float:
  batches = [plan.batches.at(step, slice(0, 1)) for step in range(plan.batches.steps_per_epoch)]
  positions = sum(int((indices >= 0).sum()) * length for indices, length in batches)
  return 100 * (1 - plan.features.lengths[plan.splits[0]["train"]].sum() / positions)


def _data(plan: Plan) -> dict[str, str]:
  """Counts of the classes, or the range of the values, and a histogram of the lengths."""
  labels, lengths = plan.features.labels, plan.features.lengths
  if plan.task.labels:
    counts = np.bincount(labels, minlength=len(plan.task.labels))
    title, line = "classes", ", ".join(map("{} {}".format, plan.task.labels, counts))
  else:
    low, middle, high = np.quantile(labels, [0, 0.5, 1])
    title, line = "values", f"{low:g} to {high:g}, median {middle:g}"
  counts, edges = np.histogram(lengths, min(_BINS, int(np.ptp(lengths)) + 1))
  tallest = counts.max()
  bars = [
    f"{low:4.0f} to {high:4.0f} {'▇' * round(20 * count / tallest):20} {count}"
    for count, low, high in zip(counts, edges, edges[1:], strict=False)
  ]
  histogram = f"all {lengths[0]} tokens" if np.ptp(lengths) == 0 else ("\n" + " " * 11).join(bars)
  return {title: line, "tokens": histogram}
