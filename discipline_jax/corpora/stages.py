"""The stages of a preparation: the manifest, the vocabulary, the blocks, and the description that makes it whole."""

import contextlib
import dataclasses
import pathlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from tokenizers import Tokenizer

from discipline_jax.corpora import manifest
from discipline_jax.corpora.blocks import least_documents, line_counts
from discipline_jax.corpora.description import describe
from discipline_jax.corpora.known import check_sample
from discipline_jax.corpora.manifest import File, Manifest
from discipline_jax.corpora.prepared import DESCRIPTION
from discipline_jax.corpora.ranges import Range, cut, groups, read_list
from discipline_jax.corpora.source import Source, vocabulary_source
from discipline_jax.corpora.tally import Tally, total
from discipline_jax.corpora.tasks import (
  FREQUENCIES,
  MADE_WITH,
  WORK,
  Job,
  Worker,
  counts_file,
  list_file,
  make_folders,
  read_counts,
  tally_file,
)
from discipline_jax.corpora.workers import Task
from discipline_jax.files import progress
from discipline_jax.files.whole_files import whole_file, write_json
from discipline_jax.models.special_tokens import ROLES
from discipline_jax.models.tokenizer import load_vocabulary


@runtime_checkable
class Runner(Protocol):
  """Runs tasks: `workers.Processes`, or Beam's pipelines."""

  def run(self, task: Task, arguments: Sequence[tuple]) -> Iterator[int]:
    """Runs a task with each of several arguments, and yields what it returns, in any order."""


def job_of(source: Source, folder: pathlib.Path) -> Job:
  """Returns the job that prepares a corpus in a folder."""
  return Job(
    folder,
    source.config.corpus.name,
    source.instances,
    source.texts,
    source.symbols,
    source.counter,
  )


def write_manifest(
  source: Source, folder: pathlib.Path, runner: Runner, files: Sequence[File], parts: int = 0
) -> Manifest:
  """Cuts the corpus into blocks, and writes its manifest.

  Args:
    source: the source of the corpus.
    folder: where the corpus is prepared; nothing of an earlier preparation is there.
    runner: what lists the documents.
    files: the files of the text, with their digests.
    parts: in how many parts the corpus is prepared; 0 if in one go.

  Raises:
    UserError: a file cannot be read, or has changed.
  """
  make_folders(folder)
  lines = [] if source.is_text else line_counts(source.config.corpus.lines)
  plan = Manifest(manifest.versions(), source.settings(), tuple(files), (), tuple(lines), parts)
  with of_a_text_that_stays(source, plan, folder):
    plan = dataclasses.replace(plan, texts=tuple(_cut(source, folder, runner)))
  plan.write(folder)
  return plan


def _cut(source: Source, folder: pathlib.Path, runner: Runner) -> list[Range]:
  """Lists the documents of a corpus, and cuts it into ranges; there is none without a text."""
  if source.texts is None:
    return []
  units = groups(source.texts)
  arguments = [(i, *one) for i, one in enumerate(units)]
  _follow(runner.run(Worker.list_documents, arguments), "texts", " documents")
  lists = (part for i in range(len(units)) for part in read_list(list_file(folder, i)))
  texts = cut(lists, 2 * least_documents(source.instances.pairing))
  shutil.rmtree(list_file(folder, 0).parent)
  return texts


def make_vocabulary(
  source: Source, plan: Manifest, folder: pathlib.Path, runner: Runner, first: range = range(0)
) -> None:
  """Writes the vocabulary of a corpus, unless it is there; and the frequencies of artificial symbols.

  Args:
    source: the source of the corpus.
    plan: its manifest.
    folder: where the corpus is prepared.
    runner: what counts the words.
    first: the ranges of the text that are counted first; other processes may do the others meanwhile.

  Raises:
    UserError: the text is not known to the vocabulary.
  """
  if not (folder / "tokenizer.json").is_file():
    tally = None
    if source.counter is not None:
      # From the last one on: the others begin with their own first ones.
      rest = [number for number in reversed(range(len(plan.texts))) if number not in first]
      arguments = [(number, plan.texts[number]) for number in (*first, *rest)]
      _follow(runner.run(Worker.count, arguments), "vocabulary", " documents")
      files = (tally_file(folder, number) for number in range(len(plan.texts)))
      tally = total(map(Tally.read, files))
    if not source.is_text:
      with whole_file(folder / FREQUENCIES) as file:
        np.save(file, source.frequencies(tally))
    _write_vocabulary(source.tokenizer(tally), source.special_tokens, folder)
  block = Worker(job_of(source, folder)).block(0, plan.blocks[0])
  check_sample(block, source.instances, load_vocabulary(folder), vocabulary_source(source.config))


def _write_vocabulary(
  tokenizer: Tokenizer, special: Sequence[str], directory: pathlib.Path
) -> None:
  """Writes a tokenizer in Hugging Face's format.

  Args:
    tokenizer: the tokenizer.
    special: its tokens for padding, unknown words, the start, the end and masks.
    directory: where it is written.
  """
  # Without its class, transformers would replace it by the tokenizer of the model's family.
  names = {f"{role}_token": token for role, token in zip(ROLES, special, strict=True)}
  content = {"tokenizer_class": "PreTrainedTokenizerFast", **names}
  write_json(directory / "tokenizer_config.json", content)
  with whole_file(directory / "tokenizer.json", text=True) as file:  # last: then both are there
    file.write(tokenizer.to_str(pretty=True))


def write_blocks(plan: Manifest, runner: Runner, numbers: Iterable[int]) -> None:
  """Writes the blocks of these numbers, but those that are there."""
  arguments = [(number, plan.blocks[number], plan.digest) for number in numbers]
  _follow(runner.run(Worker.write, arguments), "instances", " tokens")


def _follow(done: Iterator[int], name: str, unit: str) -> None:
  """Shows on a progress bar how much of the tasks is done."""
  with progress.bar(desc=name, unit=unit, unit_scale=True) as bar:
    for amount in done:
      bar.update(amount)


def finish(source: Source, plan: Manifest, folder: pathlib.Path, directory: pathlib.Path) -> None:
  """Describes a corpus whose blocks are all there, and moves it to its place.

  Args:
    source: the source of the corpus.
    plan: its manifest.
    folder: where it was prepared.
    directory: its place; no finished corpus is there.

  Raises:
    UserError: the files of the text have changed, or the corpus is too small.
  """
  plan.check_files(source, folder)
  sums: dict[str, np.ndarray] = {}
  for number in range(len(plan.blocks)):
    for name, value in read_counts(counts_file(folder, number)).items():
      if name != MADE_WITH:
        sums[name] = np.asarray(sums.get(name, 0) + value)
  first = None if source.is_text else Worker(job_of(source, folder)).block(0, plan.blocks[0])
  write_json(folder / DESCRIPTION, describe(source, sums, load_vocabulary(folder), first))
  publish(folder, directory)


@contextlib.contextmanager
def of_a_text_that_stays(source: Source, plan: Manifest, folder: pathlib.Path) -> Iterator[None]:
  """Lets what reads the text inside fail with the true reason if a file of it changes meanwhile."""
  try:
    yield
  except (ValueError, OSError):  # also a UserError, and text that is no longer UTF-8
    plan.check_files(source, folder)
    raise


def publish(folder: pathlib.Path, directory: pathlib.Path) -> None:
  """Moves a finished corpus from the folder where it was prepared to its place, and deletes the files of tasks."""
  shutil.rmtree(directory, ignore_errors=True)  # what an upload to a bucket left that was stopped
  folder.replace(directory)  # with its manifest: until then it tells which text the corpus has
  clear(directory)


def clear(directory: pathlib.Path) -> None:
  """Deletes the files of tasks that a stopped process left in a finished corpus."""
  shutil.rmtree(directory / WORK, ignore_errors=True)
