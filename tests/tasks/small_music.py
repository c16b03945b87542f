"""Helpers for tests of the music task: a small table, MIDI files, and a task over both."""

import symusic

from discipline_jax.tasks.music import composer

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
# (onset, duration, pitch) of 128 notes: each begins when the one before it ends; the pitches repeat 40 to 89.
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
  """Returns a task over this table and the files a, b and c, with one segment each."""
  folder = data_dir / "music" / "maestro-v1.0.0"
  for name in "abc":
    write_midi(folder / f"{name}.midi", SCALE)
  path = folder.with_suffix(".0.csv")
  path.write_bytes(table.encode() if isinstance(table, str) else table)
  return composer(data_dir, **options)
