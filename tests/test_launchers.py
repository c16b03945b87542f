"""Which environments are those of one process among several."""

import pytest

from discipline_jax import launchers
from discipline_jax.errors import UserError

STEP = {
  "SLURM_JOB_ID": "7",
  "SLURM_STEP_NODELIST": "n[1-2]",
  "SLURM_NTASKS": "8",
  "SLURM_PROCID": "0",
  "SLURM_LOCALID": "0",
}
MPI = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_MCA_orte_hnp_uri": "1.0;tcp://10.0.0.1:34911"}


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
  for name in (*STEP, *MPI, "TPU_WORKER_HOSTNAMES"):
    monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
  ("environment", "expected"),
  [
    ({}, False),
    (STEP, True),
    (STEP | {"SLURM_NTASKS": "1"}, False),
    ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, False),  # a batch script
    (MPI, True),
    (MPI | {"OMPI_COMM_WORLD_SIZE": "1"}, False),
    ({"TPU_WORKER_HOSTNAMES": "a,b"}, True),
    ({"TPU_WORKER_HOSTNAMES": "a"}, False),
  ],
)
def test_environments(environment, expected, monkeypatch):
  for name, value in environment.items():
    monkeypatch.setenv(name, value)
  assert launchers.is_one_of_several() == expected


def test_open_mpi_without_an_address(monkeypatch):
  monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
  with pytest.raises(UserError, match="JAX_COORDINATOR_ADDRESS"):
    launchers.is_one_of_several()
