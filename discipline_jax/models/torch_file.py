"""Reads the tensors of a `pytorch_model.bin` without PyTorch, and without running code from the pickle.

It reads both formats of `torch.save`: the zip archive (since PyTorch 1.6) and the older stream of pickles; see
torch/serialization.py. A pickle can call any function of any module. The unpickler here knows only the names that
describe tensors, builds numpy arrays for them, and refuses every other name.
"""

import collections
import io
import pathlib
import pickle
import zipfile
from typing import Any

import ml_dtypes
import numpy as np

from discipline_jax.errors import UserError

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
# Where trainers (their own loops, Lightning, DeepSpeed) put the state dict.
_STATE_DICTS = ("state_dict", "model_state_dict", "model", "module", "net")
_STORAGE_DTYPES = {
  "DoubleStorage": np.dtype("<f8"),
  "FloatStorage": np.dtype("<f4"),
  "HalfStorage": np.dtype("<f2"),
  "BFloat16Storage": np.dtype(ml_dtypes.bfloat16),
  "LongStorage": np.dtype("<i8"),
  "IntStorage": np.dtype("<i4"),
  "ShortStorage": np.dtype("<i2"),
  "CharStorage": np.dtype("i1"),
  "ByteStorage": np.dtype("u1"),
  "BoolStorage": np.dtype("?"),
}


def read_torch_file(path: pathlib.Path) -> dict[str, np.ndarray]:
  """Returns the state dict in a file as arrays.

  A trainer may have saved other things beside it: then it is looked for under the usual keys, such as `state_dict`.

  Raises:
    UserError: the file cannot be read, holds no state dict, or calls a function.
  """
  try:
    with path.open("rb") as file:
      state = _read_zip(file) if zipfile.is_zipfile(file) else _read_legacy(file)
    return {name: tensor.array() for name, tensor in _tensors(state, path).items()}
  except UserError:
    raise
  except _Refused as name:
    raise UserError(
      f"the checkpoint's pickle calls {name}, which was not run, {path}; save model.state_dict() alone, or in"
      " safetensors format"
    ) from None
  except Exception as error:  # a hostile pickle can raise any error
    reason = f"{type(error).__name__}: {error}"
    raise UserError(
      f"not a readable PyTorch checkpoint ({reason}), {path}; download it again"
    ) from None


def _tensors(state: Any, path: pathlib.Path) -> dict[str, "_Tensor"]:
  """Returns the tensors of a state dict, or of the one that a trainer's dict holds."""
  if not isinstance(state, dict):
    raise UserError(
      f"the file holds a {type(state).__name__}, not a dict of tensors, {path}; save model.state_dict()"
    )
  own = {name: value for name, value in state.items() if isinstance(value, _Tensor)}
  for key in _STATE_DICTS:
    inner = state.get(key)
    if isinstance(inner, dict) and any(isinstance(value, _Tensor) for value in inner.values()):
      own = {name: value for name, value in inner.items() if isinstance(value, _Tensor)}
      break
  wrong = [name for name in own if not isinstance(name, str)]
  if wrong or not own:
    entry = next(iter(wrong or state), None)
    raise UserError(
      f"not a state dict of tensors, but a dict whose first entry is {entry!r}, {path}; save model.state_dict()"
    )
  return own


class _Refused(Exception):
  """A pickle calls a function that is not allowed; holds its name."""


class _Storage:
  """A flat buffer. In the older format its data follow after the pickle that refers to it."""

  def __init__(self, dtype: np.dtype, size: int):
    self.dtype, self.size, self.data = dtype, size, b""


class _Tensor:
  """A strided view of a storage."""

  def __init__(
    self, storage: _Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
  ):
    self.storage, self.offset, self.shape, self.strides = storage, offset, shape, strides

  def array(self) -> np.ndarray:
    """Returns a contiguous copy; raises ValueError if the view exceeds the storage."""
    flat = np.frombuffer(self.storage.data, self.storage.dtype)
    if min(*self.shape, *self.strides, self.offset, 0) < 0 or len(self.shape) != len(self.strides):
      raise ValueError(f"a tensor of shape {self.shape} and strides {self.strides}")
    end = self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)) + 1
    if 0 in self.shape:
      return np.zeros(self.shape, flat.dtype)
    if end > flat.size:
      raise ValueError(f"a tensor of {end} elements in a storage of {flat.size}")
    itemsize = flat.dtype.itemsize
    view = np.lib.stride_tricks.as_strided(
      flat[self.offset :], self.shape, [s * itemsize for s in self.strides], writeable=False
    )
    return np.ascontiguousarray(view).reshape(self.shape)


class _Unpickler(pickle.Unpickler):
  """An unpickler for tensors only.

  Args:
    file: the pickle.
    load_storage: function from dtype, key and number of elements to a storage.
  """

  def __init__(self, file: io.BufferedIOBase, load_storage):
    super().__init__(file, encoding="utf-8")
    self._load_storage = load_storage

  def find_class(self, module: str, name: str) -> Any:
    if (module, name) == ("collections", "OrderedDict"):
      return collections.OrderedDict
    if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
      return lambda storage, offset, shape, strides, *_: _Tensor(storage, offset, shape, strides)
    if (module, name) == ("torch._utils", "_rebuild_parameter"):
      return lambda tensor, *_: tensor
    if module == "torch" and name in _STORAGE_DTYPES:
      return _STORAGE_DTYPES[name]
    raise _Refused(f"{module}.{name}")

  def persistent_load(self, pid: Any) -> _Storage:
    kind, dtype, key, _, size, *view = pid
    if (
      kind != "storage" or not isinstance(dtype, np.dtype) or any(item is not None for item in view)
    ):
      raise ValueError(f"an unknown storage {pid!r}")
    return self._load_storage(dtype, str(key), int(size))


def _read_zip(file: io.BufferedIOBase) -> Any:
  with zipfile.ZipFile(file) as archive:
    pickles = [name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"]
    if len(pickles) != 1:
      raise ValueError(f"{len(pickles)} data.pkl in the archive")
    root = pickles[0].removesuffix("data.pkl")
    storages: dict[str, _Storage] = {}

    def load_storage(dtype: np.dtype, key: str, size: int) -> _Storage:
      if key not in storages:
        storages[key] = _Storage(dtype, size)
        storages[key].data = archive.read(f"{root}data/{key}")
      return storages[key]

    return _Unpickler(io.BytesIO(archive.read(pickles[0])), load_storage).load()


def _read_legacy(file: io.BufferedIOBase) -> Any:
  storages: dict[str, _Storage] = {}

  def load_storage(dtype: np.dtype, key: str, size: int) -> _Storage:
    return storages.setdefault(key, _Storage(dtype, size))

  file.seek(0)
  if _Unpickler(file, load_storage).load() != _LEGACY_MAGIC:
    raise ValueError("it does not start with the magic number of torch.save")
  for _ in ("protocol version", "system information"):
    _Unpickler(file, load_storage).load()
  state = _Unpickler(file, load_storage).load()
  for key in _Unpickler(file, load_storage).load():
    storage = storages[key]
    size = int.from_bytes(file.read(8), "little")
    storage.data = file.read(size * storage.dtype.itemsize)
    if size != storage.size or len(storage.data) != size * storage.dtype.itemsize:
      raise ValueError(f"storage {key} is incomplete")
  return state
