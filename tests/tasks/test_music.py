"""Music: the table and the MIDI files as they are published, and as they are not; segments by hand."""

import csv
import re
import shutil

import numpy as np
import pytest
import symusic

from discipline_jax import tasks
from discipline_jax.errors import UserError
from discipline_jax.models.tokenizer import make_vocabulary
from discipline_jax.tasks.features import featurise
from discipline_jax.tasks.music import composer, read_notes, segments

COLUMNS = (
  "canonical_composer",
  "canonical_title",
  "split",
  "year",
  "midi_filename",
  "audio_filename",
  "duration",
)
HEADER = ",".join(COLUMNS)
# onset, duration, pitch: one after the other, pitches in turn
SCALE = [(10 * i, 10, 40 + i % 50) for i in range(128)]
ROWS = "Bach,T,train,2004,a.midi,a.wav,1\nLiszt,T,validation,2004,b.midi,b.wav,1\nLiszt,T,test,2004,c.midi,c.wav,1\n"
TABLE = f"{HEADER}\n{ROWS}"


def write_midi(path, *tracks: list[tuple[int, int, int]]):
  score = symusic.Score(480, ttype="tick")
  for notes in tracks:
    track = symusic.Track("", 0, False, ttype="tick")
    for onset, duration, pitch in notes:
      track.notes.append(symusic.Note(onset, duration, pitch, 64, ttype="tick"))
    score.tracks.append(track)
  path.parent.mkdir(parents=True, exist_ok=True)
  score.dump_midi(path)


def make(data_dir, table: str | bytes = TABLE, **options):
  """A task over that table and the files a, b and c, of a segment each."""
  folder = data_dir / "music" / "maestro-v1.0.0"
  for name in "abc":
    write_midi(folder / f"{name}.midi", SCALE)
  path = folder.with_suffix(".0.csv")
  path.write_bytes(table.encode() if isinstance(table, str) else table)
  return composer(data_dir, **options)


def check(data_dir, table: str | bytes, message: str):
  with pytest.raises(UserError, match=message) as caught:
    make(data_dir, table)
  assert "\n" not in str(caught.value)


def cut(path, *, sort_by="segment", **options) -> list[list[int]]:
  """The segments of a file."""
  notes = read_notes(path, "table:2", by_onset=sort_by == "piece")
  return [segment.tolist() for segment in segments(notes, **options)]


def test_a_task_by_hand(tmp_path):
  task = make(tmp_path)
  assert task.labels == ("Bach", "Liszt")
  assert (task.bracketed, task.vote, task.metric) == (False, "majority", "accuracy")
  parts = task.read()
  assert [(name, [(e.label, e.piece) for e in part]) for name, part in parts.items()] == [
    ("train", [(0, 0)]),
    ("validation", [(1, 1)]),
    ("test", [(1, 2)]),
  ]
  features = featurise(task, make_vocabulary([], 256), task.max_length)
  pitches = [40 + i % 50 for i in range(128)]
  # neither [CLS] nor [SEP], and pitch p has the id 128 + p
  np.testing.assert_array_equal(
    features.symbol_ids[features.symbols], [[128 + p for p in pitches]] * 3
  )
  np.testing.assert_array_equal(features.pieces, [0, 1, 2])


def test_all_composers_of_the_table_are_classes(tmp_path):
  """Also those of whom there is no training piece, and in alphabetical order."""
  rows = ROWS.replace("Bach", "Zelenka", 1)
  assert make(tmp_path, f"{HEADER}\n{rows}").labels == ("Liszt", "Zelenka")


class TestSegments:
  # begins first, ends last
  LONG = (0, 5000, 30)
  SHORT = tuple((10 * i + 5, 3, 40 + i % 50) for i in range(128))
  PITCHES = tuple(40 + i % 50 for i in range(128))

  def test_notes_are_cut_in_the_order_in_which_they_end(self, tmp_path):
    write_midi(tmp_path / "a.midi", [self.LONG, *self.SHORT])
    assert cut(tmp_path / "a.midi") == [list(self.PITCHES)]

  def test_the_last_segment_may_be_kept(self, tmp_path):
    write_midi(tmp_path / "a.midi", [self.LONG, *self.SHORT])
    assert cut(tmp_path / "a.midi", keep_last=True) == [list(self.PITCHES), [30]]

  def test_or_all_notes_are_sorted_by_onset_first(self, tmp_path):
    write_midi(tmp_path / "a.midi", [self.LONG, *self.SHORT])
    assert cut(tmp_path / "a.midi", sort_by="piece") == [[30, *self.PITCHES[:127]]]
    assert cut(tmp_path / "a.midi", sort_by="piece", keep_last=True) == [
      [30, *self.PITCHES[:127]],
      [self.PITCHES[127]],
    ]

  def test_a_segment_is_sorted_by_onset(self, tmp_path):
    # the long note ends before the last of the short ones
    write_midi(tmp_path / "a.midi", [(0, 1271, 30), *self.SHORT[:127]])
    assert cut(tmp_path / "a.midi") == [[30, *self.PITCHES[:127]]]

  def test_whole_segments_have_no_rest(self, tmp_path):
    write_midi(tmp_path / "a.midi", [(10 * i, 5, i % 100) for i in range(256)])
    whole = [[i % 100 for i in range(128)], [i % 100 for i in range(128, 256)]]
    for keep_last in (False, True):
      assert cut(tmp_path / "a.midi", keep_last=keep_last) == whole

  @pytest.mark.parametrize("sort_by", ["segment", "piece"])
  def test_as_plain_python_has_it(self, tmp_path, sort_by):
    rng = np.random.default_rng(0)
    onsets = rng.permutation(4000)[:700].tolist()
    ends = (4001 + rng.permutation(4000)[:700]).tolist()  # all unlike, and unlike all onsets
    # each pitch once at a time, for MIDI cannot tell its notes apart: spread over five stretches
    notes = [
      (10_000 * (i // 128) + onset, end - onset, i % 128)
      for i, (onset, end) in enumerate(zip(onsets, ends, strict=True))
    ]
    write_midi(tmp_path / "a.midi", notes)
    order = sorted(notes, key=lambda note: note[0] + (note[1] if sort_by == "segment" else 0))
    parts = [order[start : start + 128] for start in range(0, 700, 128)]
    expected = [[pitch for _, _, pitch in sorted(part)] for part in parts]
    assert cut(tmp_path / "a.midi", sort_by=sort_by, keep_last=True) == expected
    assert cut(tmp_path / "a.midi", sort_by=sort_by) == expected[:5]

  def test_only_the_first_instrument_counts(self, tmp_path):
    write_midi(tmp_path / "a.midi", SCALE, [(5 * i, 2, 20) for i in range(300)])
    assert cut(tmp_path / "a.midi") == [list(self.PITCHES)]

  def test_options_reach_the_task(self, tmp_path):
    for options, lengths in (
      ({}, [128]),
      ({"keep_last_segment": True}, [128, 1]),
      ({"sort_by": "piece"}, [128]),
    ):
      task = make(tmp_path, **options, vote="first")
      write_midi(task.files[1], [self.LONG, *self.SHORT])
      train = task.read()["train"]
      assert [len(example.sequence) for example in train] == lengths
      assert (train[0].sequence[0] == 30) == (options.get("sort_by") == "piece")
      assert task.vote == "first"


@pytest.mark.parametrize(
  ("options", "message"),
  [
    ({"sort_by": "pitch"}, "task.sort_by = 'pitch' is not one of: segment, piece"),
    ({"vote": "mean"}, "task.vote = 'mean' is not one of: majority, first"),
  ],
)
def test_unknown_options(tmp_path, options, message):
  with pytest.raises(UserError, match=message):
    make(tmp_path, **options)


@pytest.mark.parametrize(
  "change",
  [
    lambda text: "\ufeff" + text,
    lambda text: text.replace("\n", "\r\n"),
    lambda text: text.replace("\n", "\n\n"),
    lambda text: text.rstrip("\n"),
    lambda text: text.replace("T,train", '"T, in ""C""\t1",train'),
    lambda text: text.replace("T,train", '"T\nin C",train'),
    lambda text: text.replace("T,train", f"{'T' * 50_000},train"),
  ],
  ids=[
    "byte_order_mark",
    "crlf",
    "blank_lines",
    "no_last_newline",
    "quoted_comma_quote_and_tab",
    "quoted_newline",
    "50000_letters",
  ],
)
def test_harmless_differences_change_nothing(tmp_path, change):
  expected, found = make(tmp_path), make(tmp_path, change(TABLE))
  assert (found.labels, found.files) == (expected.labels, expected.files)
  for one, other in zip(found.read().values(), expected.read().values(), strict=True):
    assert [(e.label, e.piece, e.sequence.tolist()) for e in one] == [
      (e.label, e.piece, e.sequence.tolist()) for e in other
    ]


@pytest.mark.parametrize(
  ("line", "message"),
  [
    ("Bach,T,train,2004,../../x,a.wav,1", r"'\.\./\.\./x' is outside .*maestro-v1\.0\.0"),
    ("Bach,T,train,2004,/etc/passwd,a.wav,1", "'/etc/passwd' is outside "),
    ("Bach,T,train,2004,a/../../x.midi,a.wav,1", r"'a/\.\./\.\./x\.midi' is outside "),
    (",T,train,2004,a.midi,a.wav,1", "a row needs composer, file, and a split"),
    ("Bach,T,train,2004,,a.wav,1", "a row needs composer, file, and a split"),
    ("Bach,T,dev,2004,a.midi,a.wav,1", "a split of train, validation, test"),
    ("Bach,T,,2004,a.midi,a.wav,1", "a split of train, validation, test"),
    ("Bach,T,train,2004", "4 fields where the header has 7"),
    ("Bach,T,train,2004,a.midi,a.wav", "6 fields where the header has 7"),
    ("Bach,T, in C,train,2004,a.midi,a.wav,1", "8 fields where the header has 7"),
    ("Ba\0ch,T,train,2004,a.midi,a.wav,1", "a NUL character"),
    ("Bach,T,train,2004,a\0.midi,a.wav,1", "a NUL character"),
    ('Bach,"T" x,train,2004,a.midi,a.wav,1', "not a CSV line"),
    ('Bach,"T,train,2004,a.midi,a.wav,1', "not a CSV line"),
  ],
)
def test_bad_lines_of_the_table(tmp_path, line, message):
  check(tmp_path, f"{TABLE}{line}\n", rf"{message}.*maestro-v1\.0\.0\.csv:5; ")


def test_lines_are_counted_as_an_editor_counts_them(tmp_path):
  table = TABLE.replace("T,train", '"T\n\nin C",train')
  check(tmp_path, f"{table},T,train,2004,a.midi,a.wav,1\n", r"a row needs .*\.csv:7; ")


@pytest.mark.parametrize(
  ("old", "new", "message"),
  [
    ("canonical_composer", "composer", "0 columns 'canonical_composer'"),
    ("duration", "split", "2 columns 'split'"),
    ("audio_filename", "midi_filename", "2 columns 'midi_filename'"),
    (f"{HEADER}\n", "", "0 columns 'canonical_composer'"),
    (",", "\t", "0 columns 'canonical_composer'"),
  ],
)
def test_bad_headers(tmp_path, old, new, message):
  check(tmp_path, TABLE.replace(old, new), rf"{message}, .*maestro-v1\.0\.0\.csv:1; get maestro")


def test_unusable_tables_say_where_to_get_the_right_one(tmp_path):
  get_it = (
    r"get maestro-v1.0.0.csv and maestro-v1.0.0-midi.zip \(magenta.*, unpack them into .*music,"
    " or set --config.data_dir"
  )
  with pytest.raises(UserError, match=rf"no file .*music/maestro-v1\.0\.0\.csv; {get_it}"):
    composer(tmp_path)
  check(tmp_path, "", f"empty file, .*; {get_it}")
  check(tmp_path, "\ufeff\r\n", "empty file, ")
  check(tmp_path, f"{HEADER}\n", rf"no piece, .*maestro-v1\.0\.0\.csv; {get_it}")
  latin = TABLE.replace("Liszt", "Fauré", 1).encode("latin-1")
  check(tmp_path, latin, r"not UTF-8 text, .*maestro-v1\.0\.0\.csv:3; ")


def garbage(path):
  path.write_bytes(bytes(range(256)) * 10)


def truncated(path):
  path.write_bytes(path.read_bytes()[:-200])


def only_a_header(path):
  path.write_bytes(path.read_bytes()[:14])


def bad_pitch(path):
  content = path.read_bytes()
  path.write_bytes(content.replace(bytes([0x90, 40, 64]), bytes([0x90, 200, 64]), 1))
  assert path.read_bytes() != content


def folder(path):
  path.unlink()
  path.mkdir()


@pytest.mark.parametrize(
  ("damage", "message"),
  [
    (lambda path: path.unlink(), "not a readable MIDI file"),
    (lambda path: path.write_bytes(b""), "not a readable MIDI file"),
    (garbage, "not a readable MIDI file"),
    (truncated, "not a readable MIDI file"),
    (bad_pitch, "not a readable MIDI file"),
    (folder, "not a readable MIDI file"),
    (only_a_header, "no notes"),
    (lambda path: write_midi(path), "no notes"),
    (lambda path: write_midi(path, []), "no notes"),
  ],
  ids=[
    "missing",
    "empty",
    "garbage",
    "truncated",
    "bad_pitch",
    "folder",
    "only_a_header",
    "no_track",
    "no_notes",
  ],
)
def test_bad_midi_files(tmp_path, capfd, damage, message):
  task = make(tmp_path)
  damage(task.files[2])
  with pytest.raises(
    UserError,
    match=rf"{message}.*/b\.midi, named in .*maestro-v1\.0\.0\.csv:3; download it again, or set task.skip_invalid",
  ) as caught:
    task.read()
  assert "\n" not in str(caught.value)
  assert capfd.readouterr() == ("", "")


def test_a_file_is_read_as_midi_whatever_its_suffix(tmp_path, capfd):
  """Not as the notation in letters, for which the reader starts another program."""
  task = make(tmp_path, TABLE.replace("a.midi", "a.abc"))
  shutil.copy(task.files[2], task.files[1])
  assert len(task.read()["train"]) == 1
  task.files[1].write_text("X:1\nK:C\nCDEF\n")
  with pytest.raises(UserError, match=r"not a readable MIDI file .*a\.abc"):
    task.read()
  assert capfd.readouterr() == ("", "")


def test_invalid_files_can_be_left_out_and_are_counted(tmp_path, caplog):
  more = "Chopin,T,train,2004,d.midi,d.wav,1\nChopin,T,train,2004,b.midi,b.wav,1\n"
  task = make(tmp_path, TABLE + more + more.replace("d.midi", "e.midi"), skip_invalid=True)
  garbage(task.files[4].with_name("e.midi"))
  parts = task.read()
  # pieces keep the numbers of their rows
  assert [(e.label, e.piece) for e in parts["train"]] == [(0, 0), (1, 4), (1, 6)]
  assert re.search(
    r"2 pieces of \S*maestro-v1\.0\.0\.csv are left out; the first: .*d\.midi, named in \S*csv:5;",
    caplog.text,
  )
  # their composers stay classes: the head is of the same size whatever is missing
  assert task.labels == ("Bach", "Chopin", "Liszt")


def test_pieces_without_a_segment_are_counted(tmp_path, caplog):
  task = make(tmp_path, f"{TABLE}Bach,T,train,2004,d.midi,d.wav,1\n")
  write_midi(task.files[4], SCALE[:127])
  assert [e.piece for e in task.read()["train"]] == [0]
  assert "1 pieces of " in caplog.text
  assert "have under 128 notes and are left out" in caplog.text


def test_a_part_without_a_piece_is_an_error(tmp_path):
  task = make(tmp_path)
  write_midi(task.files[3], SCALE[:127])
  with pytest.raises(UserError, match="no piece of the test part has 128 notes, .*csv; give"):
    task.read()


def test_counts_of_the_real_files(shared):
  task = tasks.get("music_composer", shared / "data")
  assert (len(task.labels), len(task.files)) == (14, 1 + 397)
  parts = task.read()
  assert {name: len({e.piece for e in part}) for name, part in parts.items()} == {
    "train": 316,
    "validation": 38,
    "test": 43,
  }
  assert all(len(e.sequence) == 128 for part in parts.values() for e in part)
  with (shared / "data" / "music" / "maestro-v1.0.0.csv").open(encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
  for part, examples in parts.items():
    for example in examples:
      row = rows[example.piece]
      assert (row["split"], row["canonical_composer"]) == (part, task.labels[int(example.label)])


def test_the_real_table_in_full(shared, tmp_path, caplog):
  """It names 1,184 pieces, of which 397 are there."""
  music = tmp_path / "music"
  music.mkdir()
  shutil.copy(shared / "data/music/maestro-v1.0.0-full.csv", music / "maestro-v1.0.0.csv")
  (music / "maestro-v1.0.0").symlink_to(shared / "data/music/maestro-v1.0.0")
  task = composer(tmp_path, skip_invalid=True)
  assert (len(task.labels), len(task.files)) == (58, 1 + 954 + 105 + 125)
  parts = task.read()
  assert {name: len({e.piece for e in part}) for name, part in parts.items()} == {
    "train": 316,
    "validation": 38,
    "test": 43,
  }
  assert "787 pieces of " in caplog.text
