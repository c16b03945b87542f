"""Tests of training a part of the parameters, and of fields that name such parts wrongly."""

import json

import jax
import numpy as np
import pytest
from flax.traverse_util import flatten_dict

from discipline_jax import defaults
from discipline_jax.errors import UserError
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.training.sharding import make_mesh
from tests.testdata import small_files


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
  return small_files.write_weights(tmp_path_factory.mktemp("models"))


def config(checkpoint, parameters="all", **model):
  config = defaults.finetune()
  config.task.name = "dna_planted"
  config.model.update(checkpoint=str(checkpoint), dropout=0.0, attention_dropout=0.0, **model)
  config.token_map.kind = "random"
  config.train.update(
    steps=3, learning_rate=1e-2, batch_size=8, grad_accumulation=2, parameters=parameters
  )
  return config


def trained(config):
  """Returns the program, the parameters before and after three updates, and the metrics of the first one."""
  program = Finetuning(make_plan(config), make_mesh(1, 1, 1, jax.devices()[:1]))
  program.compile(program.lower())
  state = program.start()
  before = flatten_dict(jax.tree.map(np.array, state["states"][0].params))
  metrics = []
  for step in range(3):
    state, (one,) = program.update(state, step)
    metrics.append({name: float(value[0]) for name, value in one.items()})
  after = flatten_dict(jax.tree.map(np.array, state["states"][0].params))
  return state["states"][0], before, after, metrics


@pytest.fixture(scope="module")
def whole(checkpoint):
  return trained(config(checkpoint))


def is_norm(path):
  return path[0] == "classifier" or {"embeddings", "LayerNorm", "pooler"} & {*path}


@pytest.mark.parametrize(
  ("parameters", "is_trained"), [("norms", is_norm), ("head", lambda path: path[0] == "classifier")]
)
def test_only_these_parameters_move(checkpoint, parameters, is_trained, whole):
  state, before, after, metrics = trained(config(checkpoint, parameters))
  for path, value in before.items():
    if is_trained(path):
      assert not np.array_equal(value, after[path]), path
    else:
      assert value.tobytes() == after[path].tobytes(), path
  _, first, other, all_metrics = whole
  assert metrics[0]["loss"] == pytest.approx(all_metrics[0]["loss"], rel=1e-6)
  assert metrics[0]["grad_norm"] < all_metrics[0]["grad_norm"], "of what is trained alone"
  assert all(not np.array_equal(value, other[path]) for path, value in first.items())
  moments = {path for path in before if is_trained(path)}
  adam = next(one for one in state.opt_state if hasattr(one, "mu"))
  assert {*flatten_dict(adam.mu)} == moments, "the optimizer has no state for the others"


def test_clipping_is_by_the_norm_of_what_is_trained(checkpoint):
  """The first update of Adam is as large whatever the gradient's size; adagrad's second one is not."""
  losses = {}
  for norm in (None, 1e9, 1e-3):
    own = config(checkpoint, "head")
    own.train.update(optimizer="adagrad", learning_rate=1.0)
    with own.ignore_type():
      own.train.max_grad_norm = norm
    losses[norm] = [one["loss"] for one in trained(own)[3]]
  assert losses[None] == losses[1e9] != losses[1e-3]


@pytest.mark.parametrize(
  ("changes", "named"),
  [
    ({"model.pretrained_layers": (0, 3)}, "model.pretrained_layers"),
    ({"model.pretrained_layers": (0, 0)}, "model.pretrained_layers"),
    ({"model.pretrained_layers": ("a",)}, "model.pretrained_layers"),
    ({"model.pretrained_layers": (0,), "model.init": "shuffled"}, "model.init = shuffled"),
    (
      {"model.pretrained_layers": (0,), "model.checkpoint": None},
      "needs --config.model.checkpoint",
    ),
    ({"model.pretrained_layers": (0,), "model.checkpoint": "families/albert_shared"}, "ALBERT"),
    ({"train.parameters": "some"}, "train.parameters"),
  ],
)
def test_mistakes(checkpoint, testdata, changes, named):
  own = config(checkpoint)
  if changes.get("model.checkpoint"):
    changes = changes | {"model.checkpoint": str(testdata / changes["model.checkpoint"])}
  with own.ignore_type():
    own.update_from_flattened_dict(changes)
  with pytest.raises(UserError, match=named):
    make_plan(own)


def test_a_config_is_read_back(checkpoint):
  own = config(checkpoint, pretrained_layers=(1,))
  read = defaults.read(json.loads(own.to_json_best_effort()))
  assert tuple(read.model.pretrained_layers) == (1,)
