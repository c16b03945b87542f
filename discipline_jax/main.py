"""The entry point of every run: `python -m discipline_jax.main --config=configs/dna_h3.py`.

Exit codes: 0 done; 2 a mistake of the user, told in one line; 3 the run failed; 75 stopped by the platform, run the
same command again; 130 interrupted by the user.
"""

import importlib
import os
import pathlib
import sys
from collections.abc import Callable, Sequence

import jax
from absl import flags, logging
from ml_collections import ConfigDict, config_flags

from discipline_jax import command_line, defaults, hosts, launchers
from discipline_jax.errors import RunFailed, UserError
from discipline_jax.exit_codes import exit_code
from discipline_jax.files.places import Path, place

_HEARTBEAT = 30  # seconds until the death of another process ends this one
_TRAINING = (
  "raise train.grad_accumulation, lower train.batch_size or eval.batch_size, or set model.dtype=bfloat16 (in"
  " pre-training also remat=True); a run that has begun cannot change them, so give another --workdir"
)
# Advice if the device has not enough memory, by mode. A mode is a module with a function of the same name.
_MODES = {
  "finetune": _TRAINING,
  "pretrain": _TRAINING,
  "compare": _TRAINING,
  "search": _TRAINING,
  "study": "run the same command again",  # a run that has not enough memory fails alone
  "predict": "lower --config.eval.batch_size",
  "embed": "lower --config.eval.batch_size",
  "analyze": "lower --config.eval.batch_size",
  "inspect": _TRAINING,
  "export": "use a machine whose device holds the whole model",
}


def main(argv: Sequence[str]) -> int:
  """Runs what the flags in `argv[1:]` say and returns the exit code."""
  return exit_code(lambda: _run(argv))


def _run(argv: Sequence[str]) -> None:
  _join()
  # A flag that is wrong in one process must not leave the others waiting, so that it is read inside.
  with hosts.together():
    flag_values = command_line.parse(argv)
    if flag_values.help:
      names = ", ".join(command_line.config_names())
      print(f"{__doc__}\n{flag_values.get_help()}")
      print(f"Configs: {names}\nTheir fields: {defaults.__file__}")
      return
    config = flag_values.config
    file, _, model = config_flags.get_config_filename(flag_values["config"]).partition(":")
    name = "_".join(filter(None, [pathlib.Path(file).stem, model]))
    workdir = place(flag_values.workdir or f"runs/{name}")
    dry_run = bool(flag_values["dry-run"].value)
    hosts.check_alike(config, workdir, dry_run=dry_run)
    _start(config, workdir, dry_run)


def _start(config: ConfigDict, workdir: Path, dry_run: bool) -> None:
  """Runs the mode of a config."""
  if config.mode not in _MODES:
    raise UserError(f"mode = {config.mode!r} is not one of: {', '.join(_MODES)}")
  # Compiled programs are kept, so that a second start does not compile.
  jax.config.update("jax_compilation_cache_dir", str(place(config.cache_dir) / "xla"))
  jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
  # Imported here, because each mode needs other libraries, and they take seconds.
  run: Callable = getattr(importlib.import_module(f"discipline_jax.{config.mode}"), config.mode)
  try:
    run(config, workdir, dry_run=dry_run)
  except jax.errors.JaxRuntimeError as error:
    reason = command_line.no_memory(error)
    if reason is None:
      raise
    raise RunFailed(f"{reason}; {_MODES[config.mode]}") from None


def _join() -> None:
  """Joins the other processes of a run, if there are any."""
  address = os.environ.get("JAX_COORDINATOR_ADDRESS")
  if not address:
    if launchers.is_one_of_several():
      jax.distributed.initialize(heartbeat_timeout_seconds=_HEARTBEAT)
    return
  try:
    processes, number = (int(os.environ[name]) for name in ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID"))
  except (KeyError, ValueError):
    raise UserError(
      "JAX_COORDINATOR_ADDRESS is set without integers in JAX_NUM_PROCESSES and JAX_PROCESS_ID; set all three, or none"
    ) from None
  jax.distributed.initialize(address, processes, number, heartbeat_timeout_seconds=_HEARTBEAT)


if __name__ == "__main__":
  logging.use_absl_handler()
  flags.FLAGS.mark_as_parsed()  # absl's own flags keep their defaults; this stops a warning about them
  sys.exit(main(sys.argv))
