"""Runs the tasks of a preparation as pipelines of Apache Beam, on one machine or on a cluster.

Every worker must see the texts and the cache under the same paths, run as the same user as this process, and have this
package and its dependencies. The pipelines only say who does which task: what a task does, and its files, are the same
as without Beam.
"""

import argparse
import contextlib
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from discipline_jax.corpora.tasks import WORK, Job, Worker
from discipline_jax.corpora.workers import Task
from discipline_jax.errors import RunFailed, UserError
from discipline_jax.files.whole_files import write_json

try:
  import apache_beam as beam
  from apache_beam.options.pipeline_options import PipelineOptions
  from apache_beam.runners.portability.portable_runner import PortableRunner
except ImportError as error:
  raise UserError(
    f"--runner needs Apache Beam ({error}); in a copy of the repository make an environment of its own for it:"
    " python -m venv beam && beam/bin/pip install -e '.[beam]'"
  ) from None

_FAILED = f"{WORK}/failed.json"
_KINDS = {kind.__name__: kind for kind in (UserError, RunFailed)}


def pipelines(
  runner: str, options: Sequence[str]
) -> Callable[[Job], AbstractContextManager["Pipelines"]]:
  """Returns a function that opens the pipelines of a job.

  Args:
    runner: the name of a runner, such as DirectRunner, DataflowRunner, FlinkRunner or SparkRunner.
    options: options of Beam, as on the command line.

  Raises:
    UserError: Beam has no such runner, or no such option.
  """
  unknown = _unknown(options)
  has_job_server = isinstance(_pipeline(runner, options).runner, PortableRunner)
  # A job server may have options of its own. Beam only logs that it leaves out those that nothing has.
  if unknown and not has_job_server:
    raise UserError(
      f"Apache Beam has no option {unknown[0]}; correct what stands after --, or take it out"
    )

  @contextlib.contextmanager
  def open_pipelines(job: Job) -> Iterator[Pipelines]:
    yield Pipelines(job, runner, options)

  return open_pipelines


class Pipelines:
  """Runs the tasks of a job; each call of `run` is one pipeline. Runner and options are as in `pipelines`."""

  def __init__(self, job: Job, runner: str, options: Sequence[str]):
    self._job, self._runner, self._options = job, runner, options

  def run(self, task: Task, arguments: Sequence[tuple]) -> Iterator[int]:
    """Runs a task with each of several tuples of arguments, and waits for all of them.

    Returns:
      An empty iterator: the task leaves its results in files.

    Raises:
      UserError, RunFailed: a task raised it.
    """
    with _pipeline(self._runner, self._options) as pipeline:
      numbers = pipeline | beam.Create(range(len(arguments))) | beam.Reshuffle()
      _ = numbers | beam.ParDo(_Tasks(self._job, task, arguments))
    failed = self._job.folder / _FAILED
    if failed.is_file():
      content = json.loads(failed.read_text(encoding="utf-8"))
      raise _KINDS[content["kind"]](content["message"])
    return iter(())


def _pipeline(runner: str, options: Sequence[str]) -> beam.Pipeline:
  """Returns an empty pipeline; raises UserError if Beam does not have the runner, or refuses the options."""
  try:
    return beam.Pipeline(options=PipelineOptions([f"--runner={runner}", *options]))
  except (ValueError, ImportError) as error:
    raise UserError(
      f"Apache Beam cannot start --runner={runner} ({error}); give one of its runners, such as DirectRunner, and the"
      " options that it needs after --"
    ) from None


def _unknown(options: Sequence[str]) -> list[str]:
  """Returns the options that no class of Beam has; raises UserError if one that it has is given a wrong value."""
  parsers: list[argparse.ArgumentParser] = []
  PipelineOptions([]).get_all_options(add_extra_args_fn=parsers.append)
  said = io.StringIO()
  try:
    with contextlib.redirect_stderr(said):
      return parsers[0].parse_known_args(list(options))[1]
  except SystemExit as error:
    if not error.code:  # --help
      raise
    reason = said.getvalue().splitlines()[-1].rpartition("error: ")[2]
    raise UserError(f"Apache Beam: {reason}; correct what stands after --") from None


class _Tasks(beam.DoFn):
  """Does the tasks with the given numbers."""

  def __init__(self, job: Job, task: Task, arguments: Sequence[tuple]):
    super().__init__()
    self._job, self._task, self._arguments = job, task, list(arguments)

  def setup(self) -> None:
    """Prepares a worker of Beam for tasks."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # there are workers for all cores already
    self._worker = Worker(self._job)

  def process(self, element: int) -> None:
    """Does a task. UserError and RunFailed are kept in a file, because Beam would try the task again."""
    try:
      self._task(self._worker, *self._arguments[element])
    except (UserError, RunFailed) as error:
      content = {"kind": type(error).__name__, "message": str(error)}
      write_json(self._job.folder / _FAILED, content)
