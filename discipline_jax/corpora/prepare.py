"""Prepares a corpus for pre-training: writes its vocabulary, and unmasked instances as ArrayRecord files.

  python -m discipline_jax.corpora.prepare --config=pretrain_small --config.corpus.path=DIR

Pre-training does the same if need be. The folder that is printed can be copied, and `corpus.path` can name the copy.
"""

import concurrent.futures.process
import contextlib
import itertools
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

import jax
import numpy as np
from absl import flags, logging
from jax.experimental import multihost_utils
from ml_collections import ConfigDict
from tokenizers import Tokenizer

from discipline_jax import command_line
from discipline_jax.corpora import artificial
from discipline_jax.corpora.blocks import PARTS, Block, LinesBlock, Settings, write_block
from discipline_jax.corpora.instances import PAIRING_OF
from discipline_jax.corpora.known import check_sample, check_statistics
from discipline_jax.corpora.prepared import DESCRIPTION, Prepared, check_pairs, summary
from discipline_jax.corpora.source import (
  TEXTS,
  Source,
  check_corpus,
  chosen_vocabulary,
  row_lengths,
  vocabulary_source,
)
from discipline_jax.errors import RunFailed, UserError
from discipline_jax.exit_codes import exit_code
from discipline_jax.files import copies, places, progress
from discipline_jax.files.locks import locked
from discipline_jax.files.whole_files import write_json
from discipline_jax.models.special_tokens import ROLES
from discipline_jax.models.tokenizer import Vocabulary, load_vocabulary


def prepare(config: ConfigDict) -> Prepared:
  """Opens the prepared corpus of a pre-training config in the cache, or prepares it first.

  Only one process prepares a corpus; others wait for it. An interrupted preparation starts from the beginning.

  Args:
    config: a config of `defaults.pretrain`. These fields decide about the corpus: `corpus`, `objective.kind`, `seed`,
      `model.checkpoint` and `model.config.vocab_size`; `cache_dir` is the place of the cache.

  Raises:
    UserError: the settings are wrong, a file cannot be read, or the corpus is too small.
    RunFailed: a file cannot be written, or the system killed a worker.
  """
  check_corpus(config)
  path = None if config.corpus.path is None else copies.fetched(places.place(config.corpus.path))
  if path is not None and (path / DESCRIPTION).is_file():
    return _given(path, config)
  source = Source(config)
  cached = places.place(config.cache_dir) / "corpora" / source.key()
  with locked(cached.with_name(f".{cached.name}.lock")):
    directory = copies.fetched(cached)
    is_there = (directory / DESCRIPTION).is_file()
    if not is_there:
      logging.info("Preparing the corpus in %s", cached)
      _make(config, source, directory)
      copies.publish(cached, last=DESCRIPTION)
  prepared = Prepared.open(directory)
  if is_there:  # an older version may not have checked it; and its warnings are shown again
    check_statistics(prepared.description["statistics"], vocabulary_source(config))
  check_pairs(prepared)
  return prepared


def prepare_everywhere(config: ConfigDict) -> Prepared:
  """Prepares the corpus in each process of a run. The first process on a machine does it, and the others wait.

  Raises:
    UserError: `prepare` raises it, or the processes prepared different corpora.
  """
  prepared = prepare(config)
  if jax.process_count() > 1:
    digest = zlib.crc32(json.dumps(prepared.description, sort_keys=True).encode())
    if len(np.unique(multihost_utils.process_allgather(np.uint32(digest)))) > 1:
      raise UserError(
        "the processes have different corpora; give all the same files and the same version of this package"
      )
  return prepared


def _given(path: pathlib.Path, config: ConfigDict) -> Prepared:
  """Opens a prepared corpus that `corpus.path` names; raises UserError if it was prepared for other settings."""
  prepared = Prepared.open(path)
  corpus = config.corpus
  ours = {
    "name": corpus.name,
    "lengths": list(row_lengths(config)),
    "pairing": PAIRING_OF[config.objective.kind],
    "draws": corpus.draws,
    **_symbols(config),
  }
  for name, value in ours.items():
    if prepared.description.get(name) != value:
      raise UserError(
        f"the corpus was prepared with {name} {prepared.description.get(name)!r}, but this run has {value!r}, {path};"
        " change the config, or prepare the corpus again from its source"
      )
  vocabulary = chosen_vocabulary(config) if corpus.name in TEXTS else None
  if vocabulary is not None and vocabulary.tokens != prepared.vocabulary.tokens:
    raise UserError(
      f"the corpus was prepared with another vocabulary than {vocabulary_source(config)}, {path}; change the config, or"
      " prepare the corpus again from its source"
    )
  check_statistics(prepared.description["statistics"], str(path))
  check_pairs(prepared)
  return prepared


def _symbols(config: ConfigDict) -> dict[str, object]:
  """Returns the fields of a corpus of sequences that its description has, too; all None for other corpora."""
  corpus = config.corpus
  case = None if corpus.symbols is None else corpus.case
  return {"symbols": corpus.symbols, "k": corpus.k, "case": case}


def _make(config: ConfigDict, source: Source, directory: pathlib.Path) -> None:
  """Prepares a corpus in a temporary folder, which then becomes `directory`."""
  corpus = config.corpus
  settings = Settings(
    corpus.language,
    row_lengths(config),
    corpus.draws,
    source.pairing,
    corpus.validation,
    config.seed,
  )
  # A killed process leaves its folder.
  for left in directory.parent.glob(f".{directory.name}.*.part"):
    shutil.rmtree(left, ignore_errors=True)
  # The name is random, because workers of a killed process may write to its folder for another moment.
  part = pathlib.Path(tempfile.mkdtemp(".part", f".{directory.name}.", directory.parent))
  part.chmod(0o755)
  before = signal.signal(signal.SIGTERM, _stop)
  try:
    _write_vocabulary(source.tokenizer(), source.special_tokens, part)
    counts, statistics = _write_blocks(source.blocks(), settings, part, vocabulary_source(config))
    _check_instances(counts)
    description = {
      "name": corpus.name,
      "pairing": source.pairing,
      "lengths": list(settings.lengths),
      "draws": settings.draws,
      **{name: value for name, value in _symbols(config).items() if value is not None},
      "statistics": _statistics(counts, load_vocabulary(part)) | statistics,
    }
    check_statistics(description["statistics"], vocabulary_source(config))
    write_json(part / DESCRIPTION, description)
    part.replace(directory)
  finally:
    signal.signal(signal.SIGTERM, before)
    shutil.rmtree(part, ignore_errors=True)


def _stop(*_) -> None:
  """Handles SIGTERM: exits, so that the temporary folder is deleted."""
  print("stopped: the corpus is not prepared yet; run the same command again", file=sys.stderr)
  sys.exit(75)


def _write_vocabulary(
  tokenizer: Tokenizer, special: Sequence[str], directory: pathlib.Path
) -> None:
  """Writes a tokenizer in Hugging Face's format.

  Args:
    tokenizer: the tokenizer.
    special: its tokens for padding, unknown words, the start, the end and masks.
    directory: where it is written.
  """
  tokenizer.save(str(directory / "tokenizer.json"))
  # Without its class, transformers would replace it by the tokenizer of the model's family.
  names = {f"{role}_token": token for role, token in zip(ROLES, special, strict=True)}
  content = {"tokenizer_class": "PreTrainedTokenizerFast", **names}
  write_json(directory / "tokenizer_config.json", content)


def _write_blocks(
  blocks: Iterator[Block], settings: Settings, directory: pathlib.Path, source: str | None
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
  """Writes the files of all blocks; if there are several, worker processes do it.

  Returns:
    The sums of the counts of `write_block`, and statistics of an artificial corpus, measured on its first block.
  """
  first, second = next(blocks), next(blocks, None)
  check_sample(first, settings, load_vocabulary(directory), source)
  statistics = {}
  if isinstance(first, LinesBlock):
    statistics["mean_distance"] = artificial.statistics(first.lines())["mean_distance"]
  if second is None:
    return write_block(0, first, settings, load_vocabulary(directory), directory), statistics
  total: dict[str, np.ndarray] = {}
  every_block = itertools.chain([first, second], blocks)
  with (
    progress.bar(desc="instances", unit=" tokens", unit_scale=True) as bar,
    contextlib.closing(_write_in_processes(every_block, settings, directory)) as written,
  ):
    for counts in written:
      bar.update(int(counts["tokens"].sum()))
      for name, value in counts.items():
        total[name] = np.asarray(total.get(name, 0) + value)
  return total, statistics


def _write_in_processes(
  blocks: Iterable[Block], settings: Settings, directory: pathlib.Path
) -> Generator[dict[str, np.ndarray], None, None]:
  """Writes blocks in worker processes, and yields the counts of each block that is written, in any order.

  Raises:
    RunFailed: the system killed a worker.
  """
  workers = _usable_cores()
  pool = concurrent.futures.ProcessPoolExecutor(
    workers,
    multiprocessing.get_context("spawn"),  # a fork would lack JAX's threads
    _begin_worker,
    (settings, directory),
  )
  pending: set[concurrent.futures.Future] = set()
  try:
    for number, block in enumerate(blocks):
      # `submit` may start a worker, which inherits the blocked signal: a terminal sends Ctrl-C to the workers, too, but
      # the parent is to end them.
      mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
      try:
        pending.add(pool.submit(_work, number, block))
      finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
      if len(pending) > 2 * workers:  # limits the blocks that are held in memory
        done, pending = concurrent.futures.wait(
          pending, return_when=concurrent.futures.FIRST_COMPLETED
        )
        yield from (future.result() for future in done)
    yield from (future.result() for future in concurrent.futures.as_completed(pending))
  except concurrent.futures.process.BrokenProcessPool:
    raise RunFailed(
      "a process that prepares the corpus was killed, most likely because memory ran out; free some, and run again"
    ) from None
  finally:
    pool.shutdown(cancel_futures=True)


def _usable_cores() -> int:
  """Returns the number of cores that this process may use. On shared machines that is often less than all."""
  if hasattr(os, "sched_getaffinity"):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1  # macOS cannot restrict a process to some cores


def _check_instances(counts: Mapping[str, np.ndarray]) -> None:
  """Raises UserError if a part has no instance, as with the pairing `order` and documents of a single token."""
  for name, value in counts.items():
    if name.startswith(PARTS) and value[0] == 0:
      part, _, length = name.partition("_")
      raise UserError(
        f"the corpus has no instance of {part} at {length} tokens, because a document of one token cannot be cut into"
        " two segments; give longer documents, or set --config.objective.kind=mlm"
      )


def _begin_worker(settings: Settings, directory: pathlib.Path) -> None:
  """Prepares a worker process for blocks."""
  global _worker
  threading.Thread(target=_end_with_parent, daemon=True).start()
  os.environ["TOKENIZERS_PARALLELISM"] = "false"  # there is a worker for each core already
  _worker = (settings, load_vocabulary(directory), directory)


def _end_with_parent() -> None:
  """Ends this worker when its parent dies; otherwise it would wait for blocks forever."""
  parent = multiprocessing.parent_process()
  assert parent is not None
  parent.join()
  os._exit(1)


def _work(number: int, block: Block) -> dict[str, np.ndarray]:
  """Writes a block in a worker process."""
  return write_block(number, block, *_worker)


def _statistics(counts: Mapping[str, np.ndarray], vocabulary: Vocabulary) -> dict:
  """Returns the statistics of a corpus, ready for JSON; `entropy` is the entropy of its token frequencies, in nats."""
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
    **({"repeated": float(counts["repeated"] / tokens.sum())} if "repeated" in counts else {}),
    **({"copies": counts["copies"].tolist()} if "copies" in counts else {}),
  }


def main(argv: Sequence[str]) -> None:
  """Prepares the corpus of a config, and prints its summary."""
  flag_values = command_line.parse(argv)
  if flag_values.help:
    print(f"{__doc__}\n{flag_values.get_help()}")
    return
  config = flag_values.config
  if "corpus" not in config:
    raise UserError(
      "the config has no corpus; set --config to a pre-training config, such as pretrain_small"
    )
  if flag_values["dry-run"].value:
    check_corpus(config)
    print(
      f"{config.corpus.name} ({config.corpus.path or 'artificial'}), into {config.cache_dir}/corpora"
    )
    return
  print(command_line.format_rows(summary(prepare(config))))


if __name__ == "__main__":
  logging.use_absl_handler()
  flags.FLAGS.mark_as_parsed()  # absl's own flags keep their defaults, and absl does not warn about them
  sys.exit(exit_code(lambda: main(sys.argv)))
