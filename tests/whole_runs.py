"""Starts whole runs in separate processes, as a user does."""

import contextlib
import json
import os
import pathlib
import re
import socket
import time
from collections.abc import Iterator, Sequence

import jax
import pytest

from tests.forked import Process

SMALL = pathlib.Path(__file__).parent / "testdata" / "tiny.py"
CONFIG = f"--config={SMALL}"


@contextlib.contextmanager
def one_device() -> Iterator[None]:
  """Runs within this process use one device of the eight: their programs compile in half the time."""
  devices = jax.devices()[:1]
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(jax, "devices", lambda: devices)
    yield


def start(workdir: pathlib.Path, *arguments: str) -> Process:
  """Starts a small fine-tuning in its own process, on one device."""
  return start_config(SMALL, workdir, *arguments)


def start_config(
  config: pathlib.Path,
  workdir: pathlib.Path,
  *arguments: str,
  environment: dict[str, str] | None = None,
  devices: int = 1,
) -> Process:
  """Starts a run of any config, in the same way as `start`, on so many virtual devices."""
  count = "--xla_force_host_platform_device_count"
  xla_flags = re.sub(rf"{count}=\d+", f"{count}={devices}", os.environ["XLA_FLAGS"])
  return Process(
    "-m",
    "discipline_jax.main",
    f"--config={config}",
    f"--workdir={workdir}",
    *arguments,
    environment={"XLA_FLAGS": xla_flags, **(environment or {})},
  )


def start_two(
  config: pathlib.Path,
  workdir: pathlib.Path,
  *arguments: str,
  of_second: Sequence[str] = (),
  devices: int = 1,
  by_slurm: bool = False,
) -> list[Process]:
  """Starts one run over two processes, as on a pod.

  Args:
    config, workdir, arguments: of both processes.
    of_second: arguments that only the second one gets.
    devices: virtual devices of each.
    by_slurm: gives them the variables that `srun` sets.
  """
  address = f"localhost:{free_port()}"
  environments = [
    {
      "SLURM_JOB_ID": str(os.getpid()),  # JAX takes the port 61440 + this % 4096
      "SLURM_STEP_NODELIST": "localhost",
      "SLURM_NTASKS": "2",
      "SLURM_PROCID": str(number),
      "SLURM_LOCALID": str(number),
    }
    if by_slurm
    else {
      "JAX_COORDINATOR_ADDRESS": address,
      "JAX_NUM_PROCESSES": "2",
      "JAX_PROCESS_ID": str(number),
    }
    for number in range(2)
  ]
  return [
    start_config(
      config, workdir, *arguments, *(of_second if number else ()), environment=one, devices=devices
    )
    for number, one in enumerate(environments)
  ]


def free_port() -> int:
  """Returns a port that no one listens to."""
  with socket.socket() as free:
    free.bind(("localhost", 0))
    return free.getsockname()[1]


def finish(process: Process) -> tuple[int, str, str]:
  stdout, stderr = process.communicate()
  return process.returncode, stdout, stderr


def last_step(workdir: pathlib.Path) -> int:
  """Returns the last step in a run's log; a killed run may have left its last line cut short."""
  path = workdir / "metrics.jsonl"
  lines = path.read_text().splitlines() if path.exists() else []
  return max((json.loads(line)["step"] for line in lines if line.endswith("}")), default=0)


def wait_for_step(workdir: pathlib.Path, step: int) -> None:
  deadline = time.monotonic() + 200
  while last_step(workdir) < step:
    assert time.monotonic() < deadline, f"no step {step} in {workdir}"
    time.sleep(0.02)
