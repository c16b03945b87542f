"""Tests that a model's program suits the platform that the caller names, not the machine that traces it."""

import re
from unittest import mock

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from discipline_jax import models
from discipline_jax.models import attention
from discipline_jax.models.platform import Platform
from discipline_jax.training.sharding import make_mesh
from tests.models.gradients import CONFIG, HEADS, HOPPER, TPU, gradient

CPU = Platform("cpu")
TURING = Platform("gpu", "7.5")


@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
@pytest.mark.parametrize(
  ("platform", "lowering", "expected"),
  [(CPU, "cpu", True), (TPU, "tpu", False), (HOPPER, "cuda", False), (None, "cpu", True)],
  ids=str,
)
def test_only_the_cpu_program_holds_the_barriers_of_the_cpu_products(
  head, platform, lowering, expected
):
  function, inputs = gradient(head, platform, dropout=0.0)
  text = jax.jit(function).trace(*inputs).lower(lowering_platforms=(lowering,)).as_text()
  assert "dot_general" in text
  assert ("optimization_barrier" in text) == expected


@pytest.mark.parametrize(
  ("platform", "dtype", "dropout", "expected"),
  [
    (HOPPER, jnp.bfloat16, 0.0, True),
    (HOPPER, jnp.bfloat16, 0.1, False),
    (HOPPER, jnp.float32, 0.0, False),
    (TURING, jnp.bfloat16, 0.0, False),
    (CPU, jnp.bfloat16, 0.0, False),
    (TPU, jnp.bfloat16, 0.0, False),
  ],
)
def test_the_platform_chooses_the_attention_kernel(platform, dtype, dropout, expected, monkeypatch):
  """JAX refuses to trace cuDNN's kernel on a machine without CUDA, so XLA's implementation replaces it here."""
  taken, fused = [], attention._fused

  def stand_in(*inputs):
    taken.append(inputs[-1])
    return fused(*inputs[:-1], "xla")

  monkeypatch.setattr(attention, "_fused", stand_in)
  jax.clear_caches()  # otherwise a layer that an earlier test traced would be reused
  function, inputs = gradient(models.TokenClassifier(3), platform, dtype, dropout)
  jax.make_jaxpr(function)(*inputs)
  assert set(taken) == ({"cudnn"} if expected else set())


def test_a_model_for_another_platform_is_another_program():
  """`Layer.__call__` is jitted by itself, and its cache must distinguish platforms."""
  encoder = models.Encoder(CONFIG, rngs=nnx.Rngs(0))
  ids = jax.ShapeDtypeStruct((3, 10), jnp.int32)

  def has_barrier():
    graph, state = nnx.split(encoder)
    return "optimization_barrier" in str(
      jax.make_jaxpr(lambda state, ids: nnx.merge(graph, state)(ids).last_hidden_state)(state, ids)
    )

  assert has_barrier()
  encoder.set_attributes(platform=TPU)
  assert not has_barrier()
  encoder.set_attributes(platform=CPU)
  assert has_barrier()


def test_the_platform_is_static_and_not_a_parameter():
  encoder = models.Encoder(CONFIG, rngs=nnx.Rngs(0))
  graph, state = nnx.split(encoder)
  encoder.set_attributes(platform=TPU)
  other_graph, other_state = nnx.split(encoder)
  assert jax.tree.structure(state) == jax.tree.structure(other_state)
  assert graph != other_graph


@pytest.mark.parametrize(
  ("platform", "capability", "expected"),
  [
    ("cpu", None, Platform("cpu", "")),
    ("tpu", None, Platform("tpu", "")),
    ("gpu", "9.0", Platform("gpu", "9.0")),
    ("cuda", "8.0", Platform("gpu", "8.0")),
    ("rocm", "gfx90a", Platform("gpu", "gfx90a")),
    ("gpu", None, Platform("gpu", "")),
  ],
)
def test_a_device_has_a_platform(platform, capability, expected):
  device = mock.Mock(spec=jax.Device)
  device.platform = platform
  if capability is not None:
    device.compute_capability = capability
  assert Platform.of(device) == expected


def test_the_default_is_the_default_device():
  assert Platform.default() == Platform.of(jax.devices()[0]) == CPU


@pytest.mark.usefixtures("cudnn")
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("length", [10, 11], ids=["even", "odd"])
@pytest.mark.parametrize("head", HEADS, ids=lambda head: type(head).__name__)
def test_programs_with_cudnns_attention_lower(head, length, replicas):
  """Training with 5 queries of 11 tokens, and with replicas side by side: a mask in place of lengths fails there."""
  function, inputs = gradient(head, HOPPER, jnp.bfloat16, 0.0, length)
  if replicas > 1:
    function = jax.vmap(function)
    inputs = jax.tree.map(
      lambda one: jax.ShapeDtypeStruct((replicas, *one.shape), one.dtype), inputs
    )
  text = jax.jit(function).trace(*inputs).lower(lowering_platforms=("cuda",)).as_text()
  assert text.count("__cudnn$fmhaSoftmax(") + text.count("__cudnn$fmhaSoftmaxBackward(") >= 2
  assert "fmhaScaleBias" not in text, "no bias, and no gradient of one"


@pytest.mark.parametrize(("replicas", "rows"), [(1, ("data", "fsdp")), (8, ("fsdp",))])
def test_on_gpus_the_rows_of_each_device_lie_one_after_the_other(replicas, rows):
  """Each device says it for itself: XLA would gather the rows of all of them."""
  mesh = make_mesh(4, 2, 1)
  platform = Platform("gpu", "9.0", mesh, rows)
  function, inputs = gradient(models.Classifier(3), platform, batch=8)
  if replicas > 1:
    function = jax.vmap(function, spmd_axis_name="data")
    inputs = jax.tree.map(
      lambda one: jax.ShapeDtypeStruct((replicas, *one.shape), one.dtype), inputs
    )
  text = jax.jit(function).trace(*inputs).lower(lowering_platforms=("cuda",)).as_text()
  calls = re.findall(r"@LayoutConstraint\(.*tensor<(\w+)x10x16xf32>", text)
  per_device = {1: "1", 8: "2x4"}[replicas]  # [replicas, rows]
  assert calls
  assert set(calls) == {per_device}
  plain, inputs = gradient(models.Classifier(3), TPU)
  text = jax.jit(plain).trace(*inputs).lower(lowering_platforms=("tpu",)).as_text()
  assert "LayoutConstraint" not in text
