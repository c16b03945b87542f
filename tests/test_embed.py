"""Tests the vectors that `mode = embed` writes for the rows of a table."""

import gc
import json
import random
import shutil

import numpy as np
import pytest
from scipy.special import softmax

import configs.embed as embed_config
import discipline_jax.embed as embed_module
import discipline_jax.programs.embedding as embedding_module
from discipline_jax import defaults
from discipline_jax.errors import UserError
from discipline_jax.main import main
from discipline_jax.programs.embedding import Embedding
from discipline_jax.runs.saved import read_model
from discipline_jax.tasks.readers.tables import Row
from tests.finished_runs import write_finished_run
from tests.small_network import SIZES
from tests.test_export import predict
from tests.testdata.small_files import write_data, write_model, write_weights
from tests.whole_runs import one_device

LETTERS = "ACDEFGHIKLMNPQRSTVWY"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
  """Returns a BERT of 3 layers x 36 that knows letters."""
  return write_weights(tmp_path_factory.mktemp("embed") / "model")


@pytest.fixture(scope="module")
def golden(request):
  return dict(np.load(request.path.parent / "testdata" / "embeddings.npz"))


def run(table, output, *arguments, config="embed") -> int:
  with one_device():
    return main(
      [
        *("main", f"--config={config}", f"--config.task.path={table}"),
        *(f"--config.embed.output={output}", "--config.eval.batch_size=4", *arguments),
      ]
    )


def vectors(table, checkpoint, *arguments, name="out.npz"):
  """Returns the content of the file of vectors for a table."""
  output = table.with_name(name)
  given = () if checkpoint is None else (f"--config.model.checkpoint={checkpoint}",)
  assert run(table, output, *given, *arguments) == 0
  with np.load(output, allow_pickle=False) as content:
    return dict(content)


def table_of(folder, rows, name="table.csv"):
  path = folder / name
  path.write_text("sequence\n" + "".join(f"{row}\n" for row in rows))
  return path


def random_rows(number, longest=40):
  draw = random.Random(1)
  return ["".join(draw.choices(LETTERS, k=draw.randint(1, longest))) for _ in range(number)]


@pytest.mark.parametrize("layer", [0, -3, None])
def test_means_of_all_layers_are_those_of_pytorch(layer, checkpoint, golden, tmp_path):
  table = table_of(tmp_path, golden["rows"])
  given = () if layer is None else (f"--config.embed.layer={layer}",)
  found = vectors(table, checkpoint, *given)
  expected = golden["small.mean"][-1 if layer is None else layer]
  np.testing.assert_allclose(found["vectors"], expected, atol=1e-5, rtol=0)
  assert found.keys() == {"vectors", "line"}
  np.testing.assert_array_equal(found["line"], np.arange(len(table.read_text().split()) - 1) + 2)


def test_pooled_outputs_and_tokens_are_those_of_pytorch(checkpoint, golden, tmp_path):
  table = table_of(tmp_path, golden["rows"])
  pooled = vectors(table, checkpoint, "--config.embed.pooling=pooled")
  np.testing.assert_allclose(pooled["vectors"], golden["small.pooled"], atol=1e-5, rtol=0)
  tokens = vectors(table, checkpoint, "--config.embed.pooling=tokens")
  np.testing.assert_allclose(tokens["vectors"], golden["small.tokens"], atol=1e-5, rtol=0)
  lengths = [len(row) for row in golden["rows"]]
  np.testing.assert_array_equal(tokens["offsets"], np.cumsum([0, *lengths]))


def test_minilm_is_that_of_pytorch(golden, shared, tmp_path):
  table = table_of(tmp_path, golden["rows"])
  found = vectors(table, shared / "models" / "minilm-l6-uncased")
  np.testing.assert_allclose(found["vectors"], golden["minilm.mean"], atol=1e-5, rtol=0)


def test_rows_keep_their_order_over_several_windows(checkpoint, tmp_path):
  """Each window of 200 rows is sorted by length; a row alone has the vector that it has among others."""
  rows = random_rows(430)
  found = vectors(table_of(tmp_path, rows), checkpoint)["vectors"]
  assert len(found) == len(rows)
  chosen = [0, 199, 200, 399, 429]
  alone = vectors(table_of(tmp_path, [rows[i] for i in chosen]), checkpoint)["vectors"]
  np.testing.assert_allclose(found[chosen], alone, atol=1e-6, rtol=0)
  assert len(np.unique(found.round(4), axis=0)) == len(set(rows))


@pytest.mark.parametrize(
  ("worth", "lengths"), [(1000, [7, 22, 62]), (1600, [22, 62]), (20_000, [62])]
)
def test_few_lengths_are_compiled(worth, lengths, checkpoint, tmp_path, monkeypatch):
  """With three lengths there are 9,100 positions, with two at least 10,600, and with one 18,600."""
  monkeypatch.setattr(embedding_module, "_WORTH", worth)
  programs = []

  class Noted(Embedding):
    def __init__(self, *args, **settings):
      super().__init__(*args, **settings)
      programs.append(self)

  monkeypatch.setattr(embed_module, "Embedding", Noted)
  rows = ["A" * (4, 5, 19, 20, 59, 60)[i % 6] for i in range(300)]  # and two special tokens each
  vectors(table_of(tmp_path, rows), checkpoint)
  assert programs[0]._edges.tolist() == lengths
  assert programs[0]._step._cache_size() == len(lengths)


def test_no_more_rows_are_held_than_a_window_has(tmp_path, monkeypatch):
  write_model(tmp_path / "model")
  compute, held = Embedding.vectors, []

  def noted(self, *args):
    held.append(sum(type(one) is Row for one in gc.get_objects()))
    return compute(self, *args)

  monkeypatch.setattr(Embedding, "vectors", noted)
  table = table_of(tmp_path, random_rows(600, 9))
  vectors(table, tmp_path / "model", "--config.model.init=scratch")
  assert len(held) == 3
  assert max(held) <= 200 + 1  # and the last one of the window before


def test_columns_are_kept_in_order_as_text(checkpoint, tmp_path):
  table = tmp_path / "table.jsonl"
  table.write_text(
    '{"sequence": "ACD", "id": "é1", "n": 1.0}\n\n{"sequence": ["W"], "id": "", "n": null}\n'
  )
  found = vectors(table, checkpoint, "--config.embed.keep_columns=n, id")
  assert found["n"].tolist() == ["1", "null"]
  assert found["id"].tolist() == ["é1", ""]
  assert found["line"].tolist() == [1, 3]
  assert found["vectors"].shape == (2, 36)


def test_parquet_has_what_npz_has(checkpoint, tmp_path):
  parquet = pytest.importorskip("pyarrow.parquet")
  rows = [f"{row},s{i}" for i, row in enumerate(random_rows(250, 9))]
  table = tmp_path / "table.csv"
  table.write_text("sequence,id\n" + "\n".join(rows) + "\n")
  keep = "--config.embed.keep_columns=id"
  for pooling in ("mean", "tokens"):
    own = (keep, f"--config.embed.pooling={pooling}")
    expected = vectors(table, checkpoint, *own)
    output = tmp_path / f"{pooling}.parquet"
    assert run(table, output, f"--config.model.checkpoint={checkpoint}", *own) == 0
    found = parquet.read_table(output)
    assert found.column_names == ["line", "id", "vectors"]
    assert found["line"].to_pylist() == expected["line"].tolist()
    assert found["id"].to_pylist() == expected["id"].tolist()
    cells = found["vectors"].to_pylist()
    flat = [vector for cell in cells for vector in cell] if pooling == "tokens" else cells
    np.testing.assert_array_equal(np.array(flat, np.float32), expected["vectors"])
    if pooling == "tokens":
      assert np.cumsum([0, *map(len, cells)]).tolist() == expected["offsets"].tolist()


def test_a_kept_step_is_a_checkpoint(checkpoint, tmp_path):
  shutil.copytree(checkpoint, tmp_path / "pretrained" / "steps" / "7")
  table = table_of(tmp_path, ["ACD"])
  kept = vectors(table, f"{tmp_path / 'pretrained'}@7")
  np.testing.assert_array_equal(kept["vectors"], vectors(table, checkpoint)["vectors"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
  """Returns a finished run on sequences of letters of several lengths, and new ones."""
  folder = tmp_path_factory.mktemp("finished")
  rows = random_rows(40, 30)
  table = folder / "mine.csv"
  table.write_text("sequence,label\n" + "".join(f"{row},{i % 3}\n" for i, row in enumerate(rows)))
  config = defaults.finetune()
  config.task.update(name="custom", path=str(table))
  config.model.init = "scratch"
  config.model.config.update(SIZES)
  config.train.batch_size = 8
  config.replicas = 2
  write_finished_run(folder / "run", config)
  return folder / "run"


def predicted_from(pooled, saved):
  """Returns what the run's head makes of pooled outputs."""
  params, _, _ = saved.weights(saved.inputs.seeds[saved.best])
  head = params["classifier"]
  return pooled @ head["weight"].T + head["bias"]


@pytest.mark.parametrize("by", ["workdir", "checkpoint"])
def test_a_finished_run_predicts_from_its_pooled_vectors(by, finished, tmp_path):
  table = table_of(tmp_path, [*random_rows(30, 30), "ACB"])  # B is new
  rows = predict(finished, table, tmp_path / "out.csv")
  given = (None, f"--workdir={finished}") if by == "workdir" else (finished,)
  found = vectors(table, *given, "--config.embed.pooling=pooled")
  ours = softmax(predicted_from(found["vectors"], read_model(finished)), axis=-1)
  theirs = np.array([[float(row[f"p_{label}"]) for label in "012"] for row in rows])
  np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_a_finished_run_in_a_bucket(finished, storage, tmp_path, capsys):
  for file in finished.rglob("*.*"):
    storage.put("bucket", f"run/{file.relative_to(finished)}", file.read_bytes())
  table = table_of(tmp_path, random_rows(5, 30))
  assert run(table, tmp_path / "x.npz", "--workdir=gs://bucket/run", "--dry-run") == 0
  assert "of gs://bucket/run" in capsys.readouterr().out
  found = vectors(table, "gs://bucket/run")
  np.testing.assert_array_equal(found["vectors"], vectors(table, finished)["vectors"])


def test_pairs_of_texts(tmp_path):
  write_data(tmp_path)
  write_model(tmp_path / "model")
  config = defaults.finetune()
  config.task.name = "glue_stsb"
  config.data_dir = str(tmp_path)
  config.model.update(checkpoint=str(tmp_path / "model"), init="scratch")
  config.token_map.kind = "frequent"
  config.train.batch_size = 8
  write_finished_run(tmp_path / "run", config)
  table = tmp_path / "new.tsv"
  shutil.copy(tmp_path / "glue_data" / "STS-B" / "train.tsv", table)
  columns = "--config.task.sequence_column=sentence1,sentence2"
  rows = predict(tmp_path / "run", table, tmp_path / "out.csv", columns)
  own = (columns, f"--workdir={tmp_path / 'run'}", "--config.embed.pooling=pooled")
  found = vectors(table, None, *own)
  ours = predicted_from(found["vectors"], read_model(tmp_path / "run"))[:, 0]
  np.testing.assert_allclose(ours, [float(row["prediction"]) for row in rows], atol=1e-5)


def test_vectors_of_tokens_are_not_for_pairs(tmp_path, capsys):
  """The [SEP] between the texts would stand among the tokens."""
  write_model(tmp_path / "model")
  table = tmp_path / "table.csv"
  table.write_text("first,second\na b,c\n")
  given = (f"--config.model.checkpoint={tmp_path / 'model'}", "--config.model.init=scratch")
  given += ("--config.task.symbols=text", "--config.task.sequence_column=first,second")
  assert run(table, tmp_path / "out.npz", *given, "--config.embed.pooling=tokens") == 2
  assert "embed.pooling" in capsys.readouterr().err.splitlines()[-1]
  assert vectors(table, tmp_path / "model", *given[1:])["vectors"].shape[0] == 1


def test_pairs_of_sequences_have_no_vectors(finished, checkpoint, tmp_path, capsys):
  table = tmp_path / "mine.csv"
  table.write_text(
    "first,second,label\n" + "".join(f"ACD,{row}C,a\n{row},DE,b\n" for row in LETTERS)
  )
  columns = "--config.task.sequence_column=first,second"
  given = f"--config.model.checkpoint={checkpoint}"
  assert run(table, tmp_path / "out.npz", given, columns) == 2
  error = capsys.readouterr().err.splitlines()[-1]
  assert "'first,second' is not one column of sequences; set --config.task.sequence_column" in error
  assert run(table, tmp_path / "out.npz", given, columns.partition(",")[0], "--dry-run") == 0
  config = defaults.finetune()
  config.task.update(name="custom", path=str(table), sequence_column="first,second")
  config.model.init = "scratch"
  config.model.config.update(SIZES)
  config.train.batch_size = 8
  write_finished_run(tmp_path / "run", config)
  assert run(table, tmp_path / "out.npz", columns, f"--workdir={tmp_path / 'run'}") == 2
  error = capsys.readouterr().err.splitlines()[-1]
  assert f"the run in {tmp_path / 'run'} is of pairs of sequences" in error
  another = (f"--workdir={finished}", columns.partition(",")[0])
  assert run(table, tmp_path / "out.npz", *another, "--dry-run") == 0


def test_windows_are_refused_and_the_remedy_helps(checkpoint, tmp_path, capsys):
  table = table_of(tmp_path, ["ACD" * 100])
  given = (f"--config.model.checkpoint={checkpoint}", "--config.task.long=windows", "--dry-run")
  assert run(table, tmp_path / "out.npz", *given) == 2
  assert capsys.readouterr().err.splitlines()[-1].endswith("set --config.task.long=cut")
  assert run(table, tmp_path / "out.npz", *given, "--config.task.long=cut") == 0


def texts(folder, rows):
  table = folder / "table.jsonl"
  table.write_text("".join(json.dumps({"sequence": row}) + "\n" for row in rows))
  return table


def test_texts_have_the_vectors_of_pytorch(golden, shared, tmp_path):
  table = texts(tmp_path, golden["sentences"].tolist())
  found = vectors(table, shared / "models" / "minilm-l6-uncased", "--config.task.symbols=text")
  np.testing.assert_allclose(found["vectors"], golden["minilm.text"], atol=1e-5, rtol=0)


def test_an_empty_text_has_no_vector(tmp_path, capsys):
  write_model(tmp_path / "model")
  table = texts(tmp_path, ["a b", " "])
  given = (f"--config.model.checkpoint={tmp_path / 'model'}", "--config.model.init=scratch")
  given += ("--config.task.symbols=text", "--dry-run")
  assert run(table, tmp_path / "out.npz", *given) == 2
  error = capsys.readouterr().err.splitlines()[-1]
  assert error == f"error: empty text, {table}:2; every row needs one"
  assert run(table, tmp_path / "out.npz", *given, "--config.task.skip_invalid") == 0


@pytest.mark.parametrize("columns", [1, 2])
def test_unknown_tokens_of_texts_are_counted(columns, tmp_path, caplog, capsys):
  """The model knows letters; other words are one unknown token, and so is a mark that it does not know."""
  write_model(tmp_path / "model")
  names = ("sequence", "second")[:columns]
  given = (f"--config.model.checkpoint={tmp_path / 'model'}", "--config.model.init=scratch")
  given += (f"--config.task.sequence_column={','.join(names)}", "--config.task.symbols=text")
  table = tmp_path / "table.jsonl"

  def dry_run(rows):
    table.write_text("".join(json.dumps(dict.fromkeys(names, row)) + "\n" for row in rows))
    return run(table, tmp_path / "out.npz", *given, "--dry-run")

  assert dry_run(["a b", "A, Hello b", "b ééé? a"]) == 0
  (line,) = [one for one in caplog.messages if "vocabulary" in one]
  assert line.startswith(
    f"{3 * columns} of {10 * columns} tokens are not in the model's vocabulary (Hello ééé ?), first at {table}:2;"
  )
  assert dry_run(["a", "Hello there"]) == 2
  told = f"error: {2 * columns} of {3 * columns} tokens are not in the model's vocabulary (Hello"
  assert capsys.readouterr().err.splitlines()[-1].startswith(told)


@pytest.mark.parametrize("symbols", ["characters", "words"])
def test_texts_are_not_taken_for_symbols(symbols, golden, shared, tmp_path, capsys):
  model = shared / "models" / "minilm-l6-uncased"
  table = texts(tmp_path, golden["sentences"].tolist())
  given = (f"--config.model.checkpoint={model}", f"--config.task.symbols={symbols}")
  assert run(table, tmp_path / "out.npz", *given) == 2
  error = capsys.readouterr().err.splitlines()[-1]
  assert f"{table}:1" in error
  assert "task.symbols=text" in error


def test_other_letters_are_the_unknown_token(checkpoint, tmp_path, caplog):
  """Symbols of a table do not decide how another symbol is read."""
  found = vectors(table_of(tmp_path, ["AC§", "AC", "AC¶"]), checkpoint)["vectors"]
  np.testing.assert_allclose(found[0], found[2], atol=1e-6)
  assert np.abs(found[0] - found[1]).max() > 1e-3
  assert any(f"{tmp_path / 'table.csv'}:2" in line for line in caplog.messages)
  alone = vectors(table_of(tmp_path, ["AC"]), checkpoint)["vectors"]
  np.testing.assert_allclose(alone[0], found[1], atol=1e-6)


@pytest.mark.parametrize(
  ("arguments", "named"),
  [
    (["--config.embed.output=out.csv"], "embed.output"),
    (["--config.embed.output=nowhere/out.npz"], "embed.output"),
    (["--config.embed.output=None"], "embed.output"),
    (["--config.embed.layer=4"], "embed.layer"),
    (["--config.embed.layer=-5"], "embed.layer"),
    (["--config.embed.layer=1", "--config.embed.pooling=pooled"], "embed.layer"),
    (["--config.embed.pooling=max"], "embed.pooling"),
    (["--config.embed.keep_columns=vectors"], "embed.keep_columns"),
    (["--config.embed.keep_columns=note"], "embed.keep_columns"),
    (["--config.task.sequence_column=letters"], "task.sequence_column"),
    (["--config.task.max_length=71"], "task.max_length"),
    (["--config.task.symbols=text", "--config.task.case=upper"], "task.case"),
    (["--config.token_map.kind=unused"], "token_map.kind"),
    (["--config.model.checkpoint=None", "--workdir=none"], "model.checkpoint"),
  ],
)
def test_a_mistake_is_one_line(arguments, named, checkpoint, tmp_path, capsys, monkeypatch):
  monkeypatch.chdir(tmp_path)
  table = table_of(tmp_path, ["ACD"])
  given = (f"--config.model.checkpoint={checkpoint}", *arguments)
  before = sorted(path.name for path in tmp_path.iterdir())
  assert run(table, tmp_path / "out.npz", *given) == 2
  error = capsys.readouterr().err.splitlines()
  assert error[-1].startswith("error: ")
  assert named in error[-1]
  assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize(
  ("content", "place"),
  [("sequence\n", ""), ("", ""), ("sequence\nACD\n\x01\n", ":3"), ("sequence\n§¶\n", ":2")],
)
def test_a_wrong_table_is_one_line(content, place, checkpoint, tmp_path, capsys):
  table = tmp_path / "table.csv"
  table.write_text(content)
  np.savez(tmp_path / "out.npz", line=[2], vectors=[[0.5]])
  before = (tmp_path / "out.npz").read_bytes()
  assert run(table, tmp_path / "out.npz", f"--config.model.checkpoint={checkpoint}") == 2
  assert f"{table}{place}" in capsys.readouterr().err.splitlines()[-1]
  assert sorted(path.name for path in tmp_path.iterdir()) == ["out.npz", "table.csv"]
  assert (tmp_path / "out.npz").read_bytes() == before


@pytest.mark.parametrize("name", ["out.npz", "out.parquet"])
@pytest.mark.parametrize("is_readable", [False, True])
def test_another_file_is_not_replaced(is_readable, name, checkpoint, tmp_path, capsys):
  table, output, content = (
    table_of(tmp_path, ["ACD"]),
    tmp_path / name,
    {"line": [1], "vector": [2]},
  )
  if name == "out.parquet":
    pyarrow, parquet = map(pytest.importorskip, ("pyarrow", "pyarrow.parquet"))
  if not is_readable:
    output.write_text("line,vectors\n")
  elif name == "out.npz":
    np.savez(output, **content)
  else:
    parquet.write_table(pyarrow.table(content), output)
  before = output.read_bytes()
  given = f"--config.model.checkpoint={checkpoint}"
  assert run(table, output, given, "--dry-run") == 2
  error = capsys.readouterr().err.splitlines()[-1]
  assert "mode embed did not write the file that is there" in error
  assert f"{output}; move it away, or set --config.embed.output" in error
  assert output.read_bytes() == before
  output.write_bytes(b"")
  for _ in range(2):  # an empty file and its own are replaced
    assert run(table, output, given) == 0


def test_two_models_are_refused(finished, checkpoint, tmp_path, capsys):
  table = table_of(tmp_path, ["ACD"])
  two = (f"--workdir={finished}", f"--config.model.checkpoint={checkpoint}")
  assert run(table, tmp_path / "out.npz", *two) == 2
  assert "model.checkpoint" in capsys.readouterr().err
  one = (f"--workdir={finished}", "--config.mode=embed", "--config.model.checkpoint=None")
  assert run(table, tmp_path / "out.npz", *one, config="custom") == 0


def test_invalid_rows_are_left_out_and_told_once(checkpoint, tmp_path, caplog):
  table = table_of(tmp_path, ["ACD", '""', "AC"])
  found = vectors(table, checkpoint, "--config.task.skip_invalid")
  assert found["line"].tolist() == [2, 4]
  assert len([line for line in caplog.messages if "left out" in line]) == 1


def test_nothing_is_left_of_what_fails(checkpoint, tmp_path, monkeypatch, capsys):
  """The second window fails, or the table changes after it was looked through."""
  table = table_of(tmp_path, random_rows(300, 9))
  compute, calls = Embedding.vectors, []

  def failing(self, *args):
    calls.append(1)
    if len(calls) == 2:
      raise UserError("no more")
    return compute(self, *args)

  monkeypatch.setattr(Embedding, "vectors", failing)
  given = f"--config.model.checkpoint={checkpoint}"
  assert run(table, tmp_path / "out.npz", given) == 2
  assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]

  def changing(self, *args):
    with table.open("a") as file:
      file.write("ACD\n")
    return compute(self, *args)

  monkeypatch.setattr(Embedding, "vectors", changing)
  assert run(table, tmp_path / "out.npz", given) == 2
  assert f"{table}" in capsys.readouterr().err.splitlines()[-1]
  assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_a_change_before_the_first_reading_ends_is_seen(checkpoint, tmp_path, monkeypatch, capsys):
  table = table_of(tmp_path, ["ACD", "AC"])
  prepare = embed_module.each_unlabelled

  def changing(*args, **settings):
    samples = prepare(*args, **settings)  # has looked for blanks between letters
    table_of(tmp_path, ["ACD", "ACD"])
    return samples

  monkeypatch.setattr(embed_module, "each_unlabelled", changing)
  assert run(table, tmp_path / "out.npz", f"--config.model.checkpoint={checkpoint}") == 2
  assert f"{table}" in capsys.readouterr().err.splitlines()[-1]


def test_dry_run_writes_nothing(checkpoint, tmp_path, capsys):
  table = table_of(tmp_path, ["ACD", "A"])
  given = (f"--config.model.checkpoint={checkpoint}", "--dry-run")
  assert run(table, tmp_path / "out.npz", *given) == 0
  out = capsys.readouterr().out
  assert out.startswith(
    f"would write {tmp_path / 'out.npz'}: vectors of 2 rows of {table} (mean, layer"
  )
  assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_a_model_is_named_after_the_config():
  assert embed_config.get_config().model.checkpoint is None
  assert embed_config.get_config("minilm").model.checkpoint.endswith("MiniLM-L6-v2")
