"""Tests that fused attention equals plain attention, and how one of the two is chosen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discipline_jax.models import attention
from discipline_jax.models.attention import Visible, _fused, _has_kernel, attend
from discipline_jax.models.platform import Platform

CPU = Platform("cpu")


LENGTHS = jnp.array([10, 4, 1])


def inputs(lengths=LENGTHS, *, is_causal=False, length=10):
  rng = np.random.default_rng(0)
  query, key, value = (jnp.array(rng.normal(size=(3, length, 16)), jnp.float32) for _ in range(3))
  return query, key, value, Visible.of(lengths, length, is_causal=is_causal)


def plain(query, key, value, visible, **options):
  return attend(
    query,
    key,
    value,
    visible,
    num_heads=4,
    platform=CPU,
    dropout_key=None,
    dropout_rate=0.0,
    **options,
  )


@pytest.mark.parametrize("length", [10, 11], ids=["even", "odd"])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("lengths", [LENGTHS, None], ids=["padded", "whole"])
def test_the_same_values_and_gradients(lengths, is_causal, length):
  query, key, value, visible = inputs(lengths, is_causal=is_causal, length=length)

  def of(function):
    loss = jax.value_and_grad(lambda *qkv: jnp.sin(function(*qkv)).sum(), (0, 1, 2))
    return jax.jit(loss)(query, key, value)

  ours = of(lambda q, k, v: plain(q, k, v, visible)[0])
  theirs = of(lambda q, k, v: _fused(q, k, v, visible, 4, "xla"))
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), ours, theirs)


def test_a_row_without_tokens_is_finite():
  *qkv, visible = inputs(jnp.zeros(3, jnp.int32))
  assert jnp.isfinite(_fused(*qkv, visible, 4, "xla")).all()
  assert jnp.isfinite(plain(*qkv, visible)[0]).all()


def test_lengths_and_a_mask_hide_the_same():
  mask = jnp.arange(10)[None] < LENGTHS[:, None]
  for given in (mask, mask.astype(jnp.int32)):
    ours, theirs = (Visible.of(one, 10, is_causal=True) for one in (LENGTHS, given))
    np.testing.assert_array_equal(ours.allowed, theirs.allowed)
    assert ours.fits_kernel
    assert not theirs.fits_kernel, "padding may be anywhere"
  assert Visible.of(None, 10, is_causal=True).fits_kernel


def test_weights_are_returned_only_if_they_are_needed():
  assert plain(*inputs())[1].shape == (3, 4, 10, 10)
  assert plain(*inputs(), need_weights=False)[1] is None


@pytest.mark.parametrize(
  ("platform", "capability", "dtype", "shape", "expected"),
  [
    ("gpu", "9.0", jnp.bfloat16, (2, 8, 64), True),
    ("gpu", "8.0", jnp.float16, (2, 8, 64), True),
    ("gpu", "7.5", jnp.bfloat16, (2, 8, 64), False),
    ("gpu", "gfx90a", jnp.bfloat16, (2, 8, 64), False),
    ("gpu", "9.0", jnp.float32, (2, 8, 64), False),
    ("gpu", "9.0", jnp.bfloat16, (2, 1, 64), False),
    ("gpu", "9.0", jnp.bfloat16, (2, 8, 36), False),
    ("gpu", "9.0", jnp.bfloat16, (2, 8, 1024), False),
    ("gpu", "9.0", jnp.bfloat16, (2, 8, 512), True),  # heads of 128
    ("cpu", "", jnp.bfloat16, (2, 8, 64), False),
    ("tpu", "", jnp.bfloat16, (2, 8, 64), False),
  ],
)
def test_which_devices_have_the_kernel(platform, capability, dtype, shape, expected):
  assert _has_kernel(Platform(platform, capability), jnp.dtype(dtype), shape, 4) == expected


def test_the_kernel_is_used_only_without_dropout_and_weights(monkeypatch):
  taken = []
  monkeypatch.setattr(attention, "_has_kernel", lambda *_: True)
  monkeypatch.setattr(attention, "_fused", lambda *inputs: taken.append(inputs[-1]) or inputs[0])
  plain(*inputs())
  attend(
    *inputs(),
    num_heads=4,
    platform=CPU,
    dropout_key=jax.random.key(0),
    dropout_rate=0.1,
    need_weights=False,
  )
  assert taken == []
  mask = jnp.arange(10)[None] < LENGTHS[:, None]
  plain(*inputs(mask), need_weights=False)
  assert taken == []
  plain(*inputs(), need_weights=False)
  assert taken == ["cudnn"]
