"""Tests the fine-tuning program on one device and on meshes of eight, with its short cuts against the plain way."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discipline_jax import defaults
from discipline_jax.errors import UserError
from discipline_jax.models.functional import classifier_function
from discipline_jax.models.initialise import SubTable, initial_params, word_embeddings
from discipline_jax.models.platform import Platform
from discipline_jax.programs import finetuning
from discipline_jax.programs.finetuning import Finetuning
from discipline_jax.programs.finetuning_description import describe
from discipline_jax.programs.finetuning_plan import make_plan
from discipline_jax.programs.inspection import Cost
from discipline_jax.training import update
from discipline_jax.training.optimizers import make_optimizer
from discipline_jax.training.samples import Batch, sample_loss
from discipline_jax.training.sharding import make_mesh, state_shardings
from discipline_jax.training.state import Best, TrainState, first_best, update_best
from discipline_jax.training.update import compiler_options, make_train_step
from tests.small_network import SIZES

NUM_STEPS = 10


def config(mesh=(1, 1, 1), **train):
  """Returns the generated task and a one-layer model without dropout; its sizes divide by every mesh below."""
  config = defaults.finetune()
  config.task.name = "dna_planted"
  config.model.update(init="scratch", dropout=0.0, attention_dropout=0.0)
  config.model.config.update(SIZES)
  config.train.update(steps=NUM_STEPS, learning_rate=1e-3, grad_accumulation=1, **train)
  config.mesh.data, config.mesh.fsdp, config.mesh.tensor = mesh
  return config


def run(config, num_devices=1, group=slice(0, 1)):
  """Returns the losses [steps, replicas], the program, and a group's state after NUM_STEPS updates."""
  mesh = make_mesh(*config.mesh.values(), jax.devices()[:num_devices])
  program = Finetuning(make_plan(config), mesh)
  program.groups = [group]  # a CPU would take replicas one by one
  program.compile(program.lower())
  state, losses = program.start(), []
  for number in range(NUM_STEPS):
    state, (metrics,) = program.update(state, number)
    losses.append(np.asarray(metrics["loss"]))
  return np.array(losses), program, state["states"][0]


def test_the_plan_resolves_auto(caplog):
  """A model whose vocabulary is made for the task has its symbols as tokens."""
  plan = make_plan(config())
  assert plan.token_map == "identity"
  np.testing.assert_array_equal(plan.sub_tables[0].lookup, np.arange(len(plan.features.symbol_ids)))
  outright = config()
  outright.token_map.kind = "random"
  assert make_plan(outright).token_map == "random"
  assert "token_map.kind" not in caplog.text  # the weights are random, too: nothing is lost


@pytest.mark.parametrize(
  ("every", "select", "said"), [(5, "best", True), (10, "best", False), (5, "last", False)]
)
def test_a_choice_by_few_samples_is_said(every, select, said, caplog):
  few = config()
  few.eval.update(every_steps=every, select=select, max_examples=40)
  make_plan(few)
  assert ("chosen on 40 validation samples" in caplog.text) == said


def test_a_map_that_exchanges_the_symbols_of_their_own_model_is_said(shared, tmp_path, caplog):
  rows = "".join(f"{'ACDEFGHIKLMNPQRSTVWY' * (1 + i % 3)},{i % 2}\n" for i in range(60))
  (tmp_path / "own.csv").write_text(f"sequence,label\n{rows}")
  own = defaults.finetune()
  own.task.update(name="custom", path=str(tmp_path / "own.csv"))
  own.model.checkpoint = str(shared / "models" / "roberta-antibody")
  assert make_plan(own).token_map == "identity"
  assert "--config.token_map.kind=identity" not in caplog.text
  own.token_map.kind = "random"
  assert make_plan(own).token_map == "random"
  assert "--config.token_map.kind=identity" in caplog.text


@pytest.fixture(scope="module")
def plain():
  return run(config())


@pytest.mark.parametrize("mesh", [(8, 1, 1), (2, 2, 2)])
def test_eight_devices_give_the_losses_of_one(plain, mesh):
  losses, _, state = run(config(mesh), num_devices=8)
  np.testing.assert_allclose(losses, plain[0], atol=1e-5)
  weight = state.params["base_model"]["encoder"]["layer"][0]["attention"]["self"]["query"]["weight"]
  assert len(weight.addressable_shards) == 8
  assert weight.addressable_shards[0].data.shape == (1, 32 // mesh[2], 32 // mesh[1])


def test_a_mesh_that_cuts_heads_is_refused():
  with pytest.raises(UserError, match="to one of: 1, 2$"):
    run(config((1, 1, 4)), num_devices=4)


def test_eight_devices_drop_the_units_that_one_drops():
  """The mask of an element depends on its place in the whole array, wherever that lies."""
  losses = []
  for mesh, num_devices in (((1, 1, 1), 1), ((4, 2, 1), 8)):
    dropping = config(mesh)
    dropping.model.update(dropout=0.3, attention_dropout=0.3)
    losses.append(run(dropping, num_devices)[0])
  np.testing.assert_allclose(losses[0], losses[1], atol=1e-5)


def test_accumulation_gives_the_losses_of_one_part(plain):
  accumulated = config()
  accumulated.train.grad_accumulation = 3  # 32 samples in parts of 11, 11 and 10
  np.testing.assert_allclose(run(accumulated)[0], plain[0], atol=1e-5)


def test_replicas_side_by_side_equal_replicas_alone(plain):
  together = config()
  together.replicas = 2
  losses, _, _ = run(together, group=slice(0, 2))
  np.testing.assert_allclose(losses[:, :1], plain[0], atol=1e-5)
  assert not np.allclose(losses[:, 1:], plain[0], atol=1e-3)


@pytest.mark.parametrize(("replicas", "mesh"), [(8, (8, 1, 1)), (4, (2, 2, 2)), (3, (2, 2, 2))])
def test_replicas_over_devices_equal_replicas_alone(replicas, mesh, plain, monkeypatch):
  """Each device has some of the replicas, if the axis divides them, and else some rows of all."""
  monkeypatch.setattr(finetuning, "replica_groups", lambda number, _: [slice(0, number)])
  spread = config(mesh)
  spread.replicas = replicas
  losses, program, state = run(spread, 8, slice(0, replicas))
  np.testing.assert_allclose(losses[:, :1], plain[0], atol=1e-5)
  alone = config()
  alone.seed = 2
  expected, program_alone, state_alone = run(alone)
  np.testing.assert_allclose(losses[:, 2:3], expected, atol=1e-5)
  own = state.params["base_model"]["embeddings"]["word_embeddings"]["weight"].addressable_shards[0]
  assert own.data.shape[0] == (replicas if replicas % mesh[0] else replicas // mesh[0])
  (one,) = program_alone.predictions([state_alone.params], "validation", 40)
  own = program.predictions([state.params], "validation", 40)[2]
  np.testing.assert_array_equal(own.samples, one.samples)
  np.testing.assert_allclose(own.outputs, one.outputs, atol=1e-4)


def test_replicas_over_devices_exchange_nothing():
  """Only the metrics of all replicas are brought together."""
  spread = config((8, 1, 1))
  spread.replicas = 8
  program = Finetuning(make_plan(spread), make_mesh(8, 1, 1))
  program.groups = [slice(0, 8)]
  cost = Cost.of(program.lower()[42], 8)
  assert sum(sum(shapes.values()) for shapes in cost.moved.values()) <= 1024


def test_a_part_of_the_table_trains_as_the_whole(plain):
  """The rows that the task reaches move as they would in the whole table, and no other row would move."""
  losses, program, state = plain
  plan, head = program.plan, program.plan.task.answer.head
  params = initial_params("scratch", plan.model.config, head, None, plan.seeds[0])
  before = word_embeddings(params)["weight"]
  sub_table = plan.sub_tables[0]
  optimizer = make_optimizer(plan.config.train, lambda _: 0.0)
  stacked = jax.tree.map(lambda leaf: leaf[None], params)
  whole = TrainState.create(stacked, optimizer)
  forward = classifier_function(plan.model.config, head)
  loss = sample_loss(forward, plan.task.answer, length=42)
  step = make_train_step(loss, partial(make_optimizer, plan.config.train), program.mesh, whole)
  samples = program._samples
  lookup = jnp.asarray(sub_table.rows[sub_table.lookup])[None]
  for number in range(NUM_STEPS):
    indices, _ = program.batches.at(number)
    batch = Batch(jnp.asarray(indices), lookup, jnp.zeros(1, jnp.int32))
    whole, metrics = step(whole, program.rates[number], samples, batch)
    np.testing.assert_allclose(metrics["loss"], losses[number], atol=1e-6)
  trained = np.array(before)
  trained[sub_table.rows] = word_embeddings(state.params)["weight"][0]
  np.testing.assert_allclose(word_embeddings(whole.params)["weight"][0], trained, atol=1e-6)
  others = np.setdiff1d(np.arange(64), sub_table.rows)
  np.testing.assert_array_equal(word_embeddings(whole.params)["weight"][0][others], before[others])
  assert not np.allclose(trained[sub_table.rows], before[sub_table.rows], atol=1e-4)


def test_weight_decay_trains_the_whole_table():
  plan = make_plan(config(weight_decay=0.01))
  np.testing.assert_array_equal(plan.sub_tables[0].rows, np.arange(64))


def test_sub_table_by_hand():
  """Two symbols share row 9; a spare row keeps the size, and no symbol looks it up."""
  sub_table = SubTable.reachable(np.array([9, 2, 9, 30]))
  assert len(sub_table.rows) == 4
  assert len(set(sub_table.rows)) == 4
  np.testing.assert_array_equal(sub_table.rows[sub_table.lookup], [9, 2, 9, 30])
  np.testing.assert_array_equal(
    sub_table.cut(jnp.arange(40.0)[:, None])[sub_table.lookup, 0], [9, 2, 9, 30]
  )


def test_best_is_kept_for_each_replica():
  best = first_best(TrainState(jnp.array([0, 0]), {"w": jnp.array([[1.0], [2.0]])}, None))
  best = update_best(
    best,
    TrainState(jnp.array([5, 5]), {"w": jnp.array([[3.0], [4.0]])}, None),
    jnp.array([0.5, 0.7]),
  )
  best = update_best(
    best,
    TrainState(jnp.array([9, 9]), {"w": jnp.array([[6.0], [7.0]])}, None),
    jnp.array([0.6, 0.7]),
  )
  assert isinstance(best, Best)
  np.testing.assert_array_equal(best.step, [9, 5])
  np.testing.assert_array_equal(best.params["w"], [[6], [4]])


def test_an_axis_that_the_mesh_does_not_divide_stays_whole():
  mesh = make_mesh(1, 2, 4)
  tree = {"query": {"weight": jnp.zeros((1, 6, 4)), "bias": jnp.zeros((1, 6))}}
  spec = state_shardings(mesh, tree)["query"]["weight"].spec
  assert tuple(spec) == (None, None, "fsdp")


@pytest.mark.parametrize("sizes", [(3, 1, 1), (-1, 3, 1), (-1, -1, 1), (0, 1, 1), (16, 1, 1)])
def test_a_mesh_that_does_not_fit_is_an_error(sizes):
  with pytest.raises(UserError, match=r"does not fit 8 device\(s\); make the product 8"):
    make_mesh(*sizes)


def test_abstract_and_running_state_agree(plain):
  """The state that `start` makes has the shapes that checkpoints are restored to and the steps are lowered for."""
  _, program, _ = plain
  abstract, real = (
    jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.sharding), tree)
    for tree in (program.state, program.start())
  )
  assert jax.tree.leaves(abstract) == jax.tree.leaves(real)
  assert list(program.lower()) == [42]


@pytest.mark.parametrize("platform", ["tpu", "gpu"])
def test_the_program_is_that_of_the_mesh(platform, monkeypatch):
  """Groups of replicas and products are chosen for the devices of the mesh, not for this machine."""
  two = config()
  two.replicas, two.model.attention_dropout = 2, 0.0
  mesh = make_mesh(1, 1, 1, jax.devices()[:1])
  assert len(Finetuning(make_plan(two), mesh).groups) == 2
  assert "optimization_barrier" in Finetuning(make_plan(two), mesh).lower()[42].as_text()
  monkeypatch.setattr(finetuning, "platform_of", lambda *_: Platform(platform))
  monkeypatch.setattr(update, "platform_of", lambda *_: Platform(platform))
  program = Finetuning(make_plan(two), mesh)
  assert program.groups == [slice(0, 2)]
  assert "optimization_barrier" not in program.lower()[42].as_text()
  assert compiler_options(mesh) is None


def test_a_plan_is_described(plain):
  rows = describe(plain[1])
  assert rows["classes"] == "donor 1334, acceptor 1333, neither 1333"
  assert rows["tokens"] == "all 42 tokens"
  shares = dict(one.split() for one in rows["symbols"].split(", "))
  assert set(shares) == set("ACGT")
  assert sum(float(share.rstrip("%")) for share in shares.values()) == pytest.approx(100, abs=2)
  assert "18 of 64 embedding rows" in rows["token map"]


def test_a_table_of_letters_is_not_said_to_be_trained(tmp_path):
  hilbert = config()
  with hilbert.ignore_type():
    for name in hilbert.model.config:
      hilbert.model.config[name] = None
  hilbert.model.config.model_type = "hilbert_cnn"
  hilbert.model.update(dropout=None, attention_dropout=None)
  hilbert.token_map.kind = "identity"
  program = Finetuning(make_plan(hilbert), make_mesh(1, 1, 1, jax.devices()[:1]))
  assert describe(program)["token map"] == "identity"
