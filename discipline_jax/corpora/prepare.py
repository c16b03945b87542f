"""Prepares a corpus for pre-training: writes its vocabulary, and unmasked instances as ArrayRecord files.

  python -m discipline_jax.corpora.prepare --config=pretrain_small --config.corpus.path=DIR

Pre-training does the same if the corpus is not in the cache. The folder that is printed can be copied to another
machine, and `corpus.path` can name it there. A large corpus is prepared by several jobs, which share the cache:

  ... --part=I/N        prepares part I of N
  ... --merge           makes a corpus of all parts
  ... --runner=NAME     runs pipelines of Apache Beam; its options stand after --
"""

import json
import pathlib
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import jax
import numpy as np
from absl import flags, logging
from jax.experimental import multihost_utils
from ml_collections import ConfigDict

from discipline_jax import command_line
from discipline_jax.corpora.description import symbol_fields
from discipline_jax.corpora.instances import PAIRING_OF
from discipline_jax.corpora.known import check_statistics
from discipline_jax.corpora.manifest import File, digests_of, listed
from discipline_jax.corpora.parts import describe_merge, describe_part, make_part, merge, parse_part
from discipline_jax.corpora.prepared import DESCRIPTION, Prepared, check_pairs, summary
from discipline_jax.corpora.source import (
  TEXTS,
  Source,
  check_corpus,
  chosen_vocabulary,
  row_lengths,
  vocabulary_source,
)
from discipline_jax.corpora.stages import (
  Runner,
  clear,
  finish,
  job_of,
  make_vocabulary,
  of_a_text_that_stays,
  write_blocks,
  write_manifest,
)
from discipline_jax.corpora.tasks import Job
from discipline_jax.corpora.workers import Processes, stopping
from discipline_jax.errors import UserError
from discipline_jax.exit_codes import exit_code
from discipline_jax.files import copies, places
from discipline_jax.files.locks import locked

# Opens what runs the tasks of a job.
Open = Callable[[Job], AbstractContextManager[Runner]]


def prepare(config: ConfigDict, open_runner: Open = Processes) -> Prepared:
  """Opens the prepared corpus of a pre-training config in the cache, or prepares it first.

  Only one process prepares a corpus; others wait for it. An interrupted preparation starts from the beginning.

  Args:
    config: a config of `defaults.pretrain`. These fields decide about the corpus: `corpus`, `objective.kind`, `seed`,
      `model.checkpoint` and `model.config.vocab_size`; `cache_dir` is the place of the cache.
    open_runner: opens what runs the tasks: by default, processes on this machine.

  Raises:
    UserError: the settings are wrong, a file cannot be read, or the corpus is too small.
    RunFailed: a file cannot be written, or the system killed a worker.
  """
  check_corpus(config)
  path = None if config.corpus.path is None else copies.fetched(places.place(config.corpus.path))
  if path is not None and (path / DESCRIPTION).is_file():
    return _given(path, config)
  source = Source(config)
  files = listed(source)
  key = source.key(digests_of(files))
  cached = places.place(config.cache_dir) / "corpora" / key
  with locked(cached.with_name(f".{cached.name}.lock")):
    directory = copies.fetched(cached)
    is_there = (directory / DESCRIPTION).is_file()
    if is_there:
      clear(directory)
    else:
      logging.info("Preparing the corpus in %s", cached)
      _make(source, files, directory, open_runner)
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
    **symbol_fields(config),
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


def _make(
  source: Source, files: Sequence[File], directory: pathlib.Path, open_runner: Open
) -> None:
  """Prepares a corpus in a temporary folder, which then becomes `directory`."""
  # A killed process leaves its folder.
  for left in directory.parent.glob(f".{directory.name}.*.part"):
    shutil.rmtree(left, ignore_errors=True)
  # The name is random, because workers of a killed process may write to its folder for another moment.
  folder = pathlib.Path(tempfile.mkdtemp(".part", f".{directory.name}.", directory.parent))
  folder.chmod(0o755)
  try:
    with stopping(), open_runner(job_of(source, folder)) as runner:
      plan = write_manifest(source, folder, runner, files)
      with of_a_text_that_stays(source, plan, folder):
        make_vocabulary(source, plan, folder, runner)
        write_blocks(plan, runner, range(len(plan.blocks)))
      finish(source, plan, folder, directory)
  finally:
    shutil.rmtree(folder, ignore_errors=True)


def _parse(argv: Sequence[str]) -> tuple[flags.FlagValues, flags.FlagValues, list[str]]:
  """Returns the flags of this command alone, those of all commands, and the options of Beam."""
  argv = list(argv)
  end = argv.index("--") if "--" in argv else len(argv)
  own = flags.FlagValues()
  own.set_gnu_getopt()  # they may stand behind an argument such as the X of --config X
  flags.DEFINE_string("part", None, "I/N: prepare part I of N parts.", flag_values=own)
  flags.DEFINE_bool("merge", False, "Make a corpus of all parts.", flag_values=own)
  flags.DEFINE_string(
    "runner", None, "A runner of Apache Beam, whose options stand after --.", flag_values=own
  )
  try:
    rest = own(argv[:end], known_only=True)
  except flags.Error as error:
    raise UserError(f"{error}; see --help") from None
  given = [name for name in ("part", "merge", "runner") if own[name].value not in (None, False)]
  if len(given) > 1:
    raise UserError(f"--{given[0]} and --{given[1]} exclude each other; give one of them")
  options = argv[end + 1 :]
  if options and own.runner is None:
    raise UserError(f"{options[0]!r} after -- is for Apache Beam; give --runner, or take it out")
  return own, command_line.parse(rest), options


def main(argv: Sequence[str]) -> None:
  """Prepares the corpus of a config, and prints its summary."""
  own, flag_values, options = _parse(argv)
  if flag_values.help:
    print(f"{__doc__}\n{own.get_help()}\n{flag_values.get_help()}")
    return
  config = flag_values.config
  if "corpus" not in config:
    raise UserError(
      "the config has no corpus; set --config to a pre-training config, such as pretrain_small"
    )
  part = None if own.part is None else parse_part(own.part)
  if flag_values["dry-run"].value:
    check_corpus(config)
    print(
      f"{config.corpus.name} ({config.corpus.path or 'artificial'}), into {config.cache_dir}/corpora"
    )
    if part is not None:
      print(command_line.format_rows(describe_part(config, *part)))
    elif own.merge:
      print(command_line.format_rows(describe_merge(config)))
    return
  if part is not None:
    rows = make_part(config, *part)
  elif own.merge:
    rows = summary(merge(config))
  elif own.runner is not None:
    from discipline_jax.corpora import beam  # late: an optional package

    rows = summary(prepare(config, beam.pipelines(own.runner, options)))
  else:
    rows = summary(prepare(config))
  print(command_line.format_rows(rows))


if __name__ == "__main__":
  logging.use_absl_handler()
  flags.FLAGS.mark_as_parsed()  # absl's own flags keep their defaults, and absl does not warn about them
  sys.exit(exit_code(lambda: main(sys.argv)))
