"""The entry point of every run: `python -m discipline_jax.main --config=configs/dna_h3.py`.

Exit codes: 0 done; 2 a mistake of the user's, told in one line; 3 the run failed; 75 stopped by the
platform, run again; 130 interrupted by the user.
"""

import importlib.util
import os
import pathlib
import sys

import jax
from absl import flags, logging
from ml_collections import config_flags

from discipline_jax.errors import RunFailed, UserError
from discipline_jax.finetune import finetune
from discipline_jax.training.loop import Stopped

_CONFIG = config_flags.DEFINE_config_file("config", None, "A file of configs/, by path or by name; --config.a.b=value changes a field.")
_WORKDIR = flags.DEFINE_string("workdir", None, "Where the run is written; by default runs/ and the config's name.")
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Say what would run, and write nothing.")
_MODES = {"finetune": finetune}


def main(argv: list[str]) -> int:
  """Runs what the flags say and returns the exit code."""
  try:
    config, workdir = _parse(argv)
    if config.mode not in _MODES:
      raise UserError(f"mode = {config.mode!r} is not one of: {', '.join(_MODES)}")
    _prepare_jax(config.cache_dir)
    _MODES[config.mode](config, workdir, dry_run=_DRY_RUN.value)
  except UserError as error:
    return _fail(error, 2)
  except RunFailed as error:
    return _fail(error, 3)
  except Stopped as stopped:
    return _fail(stopped, stopped.exit_code)
  except KeyboardInterrupt:
    return _fail("interrupted", 130)
  return 0


def _parse(argv: list[str]):
  argv = [_find_config(argument) for argument in argv]
  try:
    rest = flags.FLAGS(argv)
  except (flags.Error, AttributeError, KeyError, OSError, SyntaxError, TypeError, ValueError) as error:
    raise UserError(f"{str(error).strip().splitlines()[0]}; see --help and the config's fields in discipline_jax/defaults.py") from None
  if len(rest) > 1:
    raise UserError(f"unexpected argument {rest[1]!r}; flags begin with --")
  if _CONFIG.value is None:
    raise UserError("no --config; try --config=configs/quickstart.py")
  name = pathlib.Path(next(a for a in argv if a.startswith("--config=")).removeprefix("--config=")).stem
  return _CONFIG.value, pathlib.Path(_WORKDIR.value or f"runs/{name}").expanduser()


def _find_config(argument: str) -> str:
  """Lets `--config=dna_h3` and `--config=configs/dna_h3.py` work from any folder, by the configs installed with the package."""
  flag, _, value = argument.partition("=")
  if flag != "--config" or not value or pathlib.Path(value).exists():
    return argument
  spec = importlib.util.find_spec("discipline_jax.configs")
  folders = [pathlib.Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []
  folders.append(pathlib.Path(__file__).parent.parent / "configs")
  names = sorted({path.stem for folder in folders for path in folder.glob("*.py") if path.stem != "__init__"})
  if pathlib.Path(value).parent in (pathlib.Path("."), pathlib.Path("configs")):
    for folder in folders:
      path = folder / f"{pathlib.Path(value).stem}.py"
      if path.exists():
        return f"--config={path}"
  raise UserError(f"no config file {value}; give a path, or one of: {', '.join(names)}")


def _prepare_jax(cache_dir: str) -> None:
  """Keeps compiled programs, so that a second start does not compile; joins the other processes of a pod."""
  jax.config.update("jax_compilation_cache_dir", str(pathlib.Path(cache_dir).expanduser() / "xla"))
  jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
  if os.environ.get("JAX_COORDINATOR_ADDRESS"):
    jax.distributed.initialize()


def _fail(error: BaseException | str, code: int) -> int:
  kind = "stopped" if code in (75, 130) else "error"
  print(f"{kind}: {' '.join(str(error).split())}", file=sys.stderr)
  return code


if __name__ == "__main__":
  logging.use_absl_handler()
  sys.exit(main(sys.argv))
