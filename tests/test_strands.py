"""Tests `task.reverse_complement` in training, evaluation, prediction and export."""

import json
import shutil

import jax
import numpy as np
import pytest

from discipline_jax import defaults
from discipline_jax.errors import UserError
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_description import describe
from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.tasks.strands import reverse_complement
from discipline_jax.training.sharding import make_mesh
from tests.finished_runs import write_finished_run
from tests.small_network import SIZES
from tests.test_export import export, predict

SEQUENCES = ["".join(np.random.default_rng(i).choice(list("ACGTN"), 5 + i % 9)) for i in range(24)]


def config(folder, sequences, choice, **train):
  path = folder / "mine.csv"
  lines = [f"{one},{i % 2}" for i, one in enumerate(sequences)]
  path.write_text("sequence,label\n" + "\n".join(lines) + "\n")
  config = defaults.finetune()
  config.task.update(name="custom", path=str(path), reverse_complement=choice)
  config.model.update(init="scratch", dropout=0.0, attention_dropout=0.0)
  # Else outputs hardly depend on the inputs.
  config.model.config.update(SIZES, initializer_range=0.5)
  config.train.update(batch_size=16, steps=4, grad_accumulation=2, learning_rate=1e-2, **train)
  return config


def program_of(config):
  program = Finetuning(make_plan(config), make_mesh(1, 1, 1, jax.devices()[:1]))
  program.compile(program.lower())
  return program


def losses(config):
  program = program_of(config)
  state, found = program.start(), []
  for step in range(4):
    state, metrics = program.update(state, step)
    found.append([float(one["loss"][0]) for one in metrics])
  return np.array(found)


@pytest.mark.parametrize("choice", ["off", "augment", "average"])
def test_averaged_outputs_are_the_same_for_both_strands(choice, tmp_path):
  both = [*SEQUENCES, *map(reverse_complement, SEQUENCES)]
  program = program_of(config(tmp_path, both, choice))
  state = program.start()
  outputs = program.outputs(state["states"][0].params, slice(0, 1), np.arange(48)[None])[0]
  difference = np.abs(outputs[:24] - outputs[24:]).max(1)
  if choice == "average":
    assert difference.max() <= 1e-6
  else:
    assert np.median(difference) > 1e-2, "outputs for the strands differ"


def test_training_reads_either_strand(tmp_path):
  """Sequences that are their own reverse complements have the same losses in any case."""
  own = [one + str(reverse_complement(one)) for one in SEQUENCES]
  np.testing.assert_array_equal(
    losses(config(tmp_path, own, "off")), losses(config(tmp_path, own, "augment"))
  )
  found = {choice: losses(config(tmp_path, SEQUENCES, choice)) for choice in ("off", "augment")}
  assert (np.abs(found["off"] - found["augment"]) > 1e-5).all()
  np.testing.assert_array_equal(found["augment"], losses(config(tmp_path, SEQUENCES, "average")))


def test_replicas_draw_strands_of_their_own(tmp_path):
  two = config(tmp_path, SEQUENCES, "augment")
  two.replicas = 2
  found = losses(two)
  np.testing.assert_allclose(found[:, 0], losses(config(tmp_path, SEQUENCES, "augment"))[:, 0])
  assert (np.abs(found[:, 0] - found[:, 1]) > 1e-5).all()


def test_pairs_have_no_second_strand_and_the_remedy_helps(tmp_path):
  settings = config(tmp_path, SEQUENCES, "average")
  rows = [f"{one},{one},{i % 2}" for i, one in enumerate(SEQUENCES)]
  (tmp_path / "mine.csv").write_text("first,second,label\n" + "\n".join(rows) + "\n")
  settings.task.sequence_column = "first,second"
  remedy = "a sample of task custom is a pair of them; set --config.task.reverse_complement=off"
  for choice in ("augment", "average"):
    settings.task.reverse_complement = choice
    with pytest.raises(
      UserError, match=f"'{choice}' is for DNA and single sequences, but {remedy}"
    ):
      make_plan(settings)
  settings.task.reverse_complement = "off"
  assert make_plan(settings).task.pairs


def test_the_plan_says_it(tmp_path):
  assert "strands" in describe(program_of(config(tmp_path, SEQUENCES, "average")))
  assert "strands" not in describe(program_of(config(tmp_path, SEQUENCES, "off")))


def logits(rows):
  return np.log([[float(row[name]) for name in ("p_0", "p_1")] for row in rows])


def test_predictions_and_export(tmp_path, capsys):
  """The same weights predict as a run that averages, and as one that does not."""
  write_finished_run(tmp_path / "average", config(tmp_path, SEQUENCES, "average"))
  shutil.copytree(tmp_path / "average", tmp_path / "off")
  fields = json.loads((tmp_path / "off" / "config.json").read_text())
  fields["task"]["reverse_complement"] = "off"
  (tmp_path / "off" / "config.json").write_text(json.dumps(fields))
  tables = {}
  for name, change in (("ours", str), ("other", reverse_complement)):
    tables[name] = tmp_path / f"{name}.csv"
    tables[name].write_text("sequence\n" + "\n".join(map(change, SEQUENCES)) + "\n")
  found = {
    (run, name): logits(predict(tmp_path / run, table, tmp_path / "out.csv"))
    for run in ("average", "off")
    for name, table in tables.items()
  }
  np.testing.assert_allclose(found["average", "ours"], found["average", "other"], atol=1e-5)
  margins = {key: rows[:, 1] - rows[:, 0] for key, rows in found.items()}
  expected = (margins["off", "ours"] + margins["off", "other"]) / 2
  np.testing.assert_allclose(margins["average", "ours"], expected, atol=1e-4)
  assert np.abs(margins["off", "ours"] - margins["off", "other"]).max() > 1e-2
  capsys.readouterr()
  for run, notes in (("off", 0), ("average", 1)):
    assert export(tmp_path / run, tmp_path / f"exported_{run}") == 0
    assert capsys.readouterr().out.count("note:") == notes
