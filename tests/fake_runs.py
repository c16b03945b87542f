"""Stands for fine-tuning and pre-training in tests of studies: a run takes a moment, and leaves what a real one does.

As a program it is a study of such runs in a process of its own: python -m tests.fake_runs WORKDIR [K/N]
"""

import sys
import time

import pytest
from ml_collections import ConfigDict

from discipline_jax import defaults, exit_codes
from discipline_jax import study as study_module
from discipline_jax.errors import RunFailed
from discipline_jax.files.places import Path, make_folder, place
from discipline_jax.files.whole_files import write_json
from discipline_jax.runs.workdir import Workdir

PAUSE = 0.15  # seconds that a run of the program takes


def finetuning(**fields) -> ConfigDict:
  config = defaults.finetune()
  config.task.name = "dna_planted"
  config.model.init = "scratch"
  config.update_from_flattened_dict(fields)
  return config


def pretraining(**fields) -> ConfigDict:
  config = defaults.pretrain()
  config.corpus.name = "nesting"
  config.update_from_flattened_dict(fields)
  return config


def example() -> ConfigDict:
  """Returns four fine-tunings, of which two start from a pre-training, in an order in which it comes last."""
  runs = {name: finetuning(seed=seed) for seed, name in enumerate(("a", "b", "c", "d"))}
  for name in ("b", "d"):
    runs[name].model.checkpoint = "pre@4"
  return defaults.study({**runs, "pre": pretraining()}, labels={"a": {"table": "3"}})


def run(config: ConfigDict, workdir: Path, *, is_cell: bool, pause: float = 0) -> None:
  """Fails at a learning rate above 1; else leaves a result, and a file with its name in `ended` beside the workdir."""
  assert is_cell
  with Workdir(workdir, config) as own:
    if own.result() is not None:
      return
    own.claim({})
    time.sleep(pause)
    if config.train.learning_rate > 1:
      raise RunFailed("the training loss\nis not finite")
    own.write_result(result(config))
    make_folder(workdir.parent / "ended")
    write_json(workdir.parent / "ended" / f"{time.monotonic_ns():020}.{workdir.name}", {})


def result(config: ConfigDict, **fields) -> dict:
  """Returns the result of a run, as far as a study and a report read it."""
  common = {"mode": config.mode, "seconds": time.perf_counter(), "steps": 10, "device": "1 x cpu"}
  common |= {"versions": {"jax": "0.10.2"}, "identity": "0" * 16, "network": "bert 1 x 32"}
  if config.mode == "pretrain":
    return {**common, "corpus": config.corpus.name, "validation": {"loss": 4.7}, **fields}
  score = 50.0 + config.seed
  scores = {"mean": score, "std": 0.0, "runs": [score], "samples": [40], "intervals": [[9.0, 99.0]]}
  return {
    **common,
    "task": config.task.name,
    "metric": "accuracy",
    "model": config.model.checkpoint,
    "init": config.model.init,
    "token_map": "random",
    "replicas": 1,
    "validation": scores,
    "test": scores | {"constant": [50.0]},
    "best_steps": [5],
    "collapsed": False,
    **fields,
  }


def use(monkeypatch: pytest.MonkeyPatch) -> None:
  """Puts them into the place of the real modes, with short pauses."""
  monkeypatch.setattr(study_module, "_MODES", {"finetune": run, "pretrain": run})
  monkeypatch.setattr(study_module, "_PAUSE", 0.01)
  # These two take longer than all the rest.
  monkeypatch.setattr(study_module, "_free_memory", lambda: None)
  monkeypatch.setattr(study_module.report, "write", _written)


def ended(workdir: Path) -> list[str]:
  """Returns the names of the runs that ran to their end, in that order."""
  path = workdir / "ended"
  names = sorted(one.name for one in path.iterdir()) if path.exists() else []
  return [name.partition(".")[2] for name in names if not name.startswith(".")]


def _written(folder: Path) -> study_module.report.Report:
  return study_module.report.Report(folder / "report" / "index.html", ())


def _main(workdir: str, shard: str | None = None) -> int:
  def paused(config: ConfigDict, workdir: Path, *, is_cell: bool) -> None:
    run(config, workdir, is_cell=is_cell, pause=PAUSE)

  study_module._MODES = {"finetune": paused, "pretrain": paused}
  study_module._PAUSE = 0.05
  study_module.report.write = _written
  config = example()
  config.study.shard = shard
  return exit_codes.exit_code(lambda: study_module.study(config, place(workdir)))


if __name__ == "__main__":
  sys.exit(_main(*sys.argv[1:]))
