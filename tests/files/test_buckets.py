"""Tests places in buckets, against a stand-in of the storage that can fail."""

import contextlib
import errno
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

from discipline_jax.errors import UserError
from discipline_jax.exit_codes import outcome
from discipline_jax.files import buckets, copies, leases, places
from discipline_jax.files.growing import Growing
from discipline_jax.files.leases import Lease
from discipline_jax.files.places import place
from discipline_jax.files.whole_files import read_json, whole_file, whole_folder, write_json


@pytest.fixture
def patience(monkeypatch):
  """Gives up on storage that does not answer after a second."""
  monkeypatch.setattr(buckets, "_PATIENCE", 1.0)


@pytest.mark.parametrize("text", ["data", "/data", "a:b/c", "http://host/data", "gs:/b/r"])
def test_other_texts_are_local_paths(text):
  assert place(text) == pathlib.Path(text)


def test_home():
  assert place("~/data") == pathlib.Path.home() / "data"


@pytest.mark.parametrize("text", ["s3://b/r", "az://b/r", "gs://", "gs:///r"])
def test_places_that_cannot_be_used(text):
  with pytest.raises(UserError, match=text):
    place(text)


@pytest.mark.parametrize("package", places._PACKAGES)
def test_a_missing_package(package, monkeypatch):
  found = places.importlib.util.find_spec
  monkeypatch.setattr(
    places.importlib.util, "find_spec", lambda name: None if name == package else found(name)
  )
  with pytest.raises(UserError, match=r"\[gcs\].*"):
    place("gs://bucket/r")


def test_a_path_in_a_bucket(storage):
  path = place("gs://bucket/r")
  assert str(path / "x") == "gs://bucket/r/x"
  assert not (path / "x").exists()
  with whole_file(path / "x", text=True) as file:
    file.write("über\n")
  assert storage.buckets["bucket"]["r/x"].data == "über\n".encode()
  assert (path / "x").read_text(encoding="utf-8") == "über\n"
  assert [one.name for one in path.iterdir()] == ["x"]
  assert list(path.glob("[a-z]")) == [path / "x"]
  storage.put("bucket", "r/y", b"of another process")
  assert (path / "y").is_file()
  assert {one.name for one in path.iterdir()} == {"x", "y"}, "a listing was kept"
  (path / "x").unlink()
  assert storage.names() == ["r/y"]


def test_a_block_that_fails_writes_nothing(storage):
  def fail(file):
    file.write(b"half")
    raise KeyError

  def fail_in(folder):
    folder.mkdir()
    with (folder / "z").open("wb") as file:
      fail(file)

  with pytest.raises(KeyError), whole_file(place("gs://bucket/r/x")) as file:
    fail(file)
  with pytest.raises(KeyError), whole_folder(place("gs://bucket/r"), "z") as folder:
    fail_in(folder)
  assert storage.names() == []


def test_the_file_that_marks_a_folder_comes_last(storage):
  with whole_folder(place("gs://bucket/r/model"), "config.json") as folder:
    folder.mkdir()
    for name in ("a", "config.json", "z"):
      (folder / name).write_text(name)
  made = sorted(storage.buckets["bucket"].items(), key=lambda one: one[1].generation)
  assert {name for name, _ in made} == {"r/model/a", "r/model/config.json", "r/model/z"}
  assert made[-1][0] == "r/model/config.json"


@pytest.mark.parametrize("size", [0, 10, 9 << 20])
def test_contents_come_back_though_every_third_request_fails(size, storage, tmp_path):
  data = os.urandom(size)
  storage.fail_every = 3
  with whole_file(place("gs://bucket/r/x")) as file:
    file.write(data)
  assert copies.fetched(place("gs://bucket/r/x")).read_bytes() == data


def test_copies_follow_their_originals(storage):
  for name in ("d/a", "d/sub/b", "d.txt", "e"):
    storage.put("bucket", name, name.encode())
  copy = copies.fetched(place("gs://bucket/d"))
  assert [one.relative_to(copy).as_posix() for one in sorted(copy.rglob("*")) if one.is_file()] == [
    "a",
    "sub/b",
  ]
  times = {one: one.stat().st_mtime_ns for one in (copy / "a", copy / "sub" / "b")}
  storage.put("bucket", "d/a", b"d/A")
  storage.buckets["bucket"].pop("d/sub/b")
  storage.requests.clear()
  assert copies.fetched(place("gs://bucket/d")) == copy
  assert (copy / "a").read_bytes() == b"d/A"
  assert (copy / "a").stat().st_mtime_ns != times[copy / "a"]
  assert not (copy / "sub" / "b").exists()
  assert not copies.local(place("gs://bucket/e")).exists(), "nobody asked for it"
  storage.requests.clear()
  copies.fetched(place("gs://bucket/d"))
  assert not [path for _, path in storage.requests if "alt=media" in path], "copied again"


def test_some_files_of_a_folder(storage):
  for name in ("d/a.json", "d/sub/a.json", "d/sub/b.bin"):
    storage.put("bucket", name, name.encode())
  copy = copies.fetched(place("gs://bucket/d"), ["*.json"])
  assert {one.name for one in copy.rglob("a.*")} == {"a.json"}
  copies.fetched(place("gs://bucket/d/sub"))
  for name in ("d/a.json", "d/sub/b.bin"):
    storage.buckets["bucket"].pop(name)
  copies.fetched(place("gs://bucket/d"), ["*.json"])
  left = {one.relative_to(copy).as_posix() for one in copy.rglob("[ab].*")}
  assert left == {"sub/a.json", "sub/b.bin"}, "others may still want b.bin"


def test_json_in_a_bucket(storage):
  path = place("gs://bucket/r/x.json")
  with pytest.raises(FileNotFoundError):
    read_json(path)
  write_json(path, {"a": "ü"})
  assert read_json(path) == {"a": "ü"}
  storage.put("bucket", "r/x.json", b"\xff")
  with pytest.raises(ValueError, match="utf-8"):
    read_json(path)


def test_many_files(storage):
  """More than a page of the list."""
  for i in range(120):
    storage.put("bucket", f"d/{i}", str(i).encode())
  copy = copies.fetched(place("gs://bucket/d"))
  assert sorted(int(one.read_text()) for one in copy.iterdir()) == list(range(120))


@pytest.mark.parametrize("name", ["d/../../outside", "d//x", "d/./x", "../x", "/x"])
def test_a_name_that_leaves_the_folder_is_not_copied(name, storage):
  storage.put("bucket", name, b"")
  storage.put("bucket", "d/y", b"")
  copy = copies.fetched(place("gs://bucket/d"))
  assert [one.name for one in copy.rglob("*")] == ["y"]


def test_what_was_published_is_not_copied_back(storage):
  path = place("gs://bucket/cache/corpus")
  copy = copies.fetched(path)
  copy.mkdir(parents=True)
  for name in ("a", "corpus.json"):
    (copy / name).write_text(name)
  (copy / "work").mkdir()  # what a stopped preparation leaves
  copies.publish(path, last="corpus.json")
  assert storage.names() == ["cache/corpus/a", "cache/corpus/corpus.json"]
  storage.requests.clear()
  assert (copies.fetched(path) / "a").read_text() == "a"
  assert not [one for _, one in storage.requests if "alt=media" in one]


def test_messages_name_the_originals(storage):
  copy = copies.local(place("gs://bucket/mine.csv"))
  line, code = outcome(UserError(f"no label, {copy}:3; add it"))
  assert (line, code) == ("error: no label, gs://bucket/mine.csv:3; add it", 2)


def test_a_bucket_that_is_not_there(storage):
  with pytest.raises(FileNotFoundError) as raised:
    write_json(place("gs://nowhere/x"), {})
  assert raised.value.filename == "gs://nowhere/x"
  assert outcome(raised.value)[1] == 2
  with pytest.raises(UserError, match="gs://nowhere/x"):
    copies.fetched(place("gs://nowhere/x"))
  assert list(storage.buckets) == ["bucket"], "a bucket was made"


def test_a_bucket_that_may_not_be_written(storage):
  storage.closed.add("bucket")
  with pytest.raises(PermissionError) as raised:
    write_json(place("gs://bucket/x"), {})
  line, code = outcome(raised.value)
  assert code == 2
  assert "gs://bucket/x" in line


def test_storage_that_does_not_answer(storage, patience):
  storage.gone_until = time.monotonic() + 60
  with pytest.raises(TimeoutError) as raised:
    write_json(place("gs://bucket/x"), {})
  assert raised.value.errno == errno.ETIMEDOUT
  assert outcome(raised.value)[1] == 3


def test_files_that_grow(storage, monkeypatch):
  monkeypatch.setattr("discipline_jax.files.growing._EVERY", 0.2)
  growing = Growing(place("gs://bucket/r"))
  (growing.path / "events").mkdir()
  for name in ("log", "events/e"):
    (growing.path / name).write_text("1")
  growing.send()
  assert storage.names() == ["r/events/e", "r/log"]
  (growing.path / "log").write_text("12")
  growing.send()
  assert storage.buckets["bucket"]["r/log"].data == b"1", "sent again too early"
  written = storage.buckets["bucket"]["r/events/e"].generation
  time.sleep(0.2)
  growing.send()
  assert storage.buckets["bucket"]["r/log"].data == b"12"
  assert storage.buckets["bucket"]["r/events/e"].generation == written, "it has not grown"
  (growing.path / "log").write_text("123")
  growing.close()
  assert storage.buckets["bucket"]["r/log"].data == b"123"
  assert not growing.path.exists()


@pytest.fixture
def fast(monkeypatch):
  for name, value in (("_BEAT", 0.1), ("_DEAD", 1.0), ("_POLL", 0.05)):
    monkeypatch.setattr(leases, name, value)


@pytest.mark.parametrize("fail_every", [0, 5])
def test_a_lease_is_held_until_it_is_closed(fail_every, storage, fast):
  storage.fail_every = fail_every
  path = place("gs://bucket/r/.lock")
  with contextlib.closing(Lease(path, wait=False)):
    assert storage.names() == ["r/.lock"]
    with pytest.raises(BlockingIOError):
      Lease(path, wait=False)
    waiting = threading.Thread(target=lambda: Lease(path, wait=True).close())
    waiting.start()
    waiting.join(0.5)
    assert waiting.is_alive()
  waiting.join(20)
  assert not waiting.is_alive()
  assert storage.names() == []


def test_the_lease_of_a_dead_process_of_this_machine(storage, fast):
  script = (
    "import os; from discipline_jax.files.leases import Lease;"
    "from discipline_jax.files.places import place;"
    "Lease(place('gs://bucket/r/.lock'), wait=False); os._exit(1)"
  )
  environment = os.environ | storage.environment
  assert (
    subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode == 1
  )
  assert not leases.is_held(place("gs://bucket/r/.lock"))
  began = time.monotonic()
  Lease(place("gs://bucket/r/.lock"), wait=False).close()
  assert time.monotonic() < began + leases._DEAD


def test_the_lease_of_a_dead_process_of_another_machine(storage, fast):
  owner = {"host": "elsewhere", "pid": os.getpid(), "token": "1"}
  storage.put("bucket", "r/.lock", json.dumps(owner).encode())
  assert leases.is_held(place("gs://bucket/r/.lock"))
  time.sleep(leases._DEAD)
  assert not leases.is_held(place("gs://bucket/r/.lock"))
  began = time.monotonic()
  with contextlib.closing(Lease(place("gs://bucket/r/.lock"), wait=False)):
    assert time.monotonic() > began + leases._DEAD
    assert json.loads(storage.buckets["bucket"]["r/.lock"].data) != owner


def test_a_holder_that_was_replaced_ends(storage, fast, monkeypatch, capfd):
  lease = Lease(place("gs://bucket/r/.lock"), wait=False)
  codes: list[int] = []

  def leave(code):
    codes.append(code)
    lease._is_closed.set()  # the thread goes on here, and nowhere else

  monkeypatch.setattr(leases.os, "_exit", leave)
  storage.put("bucket", "r/.lock", b"{}")
  lease._beats.join(5)
  assert codes == [3]
  assert "gs://bucket/r" in capfd.readouterr().err
  assert storage.buckets["bucket"]["r/.lock"].data == b"{}", "it is the other's"
