"""Where the tasks' files are published, and how they get below `data_dir` when they are not there yet.

Only files whose checksum is known are downloaded: those in git, and those that TensorFlow Datasets or MusPy vouch for.
Of the others, the proteins', their reader says where to get them. An archive stays beside what was unpacked from it,
since a later task may need more of it.
"""

import collections
import contextlib
import dataclasses
import errno
import fcntl
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
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from absl import logging

from discipline_jax import progress
from discipline_jax.errors import UserError
from discipline_jax.whole_files import whole_file

# Bytes; more than any archive below needs, so that one that declares more is not the published one.
MOST_UNPACKED = 4 << 30
# What connections, files and, in many ways, a broken zip archive raise.
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
# Seconds: until a server answers at all, and between two pieces of its answer.
ANSWER_TIMEOUT = 10.0
READ_TIMEOUT = 30.0


@dataclasses.dataclass(frozen=True)
class Source:
  """A published file.

  Attributes:
    url: of the file.
    checksum: `sha256:` and the digest, or `git:` and the id that git gives to the content.
  """

  url: str
  checksum: str


_DNA = "https://raw.githubusercontent.com/Doulrs/Hilbert-CNN/master/data"
_GLUE = "https://dl.fbaipublicfiles.com/glue/data"
_MRPC = "https://dl.fbaipublicfiles.com/senteval/senteval_data"
_MAESTRO = "https://storage.googleapis.com/magentadata/datasets/maestro/v1.0.0"

_DNA_IDS = {
  "H3.txt": "5d92655be8c9c31712f1636a931677824497bbbc",
  "H4.txt": "bf15dee3c20ec1a2910f404b31ad56673c852226",
  "H3K9ac.txt": "7ab727805bbe76db772252af5429677752e3572e",
  "splice.txt": "66ee68cb4acc9e55318d64283a9b6ca7df4b6a5f",
}
_GLUE_SHA256 = {
  "CoLA": ("CoLA.zip", "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff"),
  "SST-2": ("SST-2.zip", "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa"),
  "QQP": ("QQP-clean.zip", "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0"),
  "STS-B": ("STS-B.zip", "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85"),
  "MNLI": ("MNLI.zip", "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633"),
  "QNLI": ("QNLIv2.zip", "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5"),
  "RTE": ("RTE.zip", "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee"),
}

# By the place of the file below `data_dir`.
FILES = {
  **{f"dna/{name}": Source(f"{_DNA}/{name}", f"git:{blob}") for name, blob in _DNA_IDS.items()},
  "glue_data/MRPC/msr_paraphrase_train.txt": Source(
    f"{_MRPC}/msr_paraphrase_train.txt",
    "sha256:60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89",
  ),
  "glue_data/MRPC/mrpc_dev_ids.tsv": Source(
    f"{_GLUE}/mrpc_dev_ids.tsv",
    "sha256:971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7",
  ),
}

# By the folder below `data_dir` that the archive holds under its last name.
ARCHIVES = {
  **{
    f"glue_data/{folder}": Source(f"{_GLUE}/{name}", f"sha256:{digest}")
    for folder, (name, digest) in _GLUE_SHA256.items()
  },
  "music/maestro-v1.0.0": Source(
    f"{_MAESTRO}/maestro-v1.0.0-midi.zip",
    "sha256:f620f9e1eceaab8beea10617599add2e9c83234199b550382a2f603098ae7135",
  ),
}

# Files that lie elsewhere in their archive: the table of MAESTRO is inside its folder.
_INSIDE = {"music/maestro-v1.0.0.csv": "music/maestro-v1.0.0/maestro-v1.0.0.csv"}


def ensure(files: Iterable[pathlib.Path], data_dir: pathlib.Path) -> None:
  """Downloads those of `files` that are missing below `data_dir` and are public, and leaves the others alone.

  Nothing is downloaded where HF_HUB_OFFLINE is set, as with checkpoints.

  Raises:
    UserError: a download failed; it names the URL, the reason, and where to put the file by hand.
    OSError: the disk is full.
  """
  if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
    return
  unpacked: dict[str, dict[str, pathlib.Path]] = collections.defaultdict(dict)
  for path in files:
    if os.path.exists(path) or not path.is_relative_to(data_dir):
      continue
    place = path.relative_to(data_dir).as_posix()
    inside = pathlib.PurePosixPath(_INSIDE.get(place, place))
    if place in FILES:
      fetch(FILES[place], path)
    elif place in ("glue_data/MRPC/train.tsv", "glue_data/MRPC/dev.tsv"):
      _split_mrpc(path)
    else:
      for folder in ARCHIVES:
        if inside.is_relative_to(folder) and ".." not in inside.parts:
          root = pathlib.PurePosixPath(folder).parent
          unpacked[folder][inside.relative_to(root).as_posix()] = path
  for folder, members in unpacked.items():
    source = ARCHIVES[folder]
    archive = (data_dir / folder).with_name(source.url.rpartition("/")[2])
    fetch(source, archive)
    unpack(archive, members)


def fetch(source: Source, path: pathlib.Path) -> None:
  """Downloads a file to `path` unless there is one.

  Until it is whole and found to be the published one it is `<path>.part`, which one process at a time writes, and
  where a download that was stopped goes on.

  Raises:
    UserError: no network, not found, wrong content and so on, in one line.
    OSError: the disk is full.
  """
  if os.path.exists(path):
    return
  by_hand = f"get it by hand and put it at {path}, or set --config.data_dir"
  part = path.with_name(f"{path.name}.part")
  with _explained(f"cannot download {source.url}", by_hand):
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(part) as file:
      if path.exists():  # by the process that was waited for
        return
      logging.info("downloading %s to %s", source.url, path)
      _download(source.url, file)
      if not _matches(part, source.checksum):
        part.unlink()
        raise UserError(
          f"what {source.url} sent is not the published file ({source.checksum}), and is deleted; start again,"
          f" or {by_hand}"
        )
      part.replace(path)


def unpack(archive: pathlib.Path, members: Mapping[str, pathlib.Path]) -> None:
  """Copies files out of a zip archive, each whole or not at all.

  Names in the archive decide what is read, never where something is written: nothing but `members` is.

  Args:
    archive: the zip file.
    members: where to put each file, by its name in the archive. Those that it lacks are left out.

  Raises:
    UserError: it is broken, it holds a link in place of a file, or it says to unpack to more than MOST_UNPACKED.
    OSError: the disk is full.
  """
  with (
    _explained(f"cannot unpack {archive}", "delete it if it is broken, and it is downloaded again"),
    zipfile.ZipFile(archive) as opened,
  ):
    held = {entry.filename: entry for entry in opened.infolist() if entry.filename in members}
    # zipfile reads no more of an entry than it declares, so that what is declared can be relied on.
    size = sum(entry.file_size for entry in held.values())
    if size > MOST_UNPACKED:
      raise zipfile.BadZipFile(f"it would be {size} bytes")
    for name, entry in held.items():
      if stat.S_ISLNK(entry.external_attr >> 16):
        raise zipfile.BadZipFile(f"{name} is a link")
      members[name].parent.mkdir(parents=True, exist_ok=True)
      with opened.open(entry) as packed, whole_file(members[name]) as file:
        shutil.copyfileobj(packed, file)


def _split_mrpc(path: pathlib.Path) -> None:
  """Makes a part of MRPC as GLUE does: `dev.tsv` of the pairs whose ids it lists, `train.tsv` of the others."""
  names = ("msr_paraphrase_train.txt", "mrpc_dev_ids.tsv")
  for name in names:
    fetch(FILES[f"glue_data/MRPC/{name}"], path.with_name(name))
  with _explained(f"cannot make {path} of {' and '.join(names)}", "delete them, and start again"):
    pairs, ids = (path.with_name(name).read_bytes() for name in names)
    header, *lines = pairs.splitlines(keepends=True)
    held_out = {tuple(line.split()) for line in ids.splitlines()}
    with whole_file(path) as file:
      file.write(header)
      file.writelines(
        line
        for line in lines
        if (tuple(line.split(b"\t")[1:3]) in held_out) == (path.name == "dev.tsv")
      )


@contextlib.contextmanager
def _alone(part: pathlib.Path) -> Iterator[BinaryIO]:
  """Opens `part` to append, once no other process has it open like this; leaves no empty one behind."""
  while True:
    with part.open("ab") as file:
      with contextlib.suppress(OSError):  # a file system without locks; the checksum still holds
        fcntl.flock(file, fcntl.LOCK_EX)
      if not _is_at(file, part):  # the one who was waited for has renamed or deleted it
        continue
      file.seek(0, os.SEEK_END)
      try:
        yield file
      finally:
        if _is_at(file, part) and not part.stat().st_size:
          part.unlink()
      return


def _is_at(file: BinaryIO, path: pathlib.Path) -> bool:
  try:
    return os.path.samestat(os.fstat(file.fileno()), path.stat())
  except FileNotFoundError:
    return False


def _download(url: str, file: BinaryIO) -> None:
  """Appends to `file` what it lacks of `url`, or all of it where the server cannot give a part."""
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
      f"the connection ended after {file.tell()} of {total} bytes; start again to go on from there"
    )


def _open(request: urllib.request.Request) -> Any:
  """`urlopen` that gives up after ANSWER_TIMEOUT: its own timeout is one per address, and not for name servers."""
  answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

  def run() -> None:
    try:
      answers.put(urllib.request.urlopen(request, timeout=READ_TIMEOUT))
    except Exception as error:  # it is raised where the answer is awaited
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
  kind, _, expected = checksum.partition(":")
  digest = hashlib.sha256()
  if kind == "git":
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
  with path.open("rb") as file:
    return hashlib.file_digest(file, lambda: digest).hexdigest() == expected


@contextlib.contextmanager
def _explained(what: str, advice: str) -> Iterator[None]:
  """Turns what can go wrong with a network, an archive and a folder into one line; not a full disk."""
  try:
    yield
  except UserError:
    raise
  except _FAILURES as error:
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
      raise
    raise UserError(f"{what} ({_reason(error)}); {advice}") from None


def _reason(error: BaseException) -> str:
  if isinstance(error, urllib.error.HTTPError):
    return f"HTTP {error.code} {error.reason}"
  if isinstance(error, urllib.error.URLError) and isinstance(error.reason, OSError):
    error = error.reason
  if isinstance(error, OSError) and error.strerror:
    return f"{error.strerror}, {error.filename}" if error.filename else error.strerror
  return str(error).strip() or type(error).__name__
