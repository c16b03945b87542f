"""Tests every config: it runs two steps over small files in the published formats, and is planned over real ones."""

import json
import pathlib

import pytest

from configs import artificial_small
from discipline_jax.main import main
from tests.corpora.small_text import write_text
from tests.testdata.small_files import write_data, write_model
from tests.whole_runs import one_device

NAMES = sorted(
  path.stem
  for path in (pathlib.Path(__file__).parents[1] / "configs").glob("*.py")
  if path.stem != "__init__"
)
PRETRAININGS = [name for name in NAMES if name.startswith("pretrain_")]
OTHERS = ("quickstart", "artificial_small", "custom", "compare", "search_optimizer", "embed")
STUDIES = [name for name in NAMES if name.startswith("study_")]  # see test_grids
ANALYSES = [name for name in NAMES if name.startswith("analyze_")]
TASKS = [name for name in NAMES if name not in (*OTHERS, *STUDIES, *PRETRAININGS, *ANALYSES)]


# Networks of these sizes are compiled in a fraction of the time.
SMALL_NETWORK = {
  f"model.config.{name}": value
  for name, value in (
    ("num_hidden_layers", 1),
    ("hidden_size", 32),
    ("num_attention_heads", 2),
    ("intermediate_size", 32),
  )
}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
  folder = tmp_path_factory.mktemp("small")
  write_data(folder)
  write_model(folder / "model")
  return folder


@pytest.mark.parametrize("name", [*TASKS, "custom"])
def test_runs_on_small_files(name, small, tmp_path, capsys):
  arguments = [
    f"--config={name}",
    f"--config.data_dir={small}",
    f"--config.model.checkpoint={small / 'model'}",
    "--config.model.init=scratch",
    "--config.train.steps=2",
    "--config.train.batch_size=8",
    "--config.train.grad_accumulation=1",  # two parts take longer to compile
    "--config.replicas=1",
    f"--workdir={tmp_path / 'run'}",
  ]
  if name == "custom":
    arguments += [f"--config.task.path={small / 'mine.csv'}"]
  with one_device():
    assert main(["main", *arguments]) == 0
  result = json.loads((tmp_path / "run" / "result.json").read_text())
  assert result["task"] == name
  assert len(result["validation"]["runs"]) == 1
  parts = {part for part in result if part.startswith("test")}
  further = {"glue_mnli": {"test_mismatched"}, "protein_ss3": {"test_cb513"}}
  assert parts == {"test"} | further.get(name, set())
  assert f"{name} ({result['metric']})" in capsys.readouterr().out


def test_a_study_runs_on_small_files(small, tmp_path, capsys, monkeypatch):
  """Runs all runs of the study in their order, for two updates each. (CI runs the quickstart unchanged.)"""
  monkeypatch.setenv("DISCIPLINE_DATA", str(small))
  runs = artificial_small.get_config().runs
  arguments = []
  for run, config in runs.items():
    fields = {"train.steps": 2, "train.batch_size": 8, "eval.batch_size": 8}
    if config.mode == "pretrain":
      fields |= {"corpus.lines": 500, "corpus.length": (32,), **SMALL_NETWORK}
    else:
      fields["replicas"] = 1
    arguments += [f"--config.runs.{run}.{field}={value}" for field, value in fields.items()]
  with one_device():
    code = main(["main", "--config=artificial_small", f"--workdir={tmp_path / 'run'}", *arguments])
  output = capsys.readouterr()
  assert code == 0, output.err
  table = [line.split()[0] for line in output.out.splitlines() if "±" in line]
  assert "scratch" in table
  assert len(table) == 3


@pytest.mark.parametrize(
  ("name", "expected"),
  [
    ("compare", "pretrained, scratch, re_emb, each at 3e-05, 0.0001, 0.0003 with one seed"),
    ("compare:protein_stability", "with 3 seeds, or less, to keep to 60 minutes"),
    ("search_optimizer", "25 for "),
    ("search_optimizer:dna_splice", "then 9 for "),
    ("search_optimizer:custom", "then 3 for "),
  ],
)
def test_what_is_made_of_many_runs_is_planned(name, expected, small, tmp_path, capsys):
  arguments = [f"--config={name}", f"--config.data_dir={small}", "--config.train.batch_size=8"]
  arguments += [f"--config.model.checkpoint={small / 'model'}", f"--workdir={tmp_path / 'run'}"]
  if name in ("compare", "search_optimizer:custom"):
    arguments += [f"--config.task.path={small / 'mine.csv'}"]
  with one_device():
    code = main(["main", *arguments, "--dry-run"])
  output = capsys.readouterr()
  assert code == 0, output.err
  assert expected in output.out
  assert not (tmp_path / "run").exists()


# The others differ from one of these by numbers alone.
TRAINED = (
  "small",
  "bert_base",
  "roberta",
  "albert",
  "nesting",
  "kannada",
  "ablations:left_to_right",
)
PLANNED = (
  "bert_large",
  "further:",
  "uniform",
  "flat:12x768",
  "nesting:12x768",
  "ablations",
  "ablations:6x768_3",
  "ablations:mask_0_20_80",
)


def test_every_pretraining_is_tested():
  assert {f"pretrain_{name.partition(':')[0]}" for name in TRAINED + PLANNED} == {*PRETRAININGS}


@pytest.mark.parametrize("name", PLANNED)
def test_pre_training_is_planned(name, small, tmp_path, capsys):
  text = write_text(tmp_path / "text.txt")
  model = small / "model" if name == "further:" else ""
  arguments = [f"--config=pretrain_{name}{model}", "--dry-run"]
  if name.startswith(("bert", "abl", "fur")):
    arguments += ["--config.corpus.name=text", f"--config.corpus.path={text}"]
  with one_device():
    code = main(["main", *arguments])
  output = capsys.readouterr()
  assert code == 0, output.err
  expected = {
    "bert_large": "hidden_size 1024",
    "further:": "10,000 updates of 64 x 128 tokens",
    "uniform": "100,000 updates of 300 x 128 tokens",
    "flat:12x768": "num_hidden_layers 12",
    "nesting:12x768": "nesting",
    "ablations": "objective  mlm; 15% of the tokens",
    "ablations:6x768_3": "num_attention_heads 3, num_hidden_layers 6",
    "ablations:mask_0_20_80": "0% of these are masked, 20% stay, 80% become random ones",
  }
  assert expected[name] in output.out


@pytest.mark.parametrize("name", TRAINED)
def test_pre_trains_on_a_small_corpus(name, small, tmp_path, capsys):
  """Runs the config with smaller sizes of model, rows and corpus. Configs of one shape share compiled programs."""
  arguments = [
    f"--config=pretrain_{name}",
    *(f"--config.{name}={value}" for name, value in SMALL_NETWORK.items()),
    "--config.corpus.length=(16,)",
    "--config.train.phases=(1.0,)",
    "--config.train.steps=2",
    "--config.train.batch_size=8",
    "--config.train.grad_accumulation=1",
    "--config.eval.batch_size=8",
    f"--workdir={tmp_path / 'run'}",
  ]
  if name == "nesting":
    arguments += ["--config.corpus.lines=500", "--config.model.config.vocab_size=200"]
  else:
    text = write_text(tmp_path / "text.txt")
    arguments += ["--config.corpus.name=text", f"--config.corpus.path={text}"]
    if name not in ("small", "kannada"):  # which learn their own
      arguments += [f"--config.corpus.vocabulary={small / 'model'}"]
      # That vocabulary has letters and no parts of words.
      text.write_text(" ".join(text.read_text().replace(" ", "")).replace("\n \n", "\n\n"))
  with one_device():
    code = main(["main", *arguments])
  assert code == 0, capsys.readouterr().err
  result = json.loads((tmp_path / "run" / "result.json").read_text())
  assert result["kept_steps"] == [0, 2]
  assert (
    result["objective"]
    == {
      "small": "mlm",
      "bert_base": "mlm_nsp",
      "roberta": "mlm",
      "albert": "mlm_sop",
      "nesting": "mlm",
      "kannada": "mlm",
      "ablations:left_to_right": "causal",
    }[name]
  )


@pytest.mark.parametrize("name", ANALYSES)
def test_an_analysis_is_planned(name, small, tmp_path, capsys):
  arguments = [f"--config={name}", f"--config.data_dir={small}", "--config.train.batch_size=8"]
  arguments += [f"--config.analysis.models=('scratch:{small / 'model'}',)"]
  with one_device():
    code = main(["main", *arguments, f"--workdir={tmp_path / 'run'}", "--dry-run"])
  output = capsys.readouterr()
  assert code == 0, output.err
  measure = "similarity" if name == "analyze_pwcca" else name.removeprefix("analyze_")
  assert f"measure    {measure}, dropout off" in output.out
  assert "network 1  scratch model, " in output.out
  assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", [*TASKS, "custom"])
def test_is_planned_over_the_real_files(name, shared, tmp_path, capsys, monkeypatch):
  """Reads and encodes all of them with a real tokenizer."""
  monkeypatch.chdir(tmp_path)
  arguments = [
    f"--config={name}",
    f"--config.data_dir={shared / 'data'}",
    f"--config.model.checkpoint={shared / 'models' / 'bert-tiny-uncased'}",
    "--dry-run",
  ]
  if name == "custom":
    arguments += [
      f"--config.task.path={shared / 'data' / 'protein' / 'stability_dev.fa'}",
      "--config.task.kind=regression",
    ]
  code = main(["main", *arguments])
  output = capsys.readouterr()
  absent = {"dna_h4", "glue_mnli", "glue_qqp", "glue_rte", "glue_qnli"}  # not among the real files
  if name in absent:
    assert code == 2
    assert "error: no file " in output.err
  else:
    assert code == 0, output.err
    assert f"task       {name}: " in output.out
