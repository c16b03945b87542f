"""Tests whole runs in buckets, against a stand-in of the storage: they end with the bits of local ones."""

import itertools
import json
import pathlib
import signal
import time

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from discipline_jax import models
from discipline_jax.files import copies
from discipline_jax.files.places import place
from discipline_jax.main import main
from discipline_jax.training.signals import Signals
from tests.testdata.small_files import write_data, write_model, write_weights
from tests.whole_runs import CONFIG, finish, one_device, start, start_config

STUDY = pathlib.Path(__file__).parent / "testdata" / "tiny_study.py"
PRETRAIN = pathlib.Path(__file__).parent / "testdata" / "tiny_pretrain.py"
SEVERAL_FILES = ("model/0.safetensors", "model/1.safetensors", "model/task.json", "predictions.npz")


@pytest.fixture
def cache():
  """Keeps compiled programs with those of the other tests, though the home directory is another one."""
  return f"--config.cache_dir={pathlib.Path(jax.config.jax_compilation_cache_dir).parent}"


def wait_for(storage, process, name) -> None:
  """Waits until there is an object of this name."""
  while name not in storage.buckets["bucket"]:
    assert process.poll() is None, process.communicate()[1]
    time.sleep(0.002)


def content(storage, name) -> bytes:
  return storage.buckets["bucket"][name].data


def lines(text: str) -> list[dict]:
  return [json.loads(line) for line in text.splitlines()]


def check_same(storage, workdir, whole) -> None:
  """Checks a finished fine-tuning in a bucket against a local one."""
  for name in SEVERAL_FILES:
    assert content(storage, f"{workdir}/{name}") == (whole / name).read_bytes(), name
  ours, theirs = (
    json.loads(text)
    for text in (content(storage, f"{workdir}/result.json"), (whole / "result.json").read_bytes())
  )
  for field in ("validation", "test", "best_steps", "steps", "inputs"):
    assert ours[field] == theirs[field]
  assert lines(content(storage, f"{workdir}/metrics.jsonl").decode()) == lines(
    (whole / "metrics.jsonl").read_text()
  )
  assert [one for one in storage.names(f"{workdir}/events/") if "tfevents" in one]
  assert f"{workdir}/.lock" not in storage.buckets["bucket"]


@pytest.mark.slow
@pytest.mark.parametrize("fail_every", [0, 10], ids=["well", "faults"])
def test_killed_finished_and_used(fail_every, storage, uninterrupted, tmp_path, cache, capsys):
  """A run is killed and started again; its model predicts, and is exported. Every tenth request may fail."""
  storage.fail_every = fail_every
  process = start("gs://bucket/r", cache)
  wait_for(storage, process, "r/checkpoints/14/commit_success.txt")
  process.kill()
  assert finish(process)[0] == -signal.SIGKILL
  assert "r/result.json" not in storage.buckets["bucket"]
  code, _, stderr = finish(start("gs://bucket/r", cache))
  assert code == 0, stderr
  assert "Resuming from step" in stderr
  check_same(storage, "r", uninterrupted[0])
  starts = {line["start"] for line in lines(content(storage, "r/starts.jsonl").decode())}
  assert starts == {0, 1}
  table = tmp_path / "new.csv"
  table.write_text("sequence\nACGTACGTTG\nTTGACCAAGT\n")
  storage.put("bucket", "new.csv", table.read_bytes())
  for workdir, source, folder in (
    (uninterrupted[0], table, tmp_path),
    ("gs://bucket/r", "gs://bucket/new.csv", "gs://bucket/out"),
  ):
    arguments = ["main", CONFIG, cache, f"--workdir={workdir}"]
    predict = [f"--config.task.path={source}", f"--config.predict.output={folder}/new_out.csv"]
    export = [f"--config.export.output={folder}/model"]
    with one_device():
      assert main([*arguments, "--config.mode=predict", *predict]) == 0
      assert main([*arguments, "--config.mode=export", *export]) == 0
  assert content(storage, "out/new_out.csv") == (tmp_path / "new_out.csv").read_bytes()
  for file in (tmp_path / "model").iterdir():
    assert content(storage, f"out/model/{file.name}") == file.read_bytes(), file.name
  assert main(["main", CONFIG, cache, "--workdir=gs://bucket/r"]) == 0
  assert "finished before" in capsys.readouterr().err


def test_another_file_is_not_replaced(storage, uninterrupted, tmp_path, cache, capsys):
  (tmp_path / "new.csv").write_text("sequence\nACGTACGTTG\n")
  arguments = [CONFIG, cache, "--config.mode=predict", f"--workdir={uninterrupted[0]}", "--dry-run"]
  tables = [
    f"--config.task.path={tmp_path / 'new.csv'}",
    "--config.predict.output=gs://bucket/out.csv",
  ]
  for line, code in ((b"line,note\n", 2), (b"line,prediction,p_0,p_1\n", 0)):
    storage.put("bucket", "out.csv", line)
    assert main(["main", *arguments, *tables]) == code
    assert ("would replace it, gs://bucket/out.csv;" in capsys.readouterr().err) == (code == 2)
    assert content(storage, "out.csv") == line


@pytest.mark.slow
def test_storage_that_is_gone_for_20_seconds(storage, uninterrupted, cache):
  process = start("gs://bucket/r", cache)
  wait_for(storage, process, "r/checkpoints/14/commit_success.txt")
  storage.gone_until = time.monotonic() + 20
  code, _, stderr = finish(process)
  assert code == 0, stderr
  check_same(storage, "r", uninterrupted[0])


@pytest.mark.slow
def test_storage_that_stays_gone(storage, uninterrupted, cache):
  process = start("gs://bucket/r", cache)
  wait_for(storage, process, "r/checkpoints/14/commit_success.txt")
  storage.gone_until = time.monotonic() + 3600
  code, _, stderr = finish(process)
  assert code == 3, stderr
  assert "Traceback" not in stderr
  assert stderr.splitlines()[-1].startswith("error: ")
  storage.gone_until = 0.0
  code, _, stderr = finish(start("gs://bucket/r", cache))
  assert code == 0, stderr
  check_same(storage, "r", uninterrupted[0])


@pytest.mark.slow
def test_a_pre_training_and_a_fine_tuning_from_it(storage, tmp_path, cache, monkeypatch):
  """Corpus and compiled programs are kept in the bucket, too."""
  arguments = ["main", f"--config={PRETRAIN}", "--config.train.steps=12"]
  arguments.append("--config.checkpoint.keep_steps=(0, 10)")
  there = ["--workdir=gs://bucket/p", "--config.cache_dir=gs://bucket/cache"]
  calls = itertools.count(1)
  compilation_cache.reset_cache()  # it would stay where the first program of this process was kept
  with one_device():
    with monkeypatch.context() as patch:
      patch.setattr(Signals, "received", lambda *_: signal.SIGTERM if next(calls) == 5 else 0)
      assert main([*arguments, *there]) == 75
    corpus = storage.names("cache/corpora/")
    assert [one for one in corpus if one.endswith("/corpus.json")]
    assert storage.names("cache/xla/")
    # As if the first start had been killed while it kept step 0.
    storage.buckets["bucket"].pop("p/steps/0/config.json")
    assert main([*arguments, *there]) == 0
    assert storage.names("cache/corpora/") == corpus
    compilation_cache.reset_cache()
    assert main([*arguments, f"--workdir={tmp_path / 'p'}", cache]) == 0
    prepared = f"--config.corpus.path=gs://bucket/{pathlib.PurePath(corpus[0]).parent}"
    assert main([*arguments, prepared, f"--workdir={tmp_path / 'q'}", cache]) == 0
  ours, theirs = (json.loads((tmp_path / run / "result.json").read_text()) for run in "pq")
  assert ours["validation"] == theirs["validation"]
  for name in ("10/model.safetensors", "12/model.safetensors", "10/config.json"):
    local = (tmp_path / "p" / "steps" / name).read_bytes()
    assert content(storage, f"p/steps/{name}") == local, name
  weights = [
    np.asarray(models.load(f"{where}@10").embeddings.word_embeddings.weight[...])
    for where in ("gs://bucket/p", tmp_path / "p")
  ]
  np.testing.assert_array_equal(*weights)


@pytest.mark.slow
def test_two_jobs_of_a_study(storage, cache):
  """Each runs its shard, once; what waits for a pre-training of the other shard is run by the next start."""
  first, second = (
    start_config(STUDY, "gs://bucket/s", cache, f"--config.study.shard={shard}")
    for shard in ("1/2", "2/2")
  )
  code, _, stderr = finish(first)
  assert code == 0, stderr
  code, _, stderr = finish(second)
  assert code in (0, 3), stderr
  code, _, stderr = finish(start_config(STUDY, "gs://bucket/s", cache))
  assert code == 0, stderr
  result = json.loads(content(storage, "s/result.json"))
  assert list(result["runs"]) == ["before", "after", "scratch", "from_last"]
  assert result["runs"]["from_last"]["model"] == "gs://bucket/s/after"
  for name, run in result["runs"].items():
    assert run == json.loads(content(storage, f"s/{name}/result.json"))
    starts = lines(content(storage, f"s/{name}/starts.jsonl").decode())
    assert {line["start"] for line in starts} == {0}, "it was run twice"
    assert f'"../{name}/result.json"' in content(storage, "s/report/index.html").decode()
  assert not [name for name in storage.names("s/") if name.endswith(("lock", "failed.json"))]


def test_data_and_a_checkpoint(storage, tmp_path, cache, capsys):
  """Reads a task's files, an own table, and a model; a file that changed is refused."""
  write_data(tmp_path / "data")
  write_model(tmp_path / "model")
  write_weights(tmp_path / "model")
  for folder in ("data/dna", "model"):
    for file in (tmp_path / folder).iterdir():
      storage.put("bucket", f"{folder}/{file.name}", file.read_bytes())
  arguments = [
    "main",
    "--config=dna_splice",
    cache,
    "--config.replicas=1",
    "--config.train.steps=2",
  ]
  arguments += ["--config.train.batch_size=4", f"--workdir={tmp_path / 'run'}"]
  places_ = ["--config.data_dir=gs://bucket/data", "--config.model.checkpoint=gs://bucket/model"]
  with one_device():
    assert main([*arguments, *places_]) == 0
    here = [f"--config.data_dir={tmp_path}/data", f"--config.model.checkpoint={tmp_path}/model"]
    capsys.readouterr()
    assert main([*arguments, *here]) == 0, "the same files at another place"
  assert "finished before" in capsys.readouterr().err
  assert not copies.local(place("gs://bucket/data/dna/H3.txt")).exists(), "no task has asked for it"
  changed = content(storage, "data/dna/splice.txt").replace(b"EI,", b"IE,", 1)
  storage.put("bucket", "data/dna/splice.txt", changed)
  assert main([*arguments, *places_]) == 2
  assert "gs://bucket/data/dna/splice.txt" in capsys.readouterr().err
  storage.buckets["bucket"].pop("data/dna/splice.txt")
  assert main([*arguments[:-1], f"--workdir={tmp_path / 'other'}", *places_]) == 2
  assert "gs://bucket/data/dna/splice.txt" in capsys.readouterr().err


@pytest.mark.parametrize(
  ("arguments", "named"),
  [
    ([CONFIG, "--workdir=gs://nowhere/r"], "gs://nowhere/r"),
    ([CONFIG, "--workdir=gs://closed/r"], "gs://closed/r"),
    ([CONFIG, "--workdir=s3://b/r"], "s3://b/r"),
    ([CONFIG, "--workdir=gs://"], "--workdir"),
    ([CONFIG, "--config.cache_dir=gs://nowhere"], "--config.cache_dir"),
    (["--config=dna_h3", "--config.data_dir=gs://nowhere"], "--config.data_dir"),
    ([f"--config={STUDY}", "--config.data_dir=gs://nowhere"], "--config.data_dir"),
    (["--config=dna_h3", "--config.model.checkpoint=gs://bucket/none"], "gs://bucket/none"),
    ([CONFIG, "--config.mode=predict", "--workdir=gs://bucket/none"], "gs://bucket/none"),
  ],
)
def test_mistakes(arguments, named, storage, cache, capsys):
  storage.buckets["closed"] = {}
  storage.closed.add("closed")
  assert main(["main", *arguments, *([] if "cache_dir" in str(arguments) else [cache])]) == 2
  stderr = capsys.readouterr().err
  assert stderr.splitlines()[-1].startswith("error: ")
  assert named in stderr.splitlines()[-1]
  assert storage.names() == []
  assert set(storage.buckets) == {"bucket", "closed"}
