"""Tests that a user's mistake gives one line and exit code 2, and writes nothing."""

import fcntl
import pathlib
import shutil

import pytest

from discipline_jax.main import main
from tests.whole_runs import CONFIG, one_device

FAULTY = pathlib.Path(__file__).parent / "testdata" / "faulty.py"


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ([], "no --config; try --config=configs/quickstart.py"),
    (
      ["--config.data_dir=/x", CONFIG],
      "--config.data_dir stands before --config; put --config first",
    ),
    (
      ["--config.data_dir", "/x", "--config", "configs/dna_h3.py"],
      "--config.data_dir stands before --config; put --config first",
    ),
    (
      ["--config.data_dir=/x"],
      "--config.data_dir without a --config; put one before it, such as --config=configs/",
    ),
    (
      ["--config=nothing.py"],
      "no config file nothing.py; give a path, or one of: analyze_attention, analyze_gradients, ",
    ),
    (
      [CONFIG, "--config.train.lr=3"],
      "the config has no field 'train.lr'; in place of 'lr' it has one of: batch_size, ",
    ),
    (
      [CONFIG, "--config.train.batch_size.x=3"],
      "the config has no field 'train.batch_size.x'; in place of 'x' it has no fields",
    ),
    (
      [CONFIG, "--config.train.batch_size=many"],
      "train.batch_size = 'many' is not an integer; set",
    ),
    (
      [CONFIG, "--config.train.batch_size", "many"],
      "train.batch_size = 'many' is not an integer; set",
    ),
    (
      [CONFIG, "--config.task=1"],
      "task is a block of fields and has no value of its own; set --config.task.FIELD=VALUE, with FIELD one of:"
      " alphabet, case, ",
    ),
    ([CONFIG, "--config.model.config=None"], "set --config.model.config.FIELD=VALUE, with FIELD"),
    (
      ["--config=compare", "--config.compare.minutes=six"],
      "compare.minutes = 'six' is not a number; set --config.compare.minutes to one",
    ),
    (
      ["--config=custom", "--config.task.skip_invalid=maybe"],
      "task.skip_invalid = 'maybe' is not True or False; set",
    ),
    (["--config="], "--config has no value; write --config=VALUE"),
    (["--config", "--dry-run"], "--config has no value; write --config=VALUE"),
    ([CONFIG, "--workdir", "--dry-run"], "--workdir has no value; write --workdir=VALUE, or leave"),
    (
      [CONFIG, "--config.model.checkpoint="],
      "--config.model.checkpoint has no value; write --config.model.checkpoint=VALUE, or leave it",
    ),
    (
      [CONFIG, "--config.data_dir", "--dry-run"],
      "--config.data_dir has no value; write --config.data_dir=VALUE, or leave it out",
    ),
    (
      [CONFIG, "--config.seed=1", "--config=dna_h3"],
      f"--config is given 2 times ({CONFIG}, --config=dna_h3); give it once",
    ),
    (
      ["\u2013config=dna_h3"],
      "\u2013config does not begin with two hyphens, but with a dash; write --config",
    ),
    ([CONFIG, "--mode=predict"], "no flag --mode; set the field of the config, --config.mode"),
    (
      [CONFIG, "--batch_size=3"],
      "no flag --batch_size; set the field of the config, --config.eval.batch_size or --config.train.batch_size",
    ),
    (
      [CONFIG, "--config.learning_rate=1e-4"],
      "the config has no field 'learning_rate'; did you mean train.learning_rate?",
    ),
    (
      [f"--config={FAULTY}"],
      f"NameError: name 'nothing' is not defined, {FAULTY}:4; see --help",
    ),
    (
      ["--config=dna_splice", f"--config.model.checkpoint={FAULTY}"],
      f"{FAULTY} is a file, and a checkpoint is a directory; give the directory, {FAULTY.parent}",
    ),
    (
      ["--config=custom", "--config.task.path=mine.csv"],
      "No such file or directory, HERE/mine.csv; give a CSV",
    ),
    ([CONFIG, "--bogus"], "Unknown command line flag 'bogus'"),
    ([CONFIG, "bogus"], "unexpected argument 'bogus'"),
    ([CONFIG, "--config.mode=fly"], "mode = 'fly' is not one of: finetune"),
    ([CONFIG, "--config.task.name=dna_h9"], "task.name = 'dna_h9' is not one of: "),
    ([CONFIG, "--config.token_map.kind=moved"], "token_map.kind = 'moved' is not one of: "),
    ([CONFIG, "--config.model.init=warm"], "model.init = 'warm' is not one of: "),
    (
      [CONFIG, "--config.model.init=pretrained"],
      "model.init = 'pretrained' needs --config.model.checkpoint",
    ),
    (
      [CONFIG, "--config.model.dtype=float8"],
      "model.dtype = 'float8' is not one of: float32, bfloat16",
    ),
    ([CONFIG, "--config.model.dropout=1.0"], "model.dropout = 1.0 is not in [0, 1)"),
    (
      [CONFIG, "--config.model.checkpoint=./nowhere"],
      "model.config.hidden_size is set, but the sizes come from model.checkpoint",
    ),
    (
      ["--config=dna_splice", "--config.model.checkpoint=./nowhere"],
      "no checkpoint directory ./nowhere; put config.json and model.safetensors",
    ),
    (
      [CONFIG, "--config.model.config.vocab_size=10"],
      "model.config.vocab_size = 10 is less than the task's 15 symbols and 5 special tokens; set at least 20",
    ),
    ([CONFIG, "--config.train.optimizer=sgd"], "train.optimizer = 'sgd' is not one of: "),
    (
      [CONFIG, "--config.train.batch_size=3601"],
      "train.batch_size = 3601 is larger than the training set of 3600 samples",
    ),
    ([CONFIG, "--config.train.batch_size=0"], "train.batch_size = 0 is less than 1"),
    (
      [CONFIG, "--config.train.learning_rate=nan"],
      "train.learning_rate = nan is not a number from 0 on",
    ),
    (
      ["--config=compare:dna_splice", "--config.mode=finetune"],
      "eval.every_steps is not set; set --config.eval.every_steps",
    ),
    (
      [CONFIG, "--config.train.grad_accumulation=33"],
      "train.grad_accumulation = 33 parts of 32 samples",
    ),
    ([CONFIG, "--config.task.train_fraction=0.0"], "task.train_fraction = 0.0 is not in (0, 1]"),
    ([CONFIG, "--config.task.train_fraction=1.5"], "task.train_fraction = 1.5 is not in (0, 1]"),
    (
      [CONFIG, "--config.task.max_length=65"],
      "task.max_length = 65 is not from 3 to the 64 positions that the model has",
    ),
    (
      [CONFIG, "--config.task.path=mine.csv"],
      "--config.task.path=None",
    ),
    ([CONFIG, "--config.task.metric=mcc"], "--config.task.metric=None"),
    (
      ["--config=dna_h3:gpt"],
      "no model 'gpt'; after the config's name and a colon give one of: bert, bert_large, ",
    ),
    (["--config=quickstart:bert"], "get_config() takes 0 positional arguments but 1 was given, "),
    ([CONFIG, f"--config.seed={2**31 - 1}"], f"seed = {2**31 - 1}"),  # of two replicas
    ([CONFIG, "--config.mesh.data=3"], "mesh of data=3, fsdp=1, tensor=1 does not fit 8 device(s)"),
  ],
)
def test_mistakes_are_one_line_and_exit_2(arguments, message, tmp_path, capsys, monkeypatch):
  monkeypatch.chdir(tmp_path)
  monkeypatch.setenv("DISCIPLINE_DATA", str(tmp_path))
  assert main(["main", *arguments]) == 2
  stdout, stderr = capsys.readouterr()
  assert stdout == ""
  assert len(stderr.splitlines()) == 1
  assert stderr.startswith("error: ")
  assert message.replace("HERE", str(tmp_path)) in stderr
  assert list(tmp_path.iterdir()) == [], "a mistake left files"


def test_missing_data_says_where_to_get_it_and_where_to_put_it(tmp_path, capsys, testdata):
  assert (
    main(
      [
        "main",
        "--config=dna_splice",
        f"--config.model.checkpoint={testdata / 'bert_small'}",
        f"--config.data_dir={tmp_path}",
      ]
    )
    == 2
  )
  stderr = capsys.readouterr().err
  assert "no tokenizer with the 300 entries" in stderr
  assert (
    main(
      [
        "main",
        CONFIG,
        "--config.task.name=dna_h3",
        f"--config.data_dir={tmp_path}",
        "--config.model.config.max_position_embeddings=600",
      ]
    )
    == 2
  )
  stderr = capsys.readouterr().err
  assert stderr.count(f"{tmp_path}/dna/H3.txt") == 2
  assert "github.com/Doulrs/Hilbert-CNN" in stderr


def test_a_workdir_that_cannot_be_made(tmp_path, capsys):
  (tmp_path / "file").write_text("")
  assert main(["main", CONFIG, f"--workdir={tmp_path / 'file' / 'run'}"]) == 2
  assert "cannot write to the workdir (Not a directory)" in capsys.readouterr().err


def test_two_processes_in_one_workdir(tmp_path, capsys):
  with (tmp_path / ".lock").open("w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert main(["main", CONFIG, f"--workdir={tmp_path}"]) == 2
  assert "another process works in" in capsys.readouterr().err


def test_broken_weights_leave_the_workdir_to_the_corrected_run(shared, tmp_path, capsys):
  good, checkpoint = shared / "models" / "bert-tiny-uncased", tmp_path / "bert"
  checkpoint.mkdir()
  for name in ("config.json", "vocab.txt"):
    shutil.copyfile(good / name, checkpoint / name)
  (checkpoint / "model.safetensors").write_bytes(
    (good / "model.safetensors").read_bytes()[:10_000_000]
  )
  arguments = [
    *(
      "main",
      "--config=dna_splice",
      f"--config.data_dir={shared / 'data'}",
      "--config.replicas=1",
    ),
    *(f"--workdir={tmp_path / 'run'}", "--config.train.steps=1"),
  ]
  with one_device():
    assert main([*arguments, f"--config.model.checkpoint={checkpoint}"]) == 2
    assert "not a whole safetensors file" in capsys.readouterr().err
    assert main([*arguments, f"--config.model.checkpoint={good}"]) == 0
