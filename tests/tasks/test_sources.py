"""Downloads: whole and as published or not at all, from a server that does everything wrong."""

import contextlib
import dataclasses
import errno
import hashlib
import http.server
import io
import socket
import stat
import threading
import zipfile

import pytest

from discipline_jax import defaults, tasks
from discipline_jax.errors import UserError
from discipline_jax.tasks import sources
from discipline_jax.tasks.sources import Source, ensure, fetch, unpack

CONTENT = bytes(range(256)) * 4000


def sha256(content: bytes) -> str:
  return f"sha256:{hashlib.sha256(content).hexdigest()}"


def zipped(members: dict[str, bytes]) -> bytes:
  buffer = io.BytesIO()
  with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
    for name, content in members.items():
      archive.writestr(name, content)
  return buffer.getvalue()


@dataclasses.dataclass
class Served:
  """What one path of the server answers.

  Attributes:
    content: the whole file.
    ranges: whether it honours them.
    cut: bytes after which it hangs up, although it announced more.
  """

  content: bytes
  ranges: bool = True
  cut: int | None = None


class Server(http.server.ThreadingHTTPServer):
  """Serves `files`, and notes in `requests` the path and the range of each request."""

  def __init__(self):
    super().__init__(("127.0.0.1", 0), Handler)
    self.files: dict[str, Served] = {}
    self.requests: list[tuple[str, str | None]] = []

  def url(self, path: str) -> str:
    return f"http://127.0.0.1:{self.server_port}/{path}"

  def source(self, path: str, content: bytes, **how) -> Source:
    """Serves `content` at `path`, so that it is the published file."""
    self.files[path] = Served(content, **how)
    return Source(self.url(path), sha256(content))


class Handler(http.server.BaseHTTPRequestHandler):
  def do_GET(self):
    wanted = self.headers.get("Range")
    self.server.requests.append((self.path[1:], wanted))
    served = self.server.files.get(self.path[1:])
    if served is None:
      return self.send_error(404)
    body, start = served.content, 0
    if wanted and served.ranges:
      start = int(wanted.removeprefix("bytes=").removesuffix("-"))
      if start >= len(body):
        return self.send_error(416)
      self.send_response(206)
      self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
    else:
      self.send_response(200)
    self.send_header("Content-Length", str(len(body) - start))
    self.end_headers()
    self.wfile.write(body[start : served.cut])

  def log_message(self, *_):
    pass


@pytest.fixture
def server(monkeypatch):
  monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
  monkeypatch.setenv("no_proxy", "*")
  with Server() as server:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()


def names(folder):
  return sorted(path.name for path in folder.rglob("*") if path.is_file())


def one_line(error) -> str:
  assert "\n" not in str(error.value)
  return str(error.value)


def test_a_download_is_whole_and_happens_once(server, tmp_path):
  source = server.source("a", CONTENT)
  for _ in range(2):
    fetch(source, tmp_path / "new" / "a.txt")
  assert (tmp_path / "new" / "a.txt").read_bytes() == CONTENT
  assert names(tmp_path) == ["a.txt"]
  assert server.requests == [("a", None)]


def test_a_file_that_is_there_is_left_alone(server, tmp_path):
  (tmp_path / "a.txt").write_text("mine")
  fetch(server.source("a", CONTENT), tmp_path / "a.txt")
  assert (tmp_path / "a.txt").read_text() == "mine"
  assert server.requests == []


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
def test_a_download_that_was_cut_off_goes_on(server, tmp_path, ranges):
  path = tmp_path / "a.txt"
  source = server.source("a", CONTENT, ranges=ranges, cut=300_000)
  with pytest.raises(UserError, match="300000 of 1024000 bytes; start again to go on") as error:
    fetch(source, path)
  assert source.url in one_line(error)
  assert str(path) in one_line(error)
  assert names(tmp_path) == ["a.txt.part"]
  server.files["a"].cut = None
  fetch(source, path)
  assert server.requests == [("a", None), ("a", "bytes=300000-")]
  assert path.read_bytes() == CONTENT
  assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("size", [len(CONTENT), len(CONTENT) + 5], ids=["complete", "too long"])
def test_a_part_with_nothing_left_to_ask_for_begins_again(server, tmp_path, size):
  (tmp_path / "a.txt.part").write_bytes(b"x" * size)
  fetch(server.source("a", CONTENT), tmp_path / "a.txt")
  assert (tmp_path / "a.txt").read_bytes() == CONTENT
  assert [wanted for _, wanted in server.requests] == [f"bytes={size}-", None]


def test_wrong_content_is_deleted(server, tmp_path):
  source = server.source("a", CONTENT)
  server.files["a"].content = b"<html>please log in</html>"
  with pytest.raises(UserError, match="not the published file .* is deleted") as error:
    fetch(source, tmp_path / "a.txt")
  assert source.url in one_line(error)
  assert f"by hand and put it at {tmp_path / 'a.txt'}" in one_line(error)
  assert names(tmp_path) == []


def test_not_found(server, tmp_path):
  source = Source(server.url("gone"), sha256(b""))
  with pytest.raises(UserError, match=r"\(HTTP 404 Not Found\)") as error:
    fetch(source, tmp_path / "a.txt")
  assert source.url in one_line(error)
  assert str(tmp_path / "a.txt") in one_line(error)
  assert names(tmp_path) == []


def test_no_network(tmp_path):
  with socket.socket() as unused:
    unused.bind(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{unused.getsockname()[1]}/a"
    with pytest.raises(UserError, match=r"\(Connection refused\)") as error:
      fetch(Source(url, sha256(b"")), tmp_path / "a.txt")
  assert url in one_line(error)
  assert names(tmp_path) == []


def test_a_server_that_does_not_answer(tmp_path, monkeypatch):
  monkeypatch.setattr(sources, "ANSWER_TIMEOUT", 0.2)
  with socket.create_server(("127.0.0.1", 0)) as silent:
    url = f"http://127.0.0.1:{silent.getsockname()[1]}/a"
    with pytest.raises(UserError, match="no answer within 0.2 s"):
      fetch(Source(url, sha256(b"")), tmp_path / "a.txt")


def test_a_folder_that_cannot_be_made(server, tmp_path):
  (tmp_path / "dna").write_text("a file")
  with pytest.raises(UserError, match="File exists"):
    fetch(server.source("a", CONTENT), tmp_path / "dna" / "a.txt")


def test_a_full_disk_is_no_mistake(server, tmp_path, monkeypatch):
  def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")

  source = server.source("a", zipped({"x": b"x"}))
  with monkeypatch.context() as patch:
    patch.setattr(sources, "_download", full)
    with pytest.raises(OSError, match="No space left"):
      fetch(source, tmp_path / "a.zip")
  fetch(source, tmp_path / "a.zip")
  monkeypatch.setattr(sources.shutil, "copyfileobj", full)
  with pytest.raises(OSError, match="No space left"):
    unpack(tmp_path / "a.zip", {"x": tmp_path / "x"})
  assert names(tmp_path) == ["a.zip"]


def test_one_download_for_two_at_once(server, tmp_path):
  source = server.source("a", CONTENT)
  start = threading.Barrier(4)

  def run():
    start.wait()
    fetch(source, tmp_path / "a.txt")

  threads = [threading.Thread(target=run) for _ in range(4)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert (tmp_path / "a.txt").read_bytes() == CONTENT
  assert names(tmp_path) == ["a.txt"]
  assert server.requests == [("a", None)]


def test_the_id_of_a_file_in_git(server, tmp_path):
  # printf 'hello\n' | git hash-object --stdin
  server.files["a"] = Served(b"hello\n")
  fetch(Source(server.url("a"), "git:ce013625030ba8dba906f756967f9e9ca394464a"), tmp_path / "a.txt")
  with pytest.raises(UserError, match="not the published file"):
    fetch(Source(server.url("a"), f"git:{'0' * 40}"), tmp_path / "b.txt")


def test_the_real_splice_file_is_the_published_one(server, shared, tmp_path, monkeypatch):
  content = (shared / "data" / "dna" / "splice.txt").read_bytes()
  server.files["splice.txt"] = Served(content)
  published = sources.FILES["dna/splice.txt"]
  monkeypatch.setitem(
    sources.FILES, "dna/splice.txt", Source(server.url("splice.txt"), published.checksum)
  )
  ensure([tmp_path / "dna" / "splice.txt"], tmp_path)
  assert (tmp_path / "dna" / "splice.txt").read_bytes() == content


def write_zip(path, members):
  path.write_bytes(zipped(members))
  return path


def test_unpack_writes_what_is_asked_for_and_nothing_else(tmp_path):
  outside = tmp_path / "absolute"
  members = {"a/b.txt": b"b", "../slip": b"s", str(outside): b"o", "C:\\drive": b"c", "a/c": b"c"}
  archive = write_zip(tmp_path / "a.zip", members)
  folder = tmp_path / "in" / "to"
  unpack(archive, {"a/b.txt": folder / "b.txt", "a/absent": folder / "absent"})
  assert (folder / "b.txt").read_bytes() == b"b"
  assert names(tmp_path) == ["a.zip", "b.txt"]


def test_a_link_in_an_archive_is_refused(tmp_path):
  link = zipfile.ZipInfo("a")
  link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
  with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
    archive.writestr(link, "/etc/passwd")
  with pytest.raises(UserError, match="a is a link"):
    unpack(tmp_path / "a.zip", {"a": tmp_path / "a"})
  assert names(tmp_path) == ["a.zip"]


def test_a_bomb_is_refused(tmp_path, monkeypatch):
  archive = write_zip(tmp_path / "a.zip", {"a": bytes(600), "b": bytes(600)})
  monkeypatch.setattr(sources, "MOST_UNPACKED", 1000)
  with pytest.raises(UserError, match="1200 bytes"):
    unpack(archive, {name: tmp_path / name for name in "ab"})
  assert names(tmp_path) == ["a.zip"]


def test_a_size_that_is_declared_too_small(tmp_path):
  content = zipped({"a": bytes(600)}).replace((600).to_bytes(4, "little"), bytes([9, 0, 0, 0]))
  (tmp_path / "a.zip").write_bytes(content)
  with pytest.raises(UserError, match="Bad CRC-32"):
    unpack(tmp_path / "a.zip", {"a": tmp_path / "a"})
  assert names(tmp_path) == ["a.zip"]


def test_a_truncated_archive(tmp_path):
  path = tmp_path / "a.zip"
  whole = zipped({"a": CONTENT})
  for tenth in range(10):
    path.write_bytes(whole[: len(whole) * tenth // 10])
    with pytest.raises(UserError, match="File is not a zip file.*delete it") as error:
      unpack(path, {"a": tmp_path / "a"})
    assert str(path) in one_line(error)
    assert names(tmp_path) == ["a.zip"]


def test_broken_archives(tmp_path):
  path = tmp_path / "a.zip"
  whole = zipped({"a": CONTENT, "b": CONTENT})
  broken = [
    whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :]
    for place in (*range(0, len(whole), 200), *range(len(whole) - 150, len(whole)))
  ]
  for content in broken:
    path.write_bytes(content)
    with contextlib.suppress(UserError):  # some bytes do not matter
      unpack(path, {name: tmp_path / name for name in "ab"})
    for name in "ab":
      if (tmp_path / name).exists():
        assert (tmp_path / name).read_bytes() == CONTENT
        (tmp_path / name).unlink()
    assert names(tmp_path) == ["a.zip"]


def test_an_interrupted_unpack_leaves_nothing_half_written(tmp_path, monkeypatch):
  def interrupted(packed, file):
    file.write(packed.read(3))
    raise KeyboardInterrupt

  archive = write_zip(tmp_path / "a.zip", {"a": b"content"})
  monkeypatch.setattr(sources.shutil, "copyfileobj", interrupted)
  with pytest.raises(KeyboardInterrupt):
    unpack(archive, {"a": tmp_path / "a"})
  assert names(tmp_path) == ["a.zip"]


def serve_archive(server, monkeypatch, folder, members):
  """Serves an archive in place of the published one, under its name."""
  name = sources.ARCHIVES[folder].url.rpartition("/")[2]
  monkeypatch.setitem(sources.ARCHIVES, folder, server.source(name, zipped(members)))
  return name


@pytest.mark.parametrize(
  ("folder", "archive"), [("CoLA", "CoLA.zip"), ("QQP", "QQP-clean.zip"), ("QNLI", "QNLIv2.zip")]
)
def test_ensure_unpacks_glue(server, tmp_path, monkeypatch, folder, archive):
  members = {f"{folder}/train.tsv": b"t", f"{folder}/dev.tsv": b"d", f"{folder}/test.tsv": b"?"}
  assert serve_archive(server, monkeypatch, f"glue_data/{folder}", members) == archive
  root = tmp_path / "glue_data" / folder
  root.mkdir(parents=True)
  (root / "dev.tsv").write_bytes(b"mine")
  ensure([root / "train.tsv", root / "dev.tsv"], tmp_path)
  assert (root / "train.tsv").read_bytes() == b"t"
  assert (root / "dev.tsv").read_bytes() == b"mine"
  assert names(tmp_path) == sorted([archive, "dev.tsv", "train.tsv"])


def test_ensure_gets_the_table_of_maestro_and_then_its_pieces(server, tmp_path, monkeypatch):
  members = {
    "maestro-v1.0.0/maestro-v1.0.0.csv": b"table",
    "maestro-v1.0.0/2004/a.midi": b"a",
    "maestro-v1.0.0/2008/b.midi": b"b",
  }
  serve_archive(server, monkeypatch, "music/maestro-v1.0.0", members)
  music = tmp_path / "music"
  table, root = music / "maestro-v1.0.0.csv", music / "maestro-v1.0.0"
  ensure([table], tmp_path)
  assert table.read_bytes() == b"table"
  slip = root / ".." / ".." / ".." / "slip"
  ensure([table, root / "2004" / "a.midi", root / "2008" / "none.midi", slip], tmp_path)
  assert names(music) == ["a.midi", "maestro-v1.0.0-midi.zip", "maestro-v1.0.0.csv"]
  assert len(server.requests) == 1


def test_pieces_that_are_missing_are_fetched_unless_they_are_to_be_left_out(
  server, tmp_path, monkeypatch
):
  table = "canonical_composer,split,midi_filename\nx,train,a.midi\ny,validation,b.midi\n"
  members = {
    "maestro-v1.0.0/maestro-v1.0.0.csv": table.encode(),
    "maestro-v1.0.0/a.midi": b"a",
    "maestro-v1.0.0/b.midi": b"b",
  }
  serve_archive(server, monkeypatch, "music/maestro-v1.0.0", members)
  options = defaults.finetune().task
  options.skip_invalid = True
  root = tmp_path / "music" / "maestro-v1.0.0"
  tasks.fetch("music_composer", tmp_path, options)  # nothing is there yet
  assert names(root) == ["a.midi", "b.midi"]
  (root / "b.midi").unlink()
  tasks.fetch("music_composer", tmp_path, options)
  assert names(root) == ["a.midi"]
  options.skip_invalid = False
  tasks.fetch("music_composer", tmp_path, options)
  assert names(root) == ["a.midi", "b.midi"]
  options.skip_invalid = True
  monkeypatch.setitem(sources.FILES, "dna/H3.txt", server.source("H3.txt", CONTENT))
  tasks.fetch("dna_h3", tmp_path, options)
  assert (tmp_path / "dna" / "H3.txt").read_bytes() == CONTENT


def test_ensure_splits_mrpc_as_glue_does(server, shared, tmp_path, monkeypatch):
  given = shared / "data" / "glue_data" / "MRPC"
  dev = (given / "dev.tsv").read_bytes()
  ids = b"".join(b"\t".join(row.split(b"\t")[1:3]) + b"\n" for row in dev.splitlines()[1:])
  pairs = "glue_data/MRPC/msr_paraphrase_train.txt"
  server.files["pairs"] = Served((given / "msr_paraphrase_train.txt").read_bytes())
  monkeypatch.setitem(
    sources.FILES, pairs, Source(server.url("pairs"), sources.FILES[pairs].checksum)
  )
  monkeypatch.setitem(sources.FILES, "glue_data/MRPC/mrpc_dev_ids.tsv", server.source("ids", ids))
  folder = tmp_path / "glue_data" / "MRPC"
  ensure([folder / "train.tsv", folder / "dev.tsv"], tmp_path)
  assert (folder / "dev.tsv").read_bytes() == dev
  train = (folder / "train.tsv").read_bytes().splitlines()
  assert len(train) == 1 + 3668
  assert set((given / "train.tsv").read_bytes().splitlines()) <= set(train)


def test_ensure_leaves_alone_what_it_does_not_know(server, tmp_path):
  ensure(
    [tmp_path / "protein" / "stability_train.fa", tmp_path.parent / "dna" / "H3.txt"], tmp_path
  )
  assert list(tmp_path.iterdir()) == []


def test_ensure_downloads_nothing_offline(server, tmp_path, monkeypatch):
  monkeypatch.setenv("HF_HUB_OFFLINE", "1")
  monkeypatch.setitem(sources.FILES, "dna/H3.txt", server.source("H3.txt", CONTENT))
  ensure([tmp_path / "dna" / "H3.txt"], tmp_path)
  assert list(tmp_path.iterdir()) == []
  assert server.requests == []


def test_every_source_can_be_verified():
  for source in (*sources.FILES.values(), *sources.ARCHIVES.values()):
    kind, _, digest = source.checksum.partition(":")
    assert source.url.startswith("https://")
    assert len(digest) == {"sha256": 64, "git": 40}[kind]
    assert int(digest, 16)
