"""Writes, lists and copies the objects of buckets in Google Cloud Storage.

Errors become OSErrors with a reason and a place, as those of a local disk are: `FileNotFoundError` if there is no such
bucket, `PermissionError`, and `TimeoutError` if the storage does not answer for a minute.
"""

import contextlib
import dataclasses
import errno
import functools
import pathlib
from collections.abc import Iterator
from typing import Any

from etils import epath

_PATIENCE = 60.0  # seconds for which a request is repeated
# The packages whose errors are told here: the clients of the storage, and what they are built on.
_CLIENTS = ("google", "gcsfs", "aiohttp")
_BELOW = ("requests", "urllib3")  # others use them, too


@dataclasses.dataclass(frozen=True)
class Entry:
  """An object: its size in bytes, and its generation, which changes each time it is written."""

  size: int
  generation: int


def check(path: epath.Path) -> None:
  """Raises OSError if what is in the place cannot be listed."""
  bucket, name = _split(path)
  with _told(path):
    list(_client().list_blobs(bucket, prefix=name, max_results=1, retry=_retry()))


def entries(path: epath.Path) -> dict[epath.Path, Entry]:
  """Returns the object at `path` if there is one, and all below it."""
  bucket, name = _split(path)
  with _told(path):
    blobs = list(_client().list_blobs(bucket, prefix=name and f"{name}/", retry=_retry()))
    own = _client().bucket(bucket).get_blob(name, retry=_retry()) if name else None
  return {
    epath.Path(f"gs://{bucket}/{blob.name}"): Entry(blob.size, blob.generation)
    for blob in [*blobs, *filter(None, [own])]
    # Consoles write names with a slash at the end for empty folders. Any other name like that leaves the folder.
    if not {"", ".", ".."} & {*blob.name.split("/")}
  }


def upload(file: pathlib.Path, path: epath.Path) -> int:
  """Writes the content of a local file, whole or not at all; returns the generation."""
  blob = _blob(path)
  with _told(path):
    blob.upload_from_filename(str(file), retry=_retry())
  return blob.generation


def download(path: epath.Path, generation: int, file: pathlib.Path) -> None:
  """Copies a generation of an object to a local file; raises FileNotFoundError if it was replaced."""
  with _told(path):
    _blob(path, generation).download_to_filename(str(file), retry=_retry())


def write_if(path: epath.Path, text: str, generation: int) -> int | None:
  """Writes a small object if it has this generation; 0 means that there is none.

  Returns:
    The new generation, or None if the object has another one.
  """
  from google.api_core.exceptions import PreconditionFailed

  blob = _blob(path)
  with _told(path):
    try:
      blob.upload_from_string(text, if_generation_match=generation, retry=_retry())
    except PreconditionFailed:
      return None
  return blob.generation


def read(path: epath.Path) -> tuple[str, int] | None:
  """Returns the text and the generation of a small object, or None if there is none."""
  from google.api_core.exceptions import NotFound

  blob = _blob(path)
  with _told(path):
    try:
      return blob.download_as_bytes(retry=_retry()).decode(), blob.generation
    except NotFound:
      return None


def delete_if(path: epath.Path, generation: int) -> None:
  """Deletes an object if it has this generation."""
  from google.api_core.exceptions import NotFound, PreconditionFailed

  with _told(path), contextlib.suppress(NotFound, PreconditionFailed):
    _blob(path).delete(if_generation_match=generation, retry=_retry())


def as_os_error(error: BaseException, place: str | None = None) -> OSError | None:
  """Returns an error of a client of the storage as an OSError; None for any other error.

  Args:
    error: the error.
    place: the place that could not be used; None if it is not known, nor whether it is one in a bucket.
  """
  known = _CLIENTS if place is None else (*_CLIENTS, *_BELOW)
  if type(error).__module__.partition(".")[0] not in known:
    return None
  name, code = type(error).__name__, getattr(error, "code", None)
  text = " ".join(str(error).split())
  if name in ("DefaultCredentialsError", "RefreshError", "Unauthorized") or code == 401:
    return OSError(
      errno.EACCES, f"no valid credentials for Google Cloud, {text}; see gcloud auth", place
    )
  if code == 403:
    return OSError(errno.EACCES, f"the storage says: {text}", place)
  if code == 404:
    return OSError(errno.ENOENT, f"the storage says: {text}", place)
  return OSError(errno.ETIMEDOUT, f"the storage does not answer ({text or name})", place)


@contextlib.contextmanager
def _told(path: epath.Path) -> Iterator[None]:
  """Turns the errors of the client into OSErrors that name the place."""
  try:
    yield
  except Exception as error:
    told = as_os_error(error, str(path))
    if told is None:
      raise
    raise told from error


@functools.cache
def _client() -> Any:
  from google.cloud import storage

  try:
    return storage.Client()
  except OSError as error:  # it has no errno
    raise PermissionError(errno.EACCES, f"{error} set GOOGLE_CLOUD_PROJECT", "gs://") from None


def _retry() -> Any:
  from google.cloud.storage.retry import DEFAULT_RETRY

  return DEFAULT_RETRY.with_timeout(_PATIENCE)


def _split(path: epath.Path) -> tuple[str, str]:
  """Returns the names of the bucket and of the object."""
  bucket, _, name = str(path).removeprefix("gs://").partition("/")
  return bucket, name.rstrip("/")


def _blob(path: epath.Path, generation: int | None = None) -> Any:
  bucket, name = _split(path)
  return _client().bucket(bucket).blob(name, generation=generation)
