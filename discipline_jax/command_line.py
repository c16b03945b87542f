"""What every command of the project shares: its flags, and how it fails.

Exit codes: 0 done; 2 a mistake of the user's, told in one line; 3 the run failed; 75 stopped by the
platform, run again; 130 interrupted by the user.
"""

import importlib.util
import pathlib
import re
import sys
from collections.abc import Callable, Sequence

import jax
from absl import flags
from ml_collections import ConfigDict, config_flags

from discipline_jax.errors import RunFailed, UserError
from discipline_jax.training.signals import Stopped


def exit_code(command: Callable[[], None]) -> int:
  """Runs a command and returns its exit code; what went wrong is told in one line."""
  try:
    command()
  except UserError as error:
    return _fail(error, 2)
  except RunFailed as error:
    return _fail(error, 3)
  except Stopped as stopped:
    return _fail(stopped, stopped.exit_code)
  except jax.errors.JaxRuntimeError as error:
    if "RESOURCE_EXHAUSTED" not in str(error) or "out of memory" not in str(error).lower():
      raise
    return _fail(
      f"the device has not enough memory ({str(error).splitlines()[0]}); raise train.grad_accumulation, lower"
      " train.batch_size or eval.batch_size, or set model.dtype=bfloat16 (in pre-training also remat=True); a"
      " run that had begun goes on with other settings only in another --workdir",
      3,
    )
  except OSError as error:
    return _fail(
      f"{error.strerror or error}, {error.filename or 'while reading or writing'}; free space, or give another place",
      3,
    )
  except KeyboardInterrupt:
    return _fail("interrupted", 130)
  return 0


def parse(argv: Sequence[str]) -> flags.FlagValues:
  """The flags `argv[1:]`; raises UserError for wrong ones, and for a config that cannot be read."""
  argv = list(argv)
  if "--config" in argv[:-1]:
    place = argv.index("--config")
    argv[place : place + 2] = [f"--config={argv[place + 1]}"]
  argv = [_find_config(argument) for argument in argv]
  flag_values = _define_flags(argv)
  try:
    rest = flag_values(argv)
  except Exception as error:  # a config file is a program, and can fail in any way
    _explain_unknown_field(argv)
    raise UserError(_reason(error)) from None
  if len(rest) > 1:
    raise UserError(f"unexpected argument {rest[1]!r}; flags begin with --")
  if flag_values.config is None and not flag_values.help:
    raise UserError("no --config; try --config=configs/quickstart.py")
  return flag_values


def _reason(error: Exception) -> str:
  """What was wrong with a flag or a config file; the traceback of the latter becomes its last line and its place."""
  text, remedy = str(error).strip(), "see --help, and the fields in discipline_jax/defaults.py"
  places = re.findall(r'File "(.*)", line (\d+)', text)
  if not places:
    return f"{type(error).__name__}: {text or 'in the config file'}; {remedy}"
  name, _, last = text.splitlines()[-1].partition(": ")
  if name.endswith(UserError.__name__):
    return last
  return f"{name}: {last}, {':'.join(places[-1])}; {remedy}"


def _define_flags(argv: Sequence[str]) -> flags.FlagValues:
  flag_values = flags.FlagValues()
  config_flags.DEFINE_config_file(
    "config",
    None,
    "A file of configs/, by path or by name; --config.a.b=value changes a field.",
    flag_values=flag_values,
    sys_argv=argv,
  )
  flags.DEFINE_string(
    "workdir",
    None,
    "Where the run is written; by default runs/ and the config's name.",
    flag_values=flag_values,
  )
  flags.DEFINE_bool(
    "dry-run", False, "Say what would run, and write nothing.", flag_values=flag_values
  )
  flags.DEFINE_bool("help", False, "Show this.", short_name="h", flag_values=flag_values)
  return flag_values


def _explain_unknown_field(argv: Sequence[str]) -> None:
  """Raises UserError where an override names a field that the config does not have."""
  alone = [argument for argument in argv if not argument.startswith("--config.")]
  flag_values = _define_flags(alone)
  try:
    flag_values(alone)
  except Exception:  # then the fields are not what is wrong
    return
  config = flag_values.config
  overrides = [argument for argument in argv if argument.startswith("--config.")]
  for argument in overrides:
    name = argument.partition("=")[0].removeprefix("--config.")
    fields = config
    for part in name.split("."):
      if not isinstance(fields, ConfigDict) or part not in fields:
        known = (
          ", ".join(sorted(fields)) if isinstance(fields, ConfigDict) else "no fields of its own"
        )
        raise UserError(f"the config has no field {name!r}; in place of {part!r} it has: {known}")
      fields = fields[part]


def _find_config(argument: str) -> str:
  """Lets `--config=dna_h3` and `--config=configs/dna_h3.py` work from any folder, also with `:MODEL` after them.

  They name the configs that are installed with the package.
  """
  flag, _, value = argument.partition("=")
  value, colon, model = value.partition(":")
  if flag != "--config" or not value or pathlib.Path(value).is_file():
    return argument
  spec = importlib.util.find_spec("discipline_jax.configs")
  folders = (
    [pathlib.Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []
  )
  folders.append(pathlib.Path(__file__).parent.parent / "configs")
  names = sorted(
    {path.stem for folder in folders for path in folder.glob("*.py") if path.stem != "__init__"}
  )
  if pathlib.Path(value).parent in (pathlib.Path("."), pathlib.Path("configs")):
    for folder in folders:
      path = folder / f"{pathlib.Path(value).stem}.py"
      if path.exists():
        return f"--config={path}{colon}{model}"
  raise UserError(f"no config file {value}; give a path, or one of: {', '.join(names)}")


def _fail(error: BaseException | str, code: int) -> int:
  kind = "stopped" if code in (75, 130) else "error"
  print(f"{kind}: {' '.join(str(error).split())}", file=sys.stderr)
  return code
