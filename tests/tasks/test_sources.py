"""Tests of the registry of published files, and of how a missing one is downloaded, unpacked or made."""

import pytest

from discipline_jax import defaults, tasks
from discipline_jax.files.downloads import Source
from discipline_jax.tasks import sources
from discipline_jax.tasks.sources import ensure
from tests.files.web_server import Served, Server, zipped
from tests.serving import serving

CONTENT = b"content"


@pytest.fixture
def server(monkeypatch):
  monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
  monkeypatch.setenv("no_proxy", "*")
  with serving(Server()) as server:
    yield server


def names(folder):
  return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_the_real_splice_file_is_the_published_one(server, shared, tmp_path, monkeypatch):
  content = (shared / "data" / "dna" / "splice.txt").read_bytes()
  server.files["splice.txt"] = Served(content)
  published = sources.FILES["dna/splice.txt"]
  monkeypatch.setitem(
    sources.FILES, "dna/splice.txt", Source(server.url("splice.txt"), published.checksum)
  )
  ensure([tmp_path / "dna" / "splice.txt"], tmp_path)
  assert (tmp_path / "dna" / "splice.txt").read_bytes() == content


def serve_archive(server, monkeypatch, folder, members):
  """Serves an archive in place of the published one, under its name."""
  name = sources.ARCHIVES[folder].url.rpartition("/")[2]
  monkeypatch.setitem(sources.ARCHIVES, folder, server.source(name, zipped(members)))
  return name


@pytest.mark.parametrize(
  ("folder", "archive"), [("CoLA", "CoLA.zip"), ("QQP", "QQP-clean.zip"), ("QNLI", "QNLIv2.zip")]
)
def test_ensure_unpacks_glue(server, tmp_path, monkeypatch, folder, archive):
  members = {f"{folder}/train.tsv": b"t", f"{folder}/dev.tsv": b"d", f"{folder}/test.tsv": b"?"}
  assert serve_archive(server, monkeypatch, f"glue_data/{folder}", members) == archive
  root = tmp_path / "glue_data" / folder
  root.mkdir(parents=True)
  (root / "dev.tsv").write_bytes(b"mine")
  ensure([root / "train.tsv", root / "dev.tsv"], tmp_path)
  assert (root / "train.tsv").read_bytes() == b"t"
  assert (root / "dev.tsv").read_bytes() == b"mine"
  assert names(tmp_path) == sorted([archive, "dev.tsv", "train.tsv"])


def test_ensure_gets_the_table_of_maestro_and_then_its_pieces(server, tmp_path, monkeypatch):
  members = {
    "maestro-v1.0.0/maestro-v1.0.0.csv": b"table",
    "maestro-v1.0.0/2004/a.midi": b"a",
    "maestro-v1.0.0/2008/b.midi": b"b",
  }
  serve_archive(server, monkeypatch, "music/maestro-v1.0.0", members)
  music = tmp_path / "music"
  table, root = music / "maestro-v1.0.0.csv", music / "maestro-v1.0.0"
  ensure([table], tmp_path)
  assert table.read_bytes() == b"table"
  slip = root / ".." / ".." / ".." / "slip"
  ensure([table, root / "2004" / "a.midi", root / "2008" / "none.midi", slip], tmp_path)
  assert names(music) == ["a.midi", "maestro-v1.0.0-midi.zip", "maestro-v1.0.0.csv"]
  assert len(server.requests) == 1


def test_pieces_that_are_missing_are_fetched_unless_they_are_to_be_left_out(
  server, tmp_path, monkeypatch
):
  table = "canonical_composer,split,midi_filename\nx,train,a.midi\ny,validation,b.midi\n"
  members = {
    "maestro-v1.0.0/maestro-v1.0.0.csv": table.encode(),
    "maestro-v1.0.0/a.midi": b"a",
    "maestro-v1.0.0/b.midi": b"b",
  }
  serve_archive(server, monkeypatch, "music/maestro-v1.0.0", members)
  options = defaults.finetune().task
  options.skip_invalid = True
  root = tmp_path / "music" / "maestro-v1.0.0"
  tasks.fetch("music_composer", tmp_path, options)  # nothing is there yet
  assert names(root) == ["a.midi", "b.midi"]
  (root / "b.midi").unlink()
  tasks.fetch("music_composer", tmp_path, options)
  assert names(root) == ["a.midi"]
  options.skip_invalid = False
  tasks.fetch("music_composer", tmp_path, options)
  assert names(root) == ["a.midi", "b.midi"]
  options.skip_invalid = False
  monkeypatch.setitem(sources.FILES, "dna/H3.txt", server.source("H3.txt", CONTENT))
  tasks.fetch("dna_h3", tmp_path, options)
  assert (tmp_path / "dna" / "H3.txt").read_bytes() == CONTENT


def test_ensure_splits_mrpc_as_glue_does(server, shared, tmp_path, monkeypatch):
  given = shared / "data" / "glue_data" / "MRPC"
  dev = (given / "dev.tsv").read_bytes()
  ids = b"".join(b"\t".join(row.split(b"\t")[1:3]) + b"\n" for row in dev.splitlines()[1:])
  pairs = "glue_data/MRPC/msr_paraphrase_train.txt"
  server.files["pairs"] = Served((given / "msr_paraphrase_train.txt").read_bytes())
  monkeypatch.setitem(
    sources.FILES, pairs, Source(server.url("pairs"), sources.FILES[pairs].checksum)
  )
  monkeypatch.setitem(sources.FILES, "glue_data/MRPC/mrpc_dev_ids.tsv", server.source("ids", ids))
  folder = tmp_path / "glue_data" / "MRPC"
  ensure([folder / "train.tsv", folder / "dev.tsv"], tmp_path)
  assert (folder / "dev.tsv").read_bytes() == dev
  train = (folder / "train.tsv").read_bytes().splitlines()
  assert len(train) == 1 + 3668
  assert set((given / "train.tsv").read_bytes().splitlines()) <= set(train)


def test_ensure_leaves_alone_what_it_does_not_know(server, tmp_path):
  ensure(
    [tmp_path / "protein" / "stability_train.fa", tmp_path.parent / "dna" / "H3.txt"], tmp_path
  )
  assert list(tmp_path.iterdir()) == []


def test_ensure_downloads_nothing_offline(server, tmp_path, monkeypatch):
  monkeypatch.setenv("HF_HUB_OFFLINE", "1")
  monkeypatch.setitem(sources.FILES, "dna/H3.txt", server.source("H3.txt", CONTENT))
  ensure([tmp_path / "dna" / "H3.txt"], tmp_path)
  assert list(tmp_path.iterdir()) == []
  assert server.requests == []


def test_every_source_can_be_verified():
  for source in (*sources.FILES.values(), *sources.ARCHIVES.values()):
    kind, _, digest = source.checksum.partition(":")
    assert source.url.startswith("https://")
    assert len(digest) == {"sha256": 64, "git": 40}[kind]
    assert int(digest, 16)
