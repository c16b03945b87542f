"""Tests values that are standardised for training: against standardised tables, and what a run gives back."""

import csv
import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discipline_jax import defaults, models
from discipline_jax.errors import UserError
from discipline_jax.main import main
from discipline_jax.models.functional import classifier_function
from discipline_jax.models.heads import rescaled
from discipline_jax.models.hilbert_cnn import HilbertConfig
from discipline_jax.models.initialise import initial_params
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.tasks.answer import Layout
from discipline_jax.tasks.answers import Value
from discipline_jax.tasks.examples import Example
from discipline_jax.training.sharding import make_mesh
from tests.tasks.own_tables import written
from tests.whole_runs import CONFIG, one_device

ALONE = np.arange(3, dtype=np.int32)
SIZES = models.ModelConfig(
  vocab_size=40,
  hidden_size=16,
  num_hidden_layers=1,
  num_attention_heads=2,
  intermediate_size=24,
  max_position_embeddings=20,
)


def targets(*labels):
  return Value().targets([Example("A", label) for label in labels], Layout(ALONE, 1))


def table(folder, values, name="mine.csv"):
  """Returns a table in which the value is the number of A, moved and scaled; every third row is for validation."""
  rng = np.random.default_rng(0)
  rows = []
  for i, value in enumerate(values):
    letters = rng.permutation(list("A" * (i % 6) + "C" * (8 - i % 6)))
    rows.append(f"{''.join(letters)},{value!r},{'val' if i % 3 == 0 else 'train'}\n")
  return written(folder, "sequence,label,part\n" + "".join(rows), name)


VALUES = [370.0 + 20 * (i % 6) + i % 5 for i in range(48)]


class TestValue:
  def test_by_hand(self):
    """Values 10, 20, 30 have the mean 20 and the standard deviation sqrt(200 / 3)."""
    answer, own = Value("pearson"), targets(10, 20, 30)
    scale = answer.scale(own)
    assert scale["mean"] == 20
    assert scale["std"] == pytest.approx(np.sqrt(200 / 3))
    outputs = jnp.zeros((3, 1))
    np.testing.assert_allclose(answer.losses(outputs, own | scale), [1.5, 0, 1.5], rtol=1e-6)
    measured = answer.measure(np.array([[10], [20], [40]], np.float32), own | scale, ALONE)
    assert measured.errors["mean_squared_error"] == pytest.approx(100 / 3)
    assert measured.loss == pytest.approx(100 / 3 / (200 / 3))

  @pytest.mark.parametrize("labels", [(5, 5, 5), (1e6, 1e6 + 1, 1e6 + 2), (0, 0)])
  def test_values_without_differences(self, labels):
    with pytest.raises(UserError, match="the same"):
      Value().scale(targets(*labels))

  def test_values_whose_squares_are_too_large(self):
    with pytest.raises(UserError, match="1e\\+30"):
      Value().scale(targets(1, 2, 1e30))

  @pytest.mark.parametrize("labels", [(310, 330, 430), (-1e17, 1e17), (1e-30, 2e-30), (0, 1)])
  def test_values_far_from_zero_or_near_it(self, labels):
    scale = Value().scale(targets(*labels))
    standardised = (np.array(labels) - scale["mean"]) / scale["std"]
    assert np.mean(standardised) == pytest.approx(0, abs=1e-5)
    assert np.std(standardised) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize(
  ("config", "head"),
  [
    (SIZES, models.Classifier(1)),
    (dataclasses.replace(SIZES, model_type="roberta"), models.Classifier(1)),
    (HilbertConfig(tuple("ACGT[PAD]"), 5), models.Classifier(1)),
    (SIZES, models.TokenClassifier(1)),
  ],
  ids=["bert", "roberta", "hilbert_cnn", "positions"],
)
def test_the_scale_is_folded_into_every_head(config, head):
  """This holds in bfloat16, too, whose numbers around 370 are 2 apart."""
  params = initial_params("scratch", config, head, None, seed=0)
  forward = classifier_function(config, head, jnp.bfloat16)
  ids = jnp.arange(24).reshape(2, 12) % 4
  mask = jnp.ones((2, 12), bool)
  outputs_of = jax.jit(lambda params: forward(params, ids, mask, None, None).logits)
  changed = outputs_of(rescaled(params, jnp.float32(34.5), jnp.float32(370)))
  np.testing.assert_allclose(changed, 370 + 34.5 * outputs_of(params), rtol=1e-6)


def losses_of(path, standardise):
  config = defaults.finetune()
  config.task.update(name="custom", kind="regression", path=str(path), splits="part")
  config.task.standardise = standardise
  config.model.init = "scratch"
  config.model.config.update(
    **{
      name: getattr(SIZES, name)
      for name in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    }
  )
  config.model.config.update(intermediate_size=24, max_position_embeddings=20)
  config.train.update(steps=8, batch_size=16, learning_rate=3e-3)
  program = Finetuning(make_plan(config), make_mesh(1, 1, 1, jax.devices()[:1]))
  program.compile(program.lower())
  state, losses = program.start(), []
  for step in range(8):
    state, (metrics,) = program.update(state, step)
    losses.append(
      [float(metrics[name][0]) for name in ("loss", "mean_squared_error") if name in metrics]
    )
  return np.array(losses), program.predictions([state["states"][0].params], "validation")[
    0
  ].measured


def test_training_is_that_on_standardised_values(tmp_path):
  train = np.array([value for i, value in enumerate(VALUES) if i % 3])
  mean, std = train.mean(), train.std()
  standard, of_standard = losses_of(
    table(tmp_path, [float((value - mean) / std) for value in VALUES], "standard.csv"), False
  )
  raw, of_raw = losses_of(table(tmp_path, VALUES), True)
  assert standard.shape == (8, 1)
  np.testing.assert_allclose(raw[:, 0], standard[:, 0], rtol=1e-4)
  np.testing.assert_allclose(raw[:, 1], standard[:, 0] * std**2, rtol=1e-4)
  assert of_raw.loss == pytest.approx(of_standard.loss, rel=1e-4)
  assert of_raw.errors["mean_squared_error"] == pytest.approx(of_standard.loss * std**2, rel=1e-4)
  np.testing.assert_allclose(of_raw.predicted, mean + std * of_standard.predicted, rtol=1e-5)


def test_a_run_gives_back_values(tmp_path, capsys):
  """`predict` gives the outputs that the run was scored with, in the units of the table."""
  path, run, output = table(tmp_path, VALUES), tmp_path / "run", tmp_path / "out.csv"
  given = (CONFIG, f"--workdir={run}", "--config.task.name=custom", f"--config.task.path={path}")
  fields = ("--config.task.kind=regression", "--config.task.splits=part", "--config.train.steps=4")
  more = ("--config.task.standardise=True", "--config.train.batch_size=16")
  with one_device():
    assert main(["main", *given, *fields, *more]) == 0
    assert "values are standardised" in capsys.readouterr().err
    predict = ("--config.mode=predict", f"--config.predict.output={output}")
    assert main(["main", *given, *predict]) == 0
  result = json.loads((run / "result.json").read_text())
  assert [set(one) for one in result["standardised"]] == [{"mean", "std"}] * 2
  lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
  replica = int(np.argmax(result["validation"]["runs"]))
  (test,) = (line for line in lines if line["split"] == "test" and line["replica"] == replica)
  with output.open(newline="") as file:
    predicted = np.array([float(row["prediction"]) for row in csv.DictReader(file)])
  squares = np.square(predicted - VALUES)[::3]
  assert test["mean_squared_error"] == pytest.approx(squares.mean(), rel=1e-6)
  assert test["loss"] == pytest.approx(
    squares.mean() / result["standardised"][replica]["std"] ** 2, rel=1e-6
  )
