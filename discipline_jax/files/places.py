"""Says what a place is that a user names: a local path, or one in a bucket of Google Cloud Storage (`gs://BUCKET/...`).

Code that writes a place, or looks what is there, takes either kind of path. What is read whole, and by libraries that
know only local files, is copied first: see `copies`.
"""

import importlib.util
import logging
import os
import pathlib
import re
from typing import TypeAlias

from etils import epath

from discipline_jax.errors import UserError

# A local path is a `pathlib.Path`, one in a bucket an `epath.Path`.
Path: TypeAlias = pathlib.Path | epath.Path

_SCHEME = re.compile(r"(gs|s3|az|abfs|hdfs)://")
_PACKAGES = ("gcsfs", "google.cloud.storage")


def place(text: str | os.PathLike[str]) -> Path:
  """Returns the path of a place that a user names.

  Raises:
    UserError: storage of another kind than Google's, no name of a bucket, or the packages for buckets are missing.
  """
  text = os.fspath(text)
  if not has_scheme(text):
    return pathlib.Path(text).expanduser()
  if not text.startswith("gs://"):
    raise UserError(
      f"of all storage only gs:// can be read and written, {text}; give that, or a local path"
    )
  if not text.removeprefix("gs://").partition("/")[0]:
    raise UserError(f"no name of a bucket, {text}; give gs://BUCKET/FOLDER")
  if not all(map(_is_installed, _PACKAGES)):
    raise UserError(
      f"gs:// needs the packages gcsfs and google-cloud-storage, {text}; pip install -e '.[gcs]' in a copy of the"
      " repository of this package"
    )
  os.environ.setdefault("EPATH_USE_TF", "false")  # one way, whether TensorFlow is there or not
  # It would ask over gRPC for the bucket's kind, for a minute where that is not let through.
  os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
  # It would log each error that it also raises, with a traceback.
  logging.getLogger("gcsfs").setLevel(logging.CRITICAL)
  import fsspec.config

  # A listing would otherwise be kept for as long as the process lives, and miss what others write.
  fsspec.config.conf.setdefault("gcs", {})["use_listings_cache"] = False
  return epath.Path(text)


def has_scheme(text: str) -> bool:
  """Returns whether a text begins as the name of a place in storage does, and not as a local path."""
  return _SCHEME.match(text) is not None


def absolute(path: Path) -> Path:
  """Returns the path of the same place that does not depend on the working directory."""
  return path.absolute() if isinstance(path, pathlib.Path) else path


def make_folder(path: Path) -> None:
  """Makes a folder and those above it, if they do not exist; a bucket has no folders."""
  if isinstance(path, pathlib.Path):
    path.mkdir(parents=True, exist_ok=True)


def _is_installed(package: str) -> bool:
  try:
    return importlib.util.find_spec(package) is not None
  except ModuleNotFoundError:  # of `google`
    return False
