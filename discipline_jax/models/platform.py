"""The kind of device that a program is compiled for, and the mesh over which its arrays are spread.

Modules choose between implementations by it when they are traced. It comes from the mesh of the caller and not from
the machine that traces, because a program can be compiled on one machine for another.
"""

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXES = ("data", "fsdp", "tensor")  # of a mesh
BATCH = ("data", "fsdp")  # the axes over which the rows of a batch are spread
_GPU_PLATFORMS = ("cuda", "rocm")  # names that a compile-only client may give to a GPU


@dataclasses.dataclass(frozen=True)
class Platform:
  """A kind of device. It is hashable, so that it can be a static attribute of a module.

  Attributes:
    name: "cpu", "gpu" or "tpu".
    compute_capability: version of a GPU, as JAX names it: "9.0" for NVIDIA's H100, "gfx90a" for AMD's MI250; empty for
      other devices.
    mesh: where the program runs; None for one device.
    rows: the axes of the mesh over which the rows of a batch are spread.
  """

  name: str
  compute_capability: str = ""
  mesh: Mesh | None = None
  rows: tuple[str, ...] = BATCH

  @classmethod
  def of(
    cls, device: jax.Device, mesh: Mesh | None = None, rows: tuple[str, ...] = BATCH
  ) -> "Platform":
    """Returns the platform of a device, which may belong to a compile-only topology, and of the mesh that it is in."""
    mesh = None if mesh is None or mesh.size == 1 else mesh
    if device.platform in ("gpu", *_GPU_PLATFORMS):
      return cls("gpu", str(getattr(device, "compute_capability", "")), mesh, rows)
    return cls(device.platform, mesh=mesh, rows=rows)

  @classmethod
  def default(cls) -> "Platform":
    """Returns the platform of JAX's default device, for callers without a mesh."""
    return cls.of(jax.devices()[0])


def pin(x: jax.Array, platform: Platform, last: str | None = None) -> jax.Array:
  """Says where an activation lies: its rows over the axes of the batch, and its last axis over `last`, or whole.

  Without it, XLA may gather the rows of all devices in place of the weights, which are smaller.

  Args:
    x: [rows, ..., features]. Rows that the mesh does not divide stay where XLA puts them, as does all of `x` on one
      device.
    platform: where the program runs.
    last: an axis of the mesh.
  """
  mesh = platform.mesh
  if mesh is None or len(x) % _num_shares(platform):
    return x
  if last is not None and x.shape[-1] % mesh.shape[last]:
    last = None
  return _lay(x, mesh, platform.rows, *[None] * (x.ndim - 2), last)


def row_major(x: jax.Array, platform: Platform) -> jax.Array:
  """Says that on a GPU the rows of a batch lie one after the other in memory, as all layers read them.

  XLA would choose the order of the position embeddings, which have no rows, and transpose in every layer.

  Args:
    x: [rows, ..., features]. Rows that the mesh does not divide stay in the order that XLA chooses.
    platform: where the program runs.
  """
  if platform.name != "gpu":
    return x
  layout = Layout(major_to_minor=tuple(range(x.ndim)))
  if platform.mesh is None:
    return with_layout_constraint(x, layout)
  if len(x) % _num_shares(platform):
    return x
  # For each device by itself: of the constraint alone, XLA would make one on the rows of all devices, and gather them.
  spec = PartitionSpec(platform.rows)
  constrain = partial(with_layout_constraint, layouts=layout)
  return jax.shard_map(constrain, mesh=platform.mesh, in_specs=spec, out_specs=spec)(x)


def _num_shares(platform: Platform) -> int:
  """Returns the number of shares that the rows of a batch are cut into, on a mesh."""
  assert platform.mesh is not None
  return math.prod(platform.mesh.shape[axis] for axis in platform.rows)


def copies(table: jax.Array, platform: Platform) -> jax.Array:
  """Gives the rows of a batch at each place along the axis `data` a copy of a table, which every such place has anyway.

  If a table is used twice, both of its gradients are then added before the places exchange them, once.

  Args:
    table: [rows, features].
    platform: where the program runs.

  Returns:
    [copies, rows, features], which `per_copy` uses; or the table itself if `data` does not spread the rows of a batch.
  """
  mesh = platform.mesh
  if mesh is None or mesh.shape["data"] == 1 or "data" not in platform.rows:
    return table
  own = jnp.broadcast_to(table[None], (mesh.shape["data"], *table.shape))
  return _lay(own, mesh, "data", PartitionSpec.UNCONSTRAINED, PartitionSpec.UNCONSTRAINED)


def per_copy(
  function: Callable[[jax.Array, jax.Array], jax.Array], table: jax.Array, rows: jax.Array
) -> jax.Array:
  """Returns `function(table, rows)`, computed with each copy of the table for the rows of a batch that it belongs to.

  Args:
    function: (table [rows, features], rows [batch, ...]) -> [batch, ...].
    table: what `copies` returned.
    rows: [batch, ...]; the batch is a multiple of the copies.
  """
  if table.ndim == 2:
    return function(table, rows)
  parts = rows.reshape(len(table), -1, *rows.shape[1:])
  found = jax.vmap(function)(table, parts)
  return found.reshape(-1, *found.shape[2:])


def split_rows(table: jax.Array, platform: Platform) -> jax.Array:
  """Says that each device of the axis `tensor` has some rows of a table, whole over the axis `fsdp`.

  Args:
    table: [rows, features], or copies of it.
    platform: where the program runs.

  Returns:
    The table, with rows of zeros at its end if the axis does not divide the rows.
  """
  mesh = platform.mesh
  if mesh is None or mesh.shape["tensor"] == 1:
    return table
  lead = ["data"] * (table.ndim - 2)
  missing = -table.shape[-2] % mesh.shape["tensor"]
  table = jnp.pad(table, (*[(0, 0)] * len(lead), (0, missing), (0, 0)))
  # Features over `tensor` first, because XLA exchanges features for rows only within one axis.
  return _lay(_lay(table, mesh, *lead, None, "tensor"), mesh, *lead, "tensor", None)


def split_features(table: jax.Array, platform: Platform) -> jax.Array:
  """Says that each device of the axis `tensor` has some features of a table, and of its gradient.

  What is looked up then lies in the same way. Otherwise XLA would gather the whole table, or the rows of all devices.

  Args:
    table: [rows, features], or copies of it.
    platform: where the program runs.
  """
  mesh = platform.mesh
  if mesh is None or mesh.shape["tensor"] == 1 or table.shape[-1] % mesh.shape["tensor"]:
    return table
  return _lay(table, mesh, *["data"] * (table.ndim - 2), None, "tensor")


def _lay(x: jax.Array, mesh: Mesh, *axes: Any) -> jax.Array:
  return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, PartitionSpec(*axes)))
