"""Tests that a file is written whole or not at all."""

import signal
import subprocess
import sys

import pytest

from discipline_jax.files.whole_files import whole_file

WRITER = """
import pathlib, sys, time
from discipline_jax.files.whole_files import whole_file
with whole_file(pathlib.Path(sys.argv[1])) as file:
  file.write(b"half")
  file.flush()
  print("written", flush=True)
  time.sleep(60)
"""


@pytest.fixture(params=[None, b"before"], ids=["new", "replaced"])
def path(request, tmp_path):
  path = tmp_path / "file.txt"
  if request.param is not None:
    path.write_bytes(request.param)
  return path


def content(path) -> bytes | None:
  return path.read_bytes() if path.exists() else None


def test_a_file_appears_when_the_block_ends(path):
  before = content(path)
  with whole_file(path) as file:
    file.write(b"new")
    file.flush()
    assert content(path) == before
  assert path.read_bytes() == b"new"
  assert list(path.parent.iterdir()) == [path]


def test_text_is_utf8_and_keeps_its_line_ends(path):
  with whole_file(path, text=True) as file:
    file.write("ä\r\nb\n")
  assert path.read_bytes() == b"\xc3\xa4\r\nb\n"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_block_that_fails_changes_nothing(path, error):
  before, names = content(path), list(path.parent.iterdir())

  def write():
    with whole_file(path) as file:
      file.write(b"half")
      raise error

  with pytest.raises(error):
    write()
  assert content(path) == before
  assert list(path.parent.iterdir()) == names


def test_a_killed_process_changes_nothing(path):
  before = content(path)
  with subprocess.Popen(
    [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
  ) as writer:
    assert writer.stdout.readline() == "written\n"
    writer.send_signal(signal.SIGKILL)
  assert content(path) == before


def test_two_writers_at_once_both_write_a_whole_file(path):
  with whole_file(path) as one, whole_file(path) as other:
    one.write(b"one")
    other.write(b"other")
  assert path.read_bytes() == b"one"
  assert list(path.parent.iterdir()) == [path]


def test_a_directory_that_does_not_exist_is_an_error(tmp_path):
  with pytest.raises(FileNotFoundError), whole_file(tmp_path / "none" / "file"):
    pytest.fail("the block ran without a file")
