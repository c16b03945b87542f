"""Music: the composer of a piano piece from its notes, over MAESTRO v1 (Hawthorne et al. 2019).

A note is one token, its pitch. As the authors make them, the notes of the first instrument, in the order in which they
end (in which a reader meets them whole), are cut into segments of 128, and each is sorted by onset; there is no [CLS]
and no [SEP], and pitch p has the token id 128 + p before the token map. A model is trained on segments, and the
segments of a piece vote on it.
"""

import csv
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import logging
from jaxtyping import UInt8

from discipline_jax.errors import UserError
from discipline_jax.tasks.base import Alphabet, Example, Task, read_lines

LENGTH = 128
ALPHABET = Alphabet(tuple(str(pitch) for pitch in range(128)), ids=tuple(range(128, 256)))
_COLUMNS = ("canonical_composer", "split", "midi_filename")
_SPLITS = ("train", "validation", "test")
_SORTS = ("segment", "piece")
_VOTES = ("majority", "first")


def composer(
  data_dir: pathlib.Path,
  *,
  keep_last_segment: bool = False,
  sort_by: str = "segment",
  vote: str = "majority",
  skip_invalid: bool = False,
) -> Task:
  """All composers of the table are classes, also those that only validation or test has.

  Args:
    data_dir: holds music/maestro-v1.0.0.csv and the files that it names in music/maestro-v1.0.0/.
    keep_last_segment: keep the last segment of a piece, which is shorter than 128.
    sort_by: `segment` sorts the notes of each by onset; `piece` sorts all notes first.
    vote: `majority`, or `first`: the first segment decides, as the authors' script has it.
    skip_invalid: leave out files that are missing or broken, and say how many, instead of stopping.
  """
  for name, value, choices in (("sort_by", sort_by, _SORTS), ("vote", vote, _VOTES)):
    if value not in choices:
      raise UserError(f"task.{name} = {value!r} is not one of: {', '.join(choices)}")
  table = data_dir / "music" / "maestro-v1.0.0.csv"
  rows = _read_table(table)
  composers = tuple(sorted({row["canonical_composer"] for _, row in rows}))
  files = [table.with_suffix("") / row["midi_filename"] for _, row in rows]

  def read() -> dict[str, list[Example]]:
    parts: dict[str, list[Example]] = {part: [] for part in _SPLITS}
    errors, short = [], 0
    for piece, ((number, row), path) in enumerate(zip(rows, files, strict=True)):
      try:
        pitches = read_notes(path, f"{table}:{number}", by_onset=sort_by == "piece")
      except UserError as error:
        if not skip_invalid:
          raise
        errors.append(error)
        continue
      label = composers.index(row["canonical_composer"])
      cut = segments(pitches, keep_last=keep_last_segment)
      short += not cut
      parts[row["split"]] += [Example(segment, label, piece=piece) for segment in cut]
    if errors:
      logging.warning("%d pieces of %s are left out; the first: %s", len(errors), table, errors[0])
    if short:
      logging.warning("%d pieces of %s have under %d notes and are left out", short, table, LENGTH)
    for part, examples in parts.items():
      if not examples:
        raise UserError(
          f"no piece of the {part} part has {LENGTH} notes, {table}; give MAESTRO's own files"
        )
    return parts

  return Task(
    "music_composer",
    ALPHABET,
    composers,
    "accuracy",
    LENGTH,
    read,
    files=(table, *files),
    bracketed=False,
    vote=vote,
  )


def _read_table(path: pathlib.Path) -> list[tuple[int, Mapping[str, str]]]:
  """The rows of the table, each with its line."""
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
      raise UserError(f"{header.count(column)} columns {column!r}, {path}:1; {where}")
  if not lines:
    raise UserError(f"no piece, {path}; {where}")
  root = path.with_suffix("")
  rows: list[tuple[int, Mapping[str, str]]] = []
  for number, fields in lines:
    if len(fields) != len(header):
      raise UserError(
        f"{len(fields)} fields where the header has {len(header)}, {path}:{number}; correct the line"
      )
    row = dict(zip(header, fields, strict=True))
    if not all(row[column] for column in _COLUMNS) or row["split"] not in _SPLITS:
      raise UserError(
        f"a row needs composer, file, and a split of {', '.join(_SPLITS)}, {path}:{number}; correct the line"
      )
    if any("\0" in row[column] for column in _COLUMNS):
      raise UserError(f"a NUL character, {path}:{number}; correct the line")
    if not (root / row["midi_filename"]).resolve().is_relative_to(root.resolve()):
      raise UserError(
        f"{row['midi_filename']!r} is outside {root}, {path}:{number}; correct the line"
      )
    rows.append((number, row))
  return rows


def read_notes(
  path: pathlib.Path, place: str, *, by_onset: bool = False
) -> tuple[UInt8[np.ndarray, " notes"], np.ndarray]:
  """Pitches and onsets (ticks) of the first instrument's notes.

  Args:
    path: a MIDI file.
    place: where it is named, for messages.
    by_onset: in the order in which they begin, else in that in which they end.

  Raises:
    UserError: it is missing, is no MIDI file, or has no notes.
  """
  import symusic  # only music needs it

  try:
    # whatever its suffix: it would hand an .abc file to another program
    score: Any = symusic.Score(path, ttype="tick", fmt="midi")
    tracks = score.tracks
  except Exception as error:  # of the reader's own kinds
    raise UserError(
      f"not a readable MIDI file ({str(error).strip() or type(error).__name__}), {path}, named in {place};"
      " download it again, or set task.skip_invalid"
    ) from None
  if not tracks or not len(tracks[0].notes):
    raise UserError(
      f"no notes, {path}, named in {place}; download it again, or set task.skip_invalid"
    )
  notes = tracks[0].notes.numpy()
  key = notes["time"] if by_onset else notes["time"] + notes["duration"]
  order = np.argsort(key, kind="stable")
  return notes["pitch"][order].astype(np.uint8), notes["time"][order]


def segments(
  notes: tuple[UInt8[np.ndarray, " notes"], np.ndarray], *, keep_last: bool = False
) -> list[UInt8[np.ndarray, " 128"]]:
  """Cuts notes into segments of 128, each sorted by onset; a shorter last one is left out unless `keep_last`."""
  pitches, onsets = notes
  end = len(pitches) if keep_last else len(pitches) // LENGTH * LENGTH
  return [
    pitches[start : start + LENGTH][np.argsort(onsets[start : start + LENGTH], kind="stable")]
    for start in range(0, end, LENGTH)
  ]
