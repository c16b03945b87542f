"""What updates cost, compiled for devices that are here and for chips that are not; sums by hand."""

import dataclasses
import importlib.util
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from discipline_jax import defaults
from discipline_jax.errors import UserError
from discipline_jax.inspect import inspect
from discipline_jax.programs import chips
from discipline_jax.programs.inspection import Cost, moved

SIZES = {
  "hidden_size": 16,
  "num_hidden_layers": 1,
  "num_attention_heads": 2,
  "intermediate_size": 32,
  "max_position_embeddings": 64,
}


def finetuning():
  config = defaults.finetune()
  config.mode = "inspect"
  config.task.name = "dna_planted"
  config.model.init = "scratch"
  config.model.config.update(SIZES, vocab_size=64)
  config.train.steps = 50
  return config


def pretraining():
  config = defaults.pretrain()
  config.mode = "inspect"
  config.corpus.update(name="uniform", length=(16, 32))
  config.model.config.update(SIZES, vocab_size=64)
  config.train.update(batch_size=8, steps=50)
  config.eval.batch_size = 8
  return config


HLO = """
  %a = f32[8,4]{1,0} all-gather(%x), dimensions={0}
  %b = (bf16[10]{0:T(256)}, /*index=1*/f32[2,3]{1,0}) all-reduce(%y, %z), to_apply=%sum
  %s1 = bf16[30]{0} all-gather(%p1), channel_id=7, frontend_attributes={chain_id="0"}
  %s2 = bf16[30]{0} all-gather(%p2), channel_id=7, frontend_attributes={chain_id="0"}
  %s3 = bf16[30]{0} all-gather(%p3), channel_id=8, frontend_attributes={chain_id="0"}
  %e1 = bf16[40]{0} all-gather(%p1), channel_id=9, dimensions={0}
  %e2 = bf16[40]{0} all-gather(%p1), channel_id=9, dimensions={0}
  %c-start = (f32[4]{0}, f32[8]{0}) all-gather-start(%x)
  %c = f32[8]{0} all-gather-done(%c-start)
  %d = pred[5]{0} fusion(%all-reduce.2), calls=%all-gather
"""


def test_moved_bytes_by_hand():
  found = moved(HLO)
  assert found["all-gather"] == {
    "f32[8,4]": 128,
    "bf16[30]": 2 * 60,
    "bf16[40]": 2 * 80,
    "f32[8]": 32,
  }
  assert found["all-reduce"] == {"bf16[10]": 20, "f32[2,3]": 24}
  assert len(found) == 2


def test_time_by_hand():
  """Operations take longer than memory, an all-reduce passes twice, and half of the speed is used."""
  cost = Cost(0, flops=4e3, accessed=2e2, moved=moved(HLO), kernels={})
  chip = chips.Chip("tpu", flops=1e3, memory=1e9, bandwidth=1e2, links=132, source="")
  assert cost.sent == 440 + 2 * 44
  assert cost.seconds(chip) == 2 * (4 + 4)
  assert cost.seconds(dataclasses.replace(chip, overlaps=False)) == 2 * (4 + 2 + 4)
  whole = Cost(77, flops=5e3, accessed=3e2, moved={}, kernels={"a": 1})
  assert cost.times(3, whole).seconds(chip) == 3 * cost.seconds(chip)
  assert (cost.times(3, whole).peak, cost.times(3, whole).kernels) == (77, {"a": 1})


def test_a_sum_over_devices_is_counted():
  """Each of eight devices has its part of the rows, and gets the sum of all of them."""
  mesh = Mesh(np.array(jax.devices()), ("data",))
  rows = NamedSharding(mesh, PartitionSpec("data"))
  x = jax.ShapeDtypeStruct((8, 40), jnp.float32, sharding=rows)
  whole = NamedSharding(mesh, PartitionSpec())
  cost = Cost.of(jax.jit(lambda x: x.sum(0), out_shardings=whole).lower(x), 8, others=10_000)
  assert sum(cost.moved["all-reduce"].values()) == 160
  assert 10_160 <= cost.peak < 20_000


@pytest.mark.parametrize("make", [finetuning, pytest.param(pretraining, marks=pytest.mark.slow)])
def test_what_the_updates_of_a_config_cost(make, tmp_path, capsys):
  config = make()
  config.inspect.output = str(tmp_path / "costs.json")
  config.mesh.update(data=2, fsdp=2, tensor=2)
  inspect(config, tmp_path / "run")
  found = json.loads((tmp_path / "costs.json").read_text())
  steps = sum(one["count"] for one in found["updates"].values())
  assert steps == 50
  config.train.grad_accumulation = 2
  inspect(config, tmp_path / "run")
  twice = json.loads((tmp_path / "costs.json").read_text())
  for length, one in twice["updates"].items():
    assert one["flops"] == pytest.approx(
      found["updates"][length]["flops"], rel=0.2
    )  # each part counts an optimizer
  device, total = found["state_bytes"]["device"], found["state_bytes"]["total"]
  assert (
    total / 4 <= device <= 1.4 * total / 4
  )  # biases are whole, and weigh more in a small network
  for one in found["updates"].values():
    assert one["flops"] > 0
    assert one["peak"] > device
    assert one["moved"]["all-reduce"]
  printed = capsys.readouterr().out
  assert all(f"updates of {length} tokens" in printed for length in found["updates"])
  assert not (tmp_path / "run").exists()


def test_dry_run_compiles_nothing(tmp_path, capsys, monkeypatch):
  monkeypatch.setattr(Cost, "of", None)
  inspect(pretraining(), tmp_path, dry_run=True)
  assert "45 of 16 tokens, 5 of 32 tokens" in capsys.readouterr().out


@pytest.mark.parametrize(
  "given", ["v9:2x2", "v5e", "v5e:", "h100:0", "h100:9", "h100:x", "h100:2x4"]
)
def test_chips_that_do_not_exist(given, tmp_path):
  config = pretraining()
  config.inspect.chips = given
  with pytest.raises(UserError, match="inspect.chips = "):
    inspect(config, tmp_path)


@pytest.mark.parametrize(
  ("given", "package"), [("v5e:2x2", "libtpu"), ("h100:8", "jax_cuda13_plugin")]
)
def test_chips_whose_compiler_is_not_installed(given, package, tmp_path):
  if importlib.util.find_spec(package) is not None:
    pytest.skip(f"{package} is installed")
  config = pretraining()
  config.inspect.chips = given
  with pytest.raises(UserError, match="pip install -e"):
    inspect(config, tmp_path)


def test_a_shape_that_the_compiler_does_not_take(tmp_path, monkeypatch):
  if importlib.util.find_spec("libtpu") is None:  # then what it says

    def refused(**_):
      raise jax.errors.JaxRuntimeError("INVALID_ARGUMENT: Topology layout is not divisible")

    monkeypatch.setattr("jax.experimental.topologies.get_topology_desc", refused)
  config = pretraining()
  config.inspect.chips = "v5e:3x5"
  with pytest.raises(UserError, match="'v5e:3x5' has a shape .*not divisible.* as in v5e:2x4"):
    inspect(config, tmp_path)


def test_a_mesh_that_does_not_fit_the_chips(tmp_path):
  config = pretraining()
  config.mesh.data = 3
  with pytest.raises(UserError, match="mesh of data=3"):
    inspect(config, tmp_path)


def test_the_speed_of_this_machine():
  chip = chips.measured(jax.devices()[0])
  assert min(chip.flops, chip.bandwidth) > 0
  assert "measured now" in chip.source
