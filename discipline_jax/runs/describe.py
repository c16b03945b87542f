"""Describes the results of finished runs in named lines, for the terminal."""

from collections.abc import Mapping

import numpy as np

from discipline_jax.command_line import format_columns


def finetuned(result: Mapping) -> dict[str, str]:
  """Returns the lines about a finished fine-tuning."""
  parts = {
    name: scores
    for name, scores in result.items()
    if name == "validation" or name.startswith("test")
  }
  rows = {
    "task": f"{result['task']} ({result['metric']})",
    "model": f"{result['model'] or result.get('network')}, {result['init']}, token map {result['token_map']}",
    **{
      part: "   ".join(filter(None, [_scores(scores), _interval(scores)]))
      for part, scores in parts.items()
    },
    **_caveats(parts),
    "best step": f"{', '.join(map(str, result['best_steps']))} of {result['steps']}",
    "time": _time(result)
    + (
      f", {result['examples_per_second']:.1f} training examples/s"
      if result["examples_per_second"]
      else ""
    ),
  }
  if result["collapsed"]:
    rows["collapsed"] = (
      "a replica predicts (nearly) the same for every validation sample, so its score says nothing about the model;"
      " train longer (train.epochs, or train.steps where it is set), or try another train.learning_rate, or"
      " train.warmup_steps"
    )
  return rows


def pretrained(result: Mapping) -> dict[str, str]:
  """Returns the lines about a finished pre-training."""
  return {
    "corpus": f"{result['corpus']} of {result['tokens']:,} tokens, unigram entropy {result['entropy']:.3f} nats",
    "model": f"{result['network']}, {result['objective']}, {result['steps']:,} updates",
    "validation": ", ".join(f"{name} {value:.3f}" for name, value in result["validation"].items()),
    "kept steps": ", ".join(map(str, result["kept_steps"])),
    "time": _time(result)
    + (
      f", {result['tokens_per_second']:,.0f} tokens/s, at most"
      f" {100 * result['input_wait']:.1f}% of the time waiting for input"
      if result["tokens_per_second"]
      else ""
    ),
    **_not_below_context(result["validation"]),
  }


def _not_below_context(measured: Mapping[str, float]) -> dict[str, str]:
  """Returns a caution if the loss is not below that of a model that looks at no neighbour; it may never leave that."""
  for name, bound in measured.items():
    loss = name.removesuffix("_without_context")
    if loss != name and measured[loss] >= bound:
      return {
        "caution": f"{loss} is not below {name}, so nothing is learnt of the order of tokens; train for more updates,"
        " or with another train.learning_rate"
      }
  return {}


def _time(result: Mapping) -> str:
  share = result.get("goodput")  # a result of an older version has none
  in_updates = "" if share is None else f", {100 * share:.0f}% of it in updates"
  return f"{result['seconds']:.0f} s{in_updates} on {result['device']}"


def outcome(result: Mapping) -> str:
  """Returns a few words about a finished run, for a study that has a line for each."""
  if result["mode"] == "pretrain":
    scores = "validation " + ", ".join(
      f"{name} {value:.3f}" for name, value in result["validation"].items()
    )
  else:
    scores = f"test {result['metric']} {_scores(result['test']).strip()}"
  return f"{scores}; {result['seconds']:.0f} s"


def side_by_side(results: Mapping[str, Mapping]) -> str:
  """Returns a table of finished fine-tunings, by name, one beside the other."""
  rows: list[tuple[str, ...]] = [("run", "validation", "test", "test, 95% interval", "best step")]
  for name, result in results.items():
    if result["mode"] == "finetune":
      scores = [
        f"{result[part]['mean']:.1f} ± {result[part]['std']:.1f}" for part in ("validation", "test")
      ]
      rows.append(
        (
          name,
          *scores,
          _interval(result["test"]).removeprefix("95% interval "),
          ", ".join(map(str, result["best_steps"])),
        )
      )
  return format_columns(rows)


def _scores(values: Mapping) -> str:
  mean = f"{values['mean']:5.1f}"
  if len(values["runs"]) == 1:
    return mean
  return f"{mean} ± {values['std']:.1f}   ({', '.join(f'{score:.1f}' for score in values['runs'])})"


def _interval(values: Mapping) -> str:
  """Returns the 95% interval of one replica's score, averaged over the replicas, and the number of samples."""
  if "intervals" not in values:  # an older version ran it
    return ""
  samples = f"{min(values['samples'])} samples"
  ends = _ends(values)
  if ends is None:
    return f"no 95% interval: all resamples of the {samples} score the same"
  return f"95% interval {ends[0]:.1f} to {ends[1]:.1f}, {samples}"


def _ends(values: Mapping) -> tuple[float, float] | None:
  if None in values.get("intervals", [None]):
    return None
  low, high = np.mean(values["intervals"], axis=0).tolist()
  return low, high


def _caveats(parts: Mapping[str, Mapping]) -> dict[str, str]:
  """Returns lines about unbalanced classes, and about scores that always the same answer would reach or exceed."""
  rows = {}
  balanced = [
    f"{name} {np.mean(values['balanced_accuracy']):.1f}"
    for name, values in parts.items()
    if values.get("unbalanced")
  ]
  if balanced:
    rows["balanced"] = f"{', '.join(balanced)} (accuracy within each class, averaged over them)"
  weak, worse = list[str](), list[str]()
  for name, values in parts.items():
    if (ends := _ends(values)) is None:
      continue
    constant = np.mean(values["constant"])
    if constant >= ends[0]:
      (weak if constant <= ends[1] else worse).append(f"{constant:.1f} on {name}")
  seen = [
    f"{max(values['in_training'])} samples of {name}"
    for name, values in parts.items()
    if any(values.get("in_training", []))
  ]
  if seen:
    rows["seen"] = f"{', '.join(seen)} are in training, too"
  remarks = [
    f"{', '.join(found)}, which is {meaning}"
    for found, meaning in (
      (weak, "in the interval: the score may be chance"),
      (worse, "above the interval: the model is worse than that"),
    )
    if found
  ]
  if remarks:
    rows["caution"] = f"always the same answer would get {'; and '.join(remarks)}"
  return rows
