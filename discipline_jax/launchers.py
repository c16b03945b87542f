"""Tells whether a launcher started this process as one of several of one run: SLURM, Open MPI, or a TPU slice.

JAX finds the addresses itself; see the cluster detection of `jax.distributed.initialize`.
"""

import importlib.util
import os
import pathlib

from discipline_jax.errors import UserError

_STEP = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_PROCID", "SLURM_LOCALID")
_TPU_DEVICES = ("/dev/accel0", "/dev/vfio/0")


def is_one_of_several() -> bool:
  """Returns whether this process has to join others before JAX is used.

  Raises:
    UserError: Open MPI started several, and does not say where the first one is.
  """
  return _of_slurm() or _of_open_mpi() or _of_tpu()


def _of_slurm() -> bool:
  # A batch script has the number of tasks, too, but is none of them: only `srun` sets the rest.
  return _number("SLURM_NTASKS") > 1 and all(name in os.environ for name in _STEP)


def _of_open_mpi() -> bool:
  if _number("OMPI_COMM_WORLD_SIZE") < 2:
    return False
  if "OMPI_MCA_orte_hnp_uri" not in os.environ:
    raise UserError(
      "Open MPI started several processes without OMPI_MCA_orte_hnp_uri, which says where the first one is; set"
      " JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID in each of them"
    )
  return True


def _of_tpu() -> bool:
  """Returns whether this is a host of a TPU slice; a slice of one host may be joined as well."""
  if "," in os.environ.get("TPU_WORKER_HOSTNAMES", ""):
    return True
  has_library = importlib.util.find_spec("libtpu") is not None
  return has_library and any(pathlib.Path(one).exists() for one in _TPU_DEVICES)


def _number(name: str) -> int:
  value = os.environ.get(name, "")
  return int(value) if value.isdecimal() else 0
