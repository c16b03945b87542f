"""Tests the music task on published, harmlessly changed and wrong tables and MIDI files."""

import csv
import re
import shutil

import numpy as np
import pytest

from discipline_jax import tasks
from discipline_jax.errors import UserError
from discipline_jax.models.tokenizer import make_vocabulary
from discipline_jax.tasks.features import featurise
from discipline_jax.tasks.music import composer
from tests.tasks.small_music import HEADER, ROWS, SCALE, TABLE, make, write_midi


def check(data_dir, table: str | bytes, facts: str):
  """Checks that this table raises a UserError in one line with these facts."""
  with pytest.raises(UserError, match=facts) as caught:
    make(data_dir, table)
  assert "\n" not in str(caught.value)


def test_a_task_by_hand(tmp_path):
  task = make(tmp_path)
  assert task.answer.labels == ("Bach", "Liszt")
  assert (task.add_special_tokens, task.answer.vote, task.answer.metric) == (
    False,
    "majority",
    "accuracy",
  )
  parts = task.read()
  assert [(name, [(e.label, e.group) for e in part]) for name, part in parts.items()] == [
    ("train", [(0, 0)]),
    ("validation", [(1, 1)]),
    ("test", [(1, 2)]),
  ]
  features = featurise(task, make_vocabulary([], 256), task.max_length)
  pitches = [40 + i % 50 for i in range(128)]
  # There is no [CLS] and no [SEP], and pitch p has the id 128 + p.
  np.testing.assert_array_equal(
    features.symbol_ids[features.symbols], [[128 + p for p in pitches]] * 3
  )
  np.testing.assert_array_equal(features.groups, [0, 1, 2])


def test_all_composers_of_the_table_are_classes(tmp_path):
  """Composers without a training piece are classes too. The order is alphabetical."""
  rows = ROWS.replace("Bach", "Zelenka", 1)
  assert make(tmp_path, f"{HEADER}\n{rows}").answer.labels == ("Liszt", "Zelenka")


@pytest.mark.parametrize(
  ("options", "facts"),
  [
    ({"sort_by": "pitch"}, "task.sort_by = 'pitch' .*segment, piece"),
    ({"vote": "mean"}, "task.vote = 'mean' .*majority, first"),
  ],
)
def test_unknown_options(tmp_path, options, facts):
  with pytest.raises(UserError, match=facts):
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
  assert (found.answer.labels, found.files) == (expected.answer.labels, expected.files)
  for one, other in zip(found.read().values(), expected.read().values(), strict=True):
    assert [(e.label, e.group, e.sequence.tolist()) for e in one] == [
      (e.label, e.group, e.sequence.tolist()) for e in other
    ]


@pytest.mark.parametrize(
  ("line", "fact"),
  [
    ("Bach,T,train,2004,../../x,a.wav,1", r"'\.\./\.\./x' .*/music/maestro-v1\.0\.0, "),
    ("Bach,T,train,2004,/etc/passwd,a.wav,1", r"'/etc/passwd' .*/music/maestro-v1\.0\.0, "),
    ("Bach,T,train,2004,a/../../x.midi,a.wav,1", r"'a/\.\./\.\./x\.midi' .*/music/maestro-v1\.0\.0, "),
    (",T,train,2004,a.midi,a.wav,1", "canonical_composer=''.*split='train'.*midi_filename='a.midi'"),
    ("Bach,T,train,2004,,a.wav,1", "canonical_composer='Bach'.*split='train'.*midi_filename=''"),
    ("Bach,T,dev,2004,a.midi,a.wav,1", "split='dev'.*train, validation, test"),
    ("Bach,T,,2004,a.midi,a.wav,1", "split=''.*train, validation, test"),
    ("Bach,T,train,2004", "4 .*7"),
    ("Bach,T,train,2004,a.midi,a.wav", "6 .*7"),
    ("Bach,T, in C,train,2004,a.midi,a.wav,1", "8 .*7"),
    ("Ba\0ch,T,train,2004,a.midi,a.wav,1", "NUL"),
    ("Bach,T,train,2004,a\0.midi,a.wav,1", "NUL"),
    ('Bach,"T" x,train,2004,a.midi,a.wav,1', "',' expected after '\"'"),
    ('Bach,"T,train,2004,a.midi,a.wav,1', "unexpected end"),
  ],
)  # fmt: skip
def test_bad_lines_of_the_table(tmp_path, line, fact):
  check(tmp_path, f"{TABLE}{line}\n", rf"{fact}.*{tmp_path}/music/maestro-v1\.0\.0\.csv:5; ")


def test_lines_are_counted_as_in_an_editor(tmp_path):
  table = TABLE.replace("T,train", '"T\n\nin C",train')
  check(tmp_path, f"{table},T,train,2004,a.midi,a.wav,1\n", r"composer=''.*\.csv:7; ")


@pytest.mark.parametrize(
  ("old", "new", "facts"),
  [
    ("canonical_composer", "composer", "0 .*'canonical_composer'"),
    ("duration", "split", "2 .*'split'"),
    ("audio_filename", "midi_filename", "2 .*'midi_filename'"),
    (f"{HEADER}\n", "", "0 .*'canonical_composer'"),
    (",", "\t", "0 .*'canonical_composer'"),
  ],
)
def test_bad_headers(tmp_path, old, new, facts):
  place = rf"{tmp_path}/music/maestro-v1\.0\.0\.csv:1; "
  check(tmp_path, TABLE.replace(old, new), rf"{facts}.*, {place}.*maestro-v1.0.0-midi.zip")


def test_errors_of_unusable_tables_say_where_to_get_the_right_one(tmp_path):
  path = rf"{tmp_path}/music/maestro-v1\.0\.0\.csv"
  get_it = (
    rf"{path}; .*maestro-v1.0.0.csv .*maestro-v1.0.0-midi.zip \(magenta.*{tmp_path}/music,.*"
    "--config.data_dir"
  )
  with pytest.raises(UserError, match=get_it):
    composer(tmp_path)
  check(tmp_path, "", get_it)
  check(tmp_path, "\ufeff\r\n", get_it)
  check(tmp_path, f"{HEADER}\n", get_it)
  latin = TABLE.replace("Liszt", "Fauré", 1).encode("latin-1")
  check(tmp_path, latin, rf"UTF-8.*, {path}:3; ")


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
  ("damage", "is_midi"),
  [
    (lambda path: path.unlink(), False),
    (lambda path: path.write_bytes(b""), False),
    (garbage, False),
    (truncated, False),
    (bad_pitch, False),
    (folder, False),
    (only_a_header, True),
    (lambda path: write_midi(path), True),
    (lambda path: write_midi(path, []), True),
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
def test_bad_midi_files(tmp_path, capfd, damage, is_midi):
  task = make(tmp_path)
  path = task.files[2]
  damage(path)
  places = rf", {path}, .*{tmp_path}/music/maestro-v1\.0\.0\.csv:3; .*task\.skip_invalid"
  with pytest.raises(UserError, match=places) as caught:
    task.read()
  assert ("MIDI" in str(caught.value)) != is_midi
  assert "\n" not in str(caught.value)
  assert capfd.readouterr() == ("", "")


def test_a_file_is_read_as_midi_whatever_its_suffix(tmp_path, capfd):
  """symusic would start another program for a file in ABC notation."""
  task = make(tmp_path, TABLE.replace("a.midi", "a.abc"))
  shutil.copy(task.files[2], task.files[1])
  assert len(task.read()["train"]) == 1
  task.files[1].write_text("X:1\nK:C\nCDEF\n")
  with pytest.raises(UserError, match=r"MIDI.*/a\.abc, "):
    task.read()
  assert capfd.readouterr() == ("", "")


def test_invalid_files_can_be_left_out_and_are_counted(tmp_path, caplog):
  more = "Chopin,T,train,2004,d.midi,d.wav,1\nChopin,T,train,2004,b.midi,b.wav,1\n"
  task = make(tmp_path, TABLE + more + more.replace("d.midi", "e.midi"), skip_invalid=True)
  garbage(task.files[4].with_name("e.midi"))
  parts = task.read()
  # Pieces keep the numbers of their rows.
  assert [(e.label, e.group) for e in parts["train"]] == [(0, 0), (1, 4), (1, 6)]
  table = task.files[0]
  (warning,) = caplog.messages
  assert re.match(rf"2 .*{table} .*/d\.midi, .*{table}:5;", warning)
  # The number of classes does not depend on which files are missing.
  assert task.answer.labels == ("Bach", "Chopin", "Liszt")


def test_pieces_without_a_segment_are_counted(tmp_path, caplog):
  task = make(tmp_path, f"{TABLE}Bach,T,train,2004,d.midi,d.wav,1\n")
  write_midi(task.files[4], SCALE[:127])
  assert [e.group for e in task.read()["train"]] == [0]
  (warning,) = caplog.messages
  assert re.match(rf"1 .*{task.files[0]} .*128 ", warning)


def test_a_split_without_a_piece_is_an_error(tmp_path):
  task = make(tmp_path)
  write_midi(task.files[3], SCALE[:127])
  with pytest.raises(UserError, match=rf"test .*128 .*, {task.files[0]}; "):
    task.read()


def test_counts_of_the_real_files(shared):
  task = tasks.get("music_composer", shared / "data")
  assert (len(task.answer.labels), len(task.files)) == (14, 1 + 397)
  parts = task.read()
  assert {name: len({e.group for e in part}) for name, part in parts.items()} == {
    "train": 316,
    "validation": 38,
    "test": 43,
  }
  assert all(len(e.sequence) == 128 for part in parts.values() for e in part)
  with (shared / "data" / "music" / "maestro-v1.0.0.csv").open(encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
  for part, examples in parts.items():
    for example in examples:
      row = rows[example.group]
      assert (row["split"], row["canonical_composer"]) == (
        part,
        task.answer.labels[int(example.label)],
      )


def test_the_real_table_in_full(shared, tmp_path, caplog):
  """It names 1,184 pieces. The real data has 397 of them."""
  music = tmp_path / "music"
  music.mkdir()
  shutil.copy(shared / "data/music/maestro-v1.0.0-full.csv", music / "maestro-v1.0.0.csv")
  (music / "maestro-v1.0.0").symlink_to(shared / "data/music/maestro-v1.0.0")
  task = composer(tmp_path, skip_invalid=True)
  assert (len(task.answer.labels), len(task.files)) == (58, 1 + 954 + 105 + 125)
  parts = task.read()
  assert {name: len({e.group for e in part}) for name, part in parts.items()} == {
    "train": 316,
    "validation": 38,
    "test": 43,
  }
  (warning,) = caplog.messages
  assert re.match(rf"787 .*{task.files[0]} ", warning)
