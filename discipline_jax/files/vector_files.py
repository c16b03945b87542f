"""Writes vectors to a file row by row, so that memory does not grow with it: .npz for NumPy, or .parquet.

Both have `line`, the columns that are kept, and `vectors`. In an .npz file, `vectors` is one array of all of them, and
if a row has several, `offsets` says where those of each row begin, and at its end where the last ones end.
"""

import contextlib
import dataclasses
import importlib.util
import pathlib
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Protocol

import numpy as np
from jaxtyping import Float32, Int

from discipline_jax.errors import UserError
from discipline_jax.files.places import Path
from discipline_jax.files.whole_files import whole_file

SUFFIXES = (".npz", ".parquet")
OWN = ("line", "vectors", "offsets")  # names that no column which is kept may have


@dataclasses.dataclass(frozen=True)
class Form:
  """Describes what a file will have.

  Attributes:
    rows: number of rows.
    vectors: number of vectors.
    size: length of a vector.
    has_several: whether a row has several vectors, or none.
    widths: the most characters of each column that is kept, by name.
  """

  rows: int
  vectors: int
  size: int
  has_several: bool
  widths: Mapping[str, int]


class Write(Protocol):
  """Writes the next rows."""

  def __call__(
    self,
    lines: Sequence[int],
    columns: Sequence[Sequence[str]],
    vectors: Float32[np.ndarray, "vectors size"],
    counts: Int[np.ndarray, " rows"],
  ) -> None:
    """Writes the next rows.

    Args:
      lines: the line of each row in its table.
      columns: the texts of each column that is kept.
      vectors: the vectors of all rows, one after the other.
      counts: how many vectors each row has.
    """


def local_output(path: Path) -> pathlib.Path:
  """Returns the path of a file of vectors; raises UserError if it is in a bucket, or a package is missing."""
  if not isinstance(path, pathlib.Path):
    raise UserError(f"vectors are written to local files only, {path}; give a path on this machine")
  if path.suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
    raise UserError(
      f"writing a .parquet file needs the package pyarrow, {path}; pip install pyarrow, or give a .npz file"
    )
  return path


def is_vector_file(path: pathlib.Path) -> bool:
  """Returns whether a file, which ends in one of SUFFIXES, has what `vector_file` writes, or is empty."""
  if not path.stat().st_size:
    return True
  if path.suffix == ".parquet":
    from pyarrow import parquet  # few need it

    try:
      return {*OWN[:2]} <= {*parquet.read_schema(path).names}
    except ValueError:  # as pyarrow says that it is another kind of file
      return False
  try:
    with zipfile.ZipFile(path) as archive:
      return {f"{name}.npy" for name in OWN[:2]} <= {*archive.namelist()}
  except zipfile.BadZipFile:
    return False


def vector_file(path: pathlib.Path, form: Form) -> contextlib.AbstractContextManager[Write]:
  """Opens a file that appears at `path` when the block ends without an error, and gives the function that writes to it.

  Args:
    path: the file, which ends in one of SUFFIXES.
    form: what it will have; all rows must be written.
  """
  return (_parquet if path.suffix == ".parquet" else _npz)(path, form)


@contextlib.contextmanager
def _npz(path: pathlib.Path, form: Form) -> Iterator[Write]:
  """Writes vectors into the archive at once; all else, which is small, is gathered in temporary files beside it."""
  kinds: dict[str, Any] = {"line": np.dtype(np.int64)}
  kinds |= {name: np.dtype(f"<U{max(1, width)}") for name, width in form.widths.items()}
  if form.has_several:
    kinds["offsets"] = np.dtype(np.int64)
  with contextlib.ExitStack() as stack:
    file = stack.enter_context(whole_file(path))
    archive = stack.enter_context(zipfile.ZipFile(file, "w"))
    parts = {
      name: stack.enter_context(tempfile.TemporaryFile(dir=path.absolute().parent))
      for name in kinds
    }
    end = 0
    with _member(archive, "vectors", np.dtype(np.float32), (form.vectors, form.size)) as member:

      def write(lines, columns, vectors, counts) -> None:
        nonlocal end
        member.write(np.ascontiguousarray(vectors).data)
        values = dict(zip(kinds, [lines, *columns], strict=False))
        if form.has_several:
          ends = end + np.cumsum(counts)
          values["offsets"] = ends - counts
          end = int(ends[-1])
        for name, column in values.items():
          parts[name].write(np.array(column, kinds[name]).tobytes())

      yield write
    if form.has_several:
      parts["offsets"].write(np.array([end], np.int64).tobytes())
    for name, kind in kinds.items():
      shape = (form.rows + (name == "offsets"),)
      with _member(archive, name, kind, shape) as member:
        parts[name].seek(0)
        shutil.copyfileobj(parts[name], member)


@contextlib.contextmanager
def _member(
  archive: zipfile.ZipFile, name: str, kind: np.dtype, shape: tuple[int, ...]
) -> Iterator[IO[bytes]]:
  """Opens an array of an .npz file, behind its header; the same content gives the same bytes."""
  with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(member, header)
    yield member


@contextlib.contextmanager
def _parquet(path: pathlib.Path, form: Form) -> Iterator[Write]:
  """Writes a group of rows for each call."""
  import pyarrow  # few need it
  from pyarrow import parquet

  vector = pyarrow.list_(pyarrow.float32())
  schema = pyarrow.schema(
    [
      ("line", pyarrow.int64()),
      *((name, pyarrow.string()) for name in form.widths),
      ("vectors", pyarrow.list_(vector) if form.has_several else vector),
    ]
  )

  def write(lines, columns, vectors, counts) -> None:
    values = np.ascontiguousarray(vectors).reshape(-1)
    ends = np.arange(0, len(values) + 1, form.size, dtype=np.int32)
    cells = pyarrow.ListArray.from_arrays(ends, pyarrow.array(values))
    if form.has_several:
      own = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
      cells = pyarrow.ListArray.from_arrays(own, cells)
    arrays = [pyarrow.array(lines, pyarrow.int64())]
    arrays += [pyarrow.array(column, pyarrow.string()) for column in columns]
    writer.write_table(pyarrow.table([*arrays, cells], schema=schema))

  with (
    whole_file(path) as file,
    parquet.ParquetWriter(file, schema, use_dictionary=False) as writer,
  ):
    yield write
