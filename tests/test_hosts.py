"""Two processes that do not train: what one says of its end must reach the other, and both have one exit code."""

import re
import signal

import pytest

from tests.forked import Process
from tests.whole_runs import free_port

SCRIPT = """
import os, pathlib, signal, sys, time
import jax
jax.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]), heartbeat_timeout_seconds=100)
from discipline_jax import defaults, hosts
from discipline_jax.errors import RunFailed, Stopped, UserError
from discipline_jax.exit_codes import exit_code

number, config = int(sys.argv[2]), defaults.finetune()

def wait():
  time.sleep(100)

def run():
  with hosts.together():
    {before}
    hosts.check_alike(config, pathlib.Path("run"), dry_run=False)
    {body}
  print("went on", flush=True)

sys.exit(exit_code(run))
"""


def ends(body: str, before: str = "pass") -> list[tuple[int, str, str]]:
  """Runs `before` and `body` in two processes, which compare their configs in between.

  Returns:
    The exit code, stdout and stderr of each.
  """
  script = SCRIPT.replace("{before}", before).replace("{body}", body)
  address = f"localhost:{free_port()}"
  both = [Process("-c", script, address, str(number)) for number in range(2)]
  outputs = [process.communicate() for process in both]
  return [(one.returncode, *output) for one, output in zip(both, outputs, strict=True)]


def last_line(stderr: str) -> str:
  return [line for line in stderr.splitlines() if re.match("error|stopped", line)][-1]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(
  ("raised", "code"), [("UserError('wrong')", 2), ("RunFailed('wrong')", 3), ("KeyError('a')", 1)]
)
def test_the_other_ends_with_the_line_and_the_code(number, raised, code):
  found = ends(f"if number == {number}: raise {raised}\n    wait()")
  assert [one[0] for one in found] == [code, code], found
  own, other = (last_line(found[place][2]) for place in (number, 1 - number))
  assert other == own.replace("error: ", f"error: process {number}: ", 1)
  assert ["Traceback" in one[2] for one in found] == [
    code == 1 and place == number for place in range(2)
  ]


def test_an_end_after_the_other_is_done():
  """As when the first process alone writes the result, and the disk is full."""
  found = ends("if number == 0: time.sleep(2); raise RunFailed('full')")
  assert [one[0] for one in found] == [3, 3], found
  assert last_line(found[1][2]) == "error: process 0: full"


def test_two_ends_at_once_have_one_code():
  found = ends("raise (UserError, RunFailed)[number]('wrong')")
  codes = {one[0] for one in found}
  assert codes in ({2}, {3}), found


def test_the_death_of_one_has_the_code_of_jax():
  """It shows in the other one as an error of some library, if at all."""
  found = ends(
    "if number == 1: os.kill(os.getpid(), signal.SIGKILL)\n    raise ValueError('reset')"
  )
  assert [one[0] for one in found] == [134, -signal.SIGKILL], found
  assert last_line(found[0][2]) == (
    "error: another process of this run died; run the same command again"
  )


def test_all_stop_and_all_go_on():
  assert [one[0] for one in ends("raise Stopped(signal.SIGTERM, 5)")] == [75, 75]
  found = ends("time.sleep(number)")
  assert [one[:2] for one in found] == [(0, "went on\n")] * 2, found


def test_what_fails_everywhere_is_told_from_what_fails_alone():
  alike = "hosts._ALIKE = 2000; print(hosts.fail_alike('a'), flush=True)"
  assert [one[:2] for one in ends(alike)] == [(0, "True\nwent on\n")] * 2
  alone = "hosts._ALIKE = 2000\n    if number: print(hosts.fail_alike('a'), flush=True)"
  assert ends(alone)[1][:2] == (0, "False\nwent on\n")


@pytest.mark.parametrize(
  ("change", "line"),
  [
    ("config.seed = number", "seed is 1 here and 0 in process 0; start all processes with the"),
    ("config.data_dir = str(number)", None),
  ],
)
def test_all_are_started_alike(change, line):
  found = ends("pass", before=change)
  assert [one[0] for one in found] == [2 if line else 0] * 2, found
  assert line is None or last_line(found[0][2]).startswith(f"error: process 1: {line}")


@pytest.mark.parametrize("number", [0, 1])
def test_an_end_before_the_configs_are_compared(number):
  """As of a flag that is wrong in one process."""
  found = ends("wait()", before=f"if number == {number}: raise UserError('wrong')")
  assert [one[0] for one in found] == [2, 2], found
  assert last_line(found[1 - number][2]) == f"error: process {number}: wrong"
