"""Music task: tell the composer of a piano piece from its notes, over MAESTRO v1 (Hawthorne et al. 2019).

Each note is one token, its pitch. The segments are made as in the authors' code: it takes the notes of the first
instrument in the order in which they end, cuts them into segments of 128, and sorts each segment by onset. There is no
[CLS] and no [SEP]. Pitch p has the token id 128 + p before the token map. A model is trained on segments; the composer
of a piece is found by a vote of its segments.
"""

import csv
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging
from jaxtyping import Int32, UInt8

from discipline_jax.errors import UserError
from discipline_jax.tasks.answers import Class
from discipline_jax.tasks.base import Task
from discipline_jax.tasks.examples import Alphabet, Example
from discipline_jax.tasks.readers.lines import read_lines

LENGTH = 128
TABLE = pathlib.PurePath("music", "maestro-v1.0.0.csv")  # below data_dir
ALPHABET = Alphabet(tuple(str(pitch) for pitch in range(128)), ids=tuple(range(128, 256)))
_COLUMNS = ("canonical_composer", "split", "midi_filename")
_SPLITS = ("train", "validation", "test")
_SORTS = ("segment", "piece")
_VOTES = ("majority", "first")

_Row = tuple[int, Mapping[str, str]]  # line number in the table, value of each column


def composer(
  data_dir: pathlib.Path,
  *,
  keep_last_segment: bool = False,
  sort_by: str = "segment",
  vote: str = "majority",
  skip_invalid: bool = False,
) -> Task:
  """Builds the composer task. The table is read at once: every composer in it is a class, whatever the split.

  Args:
    data_dir: the folder with music/maestro-v1.0.0.csv and, in music/maestro-v1.0.0/, the files that this table names.
    keep_last_segment: True: keep the last segment of a piece even if it is shorter than 128 notes.
    sort_by: `segment`: sort by onset within each segment only; `piece`: sort all notes by onset before they are cut.
    vote: `majority`: the most frequent class of the segments; `first`: the class of the first segment, as in the
      authors' script.
    skip_invalid: True: leave out missing and broken MIDI files and log their number, instead of raising an error.

  Raises:
    UserError: an option or the table is wrong.
  """
  for name, value, choices in (("sort_by", sort_by, _SORTS), ("vote", vote, _VOTES)):
    if value not in choices:
      raise UserError(f"task.{name} = {value!r} is not one of: {', '.join(choices)}")
  table = data_dir / TABLE
  rows = _read_table(table)
  composers = tuple(sorted({row["canonical_composer"] for _, row in rows}))
  files = [_midi_path(table, row) for _, row in rows]

  def read() -> dict[str, list[Example]]:
    return _read_pieces(
      table,
      rows,
      composers,
      keep_last=keep_last_segment,
      by_onset=sort_by == "piece",
      skip_invalid=skip_invalid,
    )

  return Task(
    "music_composer",
    ALPHABET,
    Class(composers, vote=vote),
    LENGTH,
    read,
    files=(table, *files),
    add_special_tokens=False,
  )


def _read_pieces(
  table: pathlib.Path,
  rows: Sequence[_Row],
  composers: Sequence[str],
  *,
  keep_last: bool,
  by_onset: bool,
  skip_invalid: bool,
) -> dict[str, list[Example]]:
  """Reads the segments of all pieces, by split."""
  parts: dict[str, list[Example]] = {part: [] for part in _SPLITS}
  errors, short = [], 0
  for piece, (number, row) in enumerate(rows):
    path = _midi_path(table, row)
    try:
      notes = read_notes(path, f"{table}:{number}", by_onset=by_onset)
    except UserError as error:
      if not skip_invalid:
        raise
      errors.append(error)
      continue
    label = composers.index(row["canonical_composer"])
    cut = segments(notes, keep_last=keep_last)
    short += not cut
    parts[row["split"]] += [Example(segment, label, group=piece) for segment in cut]
  if errors:
    logging.warning("%d pieces of %s are left out; the first: %s", len(errors), table, errors[0])
  if short:
    logging.warning(
      "%d pieces of %s have fewer than %d notes and are left out", short, table, LENGTH
    )
  for part, examples in parts.items():
    if not examples:
      raise UserError(
        f"no piece of the {part} split has {LENGTH} notes, {table}; use MAESTRO's own files"
      )
  return parts


def _midi_path(table: pathlib.Path, row: Mapping[str, str]) -> pathlib.Path:
  return table.with_suffix("") / row["midi_filename"]


def _read_table(path: pathlib.Path) -> list[_Row]:
  """Reads the rows of the table and checks them."""
  where = (
    "get maestro-v1.0.0.csv and maestro-v1.0.0-midi.zip (magenta.tensorflow.org/datasets/maestro), unpack them into"
    f" {path.parent}, or set --config.data_dir"
  )
  reader = csv.reader(read_lines(path, where), strict=True)
  try:
    header = next(reader)
    lines = [(reader.line_num, fields) for fields in reader if fields]
  except csv.Error as error:
    raise UserError(f"not a CSV line ({error}), {path}:{reader.line_num}; {where}") from None
  for column in _COLUMNS:
    if header.count(column) != 1:
      raise UserError(
        f"{header.count(column)} columns named {column!r}, not one, {path}:1; {where}"
      )
  if not lines:
    raise UserError(f"the table has no pieces, {path}; {where}")
  root = path.with_suffix("")
  rows: list[_Row] = []
  for number, fields in lines:
    if len(fields) != len(header):
      raise UserError(
        f"{len(fields)} fields where the header has {len(header)}, {path}:{number}; correct the line"
      )
    row = dict(zip(header, fields, strict=True))
    if not all(row[column] for column in _COLUMNS) or row["split"] not in _SPLITS:
      values = ", ".join(f"{column}={row[column][:40]!r}" for column in _COLUMNS)
      raise UserError(
        f"the row has {values}, but the three must not be empty, and the split is one of {', '.join(_SPLITS)},"
        f" {path}:{number}; correct the line"
      )
    if any("\0" in row[column] for column in _COLUMNS):
      raise UserError(f"the line has a NUL character, {path}:{number}; correct the line")
    if not (root / row["midi_filename"]).resolve().is_relative_to(root.resolve()):
      raise UserError(
        f"the file {row['midi_filename']!r} is outside {root}, {path}:{number}; correct the line"
      )
    rows.append((number, row))
  return rows


def read_notes(
  path: pathlib.Path, place: str, *, by_onset: bool = False
) -> tuple[UInt8[np.ndarray, " notes"], Int32[np.ndarray, " notes"]]:
  """Reads the notes of the first instrument.

  Args:
    path: a MIDI file.
    place: `file:line` of the table that names this file, for messages.
    by_onset: True: order the notes by their beginning; False: by their end.

  Returns:
    The pitch and the onset (in ticks) of each note.

  Raises:
    UserError: the file is missing, is not a MIDI file, or has no notes.
  """
  import symusic  # here, because only this task needs it

  try:
    # fmt is given because symusic would otherwise start another program for a file with the suffix .abc.
    score: Any = symusic.Score(path, ttype="tick", fmt="midi")
    tracks = score.tracks
  except Exception as error:  # symusic raises several kinds
    raise UserError(
      f"not a readable MIDI file ({str(error).strip() or type(error).__name__}), {path}, named in {place};"
      " download it again, or set task.skip_invalid=True"
    ) from None
  if not tracks or not len(tracks[0].notes):
    raise UserError(
      f"the first instrument has no notes, {path}, named in {place}; download it again, or set task.skip_invalid=True"
    )
  notes = tracks[0].notes.numpy()
  key = notes["time"] if by_onset else notes["time"] + notes["duration"]
  order = np.argsort(key, kind="stable")
  return notes["pitch"][order].astype(np.uint8), notes["time"][order]


def segments(
  notes: tuple[UInt8[np.ndarray, " notes"], Int32[np.ndarray, " notes"]], *, keep_last: bool = False
) -> list[UInt8[np.ndarray, " _"]]:
  """Cuts notes into segments of 128 and sorts each by onset.

  Args:
    notes: pitches and onsets, as from `read_notes`.
    keep_last: True: keep the last segment even if it is shorter.

  Returns:
    The pitches of each segment.
  """
  pitches, onsets = notes
  end = len(pitches) if keep_last else len(pitches) // LENGTH * LENGTH
  return [
    pitches[start : start + LENGTH][np.argsort(onsets[start : start + LENGTH], kind="stable")]
    for start in range(0, end, LENGTH)
  ]
