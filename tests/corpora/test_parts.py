"""Tests a corpus that is prepared in parts: it is the plain one, and what does not belong together is refused."""

import json
import os
import pathlib
import shutil

import numpy as np
import pytest

from discipline_jax.corpora import manifest, parts, ranges, text
from discipline_jax.corpora import prepare as module
from discipline_jax.corpora.parts import describe_merge, describe_part, make_part, merge
from discipline_jax.corpora.prepare import prepare
from discipline_jax.corpora.tasks import Worker, counts_file
from discipline_jax.corpora.workers import Processes
from discipline_jax.errors import UserError
from tests.corpora.small_text import content, small_config, write_text


@pytest.fixture(scope="module", autouse=True)
def _here():
  """Makes blocks small, and in this process: to start others takes seconds."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(ranges, "CHARACTERS", 1200)
    patch.setattr(
      Processes, "run", lambda self, task, arguments: (task(self._here, *one) for one in arguments)
    )
    yield


@pytest.fixture
def config(tmp_path):
  return small_config(tmp_path)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
  """Returns the files of the corpus that is prepared in one go."""
  folder = tmp_path_factory.mktemp("plain")
  found = content(prepare(small_config(folder)).directory)
  assert "train-24-0-00005.array_record" in found
  return found


def folder_of(config):
  (found,) = pathlib.Path(config.cache_dir).glob("corpora/*.parts")
  return found


@pytest.mark.parametrize(
  ("count", "order"), [(1, [1]), (3, [1, 2, 3]), (3, [3, 1, 2]), (12, range(1, 13))]
)
def test_parts_are_the_plain_corpus(config, plain, count, order):
  for part in order:
    assert make_part(config, part, count)["part"].startswith(f"{part} of {count}:")
  prepared = merge(config)
  assert content(prepared.directory) == plain
  assert prepare(config).directory == prepared.directory
  assert [one.name for one in prepared.directory.parent.iterdir() if one.name[0] != "."] == [
    prepared.directory.name
  ]
  assert make_part(config, 1, count)["folder"] == str(prepared.directory)
  assert merge(config).directory == prepared.directory


@pytest.mark.parametrize(
  "fields",
  [
    {"corpus.symbols": "words"},
    {"corpus.name": "uniform", "corpus.path": None, "corpus.lines": 60, "objective.kind": "mlm"},
    {"corpus.draws": 1, "objective.kind": "mlm_sop"},
  ],
)
def test_other_corpora_in_parts(config, tmp_path, fields, monkeypatch):
  from discipline_jax.corpora import blocks

  monkeypatch.setattr(blocks, "_LINES", 20)
  config.corpus.length = (128,)
  with config.ignore_type():
    config.update_from_flattened_dict(fields)
  if config.corpus.symbols:
    config.model.config.vocab_size = None
    config.objective.kind = "mlm"
  for part in (2, 1):
    make_part(config, part, 2)
  merged = content(merge(config).directory)
  config.cache_dir = str(tmp_path / "another")
  assert content(prepare(config).directory) == merged
  assert "train-128-0-00001.array_record" in merged


def test_frequencies_of_a_text_in_parts(config, tmp_path):
  vocabulary = prepare(config).directory
  config.corpus.update(name="flat", vocabulary=str(vocabulary), lines=60, length=(128,), draws=1)
  config.objective.kind = "mlm"
  make_part(config, 1, 1)
  merged = content(merge(config).directory)
  config.cache_dir = str(tmp_path / "another")
  assert content(prepare(config).directory) == merged


def test_a_part_counts_what_the_others_have_not(config, monkeypatch):
  """The first part counts its own words first, then those of the others from the end; the second counts none."""
  counted = []
  count = Worker.count

  def spy(worker, number, content):
    counted.append(number)
    return count(worker, number, content)

  monkeypatch.setattr(Worker, "count", spy)
  make_part(config, 2, 3)
  blocks = len(manifest.Manifest.read(folder_of(config)).blocks)
  own = range(blocks // 3, 2 * blocks // 3)
  assert counted == [*own, *(i for i in reversed(range(blocks)) if i not in own)]
  make_part(config, 1, 3)
  assert len(counted) == blocks


def test_a_part_goes_on_where_it_was_stopped(config, plain, monkeypatch):
  write = Worker.write

  def stopped(worker, number, *arguments):
    if number == 1:
      raise KeyboardInterrupt
    return write(worker, number, *arguments)

  monkeypatch.setattr(Worker, "write", stopped)
  with pytest.raises(KeyboardInterrupt):
    make_part(config, 1, 1)
  first = counts_file(folder_of(config), 0)
  before = first.stat().st_mtime_ns
  with pytest.raises(UserError, match=r"--part=1/1$"):
    merge(config)
  monkeypatch.setattr(Worker, "write", write)
  make_part(config, 1, 1)
  assert first.stat().st_mtime_ns == before
  assert content(merge(config).directory) == plain


def test_missing_parts_are_named(config):
  make_part(config, 2, 4)
  with pytest.raises(UserError, match=r"--part=1/4 and --part=3/4 and --part=4/4$"):
    merge(config)


def test_another_number_of_parts(config):
  make_part(config, 1, 3)
  with pytest.raises(UserError, match=f"--part=1/4.* 3 .*{folder_of(config)}.*I/3"):
    make_part(config, 1, 4)


def test_parts_of_another_config(config):
  make_part(config, 1, 1)
  folder = folder_of(config)
  config.corpus.draws = 1
  with pytest.raises(UserError, match=f"{folder} .*draws 2 .*1"):
    merge(config)


def test_no_parts(config):
  with pytest.raises(UserError, match=r"--part=1/N"):
    merge(config)


def changed_manifest(config, change):
  path = folder_of(config) / manifest.NAME
  fields = json.loads(path.read_text())
  change(fields)
  path.write_text(json.dumps(fields))


@pytest.mark.parametrize("command", [merge, lambda config: make_part(config, 1, 1)])
@pytest.mark.parametrize(
  ("change", "facts"),
  [
    (lambda fields: fields["versions"].update(tokenizers="0.1"), "tokenizers 0.1"),
    (lambda fields: fields["versions"].update({"discipline_jax.corpora": "1+0"}), r"corpora 1\+0"),
    (lambda fields: fields["settings"].update(seed=7), "seed 7 .*0"),
    (lambda fields: fields.pop("lines"), "KeyError"),
  ],
)
def test_parts_of_another_version_or_config(config, command, change, facts):
  make_part(config, 1, 1)
  changed_manifest(config, change)
  with pytest.raises(UserError, match=f"{facts}.*{folder_of(config)}"):
    command(config)


@pytest.mark.parametrize("command", [merge, lambda config: make_part(config, 1, 2)])
def test_files_that_changed(config, tmp_path, command, plain):
  folder = tmp_path / "texts"
  folder.mkdir()
  path = pathlib.Path(config.corpus.path).replace(folder / "a.txt")
  config.corpus.path = str(folder)
  for part in (1, 2):
    make_part(config, part, 2)
  os.utime(path, (0, 0))  # touched, and not changed
  make_part(config, 1, 2)
  (folder / "b.txt").write_text("One.\n")
  with pytest.raises(UserError, match=f"{folder / 'b.txt'} .*{folder_of(config)}"):
    command(config)
  (folder / "b.txt").unlink()
  text = path.read_text()
  path.write_text(text.replace("d3", "d4"))
  with pytest.raises(UserError, match=f"{path} .*{folder_of(config)}"):
    command(config)
  path.rename(folder / "c.txt")
  with pytest.raises(UserError, match=f"{path} .*{folder_of(config)}"):
    command(config)
  (folder / "c.txt").rename(path)
  path.write_text(text)
  assert content(merge(config).directory) == plain


def test_blocks_of_another_manifest(config, tmp_path, plain):
  for part in (1, 2):
    make_part(config, part, 2)
  path = counts_file(folder_of(config), 0)
  counts = dict(np.load(path))
  np.savez(path, **counts | {"made_with": np.array("0123456789abcdef")})
  with pytest.raises(UserError, match=f"{path}; .*--part=1/2"):
    merge(config)
  path.unlink()  # the remedy
  make_part(config, 1, 2)
  last = max(folder_of(config).glob("*.array_record"))
  number = int(last.stem[-5:])
  last.unlink()
  path = counts_file(folder_of(config), number)
  with pytest.raises(UserError, match=f"{last.name} .*{path}, .*--part=2/2"):
    merge(config)
  path.unlink()
  make_part(config, 2, 2)
  assert content(merge(config).directory) == plain


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_stopped_merge_is_no_corpus_of_another_text(config, plain, monkeypatch, moment):
  """It is stopped just before the folder is moved to its place, or just after that."""
  make_part(config, 1, 1)
  path = pathlib.Path(config.corpus.path)
  text = path.read_text()

  replace = pathlib.Path.replace

  def stopped(path, target):
    if path.suffix != ".parts":
      return replace(path, target)
    if moment == "after":
      replace(path, target)
    raise KeyboardInterrupt

  with monkeypatch.context() as patch:
    patch.setattr(pathlib.Path, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
      merge(config)
  path.write_text(text.replace("d3", "d4"))
  corpora = sorted(pathlib.Path(config.cache_dir, "corpora").iterdir())
  with pytest.raises(UserError, match=rf"{path} has changed|--part=1/N"):
    merge(config)
  now = sorted(pathlib.Path(config.cache_dir, "corpora").iterdir())
  assert [one for one in now if one.suffix != ".lock"] == [
    one for one in corpora if one.suffix != ".lock"
  ]
  path.write_text(text)
  if moment == "after":
    assert (prepare(config).directory / "corpus.json").is_file(), "found with what was left"
  assert content(merge(config).directory) == plain


def test_what_is_left_in_a_corpus_is_cleared_away(config, plain):
  """The files of tasks in a finished one, and what a stopped upload left in the place of one."""
  directory = prepare(config).directory
  (directory / "work" / "blocks").mkdir(parents=True)
  assert content(prepare(config).directory) == plain
  (directory / "corpus.json").unlink()
  (directory / "work" / "blocks").mkdir(parents=True)
  assert content(prepare(config).directory) == plain


def test_a_folder_without_a_manifest_is_begun_anew(config, plain):
  make_part(config, 1, 1)
  folder = folder_of(config)
  (folder / manifest.NAME).unlink()
  for name in ("tokenizer.json", "train-24-0-00099.array_record"):
    (folder / name).write_text("{}")
  make_part(config, 1, 1)
  assert content(merge(config).directory) == plain


def test_a_merge_beside_a_corpus_that_is_there(config, plain):
  make_part(config, 1, 1)
  copy = folder_of(config).with_name("copy")
  shutil.copytree(folder_of(config), copy)
  directory = merge(config).directory
  copy.rename(directory.with_name(parts._begin(config)[1].name))
  assert merge(config).directory == directory
  assert content(directory) == plain


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/3/3", ""])
def test_parts_that_are_none(text):
  with pytest.raises(UserError, match="--part"):
    parts.parse_part(text)


def test_the_command(tmp_path, capsys, testdata):
  command = [
    "prepare",
    f"--config={testdata / 'tiny_pretrain.py'}",
    f"--config.cache_dir={tmp_path / 'cache'}",
  ]
  with pytest.raises(UserError, match="--part and --merge"):
    module.main([*command, "--part=1/2", "--merge"])
  with pytest.raises(UserError, match="--runner"):
    module.main([*command, "--", "--direct_num_workers=2"])
  module.main([*command, "--part=1/2", "--dry-run"])
  assert not (tmp_path / "cache").exists()
  for part in ("1/2", "2/2"):
    module.main([*command, f"--part={part}"])
  module.main([*command, "--merge", "--dry-run"])
  assert "2 parts" in capsys.readouterr().out
  module.main([*command, "--merge"])
  lines = capsys.readouterr().out.splitlines()
  assert pathlib.Path(lines[-1].removeprefix("folder").strip()).is_dir()


def test_a_given_corpus_has_no_parts(config):
  config.corpus.path = str(prepare(config).directory)
  with pytest.raises(UserError, match=f"{config.corpus.path};"):
    make_part(config, 1, 2)


def test_a_text_that_changes_while_it_is_prepared(config, monkeypatch):
  path = pathlib.Path(config.corpus.path)
  write = Worker.write

  def changing(worker, number, *arguments):
    write_text(path, 31)
    return write(worker, number, *arguments)

  monkeypatch.setattr(Worker, "write", changing)
  with pytest.raises(UserError, match=f"{path} "):
    prepare(config)


def test_a_text_that_changes_while_it_is_hashed(config, monkeypatch):
  path = pathlib.Path(config.corpus.path)
  digests = manifest.file_digests

  def changing(files):
    found = digests(files)
    monkeypatch.setattr(manifest, "file_digests", digests)
    write_text(path, 31)
    return found

  monkeypatch.setattr(manifest, "file_digests", changing)
  with pytest.raises(UserError, match=f"{path} has changed"):
    prepare(config)


def test_a_text_that_is_gone_when_it_is_hashed(config, monkeypatch):
  path = pathlib.Path(config.corpus.path)
  digests = manifest.file_digests

  def vanishing(files):
    path.unlink()
    return digests(files)

  monkeypatch.setattr(manifest, "file_digests", vanishing)
  with pytest.raises(UserError, match=f"{path};"):
    prepare(config)


def test_a_text_that_is_gone_when_it_is_read_on(config, monkeypatch):
  path = pathlib.Path(config.corpus.path)
  count, text_format = Worker.count, text.text_format

  def vanishing(path):
    found = text_format(path)
    path.unlink()
    return found

  def spy(worker, number, content):
    assert content.offset > 0, "it would be read from its start"
    monkeypatch.setattr(text, "text_format", vanishing)
    return count(worker, number, content)

  monkeypatch.setattr(Worker, "count", spy)
  with pytest.raises(UserError, match=f"{path} is gone"):
    prepare(config)


def test_what_would_be_done(config):
  """It is said by the same checks, and nothing is written."""
  assert describe_part(config, 1, 3)["part"].startswith("1 of 3: begins")
  assert "--part=1/N" in describe_merge(config)["merge"]
  assert not pathlib.Path(config.cache_dir).exists()
  make_part(config, 2, 3)
  folder = folder_of(config)
  files = sorted(folder.rglob("*"))
  blocks = len(manifest.Manifest.read(folder).blocks)
  own = blocks - 2 * blocks // 3
  assert f": {own} of its {own} blocks" in describe_part(config, 3, 3)["part"]
  assert ": 0 of its" in describe_part(config, 2, 3)["part"]
  with pytest.raises(UserError, match="--part=1/4"):
    describe_part(config, 1, 4)
  with pytest.raises(UserError, match="--part=1/3 and --part=3/3$"):
    describe_merge(config)
  assert sorted(folder.rglob("*")) == files
  for part in (1, 3):
    make_part(config, part, 3)
  assert f"{blocks} blocks" in describe_merge(config)["merge"]
  assert folder.is_dir()
