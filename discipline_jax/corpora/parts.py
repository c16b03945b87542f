"""Prepares a corpus in parts that do not wait for each other, as jobs of an array; then merges them.

All parts write into one folder in `corpora/` of the cache, which all of them must see. The first one that comes writes
the manifest. A vocabulary needs the words of the whole text: each part counts its own, then those that no other part
has counted yet, so that parts may run at once, one after the other, or in any order.
"""

import hashlib
import json
import pathlib
import re
import shutil
from collections.abc import Sequence

from absl import logging
from ml_collections import ConfigDict

from discipline_jax.corpora.blocks import PARTS, file_name
from discipline_jax.corpora.manifest import NAME, Manifest, digests_of, listed
from discipline_jax.corpora.prepared import DESCRIPTION, Prepared, check_pairs
from discipline_jax.corpora.source import VERSION, Source, check_corpus
from discipline_jax.corpora.stages import (
  clear,
  finish,
  job_of,
  make_vocabulary,
  of_a_text_that_stays,
  write_blocks,
  write_manifest,
)
from discipline_jax.corpora.tasks import MADE_WITH, counts_file, read_counts
from discipline_jax.corpora.workers import Processes, stopping
from discipline_jax.errors import UserError
from discipline_jax.files.copies import fetched
from discipline_jax.files.locks import locked
from discipline_jax.files.places import place


def parse_part(text: str) -> tuple[int, int]:
  """Returns I and N of `I/N`; raises UserError if it is no part."""
  found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
  part, parts = map(int, found.groups()) if found else (0, 0)
  if not 1 <= part <= parts:
    raise UserError(f"--part={text} is not I/N with I from 1 to N; give --part=2/8, for example")
  return part, parts


def make_part(config: ConfigDict, part: int, parts: int) -> dict[str, str]:
  """Makes a part of a corpus: its share of the blocks.

  Args:
    config: a config of `defaults.pretrain`.
    part: the number of the part, from 1 to `parts`.
    parts: the number of all parts.

  Returns:
    Lines of text that say what was done, by name.

  Raises:
    UserError: the settings are wrong, a file cannot be read, or the parts were begun by another version, in another
      number, or with other files.
    RunFailed: a file cannot be written, or the system killed a worker.
  """
  source, folder = _begin(config)
  with stopping(), Processes(job_of(source, folder)) as processes:
    with locked(folder.with_name(f".{folder.name}.lock")):
      if not (folder / NAME).is_file():
        files = listed(source)
        directory = folder.with_name(source.key(digests_of(files)))
        if (directory / DESCRIPTION).is_file():
          return {
            "part": f"{part} of {parts}: prepared and merged already",
            "folder": str(directory),
          }
        logging.info("Preparing the corpus in %s", folder)
        if folder.exists():  # with what belongs to no manifest, such as a vocabulary
          shutil.rmtree(folder)
        write_manifest(source, folder, processes, files, parts)
    plan = _begun(source, folder, part, parts)
    own = _share(part, plan)
    with of_a_text_that_stays(source, plan, folder):
      make_vocabulary(source, plan, folder, processes, _share(part, plan, len(plan.texts)))
      write_blocks(plan, processes, own)
  left = len(_missing(plan, folder))
  return {
    "part": f"{part} of {parts}: {len(own)} of {len(plan.blocks)} blocks",
    "missing": f"{left} of {len(plan.blocks)} blocks" if left else "nothing; run --merge",
    "folder": str(folder),
  }


def merge(config: ConfigDict) -> Prepared:
  """Merges the parts of a corpus, and opens it.

  Raises:
    UserError: parts are missing, or belong to another version or config, or the files of the text have changed.
  """
  source, folder = _begin(config)
  plan = _whole(source, folder)
  key = source.key(digests_of(listed(source) if plan is None else plan.files))
  directory = folder.with_name(key)
  with stopping(), locked(directory.with_name(f".{key}.lock")):
    if (directory / DESCRIPTION).is_file():  # merged before, or prepared in one go
      clear(directory)
      shutil.rmtree(folder, ignore_errors=True)
    elif plan is not None:
      finish(source, plan, folder, directory)
    else:
      raise UserError(f"no parts of this corpus and config, {folder}; {_others(source, folder)}")
  prepared = Prepared.open(directory)
  check_pairs(prepared)
  return prepared


def describe_part(config: ConfigDict, part: int, parts: int) -> dict[str, str]:
  """Returns lines of text, by name, that say what `make_part` would do, and writes nothing.

  Raises:
    UserError: `make_part` would raise it.
  """
  source, folder = _begin(config)
  if not (folder / NAME).is_file():
    what = f"{part} of {parts}: begins the corpus, unless it is prepared and merged already"
    return {"part": what, "folder": str(folder)}
  plan = _begun(source, folder, part, parts)
  own = _share(part, plan)
  left = len({*own} & {*_missing(plan, folder)})
  return {
    "part": f"{part} of {parts}: {left} of its {len(own)} blocks are left",
    "folder": str(folder),
  }


def describe_merge(config: ConfigDict) -> dict[str, str]:
  """Returns lines of text, by name, that say what `merge` would do, and writes nothing.

  Raises:
    UserError: `merge` would raise it; the message names the parts that are missing.
  """
  source, folder = _begin(config)
  plan = _whole(source, folder)
  if plan is None:
    what = f"no parts; opens the corpus if it is merged already, else: {_others(source, folder)}"
  else:
    what = f"{plan.parts} parts, none is missing: {len(plan.blocks)} blocks"
  return {"merge": what, "folder": str(folder)}


def _begin(config: ConfigDict) -> tuple[Source, pathlib.Path]:
  """Returns the source of a config, and the folder of its parts."""
  check_corpus(config)
  cache = place(config.cache_dir)
  if not isinstance(cache, pathlib.Path):
    raise UserError(
      f"cache_dir = {config.cache_dir!r}: parts are prepared in a folder that all jobs see, and not in a bucket; set"
      " --config.cache_dir to one, and copy the corpus to the bucket when it is merged"
    )
  path = None if config.corpus.path is None else fetched(place(config.corpus.path))
  if path is not None and (path / DESCRIPTION).is_file():
    raise UserError(f"a corpus that is prepared already, {path}; give the text that it was made of")
  source = Source(config)
  digest = hashlib.sha256(json.dumps([VERSION, source.settings()], sort_keys=True).encode())
  return source, cache / "corpora" / f"{config.corpus.name}-{digest.hexdigest()[:16]}.parts"


def _begun(source: Source, folder: pathlib.Path, part: int, parts: int) -> Manifest:
  """Returns the manifest of a folder; raises UserError if this part does not belong to it."""
  plan = Manifest.read(folder)
  if plan.parts != parts:
    raise UserError(
      f"--part={part}/{parts}, but the corpus is prepared in {plan.parts} parts, {folder}; give"
      f" --part=I/{plan.parts}, or delete this folder"
    )
  plan.check(source, folder)
  return plan


def _share(part: int, plan: Manifest, count: int | None = None) -> range:
  """Returns the numbers of the blocks of a part, or of its share of `count` other things."""
  count = len(plan.blocks) if count is None else count
  return range(count * (part - 1) // plan.parts, count * part // plan.parts)


def _missing(plan: Manifest, folder: pathlib.Path) -> list[int]:
  """Returns the numbers of the blocks that are not written."""
  return [i for i in range(len(plan.blocks)) if not counts_file(folder, i).is_file()]


def _whole(source: Source, folder: pathlib.Path) -> Manifest | None:
  """Returns the manifest of a folder, None if there is none; raises UserError if blocks are missing, or are others."""
  if not (folder / NAME).is_file():
    return None
  plan = Manifest.read(folder)
  plan.check(source, folder)
  missing = _missing(plan, folder)
  parts = [i for i in range(1, plan.parts + 1) if {*_share(i, plan)} & {*missing}]
  if parts:
    raise UserError(
      f"blocks are missing ({len(missing)} of {len(plan.blocks)}), {folder}; run --part="
      + " and --part=".join(_names(parts, plan.parts))
    )
  for number in range(len(plan.blocks)):
    path = counts_file(folder, number)
    if str(read_counts(path)[MADE_WITH]) != plan.digest:
      raise UserError(
        f"made with another version or config than the manifest beside it, {path}; delete this file, and run --part="
        f"{_part_of(number, plan)}/{plan.parts} again"
      )
    gone = [name for name in _files(source, number) if not (folder / name).is_file()]
    if gone:
      raise UserError(
        f"{gone[0]} of block {number} is missing, {folder}; delete {path}, and run --part={_part_of(number, plan)}/"
        f"{plan.parts} again"
      )
  return plan


def _files(source: Source, number: int) -> list[str]:
  """Returns the names of the files of a block."""
  return [
    file_name(part, length, draw, f"{number:05}")
    for part in PARTS
    for length in source.instances.lengths
    for draw in range(source.instances.draws if part == "train" else 1)
  ]


def _part_of(number: int, plan: Manifest) -> int:
  return next(i for i in range(1, plan.parts + 1) if number in _share(i, plan))


def _names(parts: Sequence[int], count: int) -> list[str]:
  """Returns the names of parts, of many only the first ones."""
  most = 20
  names = [f"{part}/{count}" for part in parts[:most]]
  return names if len(parts) <= most else [*names, f"... ({len(parts) - most} more)"]


def _others(source: Source, folder: pathlib.Path) -> str:
  """Returns what to do when there are no parts of a config: there may be parts of another one."""
  ours = source.settings()
  for other in sorted(folder.parent.glob(f"{source.config.corpus.name}-*.parts/{NAME}")):
    try:
      theirs = Manifest.read(other.parents[1]).settings
    except UserError:  # a folder of no concern here
      continue
    if theirs.get("path") == ours["path"]:
      names = [name for name in ours if theirs.get(name) != ours[name]]
      wanted = ", ".join(f"{name} {theirs.get(name)!r} and not {ours[name]!r}" for name in names)
      return (
        f"{other.parents[1]} has parts with {wanted}: give that config, or run --part=1/N first"
      )
  return "run --part=1/N for each of N parts first"
