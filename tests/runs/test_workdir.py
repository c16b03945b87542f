"""Tests whose a workdir is, and that it is kept for one process."""

import errno
import fcntl
import json
import shlex
import shutil

import pytest
from ml_collections import ConfigDict

from discipline_jax import command_line, defaults
from discipline_jax.errors import UserError
from discipline_jax.runs.workdir import Workdir
from tests.testdata.small_files import write_model


def test_it_is_claimed_once_and_finished_by_its_result(tmp_path):
  run = Workdir(tmp_path / "run", defaults.finetune())
  assert run.result() is None
  assert run.describe() == str(run.path)
  assert not (tmp_path / "run").exists(), "nothing is written before it is entered"
  with run:
    assert not run.is_claimed()
    run.claim({})
    assert run.is_claimed()
    assert run.result() is None
    assert run.describe() == f"{run.path}, begun before"
    run.write_result({"test": 3})
  assert Workdir(tmp_path / "run", defaults.finetune()).result() == {"test": 3}
  assert run.describe() == f"{run.path}, finished before"


def test_another_run_is_told_the_field(tmp_path):
  with Workdir(tmp_path, defaults.finetune()) as run:
    run.claim({})
  other = defaults.finetune()
  other.train.learning_rate = 0.5
  for method in ("is_claimed", "result", "describe"):
    with pytest.raises(UserError, match=r"train.learning_rate .*0\.5.*1e-05.*config\.json"):
      getattr(Workdir(tmp_path, other), method)()


def test_the_way_back_to_a_run_is_one_that_a_shell_takes(tmp_path):
  """A value may have blanks and brackets; and the config of another mode has other fields."""
  with Workdir(tmp_path, defaults.pretrain()) as run:
    run.claim({})
  other = defaults.pretrain()
  other.corpus.length = (64,)
  with pytest.raises(UserError) as error:
    Workdir(tmp_path, other).result()
  (setting,) = [one for one in shlex.split(str(error.value)) if one.startswith("--config.")]
  assert setting == "--config.corpus.length=(128, 512)"
  flag_values = command_line.parse(["main", "--config=pretrain_small", setting])
  assert flag_values.config.corpus.length == (128, 512)
  with pytest.raises(UserError, match="mode is 'finetune'.*; give another --workdir$"):
    Workdir(tmp_path, defaults.finetune()).result()


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


@pytest.fixture
def table(tmp_path):
  """Returns a config whose data are a file for each of two parts."""
  for part in ("train", "validation"):
    (tmp_path / f"{part}.csv").write_text("sequence,label\nACGT,1\n")
  config = defaults.finetune()
  config.task.update(name="custom", path=str(tmp_path / "{split}.csv"))
  return config


@pytest.fixture(params=["finished", "stopped"])
def begun(request, table, tmp_path):
  """Returns the state of a run, and the run opened again."""
  with Workdir(tmp_path / "run", table) as run:
    run.claim({})
    if request.param == "finished":
      run.write_result({"test": 3})
  return request.param, Workdir(tmp_path / "run", table)


class TestInputFiles:
  def test_another_content_is_another_run(self, begun, tmp_path):
    path = tmp_path / "train.csv"
    before = path.read_text()
    path.write_text("sequence,label\nACGT,0\n")
    message = rf"another content than when the run in {tmp_path}/run began \(task.path\), {path};"
    with pytest.raises(UserError, match=message):
      begun[1].result()
    assert begun[1].peek() == ({"test": 3} if begun[0] == "finished" else None)
    path.write_text(before)  # the first remedy
    assert begun[1].result() == ({"test": 3} if begun[0] == "finished" else None)
    path.write_text("sequence,label\nACGT,0\n")
    shutil.rmtree(tmp_path / "run")  # the last one
    assert begun[1].result() is None

  def test_a_touched_file_is_the_same(self, begun, tmp_path, caplog):
    (tmp_path / "train.csv").touch()
    assert begun[1].result() == ({"test": 3} if begun[0] == "finished" else None)
    begun[1].check_inputs({})
    assert not caplog.text

  def test_a_new_part_is_another_run(self, begun, tmp_path):
    path = tmp_path / "test.csv"
    path.write_text("sequence,label\nACGT,1\n")
    with pytest.raises(UserError, match=rf"was not there when .* \(task.path\), {path}; remove it"):
      begun[1].result()
    path.unlink()
    begun[1].result()

  def test_what_is_gone_is_said_or_an_error(self, begun, tmp_path, caplog):
    """A file of a stopped run is only missed when it is read, because it may be downloaded again before."""
    for part in ("train", "validation"):
      (tmp_path / f"{part}.csv").rename(tmp_path / f"{part}.old")
    found = begun[1].result()
    if begun[0] == "finished":
      assert found == {"test": 3}
      assert "is gone or cannot be read, and 1 more; not compared" in caplog.text
      assert len(caplog.records) == 1
    else:
      assert found is None
      assert not caplog.text
      message = rf"train \({tmp_path}/train.csv when the run began\) is gone .* put the file back"
      with pytest.raises(UserError, match=message):
        begun[1].check_inputs({})

  def test_a_run_without_a_record_is_said(self, begun, tmp_path, caplog):
    (tmp_path / "run" / "inputs.json").unlink()
    (tmp_path / "train.csv").write_text("sequence,label\nACGT,0\n")
    found = begun[1].result()
    if begun[0] == "finished":
      assert found == {"test": 3}
    else:
      assert not caplog.text
      begun[1].check_inputs({})
    assert f"{tmp_path}/run has no inputs.json" in caplog.text
    assert len(caplog.records) == 1
    assert begun[1].input_digests() is None
    assert not (tmp_path / "run" / "inputs.json").exists(), "what it began with is not known"

  @pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[]", b'{"task.path": 3}', b'{"a": {"b": {"path": "c"}}}']
  )
  def test_a_broken_record_is_an_error_that_names_the_file(self, content, begun, tmp_path):
    path = tmp_path / "run" / "inputs.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"not a record of input files, {path}; delete it"):
      begun[1].result()
    path.unlink()
    begun[1].result()

  def test_a_kill_between_the_files_leaves_no_run(self, table, tmp_path, monkeypatch):
    with monkeypatch.context() as patch, Workdir(tmp_path / "run", table) as run:
      patch.setattr(ConfigDict, "to_json_best_effort", lambda *_: pytest.exit("killed"))
      with pytest.raises(pytest.exit.Exception):
        run.claim({})
    assert (tmp_path / "run" / "inputs.json").exists()
    assert not (tmp_path / "run" / "config.json").exists()
    (tmp_path / "train.csv").write_text("sequence,label\nACGT,0\n")
    with Workdir(tmp_path / "run", table) as run:
      assert run.result() is None
      run.claim({})
    assert Workdir(tmp_path / "run", table).result() is None

  def test_a_change_while_the_run_begins_is_an_error(self, table, tmp_path):
    with Workdir(tmp_path / "run", table) as run:
      assert run.result() is None
      (tmp_path / "train.csv").write_text("sequence,label\nACGT,0\n")
      assert run.result() is None
      with pytest.raises(UserError, match=f"changed while the run began, {tmp_path}/train.csv"):
        run.claim({})
    with Workdir(tmp_path / "run", table) as run:
      assert run.result() is None
      run.claim({})

  def test_a_new_commit_on_the_hub_counts_if_a_file_that_is_read_has_changed(self, table, tmp_path):
    """A commit that changes only the model's README does not count."""
    table.model.checkpoint = "someone/model"
    old, same, other = (
      tmp_path / "models--someone--model" / "snapshots" / (digit * 40) for digit in "012"
    )
    for folder in (old, same, other):
      write_model(folder)
      (folder / "README.md").write_text(folder.name)
    (other / "config.json").write_text("{}")
    with Workdir(tmp_path / "run", table) as run:
      run.claim({"model.checkpoint": old})
      assert run.result() is None
      run.check_inputs({"model.checkpoint": same})
      message = rf"\(model.checkpoint\), {other}/config.json; give another --workdir"
      with pytest.raises(UserError, match=message):
        run.check_inputs({"model.checkpoint": other})
