"""Builds the mesh (data, fsdp, tensor), and decides where on it each array of a training state lies."""

import math
from collections.abc import Sequence

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Int
from ml_collections import ConfigDict

from discipline_jax.errors import UserError
from discipline_jax.models.config import ModelConfig
from discipline_jax.models.heads import ClassifierConfig
from discipline_jax.models.platform import AXES, BATCH, Platform

# The mesh axes of a weight [out, in], by the module that owns it (Megatron: columns, then rows).
_COLUMNS = (("tensor",), ("fsdp",))
_ROWS = (("fsdp",), ("tensor",))
# Of any other: embedding tables, pooler, heads. A vocabulary need not be a number that axes divide, but features are.
_FEATURES = ((), ("tensor", "fsdp"))


def make_mesh(
  data: int, fsdp: int, tensor: int, devices: Sequence[jax.Device] | None = None
) -> Mesh:
  """Makes a mesh over `devices`, by default all devices of all processes.

  One axis may be -1: it takes the devices that the other axes leave.

  Raises:
    UserError: sizes that do not multiply to the number of devices.
  """
  devices = jax.devices() if devices is None else devices
  sizes, count = [data, fsdp, tensor], len(devices)
  if sizes.count(-1) == 1:
    sizes[sizes.index(-1)] = max(1, count // max(1, -int(np.prod(sizes))))
  if min(sizes) < 1 or np.prod(sizes) != count:
    raise UserError(
      f"mesh of data={data}, fsdp={fsdp}, tensor={tensor} does not fit {count} device(s); make"
      f" the product {count}, one may be -1"
    )
  return jax.make_mesh(
    tuple(sizes), AXES, axis_types=(jax.sharding.AxisType.Auto,) * 3, devices=devices
  )


def describe_mesh(mesh: Mesh) -> str:
  """Returns the number and kind of the devices, and of several how they are laid out."""
  axes = ", ".join(f"mesh.{name} {size}" for name, size in mesh.shape.items())
  kind = f"{mesh.size} x {mesh.devices.flat[0].device_kind}"
  return kind if mesh.size == 1 else f"{kind}, {axes}"


def mesh_of(config: ConfigDict) -> Mesh:
  """Makes the mesh of `config.mesh` over all devices."""
  return make_mesh(config.mesh.data, config.mesh.fsdp, config.mesh.tensor)


def check_tensor(mesh: Mesh, config: ClassifierConfig) -> None:
  """Raises UserError if the mesh cuts a model's layers into parts that are not whole heads."""
  tensor = mesh.shape["tensor"]
  if tensor == 1 or not isinstance(config, ModelConfig):
    return
  both = math.gcd(config.num_attention_heads, config.intermediate_size)
  if both % tensor:
    fitting = ", ".join(str(size) for size in range(1, both + 1) if both % size == 0)
    raise UserError(
      f"mesh.tensor = {tensor} does not divide the {config.num_attention_heads} heads and the"
      f" {config.intermediate_size} units of the model's layers; set --config.mesh.tensor to one of: {fitting}"
    )


def spreads(mesh: Mesh, num_replicas: int) -> bool:
  """Returns whether the axis `data` spreads the replicas of a group, and not the rows of each.

  Then replicas exchange nothing. It needs as many replicas as the axis is long, or a multiple.
  """
  data = mesh.shape["data"]
  return 1 < data <= num_replicas and num_replicas % data == 0


def row_axes(mesh: Mesh, num_replicas: int = 1) -> tuple[str, ...]:
  """Returns the axes over which the rows of a batch of each replica are spread."""
  return BATCH[1:] if spreads(mesh, num_replicas) else BATCH


def platform_of(mesh: Mesh, num_replicas: int = 1) -> Platform:
  """Returns the platform of the mesh's devices, which may be of a machine that is not here.

  Args:
    mesh: the mesh.
    num_replicas: how many replicas the program computes side by side.
  """
  return Platform.of(mesh.devices.flat[0], mesh, row_axes(mesh, num_replicas))


def num_shards(mesh: Mesh, num_replicas: int = 1) -> int:
  """Returns the number of shares that the rows of a batch of each replica are cut into."""
  return math.prod(mesh.shape[axis] for axis in row_axes(mesh, num_replicas))


def rows_sharding(mesh: Mesh, shape: Sequence[int]) -> NamedSharding:
  """Returns the sharding of an array [replicas, ..., rows] of the indices of samples."""
  lead = "data" if spreads(mesh, shape[0]) else None
  middle = [None] * (len(shape) - 2)
  return NamedSharding(mesh, PartitionSpec(lead, *middle, row_axes(mesh, shape[0])))


def replicated(mesh: Mesh) -> NamedSharding:
  """Returns the sharding of an array that every device has in full."""
  return NamedSharding(mesh, PartitionSpec())


def state_shardings(mesh: Mesh, state):
  """Returns shardings for a tree of arrays with a leading replica axis, by the names on the path of each.

  They suit parameters, and the moments that an optimizer keeps for each parameter under the same names.
  What the mesh does not divide stays whole.
  """

  def sharding(path, leaf) -> NamedSharding:
    names = [
      str(getattr(part, "key", getattr(part, "name", getattr(part, "idx", "")))) for part in path
    ]
    if leaf.ndim < 2:  # counters and scores, which the first process reads
      return replicated(mesh)
    lead = "data" if spreads(mesh, leaf.shape[0]) else None
    if len(names) < 2 or leaf.ndim != 3:
      return NamedSharding(mesh, PartitionSpec(lead))
    fitting = [
      _fitting(mesh, axes, size) for axes, size in zip(_axes(names), leaf.shape[1:], strict=True)
    ]
    return NamedSharding(mesh, PartitionSpec(lead, *fitting))

  return jax.tree_util.tree_map_with_path(sharding, state)


def _axes(names: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
  """Returns the mesh axes of a weight [out, in]."""
  if names[-2] in ("query", "key", "value") or names[-3:-1] == ["intermediate", "dense"]:
    return _COLUMNS
  if names[-3:-1] == ["output", "dense"]:
    return _ROWS
  return _FEATURES


def _fitting(mesh: Mesh, axes: tuple[str, ...], size: int) -> tuple[str, ...] | None:
  """Returns as many of the axes, the first ones, as cut `size` into equal parts; None if there are none."""
  while size % math.prod(mesh.shape[axis] for axis in axes):
    axes = axes[:-1]
  return axes or None


def put(tree, shardings):
  """Puts arrays that every process has in full onto the devices of all processes."""

  def lay(array, sharding: NamedSharding) -> jax.Array:
    host = np.asarray(array)
    return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])

  return jax.tree.map(lay, tree, shardings)


def held_rows(sharding: NamedSharding, shape: tuple[int, ...]) -> Int[np.ndarray, " rows"]:
  """Returns the indices along the second axis of an array of this shape that this process's devices hold, in order."""
  indices = sharding.addressable_devices_indices_map(shape).values()
  slices = {index[1].indices(shape[1]) for index in indices if index is not None}
  return np.unique(np.concatenate([np.arange(*one) for one in slices]))


def put_rows(
  values: np.ndarray,
  held: Int[np.ndarray, " rows"],
  sharding: NamedSharding,
  shape: tuple[int, ...],
) -> jax.Array:
  """Puts the rows of an array that this process's devices hold onto them.

  Args:
    values: [parts, rows, ...]: the rows `held`.
    held: what `held_rows` returned.
    sharding, shape: of the whole array, [parts, all rows, ...].
  """

  def part(index: tuple[slice, ...] | None) -> np.ndarray:
    assert index is not None
    start, stop, _ = index[1].indices(shape[1])
    first = np.searchsorted(held, start)
    return values[:, first : first + stop - start]

  return jax.make_array_from_callback(shape, sharding, part)


def gather(tree):
  """Returns the arrays of a tree in full in the first process, and None in the others; all processes must call it.

  One array comes after the other, so that the others need memory for one at a time.
  """
  is_first = jax.process_index() == 0
  leaves, structure = jax.tree.flatten(tree)
  found = []
  for leaf in leaves:
    whole = multihost_utils.process_allgather(leaf, tiled=True)
    found.append(np.asarray(whole) if is_first else None)
  return structure.unflatten(found) if is_first else None


def place(mesh: Mesh, shapes):
  """Returns `shapes`, a tree of `jax.ShapeDtypeStruct`, with the shardings of `state_shardings`."""
  return jax.tree.map(
    lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
    shapes,
    state_shardings(mesh, shapes),
  )
