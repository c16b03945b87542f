"""Downloads published files, checks their checksum, and unpacks archives. Each file is written whole or not at all."""

import contextlib
import dataclasses
import errno
import hashlib
import http.client
import lzma
import os
import pathlib
import queue
import shutil
import stat
import threading
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from absl import logging

from discipline_jax.errors import UserError
from discipline_jax.files import progress
from discipline_jax.files.locks import lock
from discipline_jax.files.whole_files import whole_file

# Bytes. Every known archive unpacks to less, so one that declares more is not a published one.
MOST_UNPACKED = 4 << 30
# The errors of connections, of files, and of a broken zip archive, which can raise nearly anything.
_FAILURES = (
  OSError,
  http.client.HTTPException,
  zipfile.BadZipFile,
  EOFError,
  RuntimeError,
  ValueError,
  zlib.error,
  lzma.LZMAError,
)
ANSWER_TIMEOUT = 10.0  # seconds until the server's first answer
READ_TIMEOUT = 30.0  # seconds between two pieces of its answer


@dataclasses.dataclass(frozen=True)
class Source:
  """A published file.

  Attributes:
    url: address of the file.
    checksum: "sha256:" and the SHA-256 digest, or "git:" and git's blob id of the content, both in hexadecimal.
  """

  url: str
  checksum: str


def fetch(source: Source, path: pathlib.Path) -> None:
  """Downloads a file to `path`, unless a file is already there.

  The download is written to `<path>.part` by one process at a time, and renamed when its checksum is right. If it
  was interrupted, the next call resumes it.

  Raises:
    UserError: the file cannot be downloaded (no network, not found, ...) or has the wrong content.
    OSError: the disk is full.
  """
  if os.path.exists(path):
    return
  by_hand = f"download it by hand and put it at {path}, or set --config.data_dir"
  part = path.with_name(f"{path.name}.part")
  with explained(f"cannot download {source.url}", by_hand):
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(part) as file:
      if path.exists():  # another process downloaded it while this one waited
        return
      logging.info("downloading %s to %s", source.url, path)
      _download(source.url, file)
      if not _matches(part, source.checksum):
        part.unlink()
        raise UserError(
          f"{source.url} sent a file whose checksum is not {source.checksum}, and it is deleted; start again,"
          f" or {by_hand}"
        )
      part.replace(path)


def unpack(archive: pathlib.Path, members: Mapping[str, pathlib.Path]) -> None:
  """Copies files out of a zip archive, each whole or not at all.

  It writes only to the paths in `members`, whatever names the archive holds.

  Args:
    archive: the zip file.
    members: the destination of each file, by its name in the archive. Names that the archive lacks are skipped.

  Raises:
    UserError: the archive is broken, holds a link in place of a file, or declares to unpack to more than MOST_UNPACKED.
    OSError: the disk is full.
  """
  with (
    explained(f"cannot unpack {archive}", "if it is broken, delete it and start again"),
    zipfile.ZipFile(archive) as opened,
  ):
    held = {entry.filename: entry for entry in opened.infolist() if entry.filename in members}
    # zipfile never reads more of an entry than its declared size, so the declared sizes can be trusted.
    size = sum(entry.file_size for entry in held.values())
    if size > MOST_UNPACKED:
      raise zipfile.BadZipFile(f"it would unpack to {size} bytes")
    for name, entry in held.items():
      if stat.S_ISLNK(entry.external_attr >> 16):
        raise zipfile.BadZipFile(f"{name} is a link")
      members[name].parent.mkdir(parents=True, exist_ok=True)
      with opened.open(entry) as packed, whole_file(members[name]) as file:
        shutil.copyfileobj(packed, file)


@contextlib.contextmanager
def _alone(part: pathlib.Path) -> Iterator[BinaryIO]:
  """Opens `part` for appending while no other process does; deletes it at the end if it is empty."""
  while True:
    with part.open("ab") as file:
      lock(file, wait=True)  # on a file system without locks, the checksum still protects
      if not _is_at(file, part):  # the process that held the lock renamed or deleted the file
        continue
      file.seek(0, os.SEEK_END)
      try:
        yield file
      finally:
        if _is_at(file, part) and not part.stat().st_size:
          part.unlink()
      return


def _is_at(file: BinaryIO, path: pathlib.Path) -> bool:
  """Returns whether the open file is the one that is now at `path`."""
  try:
    return os.path.samestat(os.fstat(file.fileno()), path.stat())
  except FileNotFoundError:
    return False


def _download(url: str, file: BinaryIO) -> None:
  """Resumes the download of `url` at the end of `file`; starts again if the server cannot send a part."""
  start = file.tell()
  request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
  try:
    response = _open(request)
  except urllib.error.HTTPError as error:
    if not start or error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
      raise
    file.truncate(0)
    file.seek(0)
    return _download(url, file)
  with response:
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
      start = 0
      file.truncate(0)
      file.seek(0)
    length = response.headers.get("Content-Length")
    total = start + int(length) if length else None
    with progress.bar(
      total=total,
      initial=start,
      desc=url.rpartition("/")[2],
      unit="B",
      unit_scale=True,
      disable=None,
    ) as bar:
      while piece := response.read(1 << 18):
        file.write(piece)
        bar.update(len(piece))
  file.flush()
  if total is not None and file.tell() < total:
    raise ConnectionError(
      f"the connection was closed after {file.tell()} of {total} bytes; start again to resume"
    )


def _open(request: urllib.request.Request) -> Any:
  """Calls `urlopen` and raises TimeoutError after ANSWER_TIMEOUT.

  The timeout of `urlopen` itself counts anew for each address of the server, and does not limit the name lookup.
  """
  answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

  def run() -> None:
    try:
      answers.put(urllib.request.urlopen(request, timeout=READ_TIMEOUT))
    except Exception as error:  # the waiting thread raises it
      answers.put(error)

  threading.Thread(target=run, daemon=True).start()
  try:
    answer = answers.get(timeout=ANSWER_TIMEOUT)
  except queue.Empty:
    raise TimeoutError(f"no answer within {ANSWER_TIMEOUT:g} s") from None
  if isinstance(answer, Exception):
    raise answer
  return answer


def _matches(path: pathlib.Path, checksum: str) -> bool:
  """Returns whether the content of the file has this checksum; see `Source`."""
  kind, _, expected = checksum.partition(":")
  digest = hashlib.sha256()
  if kind == "git":
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
  with path.open("rb") as file:
    return hashlib.file_digest(file, lambda: digest).hexdigest() == expected


@contextlib.contextmanager
def explained(what: str, advice: str) -> Iterator[None]:
  """Turns errors of the network, of archives and of files into a UserError; a full disk stays an OSError.

  Args:
    what: what could not be done, as the start of the message.
    advice: what the user can do, as its end.
  """
  try:
    yield
  except UserError:
    raise
  except _FAILURES as error:
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
      raise
    raise UserError(f"{what} ({_reason(error)}); {advice}") from None


def _reason(error: BaseException) -> str:
  """Returns the cause of an error in a few words."""
  if isinstance(error, urllib.error.HTTPError):
    return f"HTTP {error.code} {error.reason}"
  if isinstance(error, urllib.error.URLError) and isinstance(error.reason, OSError):
    error = error.reason
  if isinstance(error, OSError) and error.strerror:
    return f"{error.strerror}, {error.filename}" if error.filename else error.strerror
  return str(error).strip() or type(error).__name__
