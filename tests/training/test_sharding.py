"""How much of a training state a device holds, on meshes of several shapes."""

import jax
import optax
import pytest

from discipline_jax import models
from discipline_jax.models.initialise import abstract_params
from discipline_jax.programs.inspection import state_bytes
from discipline_jax.training.sharding import make_mesh, place
from discipline_jax.training.state import TrainState

SIZES = {  # hidden size, layers, heads
  "bert-base": (768, 12, 12),
  "bert-large": (1024, 24, 16),
}


@pytest.mark.parametrize(
  ("name", "mesh"),
  [
    *(("bert-base", mesh) for mesh in ((1, 8, 1), (2, 2, 2), (1, 1, 4), (1, 2, 4), (2, 1, 2))),
    ("bert-large", (1, 1, 8)),
  ],
)
def test_a_device_has_its_share_of_the_state(name, mesh):
  """The axis `data` holds the state as often as it is long; the others share it, whatever the vocabulary is."""
  hidden, layers, heads = SIZES[name]
  config = models.ModelConfig(
    vocab_size=30_522,
    hidden_size=hidden,
    num_hidden_layers=layers,
    num_attention_heads=heads,
    intermediate_size=4 * hidden,
  )
  params = jax.tree.map(
    lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape), leaf.dtype),
    abstract_params(config, models.Pretraining()),
  )
  data, fsdp, tensor = mesh
  devices = jax.devices()[: data * fsdp * tensor]
  state = jax.eval_shape(lambda params: TrainState.create(params, optax.adam(1e-4)), params)
  own, total = state_bytes(place(make_mesh(*mesh, devices), state))
  assert own <= 1.02 * total / (fsdp * tensor)
