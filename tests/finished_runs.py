"""Writes the workdirs of finished runs without any training: their weights are the initial ones, moved at random."""

import json
import pathlib

import jax
import numpy as np
from ml_collections import ConfigDict

from discipline_jax.finetune import model_inputs
from discipline_jax.models.initialise import initial_params, word_embeddings
from discipline_jax.programs.finetuning_plan import Plan, make_plan
from discipline_jax.runs.saved import write_model


def write_finished_run(workdir: pathlib.Path, config: ConfigDict) -> Plan:
  """Writes what `predict` and `export` read of a fine-tuning, and returns its plan; the last replica is the best.

  All weights are moved so far that outputs differ between samples, as after a training.
  """
  plan = make_plan(config)
  model, head = plan.model, plan.task.answer.head
  rng = np.random.default_rng(0)
  params = {}
  for seed, sub_table in zip(plan.seeds, plan.sub_tables, strict=True):
    one = initial_params(config.model.init, model.config, head, model.checkpoint, seed)
    embeddings = word_embeddings(one)
    rows = sub_table.cut(embeddings["weight"])
    embeddings["weight"] = rows + rng.normal(0, 1, rows.shape).astype(np.float32)
    params[seed] = jax.tree.map(
      lambda leaf: np.asarray(leaf) + rng.normal(0, 0.3, leaf.shape).astype(np.float32), one
    )
  workdir.mkdir(parents=True)
  write_model(workdir, plan.task, model_inputs(plan), params, plan.sub_tables)
  result = {
    "metric": plan.task.answer.metric,
    "token_map": plan.token_map,
    "validation": {"runs": [float(i) for i in range(len(plan.seeds))]},
  }
  (workdir / "result.json").write_text(json.dumps(result))
  (workdir / "config.json").write_text(config.to_json_best_effort())
  return plan
