"""Tests `train.class_weights`: the weights, and the weighted mean of the losses of an update."""

import dataclasses

import jax
import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.utils.class_weight import compute_class_weight

from discipline_jax import defaults
from discipline_jax.errors import UserError
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_description import describe
from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.training.sharding import make_mesh
from tests.small_network import SIZES

LABELS = "aaaaaabbcaabacaaabaa" * 3


@pytest.fixture
def config(tmp_path):
  rng = np.random.default_rng(0)
  rows = ["".join(rng.choice(list("ACGT"), 12)) for _ in LABELS]
  lines = [f"{row},{label}" for row, label in zip(rows, LABELS, strict=True)]
  path = tmp_path / "mine.csv"
  path.write_text("sequence,label\n" + "\n".join(lines) + "\n")
  config = defaults.finetune()
  config.task.update(name="custom", path=str(path))
  config.model.update(init="scratch", dropout=0.0, attention_dropout=0.0)
  config.model.config.update(SIZES)
  config.train.update(
    batch_size=12, steps=1, grad_accumulation=1, learning_rate=1e-2, class_weights="balanced"
  )
  return config


def first_update(config):
  """Returns the plan, the loss of the first update of each replica, and its samples and their logits before it."""
  plan = make_plan(config)
  program = Finetuning(plan, make_mesh(1, 1, 1, jax.devices()[:1]))
  program.compile(program.lower())
  state = program.start()
  chosen = [program.batches.at(0, group)[0].reshape(1, -1) for group in program.groups]
  logits = [
    program.outputs(one.params, group, indices)[0]
    for one, group, indices in zip(state["states"], program.groups, chosen, strict=True)
  ]
  _, metrics = program.update(state, 0)
  return plan, [float(one["loss"][0]) for one in metrics], [one[0] for one in chosen], logits


def test_weights_are_those_of_scikit_learn(config):
  config.replicas = 2
  plan = make_plan(config)
  for split, weights in zip(plan.splits, plan.class_weights, strict=True):
    labels = plan.features.targets["labels"][split["train"]]
    expected = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    np.testing.assert_allclose(weights, expected, rtol=1e-6)
  # By hand: a class of half of the samples counts 1 / (k / 2) times.
  assert plan.class_weights[0][0] < 0.6 < 1.5 < plan.class_weights[0][2]


@pytest.mark.parametrize("parts", [1, 5])
def test_the_loss_is_the_weighted_mean(config, parts):
  """As of PyTorch's CrossEntropyLoss(weight=...): the sum of weighted losses by the sum of weights, over all parts."""
  config.replicas, config.train.grad_accumulation = 2, parts
  plan, losses, samples, logits = first_update(config)
  for loss, rows, outputs, weights in zip(losses, samples, logits, plan.class_weights, strict=True):
    labels = plan.features.targets["labels"][rows]
    each = -log_softmax(outputs, axis=-1)[np.arange(len(rows)), labels]
    is_sample = rows >= 0
    own = weights[labels] * is_sample
    assert loss == pytest.approx((own * each).sum() / own.sum(), rel=1e-5)
    assert loss != pytest.approx(each[is_sample].mean(), rel=1e-3)


def test_an_update_of_light_samples_is_a_mean_too(config):
  """Their weights add up to less than one."""
  config.train.batch_size = 1
  plan, losses, samples, logits = first_update(config)
  (label,) = plan.features.targets["labels"][samples[0]]
  assert plan.class_weights[0][label] < 1, "the seed gives a frequent class"
  assert losses[0] == pytest.approx(-log_softmax(logits[0][0])[label], rel=1e-5)


def test_the_plan_says_them(config):
  program = Finetuning(make_plan(config), make_mesh(1, 1, 1, jax.devices()[:1]))
  assert describe(program)["weights"].startswith("a 0.4")


def test_the_plan_says_the_weights_of_all_replicas(config):
  config.replicas = 2
  plan = dataclasses.replace(
    make_plan(config), class_weights=np.array([[0.5, 1, 2], [0.4, 1, 2.25]], np.float32)
  )
  program = Finetuning(plan, make_mesh(1, 1, 1, jax.devices()[:1]))
  assert describe(program)["weights"].startswith("a 0.4 to 0.5, b 1, c 2 to 2.25 ")


@pytest.mark.parametrize("fields", [{"train.class_weights": "even"}, {"task.kind": "regression"}])
def test_mistakes(config, fields, tmp_path):
  path = tmp_path / "mine.csv"
  if "task.kind" in fields:
    for number, label in enumerate("abc"):
      path.write_text(path.read_text().replace(f",{label}\n", f",{number}\n"))
  with config.ignore_type():
    config.update_from_flattened_dict(fields)
  with pytest.raises(UserError, match="train.class_weights"):
    make_plan(config)
