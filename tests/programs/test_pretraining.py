"""Tests the pre-training program without a run: its phases, and the programs that it lowers."""

import copy
import itertools
import json
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import multihost_utils
from safetensors.numpy import save_file

from discipline_jax import defaults
from discipline_jax.corpora.prepare import prepare
from discipline_jax.errors import UserError
from discipline_jax.pretrain import _keep
from discipline_jax.programs.inspection import Cost
from discipline_jax.programs.pretraining import Pretraining
from discipline_jax.programs.pretraining_plan import Phase, _check_decoder, kept_steps, phases
from discipline_jax.training.checkpoints import Checkpoints
from discipline_jax.training.objectives import RowBatch, held_out_sums
from discipline_jax.training.sharding import make_mesh
from tests.programs.executed import executed
from tests.testdata import tiny_pretrain


@pytest.fixture(scope="module")
def program(tmp_path_factory):
  config = tiny_pretrain.get_config()
  config.cache_dir = str(tmp_path_factory.mktemp("cache"))
  return Pretraining(config, prepare(config), make_mesh(1, 1, 1, jax.devices()[:1]))


def test_phases_share_the_steps():
  config = defaults.pretrain()
  config.train.steps = 10
  assert phases(config) == [Phase(128, 0, 9), Phase(512, 9, 10)]
  config.train.phases = (0.0, 1.0)
  assert phases(config) == [Phase(512, 0, 10)]


def test_the_last_step_is_kept():
  config = defaults.pretrain()
  config.train.steps = 30_000
  assert kept_steps(config) == (0, 20_000, 30_000)


@pytest.mark.parametrize(
  ("first_step", "lengths"), [(0, [32, 64]), (29, [32, 64]), (30, [64]), (39, [64]), (40, [])]
)
def test_only_the_phases_that_are_left_are_compiled(program, first_step, lengths):
  """30 updates at 32 tokens, then 10 at 64."""
  assert sorted(program.lower(first_step)) == lengths
  assert program.phase(29).length == 32
  assert program.phase(30).length == 64


def test_abstract_and_running_inputs_agree(program):
  """The state that `start` makes, and the batches that are read, are those that the step is lowered for."""
  state = program.start()
  abstract, real = (
    jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.sharding), tree)
    for tree in (program.state, state)
  )
  assert jax.tree.leaves(abstract) == jax.tree.leaves(real)
  program.compile(program.lower())
  for step, batch in enumerate(itertools.islice(program.batches(29), 2), 29):  # one of each phase
    state, metrics = program.update(state, step, batch)
    assert np.isfinite(metrics["loss"]).all()


def losses(program, first_step, last_step, state):
  """Returns the losses of the updates after `first_step`, and the state."""
  program.compile(program.lower(first_step))
  found = []
  for step, batch in enumerate(program.batches(first_step), first_step):
    if step == last_step:
      break
    state, metrics = program.update(state, step, batch)
    found.append(float(metrics["loss"][0]))
  return found, state


def on_mesh(program, sizes):
  devices = jax.devices()[: sizes[0] * sizes[1] * sizes[2]]
  return Pretraining(program.config, program.prepared, make_mesh(*sizes, devices))


@pytest.fixture(scope="module")
def eight(program, tmp_path_factory):
  """Checkpoints after 3 updates on eight devices, with dropout, and the losses of the next 3."""
  wide = on_mesh(program, (8, 1, 1))
  _, state = losses(wide, 0, 3, wide.start())
  checkpoints = Checkpoints(tmp_path_factory.mktemp("checkpoints"))
  checkpoints.save(3, state)
  checkpoints.wait()
  return checkpoints, losses(wide, 3, 6, state)[0]


@pytest.mark.parametrize("sizes", [(2, 2, 2), (1, 1, 1)])
def test_a_run_goes_on_upon_another_mesh(sizes, program, eight):
  checkpoints, expected = eight
  other = on_mesh(program, sizes)
  step, state = checkpoints.restore(other.state)
  assert step == 3
  np.testing.assert_allclose(losses(other, 3, 6, state)[0], expected, rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def costs(program):
  """Returns what an update costs on 1 to 8 devices, with two rows for each."""
  found = {}
  for count in (1, 2, 4, 8):
    own = copy.deepcopy(program.config)
    own.train.update(batch_size=2 * count, grad_accumulation=1)
    wide = Pretraining(own, program.prepared, make_mesh(count, 1, 1, jax.devices()[:count]))
    found[count] = Cost.of(wide.lower()[64], count)
  return found


@pytest.mark.slow
def test_memory_does_not_grow_with_devices(costs):
  peaks = [cost.peak for cost in costs.values()]
  assert max(peaks) <= 1.05 * min(peaks)


def test_each_gradient_is_exchanged_once(program, costs):
  """That of the table of words as well, which is the first layer and the last."""
  gradients = 4 * sum(leaf.size for leaf in jax.tree.leaves(program.state.params))
  exchanged = sum(costs[8].moved["all-reduce"].values())
  assert gradients <= exchanged <= 1.05 * gradients


def test_nothing_but_the_update_runs_between_two_logs(program, tmp_path):
  state = program.start()
  program.compile(program.lower())
  assert len(program.rates) == program.num_steps  # computed once, at the first use
  batches = program.batches(0)

  def two_updates() -> None:
    nonlocal state
    for step, batch in enumerate(itertools.islice(batches, 2)):
      state, metrics = program.update(state, step, batch)
      np.asarray(metrics["loss"])

  assert executed(two_updates, tmp_path / "own") == {"jit(step)"}
  batches.close()
  seen = executed(lambda: state.step + 1, tmp_path / "other")
  assert seen, "another program would be seen"
  assert "jit(step)" not in seen


@pytest.mark.parametrize("first_has_it", [False, True])
def test_the_first_process_decides_whether_a_step_is_kept(
  program, first_has_it, tmp_path, monkeypatch
):
  """Other processes may see the folder earlier or later, but all of them must gather the weights, or none."""
  gathered = []

  def gather(params, tiled):
    gathered.append(tiled)
    return params

  monkeypatch.setattr(jax, "process_count", lambda: 2)
  monkeypatch.setattr(jax, "process_index", lambda: 1)
  monkeypatch.setattr(multihost_utils, "broadcast_one_to_all", lambda _: np.bool_(first_has_it))
  monkeypatch.setattr(multihost_utils, "process_allgather", gather)
  if not first_has_it:
    (tmp_path / "10").mkdir()  # this process sees it already
  _keep(program, tmp_path / "10", {"weight": np.ones(1)})
  assert gathered == ([] if first_has_it else [True])


def test_what_is_held_out_is_measured_in_batches(program):
  """Adds up by hand the sums of each batch with its number; rows that fill up the last batch count for nothing."""
  state = program.start()
  held_out = program.prepared.records("validation", 32).first(40)
  rows = len(held_out["ids"])
  size = program.config.eval.batch_size
  assert rows > size
  assert rows % size, "the last batch must be filled up"
  sums = held_out_sums(program._forward, program._objective)
  total: dict = {}
  params = jax.tree.map(lambda leaf: leaf[0], state.params)
  for number in range(-(-rows // size)):
    own = {name: value[number * size : (number + 1) * size] for name, value in held_out.items()}
    filled = {
      name: np.pad(value, [(0, size - len(value)), *[(0, 0)] * (value.ndim - 1)])
      for name, value in own.items()
    }
    batch = RowBatch(**{name: jnp.asarray(value) for name, value in filled.items()})
    for name, value in sums(params, (batch, jnp.int32(number))).items():
      total[name] = total.get(name, 0) + float(value)
  measured = program.measure(state)
  assert measured["mlm_loss"] == pytest.approx(total["mlm_loss"] / total["mlm_count"], rel=1e-5)
  assert measured["mlm_accuracy"] == pytest.approx(total["mlm_accuracy"] / total["mlm_count"])


def test_a_decoder_of_its_own_is_not_dropped(testdata, tmp_path):
  """A separate output layer predicts tokens; to use the embeddings instead would change the losses silently."""
  shutil.copytree(testdata / "bert_small", tmp_path / "model")
  fields = json.loads((tmp_path / "model" / "config.json").read_text())
  directory = tmp_path / "model"
  size = (fields["vocab_size"], fields["hidden_size"])
  weights = {"cls.predictions.decoder.weight": np.zeros(size, np.float32)}
  save_file(weights, directory / "model.safetensors")
  _check_decoder(directory)
  (directory / "config.json").write_text(json.dumps(fields | {"tie_word_embeddings": False}))
  with pytest.raises(UserError, match=f"decoder.weight.*{directory}"):
    _check_decoder(directory)


def test_fsdp_gathers_weights_and_no_rows(tmp_path):
  """No collective of the compiled update is as large as the hidden states of all rows."""
  config = tiny_pretrain.get_config()
  config.cache_dir = str(tmp_path)
  config.train.update(batch_size=64, grad_accumulation=1)
  program = Pretraining(config, prepare(config), make_mesh(1, 8, 1, jax.devices()))
  (lowered, *_) = program.lower().values()
  text = lowered.compile().as_text()
  rows = 64 * program.phases[0].length
  shapes = re.findall(r"= f32\[([\d,]+)\][^ ]* (?:all-gather|all-reduce)", text)
  assert shapes
  assert all(int(shape.split(",")[0]) < rows for shape in shapes), shapes


def test_a_length_that_comes_again_goes_on_behind_its_rows(tmp_path):
  found = {}
  for lengths, shares in (((16, 32, 16), (2, 1, 2)), ((16, 32), (4, 1))):
    config = tiny_pretrain.get_config()
    config.cache_dir = str(tmp_path)
    config.corpus.length = lengths
    config.train.update(steps=5, phases=shares)
    program = Pretraining(config, prepare(config), make_mesh(1, 1, 1, jax.devices()[:1]))
    ids = [np.asarray(batch.ids) for batch in program.batches(0)]
    resumed = [np.asarray(batch.ids) for batch in program.batches(4)]
    np.testing.assert_array_equal(resumed, ids[4:])
    found[lengths] = [one for one in ids if one.shape[-1] == 16]
  np.testing.assert_array_equal(*found.values())
