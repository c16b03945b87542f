"""Tests how the notes of a MIDI file are cut into segments, on files made by hand."""

import numpy as np
import pytest

from discipline_jax.tasks.music import read_notes, segments
from tests.tasks.small_music import SCALE, make, write_midi


def cut(path, *, sort_by="segment", **options) -> list[list[int]]:
  """Returns the segments of a file."""
  notes = read_notes(path, "table:2", by_onset=sort_by == "piece")
  return [segment.tolist() for segment in segments(notes, **options)]


class TestSegments:
  # Begins first and ends last.
  LONG = (0, 5000, 30)
  SHORT = tuple((10 * i + 5, 3, 40 + i % 50) for i in range(128))
  PITCHES = tuple(40 + i % 50 for i in range(128))

  def test_notes_are_cut_in_the_order_in_which_they_end(self, tmp_path):
    write_midi(tmp_path / "a.midi", [self.LONG, *self.SHORT])
    assert cut(tmp_path / "a.midi") == [list(self.PITCHES)]

  def test_the_last_segment_may_be_kept(self, tmp_path):
    write_midi(tmp_path / "a.midi", [self.LONG, *self.SHORT])
    assert cut(tmp_path / "a.midi", keep_last=True) == [list(self.PITCHES), [30]]

  def test_all_notes_may_be_sorted_by_onset_first(self, tmp_path):
    write_midi(tmp_path / "a.midi", [self.LONG, *self.SHORT])
    assert cut(tmp_path / "a.midi", sort_by="piece") == [[30, *self.PITCHES[:127]]]
    assert cut(tmp_path / "a.midi", sort_by="piece", keep_last=True) == [
      [30, *self.PITCHES[:127]],
      [self.PITCHES[127]],
    ]

  def test_a_segment_is_sorted_by_onset(self, tmp_path):
    # The long note ends before the last of the short ones.
    write_midi(tmp_path / "a.midi", [(0, 1271, 30), *self.SHORT[:127]])
    assert cut(tmp_path / "a.midi") == [[30, *self.PITCHES[:127]]]

  def test_no_notes_are_left_after_whole_segments(self, tmp_path):
    write_midi(tmp_path / "a.midi", [(10 * i, 5, i % 100) for i in range(256)])
    whole = [[i % 100 for i in range(128)], [i % 100 for i in range(128, 256)]]
    for keep_last in (False, True):
      assert cut(tmp_path / "a.midi", keep_last=keep_last) == whole

  @pytest.mark.parametrize("sort_by", ["segment", "piece"])
  def test_segments_are_the_same_as_in_plain_python(self, tmp_path, sort_by):
    rng = np.random.default_rng(0)
    onsets = rng.permutation(4000)[:700].tolist()
    ends = (4001 + rng.permutation(4000)[:700]).tolist()  # no two of all these times are equal
    # In MIDI, overlapping notes of one pitch cannot be told apart. So each stretch of time has every pitch once.
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
      assert task.answer.vote == "first"


def test_notes_come_in_the_order_in_which_they_end_by_default(tmp_path):
  """A long note under two short ones: 60 lasts from 0 to 30, 62 from 5 to 10, 64 from 12 to 20."""
  path = tmp_path / "a.midi"
  write_midi(path, [(0, 30, 60), (5, 5, 62), (12, 8, 64)])
  pitches, onsets = read_notes(path, "table:2")
  assert (pitches.tolist(), onsets.tolist()) == ([62, 64, 60], [5, 12, 0])
