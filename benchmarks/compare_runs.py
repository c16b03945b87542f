"""Prints the difference of two finished runs with the same seeds, validation and test pooled, with 95% intervals.

  python benchmarks/compare_runs.py RUN_DIR OTHER_RUN_DIR

Prints, in points: each seed's difference; its mean with Student's interval over seeds (how much another seed
would change it); and the interval of the pooled shares (how much other samples would), which takes the
samples' number from the two runs' config and data.
"""

import json
import pathlib
import sys

import numpy as np
from scipy import stats

from discipline_jax import defaults
from discipline_jax.programs.finetuning_plan import make_plan


def main() -> None:
  directories = [pathlib.Path(argument) for argument in sys.argv[1:]]
  if len(directories) != 2:
    sys.exit(__doc__)
  results = [json.loads((path / "result.json").read_text()) for path in directories]
  config = defaults.read(json.loads((directories[0] / "config.json").read_text()))
  split = make_plan(config).splits[0]
  sizes = {part: len(split[part]) for part in ("validation", "test")}
  num_samples = sum(sizes.values())
  pooled = [
    sum(np.array(result[part]["runs"]) * size for part, size in sizes.items()) / num_samples
    for result in results
  ]
  differences = pooled[0] - pooled[1]
  num_seeds = len(differences)
  over_seeds = stats.t.ppf(0.975, num_seeds - 1) * differences.std(ddof=1) / num_seeds**0.5
  shares = [values.mean() / 100 for values in pooled]
  variance = sum(share * (1 - share) for share in shares) / (num_seeds * num_samples)
  over_samples = 100 * stats.norm.ppf(0.975) * variance**0.5
  for result, values in zip(results, pooled, strict=True):
    each = ", ".join(f"{value:.1f}" for value in values)
    print(f"{result['init']:12} {values.mean():5.1f}   ({each})")
  print(
    f"difference   {differences.mean():+5.1f}   ({', '.join(f'{d:+.1f}' for d in differences)})"
  )
  print(f"  95% interval over {num_seeds} seeds (Student)           ± {over_seeds:.1f}")
  print(
    f"  95% interval over {num_seeds * num_samples} samples (two proportions) ± {over_samples:.1f}"
  )


if __name__ == "__main__":
  main()
