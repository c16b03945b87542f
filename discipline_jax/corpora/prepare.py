"""Prepares a corpus once: its vocabulary, and unmasked instances as ArrayRecord files.

  python -m discipline_jax.corpora.prepare --config=pretrain_small --config.corpus.path=DIR

Pre-training does it by itself where it was not done before. The folder that it names can be copied to another machine
and given as `corpus.path`.
"""

import concurrent.futures.process
import contextlib
import fcntl
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from absl import flags, logging
from ml_collections import ConfigDict
from tokenizers import Tokenizer

from discipline_jax import command_line, progress
from discipline_jax.corpora import artificial
from discipline_jax.corpora.blocks import PARTS, Block, LinesBlock, Settings, write_block
from discipline_jax.corpora.instances import PAIRING_OF
from discipline_jax.corpora.prepared import DESCRIPTION, Prepared, summary
from discipline_jax.corpora.source import (
  TEXTS,
  Source,
  check_corpus,
  chosen_vocabulary,
  vocabulary_source,
)
from discipline_jax.errors import RunFailed, UserError
from discipline_jax.models.tokenizer import Vocabulary, load_vocabulary
from discipline_jax.whole_files import whole_file


def prepare(config: ConfigDict) -> Prepared:
  """The prepared corpus of a pre-training config: that of `cache_dir`, or else it is made now.

  Args:
    config: see `defaults.pretrain`; `corpus`, `objective.kind`, `seed`, `cache_dir`, `model.checkpoint` and
      `model.config.vocab_size` are taken from it.

  Raises:
    UserError: no corpus, one that is too small, or a vocabulary that cannot be read.
  """
  check_corpus(config)
  path = None if config.corpus.path is None else pathlib.Path(config.corpus.path).expanduser()
  if path is not None and (path / DESCRIPTION).is_file():
    return _given(path, config)
  source = Source(config)
  directory = pathlib.Path(config.cache_dir).expanduser() / "corpora" / source.key()
  with _alone(directory):
    if not (directory / DESCRIPTION).is_file():
      logging.info("Preparing the corpus in %s", directory)
      _make(config, source, directory)
  return Prepared.open(directory)


def _given(path: pathlib.Path, config: ConfigDict) -> Prepared:
  prepared = Prepared.open(path)
  corpus = config.corpus
  ours = {
    "name": corpus.name,
    "lengths": list(corpus.length),
    "pairing": PAIRING_OF[config.objective.kind],
    "draws": corpus.draws,
  }
  for name, value in ours.items():
    if prepared.description.get(name) != value:
      raise UserError(
        f"the corpus was prepared with {name} {prepared.description.get(name)!r}, but this run has {value!r}, {path};"
        " prepare it again"
      )
  vocabulary = chosen_vocabulary(config) if corpus.name in TEXTS else None
  if vocabulary is not None and vocabulary.tokens != prepared.vocabulary.tokens:
    raise UserError(
      f"the corpus was prepared with another vocabulary than {vocabulary_source(config)}, {path}; prepare it again"
    )
  return prepared


@contextlib.contextmanager
def _alone(directory: pathlib.Path) -> Iterator[None]:
  """One process prepares a corpus; another one that wants it waits."""
  directory.parent.mkdir(parents=True, exist_ok=True)
  with directory.with_name(f".{directory.name}.lock").open("w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield


def _make(config: ConfigDict, source: Source, directory: pathlib.Path) -> None:
  corpus = config.corpus
  settings = Settings(
    corpus.language,
    tuple(corpus.length),
    corpus.draws,
    source.pairing,
    corpus.validation,
    config.seed,
  )
  for left in directory.parent.glob(f".{directory.name}.*.part"):  # by a process that was killed
    shutil.rmtree(left, ignore_errors=True)
  # A name of its own: workers of a process that was killed may still write to theirs.
  part = pathlib.Path(tempfile.mkdtemp(".part", f".{directory.name}.", directory.parent))
  part.chmod(0o755)
  before = signal.signal(signal.SIGTERM, _stop)
  try:
    _write_vocabulary(source.tokenizer(), part)
    counts, lines = _write_blocks(source.blocks(), settings, part)
    description = {
      "name": corpus.name,
      "pairing": source.pairing,
      "lengths": list(settings.lengths),
      "draws": settings.draws,
      "statistics": _statistics(counts, load_vocabulary(part)) | lines,
    }
    with whole_file(part / DESCRIPTION, text=True) as file:
      file.write(json.dumps(description, indent=2) + "\n")
    part.replace(directory)
  finally:
    signal.signal(signal.SIGTERM, before)
    shutil.rmtree(part, ignore_errors=True)


def _stop(*_) -> None:
  """What the platform's signal does while a corpus is prepared: all of it is cleared away."""
  print("stopped: the corpus is not prepared; run the same command again", file=sys.stderr)
  sys.exit(75)


def _write_vocabulary(tokenizer: Tokenizer, directory: pathlib.Path) -> None:
  tokenizer.save(str(directory / "tokenizer.json"))
  # So that transformers takes it as it is, and does not make one of the model's family of it.
  names = _vocabulary_names(load_vocabulary(directory))
  with whole_file(directory / "tokenizer_config.json", text=True) as file:
    file.write(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **names}, indent=2) + "\n")


def _vocabulary_names(vocabulary: Vocabulary) -> dict[str, str]:
  """The special tokens, as a tokenizer_config.json has them."""
  ids = {
    "pad_token": vocabulary.pad_id,
    "unk_token": vocabulary.unk_id,
    "cls_token": vocabulary.cls_id,
    "sep_token": vocabulary.sep_id,
    "mask_token": vocabulary.mask_id,
  }
  return {name: vocabulary.tokens[i] for name, i in ids.items()}


def _write_blocks(
  blocks: Iterator[Block],
  settings: Settings,
  directory: pathlib.Path,
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
  """Has the blocks written, by as many processes as there are cores where there are several.

  Returns:
    The counts of `write_block`, and of an artificial corpus what its first block shows of dependencies.
  """
  first, second = next(blocks), next(blocks, None)
  lines = {}
  if isinstance(first, LinesBlock):
    lines["mean_distance"] = artificial.statistics(first.lines())["mean_distance"]
  if second is None:
    return write_block(0, first, settings, load_vocabulary(directory), directory), lines
  total: dict[str, np.ndarray] = {}
  workers = os.cpu_count() or 1
  pool = concurrent.futures.ProcessPoolExecutor(
    workers,
    multiprocessing.get_context("spawn"),  # JAX has threads, which a fork would lose
    _begin_worker,
    (settings, directory),
  )
  with progress.bar(desc="instances", unit=" tokens", unit_scale=True) as bar:
    pending: set[concurrent.futures.Future] = set()

    def finish(limit: int) -> None:
      # No more blocks are held in memory than are worked on, however large the corpus.
      nonlocal pending
      while len(pending) > limit:
        done, pending = concurrent.futures.wait(
          pending, return_when=concurrent.futures.FIRST_COMPLETED
        )
        for future in done:
          try:
            counts = future.result()
          except concurrent.futures.process.BrokenProcessPool:
            raise RunFailed(
              "a process that prepares the corpus was killed, most likely for memory; free some, and run again"
            ) from None
          bar.update(int(counts["tokens"].sum()))
          for name, value in counts.items():
            total[name] = total.get(name, 0) + value

    try:
      pending.add(pool.submit(_work, 0, first))
      pending.add(pool.submit(_work, 1, second))
      for number, block in enumerate(blocks, 2):
        pending.add(pool.submit(_work, number, block))
        finish(2 * workers)
      finish(0)
    finally:
      pool.shutdown(cancel_futures=True)
  return total, lines


def _begin_worker(settings: Settings, directory: pathlib.Path) -> None:
  global _worker
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops its workers
  os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are enough
  _worker = (settings, load_vocabulary(directory), directory)


def _work(number: int, block: Block) -> dict[str, np.ndarray]:
  return write_block(number, block, *_worker)


def _statistics(counts: Mapping[str, np.ndarray], vocabulary: Vocabulary) -> dict:
  tokens = counts["tokens"]
  shares = tokens[tokens > 0] / tokens.sum()
  parts: dict[str, object] = {}
  for name, value in counts.items():
    if name.startswith(PARTS):
      parts[name] = {"instances": int(value[0]), "tokens": int(value[1])}
    elif name.startswith("long_"):
      parts[name] = int(value)
  return {
    "documents": int(counts["documents"]),
    "sentences": int(counts["sentences"]),
    "tokens": int(tokens.sum()),
    "types": len(shares),
    "entropy": float(-(shares * np.log(shares)).sum()),
    "unknown": float(tokens[vocabulary.unk_id] / tokens.sum()),
    "parts": parts,
  }


def main(argv: Sequence[str]) -> None:
  """Prepares the corpus of a config, and says what it is."""
  flag_values = command_line.parse(argv)
  if flag_values.help:
    print(f"{__doc__}\n{flag_values.get_help()}")
    return
  config = flag_values.config
  if "corpus" not in config:
    raise UserError("the config has no corpus; give one of the pretrain_ configs")
  if flag_values["dry-run"].value:
    check_corpus(config)
    print(
      f"{config.corpus.name} ({config.corpus.path or 'drawn'}), into {config.cache_dir}/corpora"
    )
    return
  print(summary(prepare(config)))


if __name__ == "__main__":
  logging.use_absl_handler()
  flags.FLAGS.mark_as_parsed()  # absl's own flags keep their defaults; this stops a warning about them
  sys.exit(command_line.exit_code(lambda: main(sys.argv)))
