"""Tests whole pre-trainings: what they write, fine-tuning from it, and that interruptions lose nothing."""

import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import time

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from discipline_jax import models
from discipline_jax.errors import UserError
from discipline_jax.main import main
from discipline_jax.models.tokenizer import load_vocabulary
from tests.corpora.small_text import write_text
from tests.whole_runs import (
  finish,
  last_step,
  one_device,
  start_config,
  start_two,
  wait_for_step,
)

CONFIG = pathlib.Path(__file__).parent / "testdata" / "tiny_pretrain.py"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
  """Returns workdir, stdout and stderr of the small run, never interrupted."""
  workdir = tmp_path_factory.mktemp("runs") / "whole"
  code, stdout, stderr = finish(start_config(CONFIG, workdir))
  assert code == 0, stderr
  return workdir, stdout, stderr


def test_result(whole):
  workdir, stdout, stderr = whole
  result = json.loads((workdir / "result.json").read_text())
  assert (result["mode"], result["corpus"], result["objective"]) == ("pretrain", "nesting", "mlm")
  assert result["kept_steps"] == [0, 10, 40]
  assert result["network"] == "bert 1 x 32"
  validation = result["validation"]
  assert set(validation) == {"loss", "mlm_loss", "mlm_accuracy", "mlm_loss_without_context"}
  entropy = result["entropy"]
  assert 0.8 * entropy < validation["mlm_loss_without_context"] < entropy  # some tokens are shown
  assert result["tokens_per_second"] > 0
  assert 0 <= result["input_wait"] < 1
  assert 0 < result["goodput"] < 1
  assert re.search("kept steps +0, 10, 40", stdout)
  assert "30 updates of 16 x 32 tokens, 10 updates of 16 x 64 tokens" in stderr


def test_metrics(whole):
  workdir, _, _ = whole
  lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
  train = {line["step"]: line for line in lines if line["split"] == "train"}
  assert list(train) == [5, 10, 15, 20, 25, 30, 35, 40]
  assert {"loss", "mlm_loss", "mlm_accuracy", "grad_norm", "learning_rate"} <= train[5].keys()
  held_out = {line["step"]: line["loss"] for line in lines if line["split"] == "validation"}
  assert list(held_out) == [15, 30, 40]
  assert held_out[40] < np.log(64)
  result = json.loads((workdir / "result.json").read_text())
  assert held_out[40] == result["validation"]["loss"]


def test_every_kept_step_is_a_checkpoint(whole):
  workdir, _, _ = whole
  tables = []
  for step in (0, 10, 40):
    model = models.load(f"{workdir}@{step}", head=models.Pretraining(next_sentence=False))
    tables.append(np.asarray(model.base_model.embeddings.word_embeddings.weight[...]))
    fields = json.loads((workdir / "steps" / str(step) / "config.json").read_text())
    assert fields["architectures"] == ["BertForMaskedLM"]
    corpus = json.loads((workdir / "steps" / str(step) / "pretraining.json").read_text())
    kind = {"corpus": "nesting", "symbols": None, "k": None, "case": None, "text": False}
    assert corpus == kind
  assert not np.array_equal(tables[0], tables[1])
  last = models.load(str(workdir)).embeddings.word_embeddings.weight[...]
  np.testing.assert_array_equal(last, tables[2])  # without a step, it is the last one


@pytest.mark.parametrize("checkpoint", ["@10", ""])
def test_fine_tuning_from_a_kept_step(whole, tmp_path, checkpoint, capsys):
  arguments = [
    f"--config={CONFIG.with_name('tiny.py')}:checkpoint",
    f"--config.model.checkpoint={whole[0]}{checkpoint}",
    "--config.model.init=pretrained",
    "--config.train.steps=2",
    "--config.replicas=1",
    f"--workdir={tmp_path / 'run'}",
  ]
  with one_device():
    code = main(["main", *arguments])
  assert code == 0, capsys.readouterr().err
  result = json.loads((tmp_path / "run" / "result.json").read_text())
  assert result["model"] == f"{whole[0]}{checkpoint}"


def test_a_step_that_is_not_kept(whole):
  with pytest.raises(UserError, match=r"no step 11 is kept in .*; it has: 0, 10, 40"):
    models.load(f"{whole[0]}@11")


def same_weights(ours: pathlib.Path, theirs: pathlib.Path) -> None:
  for step in (0, 10, 40):
    a, b = (load_file(path / "steps" / str(step) / "model.safetensors") for path in (ours, theirs))
    assert a.keys() == b.keys()
    for name in a:
      np.testing.assert_array_equal(a[name], b[name])


def test_killed_and_stopped_then_identical_bits(whole, tmp_path):
  """Kills may hit a checkpoint while it is written, at every eighth step. $KILLS says how often, by default twice."""
  workdir = tmp_path / "run"
  process = start_config(CONFIG, workdir)
  wait_for_step(workdir, 5)
  process.send_signal(signal.SIGTERM)
  code, _, stderr = finish(process)
  assert code == 75, stderr
  assert stderr.splitlines()[-1].startswith("stopped: at step ")
  for number in range(int(os.environ.get("KILLS", "2"))):
    process = start_config(CONFIG, workdir)
    if number % 2:
      time.sleep(random.uniform(0, 8))  # while it imports, restores, or trains
    else:
      wait_for_step(workdir, min(35, last_step(workdir) + 5))
      time.sleep(random.uniform(0, 0.05))
    process.kill()
    _, stderr = process.communicate()
    assert number > 0 or "Resuming from step" in stderr
  code, _, stderr = finish(start_config(CONFIG, workdir))
  assert code == 0, stderr
  same_weights(workdir, whole[0])
  ours, theirs = (json.loads((path / "result.json").read_text()) for path in (workdir, whole[0]))
  assert ours["validation"] == theirs["validation"]


def test_another_order_of_rows_is_another_run(whole, tmp_path, capsys):
  workdir = tmp_path / "run"
  shutil.copytree(whole[0], workdir)
  (workdir / "result.json").unlink()
  record = workdir / "row_order.json"
  assert json.loads(record.read_text()) == {"order": "table"}
  record.write_text('{"order": "computed"}')
  assert in_process(workdir) == 2
  assert str(record) in capsys.readouterr().err


def in_process(workdir, *arguments, sizes=""):
  with one_device():
    return main(["main", f"--config={CONFIG}{sizes}", f"--workdir={workdir}", *arguments])


def test_text_with_next_sentences(tmp_path, capsys):
  text = write_text(tmp_path / "text.txt", 60)
  arguments = [
    "--config.corpus.name=text",
    f"--config.corpus.path={text}",
    "--config.objective.kind=mlm_nsp",
    "--config.model.config.vocab_size=200",
    "--config.train.steps=3",
  ]
  assert in_process(tmp_path / "run", *arguments) == 0, capsys.readouterr().err
  result = json.loads((tmp_path / "run" / "result.json").read_text())
  assert {"nsp_loss", "nsp_accuracy", "mlm_loss"} <= result["validation"].keys()
  model = models.load(str(tmp_path / "run"), head=models.Pretraining())
  assert model.base_model.pooler is not None
  # shown, not run again
  assert in_process(tmp_path / "run", *arguments) == 0
  assert "mlm_nsp, 3 updates" in capsys.readouterr().out
  # and gone on with, on the same vocabulary
  more = [
    *arguments[:3],
    "--config.train.steps=2",
    "--config.model.init=pretrained",
    f"--config.model.checkpoint={tmp_path / 'run'}",
  ]
  assert in_process(tmp_path / "more", *more, sizes=":checkpoint") == 0, capsys.readouterr().err
  # but not from left to right
  arguments = [*more, "--config.objective.kind=causal"]
  assert in_process(tmp_path / "no", *arguments, sizes=":checkpoint") == 2
  assert "objective.kind = 'causal'" in capsys.readouterr().err
  first = load_file(tmp_path / "more" / "steps" / "0" / "model.safetensors")
  before = load_file(tmp_path / "run" / "steps" / "3" / "model.safetensors")
  for name, value in before.items():
    np.testing.assert_array_equal(first[name], value)


def test_kmers_of_a_fasta_file(tmp_path, capsys):
  """The model is then fine-tuned with its own tokens, and transformers opens its tokenizer."""
  rng = np.random.default_rng(0)
  genome = tmp_path / "genome.fa"
  genome.write_text("".join(f">r{i}\n{''.join(rng.choice([*'ACGT'], 90))}\n" for i in range(30)))
  arguments = [
    "--config.corpus.name=text",
    f"--config.corpus.path={genome}",
    "--config.corpus.symbols=kmers",
    "--config.corpus.k=2",
    "--config.model.config.vocab_size=None",
    "--config.train.steps=2",
  ]
  assert in_process(tmp_path / "run", *arguments) == 0, capsys.readouterr().err
  assert "predicted in runs of 2" in capsys.readouterr().err
  step = tmp_path / "run" / "steps" / "2"
  corpus = json.loads((step / "pretraining.json").read_text())
  assert (corpus["symbols"], corpus["k"], corpus["text"]) == ("kmers", 2, False)
  assert models.read_config(step).vocab_size == 5 + 16
  table = tmp_path / "task.csv"
  rows = [" ".join(rng.choice(["AC", "CG", "TT"], 9)) for _ in range(60)]
  table.write_text("sequence,label\n" + "".join(f"{row},{i % 2}\n" for i, row in enumerate(rows)))
  arguments = [
    "--config=custom",
    f"--config.task.path={table}",
    "--config.task.symbols=words",
    "--config.token_map.kind=identity",
    f"--config.model.checkpoint={tmp_path / 'run'}",
    "--config.train.steps=2",
    f"--config.cache_dir={tmp_path / 'cache'}",
    f"--workdir={tmp_path / 'task'}",
  ]
  with one_device():
    assert main(["main", *arguments]) == 0, capsys.readouterr().err
  saved = json.loads((tmp_path / "task" / "model" / "task.json").read_text())
  vocabulary = load_vocabulary(step, 21)
  known = {vocabulary.tokens[i] for i in saved["symbol_ids"]}
  assert {"AC", "CG", "TT"} <= known
  from transformers import AutoTokenizer

  theirs = AutoTokenizer.from_pretrained(str(step))
  assert theirs("AC CG")["input_ids"][1:-1] == vocabulary.symbol_ids(["AC", "CG"]).tolist()


def test_context_is_learnt(tmp_path, capsys):
  """A text in which each word follows from the one before: without looking at others, 15% would be right."""
  rng = random.Random(0)
  words = [*"abcdefghijklmnopqrst"]

  def line():
    start = rng.randrange(len(words))
    return " ".join((2 * words)[start : start + 14])

  text = tmp_path / "text.txt"
  text.write_text("\n\n".join("\n".join(line() for _ in range(4)) for _ in range(800)))
  arguments = [
    "--config.corpus.name=text",
    f"--config.corpus.path={text}",
    "--config.corpus.length=(16,)",
    "--config.train.phases=(1.0,)",
    "--config.train.grad_accumulation=1",
    "--config.train.steps=400",
    "--config.train.batch_size=64",
    "--config.train.learning_rate=3e-3",
    "--config.train.warmup_steps=50",
    "--config.eval.every_steps=400",
    "--config.checkpoint.every_steps=400",
    "--config.model.config.vocab_size=73",
    "--config.model.config.hidden_size=64",
    "--config.model.config.num_hidden_layers=2",
  ]
  assert in_process(tmp_path / "run", *arguments) == 0, capsys.readouterr().err
  result = json.loads((tmp_path / "run" / "result.json").read_text())
  validation = result["validation"]
  assert validation["mlm_accuracy"] > 0.6
  assert validation["mlm_loss"] < 0.6 * validation["mlm_loss_without_context"]


def test_left_to_right_remembers_what_it_is(tmp_path, capsys):
  arguments = ["--config.objective.kind=causal", "--config.train.steps=2"]
  assert in_process(tmp_path / "run", *arguments) == 0, capsys.readouterr().err
  fields = json.loads((tmp_path / "run" / "steps" / "2" / "config.json").read_text())
  assert (fields["is_decoder"], fields["architectures"]) == (True, ["BertLMHeadModel"])
  assert models.read_config(tmp_path / "run" / "steps" / "2").is_decoder
  result = json.loads((tmp_path / "run" / "result.json").read_text())
  validation = result["validation"]
  assert set(validation) == {"loss", "lm_loss", "lm_accuracy", "lm_loss_without_context"}


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path, capsys):
  arguments = ["--config.train.learning_rate=1e30", "--config.train.max_grad_norm=0"]
  assert in_process(tmp_path / "run", *arguments) == 3
  last_line = capsys.readouterr().err.splitlines()[-1]
  assert re.match(
    r"error: the training loss is .* at step \d+; the last good checkpoint ", last_line
  )
  assert not (tmp_path / "run" / "result.json").exists()
  for folder in (tmp_path / "run" / "steps").iterdir():
    for value in load_file(folder / "model.safetensors").values():
      assert np.isfinite(value).all()


def test_all_phases_are_compiled_before_anything_is_written(tmp_path, capsys, monkeypatch):
  compile_step, calls = jax.stages.Lowered.compile, itertools.count(1)

  def full(lowered, *args, **settings):
    if next(calls) == 2:  # the step over 64 tokens
      raise jax.errors.JaxRuntimeError(
        "RESOURCE_EXHAUSTED: Out of memory allocating 7 bytes.\nmore"
      )
    return compile_step(lowered, *args, **settings)

  with monkeypatch.context() as patch:
    patch.setattr(jax.stages.Lowered, "compile", full)
    assert in_process(tmp_path / "run") == 3
  last_line = capsys.readouterr().err.splitlines()[-1]
  assert last_line.startswith(
    "error: the device has not enough memory (RESOURCE_EXHAUSTED: Out of memory allocating 7 bytes.); raise train."
  )
  assert not (tmp_path / "run" / "config.json").exists(), (
    "the workdir does not take the corrected run"
  )
  assert in_process(tmp_path / "run", "--config.train.grad_accumulation=4") == 0


def test_weights_in_parts_are_kept_whole(tmp_path):
  """Each weight is split over two of the eight virtual devices."""
  arguments = ["--config.mesh.fsdp=2", "--config.train.steps=2"]
  assert main(["main", f"--config={CONFIG}", f"--workdir={tmp_path / 'run'}", *arguments]) == 0
  assert in_process(tmp_path / "one", "--config.train.steps=2") == 0
  for step in (0, 2):
    ours, theirs = (
      load_file(tmp_path / name / "steps" / str(step) / "model.safetensors")
      for name in ("run", "one")
    )
    for name in theirs:  # several devices add in another order
      np.testing.assert_allclose(ours[name], theirs[name], atol=2e-4 if step else 0)


def test_a_full_disk_keeps_what_is_whole(tmp_path, capsys, monkeypatch):
  def full(model, directory):
    directory.mkdir(parents=True)
    raise UserError(f"cannot write a checkpoint (No space left on device), {directory}")

  with monkeypatch.context() as patch:
    patch.setattr(models, "save", full)
    assert in_process(tmp_path / "run") == 3
  assert "error: step 0 cannot be kept: cannot write a checkpoint (No space left" in (
    capsys.readouterr().err
  )
  assert not list((tmp_path / "run" / "steps").iterdir())


def test_dry_run_writes_nothing(tmp_path, capsys):
  assert in_process(tmp_path / "run", "--dry-run") == 0
  output = capsys.readouterr().out
  assert "nesting" in output
  masks = (
    "15% of the tokens are predicted: 80% of these are masked, 10% stay, 10% become random ones"
  )
  assert f"mlm; {masks}\n" in output
  assert not (tmp_path / "run").exists()
  fields = ("--config.masking.span=3", "--config.masking.max_positions=7")
  assert in_process(tmp_path / "run", "--dry-run", *fields) == 0
  assert (
    "; 15% of the tokens are predicted in runs of 3, at most 7 a row: " in capsys.readouterr().out
  )
  assert in_process(tmp_path / "run", "--dry-run", "--config.objective.kind=causal") == 0
  assert re.search(r"objective +causal\n", capsys.readouterr().out)


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (["--config.train.steps=0"], "train.steps = 0 is less than 1"),
    (["--config.masking.mask=0.9"], "the three shares add to 1; set --config.masking"),
    (["--config.masking.max_positions=0"], "masking.max_positions = 0 is less than 1"),
    (["--config.model.init=pretrained"], "model.init = 'pretrained' with model.checkpoint = None"),
    (
      ["--config.train.phases=(1.0,)"],
      "train.phases = (1.0,) is not a share of the steps for each",
    ),
    (["--config.train.batch_size=15"], "train.batch_size = 15 is not a multiple of 2 (1 device"),
    (["--config.checkpoint.keep_steps=(-1,)"], "has a step below 0"),
    (
      ["--config.model.checkpoint=DIR", "--config.model.init=pretrained"],
      "model.config.hidden_size is set, but the sizes come from model.checkpoint",
    ),
    (
      ["--config.corpus.length=(32,128)"],
      "corpus.length = (32, 128), but the model has 64 positions; lower it",
    ),
    (["--config.objective.kind=nsp"], "objective.kind = 'nsp' is not one of: mlm, mlm_nsp"),
    (
      ["--config.objective.kind=mlm_nsp", "--config.model.config.model_type=roberta"],
      "roberta has no task on pairs of segments",
    ),
    (["--config.train.optimizer=lamb"], "train.optimizer = 'lamb' is not one of: adam"),
  ],
)
def test_mistakes(arguments, message, tmp_path, capsys):
  assert in_process(tmp_path / "run", *arguments) == 2
  output = capsys.readouterr().err.splitlines()
  assert message in output[-1]
  assert not (tmp_path / "run").exists()


def test_two_processes_train_as_one(tmp_path, whole):
  ended = [finish(process) for process in start_two(CONFIG, tmp_path / "run")]
  assert [code for code, _, _ in ended] == [0, 0], ended
  assert json.loads((tmp_path / "run" / "result.json").read_text())["device"] == "2 x cpu"
  ours, theirs = (
    load_file(path / "steps" / "10" / "model.safetensors") for path in (tmp_path / "run", whole[0])
  )
  for name in theirs:  # two devices add in another order
    np.testing.assert_allclose(ours[name], theirs[name], atol=2e-4)
