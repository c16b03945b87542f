"""Tells which compiled programs a piece of code runs."""

import gzip
import json
import pathlib
import re
from collections.abc import Callable

import jax


def executed(function: Callable[[], None], folder: pathlib.Path) -> set[str]:
  """Returns the names of the programs that `function` runs, by JAX's profiler, which writes to `folder`."""
  with jax.profiler.trace(str(folder)):
    function()
  (path,) = folder.rglob("*.trace.json.gz")
  with gzip.open(path, "rt") as file:
    names = [event.get("name", "") for event in json.load(file)["traceEvents"]]
  return {match[1] for match in map(re.compile(r"PjitFunction\((.*)\)").fullmatch, names) if match}
