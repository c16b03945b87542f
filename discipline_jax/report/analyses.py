"""Finds the finished analyses below a folder: their tables and figures."""

import base64
import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from discipline_jax.report.tree import results

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclasses.dataclass(frozen=True)
class Analysis:
  """A finished analysis.

  Attributes:
    name: its folder below the tree.
    title: the measure and the task.
    table: rows of cells, the first one the head.
    notes: what a reader must know before the numbers.
    picture: the figure, as a data address of a PNG file; empty if there is none.
  """

  name: str
  title: str
  table: list[list[str]]
  notes: list[str]
  picture: str


def read_analyses(folder: pathlib.Path) -> tuple[list[Analysis], list[str]]:
  """Returns the analyses below a folder, by name, and a line about each that cannot be read."""
  found, notes = [], []
  for path, name, result in results(folder, "analyze"):
    try:
      analysis = _analysis(path, name, result)
    except OSError as error:
      notes.append(f"{error.strerror}, {error.filename}; left out")
      continue
    if analysis is None:
      notes.append(f"no result of an analysis, {path / 'result.json'}; left out")
    else:
      found.append(analysis)
  return found, notes


def _analysis(path: pathlib.Path, name: str, result: Mapping[str, Any]) -> Analysis | None:
  """Returns the analysis of a folder; None if its result is none."""
  table: Any = result.get("summary")
  notes: Any = result.get("notes")
  texts: list[Any] = [result.get(field) for field in ("measure", "task", "dropout")]
  is_table = (
    isinstance(table, list)
    and len(table) > 1
    and all(isinstance(row, list) and len(row) == len(table[0]) for row in table)
    and all(isinstance(cell, str) for row in table for cell in row)
  )
  are_notes = isinstance(notes, list) and all(isinstance(note, str) for note in notes)
  if not (is_table and are_notes and all(isinstance(text, str) for text in texts)):
    return None
  measure, task, dropout = texts
  # A PNG, because the SVG of a foreign folder could hold a script.
  file = path / f"{pathlib.PurePath(measure).name}.png"
  content = file.read_bytes() if file.is_file() else b""
  picture = ""
  if content.startswith(_SIGNATURE):
    picture = f"data:image/png;base64,{base64.b64encode(content).decode()}"
  return Analysis(name, f"{measure} on {task}, dropout {dropout}", table, notes, picture)
