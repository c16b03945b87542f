"""Tests whose a workdir is, and that it is kept for one process."""

import errno
import fcntl
import json

import pytest

from discipline_jax import defaults
from discipline_jax.errors import UserError
from discipline_jax.runs.workdir import Workdir


def test_it_is_claimed_once_and_finished_by_its_result(tmp_path):
  run = Workdir(tmp_path / "run", defaults.finetune())
  assert run.result() is None
  assert not (tmp_path / "run").exists(), "nothing is written before it is entered"
  with run:
    assert not run.is_claimed()
    run.claim({})
    assert run.is_claimed()
    assert run.result() is None
    run.write_result({"test": 3})
  assert Workdir(tmp_path / "run", defaults.finetune()).result() == {"test": 3}


def test_another_run_is_told_the_field(tmp_path):
  with Workdir(tmp_path, defaults.finetune()) as run:
    run.claim({})
  other = defaults.finetune()
  other.train.learning_rate = 0.5
  for method in ("is_claimed", "result"):
    with pytest.raises(UserError, match=r"train.learning_rate .*0\.5.*1e-05.*config\.json"):
      getattr(Workdir(tmp_path, other), method)()


@pytest.mark.parametrize("content", [b"", b"[1]", b"3", b"\xff", b'{"mode": ["finetune"]}', b"{}"])
def test_a_broken_config_is_an_error_that_names_the_file(content, tmp_path):
  (tmp_path / "config.json").write_bytes(content)
  with pytest.raises(UserError, match="config.json"):
    Workdir(tmp_path, defaults.finetune()).result()


def test_a_second_process_is_refused(tmp_path):
  with (
    Workdir(tmp_path, defaults.finetune()),
    pytest.raises(UserError, match=str(tmp_path)),
    Workdir(tmp_path, defaults.finetune()),
  ):
    pass
  with Workdir(tmp_path, defaults.finetune()):
    pass  # the first one has let it go


def test_without_locks_it_works_and_says_so(tmp_path, monkeypatch, caplog):
  def none(*_):
    raise OSError(errno.ENOLCK, "No locks available")

  monkeypatch.setattr(fcntl, "flock", none)
  with Workdir(tmp_path, defaults.finetune()) as run:
    run.claim({})
  assert json.loads((tmp_path / "config.json").read_text())["mode"] == "finetune"
  assert str(tmp_path / ".lock") in caplog.text
