"""Tests of downloads from a server that fails in many ways: a file is whole and as published, or not there."""

import contextlib
import errno
import socket
import stat
import threading
import zipfile

import pytest

from discipline_jax.errors import UserError
from discipline_jax.files import downloads
from discipline_jax.files.downloads import Source, fetch, unpack
from tests.files.web_server import Served, Server, sha256, zipped
from tests.serving import serving

CONTENT = bytes(range(256)) * 4000


@pytest.fixture
def server(monkeypatch):
  monkeypatch.setenv("no_proxy", "*")
  with serving(Server()) as server:
    yield server


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
def test_an_interrupted_download_is_resumed(server, tmp_path, ranges):
  path = tmp_path / "a.txt"
  source = server.source("a", CONTENT, ranges=ranges, cut=300_000)
  with pytest.raises(UserError, match="300000 of 1024000") as error:
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
def test_a_part_that_is_as_long_as_the_file_or_longer_is_downloaded_again(server, tmp_path, size):
  (tmp_path / "a.txt.part").write_bytes(b"x" * size)
  fetch(server.source("a", CONTENT), tmp_path / "a.txt")
  assert (tmp_path / "a.txt").read_bytes() == CONTENT
  assert [wanted for _, wanted in server.requests] == [f"bytes={size}-", None]


def test_wrong_content_is_deleted(server, tmp_path):
  source = server.source("a", CONTENT)
  server.files["a"].content = b"<html>please log in</html>"
  with pytest.raises(UserError, match=source.checksum) as error:
    fetch(source, tmp_path / "a.txt")
  assert source.url in one_line(error)
  assert str(tmp_path / "a.txt") in one_line(error)
  assert names(tmp_path) == []


def test_not_found(server, tmp_path):
  source = Source(server.url("gone"), sha256(b""))
  with pytest.raises(UserError, match="404") as error:
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
  monkeypatch.setattr(downloads, "ANSWER_TIMEOUT", 0.2)
  with socket.create_server(("127.0.0.1", 0)) as silent:
    url = f"http://127.0.0.1:{silent.getsockname()[1]}/a"
    with pytest.raises(UserError, match="0.2 s"):
      fetch(Source(url, sha256(b"")), tmp_path / "a.txt")


def test_a_folder_that_cannot_be_made(server, tmp_path):
  (tmp_path / "dna").write_text("a file")
  with pytest.raises(UserError, match="File exists"):
    fetch(server.source("a", CONTENT), tmp_path / "dna" / "a.txt")


def test_a_full_disk_is_not_a_user_error(server, tmp_path, monkeypatch):
  def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")

  source = server.source("a", zipped({"x": b"x"}))
  with monkeypatch.context() as patch:
    patch.setattr(downloads, "_download", full)
    with pytest.raises(OSError, match="No space left"):
      fetch(source, tmp_path / "a.zip")
  fetch(source, tmp_path / "a.zip")
  monkeypatch.setattr(downloads.shutil, "copyfileobj", full)
  with pytest.raises(OSError, match="No space left"):
    unpack(tmp_path / "a.zip", {"x": tmp_path / "x"})
  assert names(tmp_path) == ["a.zip"]


def test_four_threads_share_one_download(server, tmp_path):
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


def test_the_blob_id_of_git_is_a_checksum(server, tmp_path):
  # printf 'hello\n' | git hash-object --stdin
  server.files["a"] = Served(b"hello\n")
  fetch(Source(server.url("a"), "git:ce013625030ba8dba906f756967f9e9ca394464a"), tmp_path / "a.txt")
  with pytest.raises(UserError, match=f"git:{'0' * 40}"):
    fetch(Source(server.url("a"), f"git:{'0' * 40}"), tmp_path / "b.txt")


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
  with pytest.raises(UserError, match=r"a\.zip \(a is a link\)"):
    unpack(tmp_path / "a.zip", {"a": tmp_path / "a"})
  assert names(tmp_path) == ["a.zip"]


def test_a_bomb_is_refused(tmp_path, monkeypatch):
  archive = write_zip(tmp_path / "a.zip", {"a": bytes(600), "b": bytes(600)})
  monkeypatch.setattr(downloads, "MOST_UNPACKED", 1000)
  with pytest.raises(UserError, match=r"a\.zip \(.*1200 bytes"):
    unpack(archive, {name: tmp_path / name for name in "ab"})
  assert names(tmp_path) == ["a.zip"]


def test_a_size_that_is_declared_too_small(tmp_path):
  content = zipped({"a": bytes(600)}).replace((600).to_bytes(4, "little"), bytes([9, 0, 0, 0]))
  (tmp_path / "a.zip").write_bytes(content)
  with pytest.raises(UserError, match=r"a\.zip \(Bad CRC-32"):
    unpack(tmp_path / "a.zip", {"a": tmp_path / "a"})
  assert names(tmp_path) == ["a.zip"]


def test_a_truncated_archive(tmp_path):
  path = tmp_path / "a.zip"
  whole = zipped({"a": CONTENT})
  for tenth in range(10):
    path.write_bytes(whole[: len(whole) * tenth // 10])
    with pytest.raises(UserError, match=r"a\.zip \(") as error:
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
  monkeypatch.setattr(downloads.shutil, "copyfileobj", interrupted)
  with pytest.raises(KeyboardInterrupt):
    unpack(archive, {"a": tmp_path / "a"})
  assert names(tmp_path) == ["a.zip"]
