"""Shares what every command with a config needs: flags, checks of config fields, and the form of messages."""

import difflib
import importlib.util
import math
import pathlib
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import flags
from ml_collections import ConfigDict, config_flags

from discipline_jax import arguments, defaults, modes
from discipline_jax.errors import UserError
from discipline_jax.files import buckets, places

# What reads the values of a field, and what they are.
_PARSERS: dict[type, tuple[flags.ArgumentParser, str]] = {
  int: (flags.IntegerParser(), "an integer"),
  float: (flags.FloatParser(), "a number"),
  bool: (flags.BooleanParser(), "True or False"),
}


def no_memory(error: Exception) -> str | None:
  """Returns the line about an error of JAX that says that the device has not enough memory; None for any other."""
  reason = str(error)
  if "RESOURCE_EXHAUSTED" not in reason:
    return None
  return f"the device has not enough memory ({reason.splitlines()[0]})"


def parse(argv: Sequence[str]) -> flags.FlagValues:
  """Parses the flags `argv[1:]`; raises UserError for wrong ones, and for a config that cannot be read.

  `--config.FIELD=None` unsets a field that may be unset.
  """
  argv = arguments.joined(argv)
  arguments.check(argv[1:])
  argv = [_find_config(argument) for argument in argv]
  last = {
    argument.partition("=")[0]: argument for argument in argv
  }  # of several, the last one counts
  unset = [one for one in last.values() if re.fullmatch(r"--config\.[\w.-]+=None", one)]
  argv = [one for one in argv if not re.fullmatch(r"--config\.[\w.-]+=None", one)]
  flag_values = _define_flags(argv)
  try:
    rest = flag_values(argv)
  except flags.UnrecognizedFlagError as error:
    _explain_flag(error.flagname)
    raise UserError(_reason(error, argv)) from None
  except Exception as error:  # a config file is a program, and can fail in any way
    _explain_field(argv)
    raise UserError(_reason(error, argv)) from None
  if len(rest) > 1:
    raise UserError(f"unexpected argument {rest[1]!r}; flags begin with --")
  if flag_values.config is None and not flag_values.help:
    raise UserError(f"no --config; try {arguments.EXAMPLE}")
  for argument in argv:
    if argument.startswith("--config.") and "=" not in argument:
      _check_given(flag_values.config, argument)
  for argument in unset:
    _unset(flag_values.config, argument.removeprefix("--config.").removesuffix("=None"))
  for name, text in [
    ("--workdir", flag_values.workdir),
    *_texts(flag_values.config, "--config"),
  ]:
    _check_place(name, text)
  return flag_values


def _check_place(name: str, text: str | None) -> None:
  """Raises UserError if the flag or field of this name has a place in a bucket, and it cannot be reached."""
  if text is None or not places.has_scheme(text):
    return
  try:
    place = places.place(text)
    if not isinstance(place, pathlib.Path):
      buckets.check(place)
  except UserError as error:
    raise UserError(f"{name}: {error}") from None
  except (FileNotFoundError, PermissionError) as error:
    raise UserError(
      f"{name}: {error.strerror}, {text}; give another place, or change who may use it"
    ) from None


def _texts(value: Any, name: str) -> Iterator[tuple[str, str]]:
  """Yields all texts of a config, in whatever depth, with the names of their fields."""
  if isinstance(value, str):
    yield name, value
  elif isinstance(value, Mapping | ConfigDict):
    for key, one in value.items():
      yield from _texts(one, f"{name}.{key}")
  elif isinstance(value, tuple | list):
    for one in value:
      yield from _texts(one, name)


def _unset(config: ConfigDict, name: str) -> None:
  """Sets a field to None; raises UserError if there is no such field, or if it always has a value."""
  _check_field(config, name)
  *path, field = name.split(".")
  default: ConfigDict | None = None
  for part in (None, *path):  # a study has whole configs inside
    config = config if part is None else config[part]
    default = default[part] if default is not None and part in default else None
    if config.get("mode") in modes.MODES:
      default = modes.of_mode(config.mode)
  if default is None or default.get(field, 0) is not None:
    raise UserError(f"--config.{name}=None: {name} always has a value; give another one")
  with config.ignore_type():
    config[field] = None


def _check_field(config: ConfigDict, name: str) -> None:
  """Raises UserError if the config has no field of this dotted name, or a whole block of them."""
  fields = config
  for part in name.split("."):
    if not isinstance(fields, ConfigDict) or part not in fields:
      meant = [one for one in _names(config) if one.endswith(f".{name.rpartition('.')[2]}")]
      if len(meant) in (1, 2):
        raise UserError(f"the config has no field {name!r}; did you mean {' or '.join(meant)}?")
      names = sorted(fields) if isinstance(fields, ConfigDict) else []
      raise UserError(
        f"the config has no field {name!r}; in place of {part!r} it has"
        f" {_choices(part, names) if names else 'no fields of its own'}"
      )
    fields = fields[part]
  if isinstance(fields, ConfigDict):
    raise UserError(
      f"{name} is a block of fields and has no value of its own; set --config.{name}.FIELD=VALUE, with FIELD one of:"
      f" {', '.join(sorted(fields))}"
    )


def _choices(given: str, names: Sequence[str]) -> str:
  """Returns the name that was probably meant, or all names."""
  alike = difflib.get_close_matches(given, names, 1)
  return f"{alike[0]!r}: did you mean that?" if alike else f"one of: {', '.join(names)}"


def _reason(error: Exception, argv: Sequence[str]) -> str:
  """Returns why a flag or a config file cannot be read; a traceback becomes its last line and its place."""
  text, remedy = str(error).strip(), f"see --help, and the fields in {defaults.__file__}"
  places = re.findall(r'File "(.*)", line (\d+)', text)
  if not places and isinstance(error, flags.Error):
    return f"{text}; {remedy}"
  if not places:
    files = [one.partition("=")[2].partition(":")[0] for one in argv if one.startswith("--config=")]
    lines = traceback.extract_tb(error.__traceback__)
    own = [f"{one.filename}:{one.lineno}" for one in lines if one.filename in files]
    place = (own or files or ["on the command line"])[-1]
    return f"{type(error).__name__}: {text or 'no reason'}, {place}; {remedy}"
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


def _explain_field(argv: Sequence[str]) -> None:
  """Raises UserError if an override names a field that the config does not have, or gives it another kind of value."""
  alone = [argument for argument in argv if not argument.startswith("--config.")]
  flag_values = _define_flags(alone)
  try:
    flag_values(alone)
  except Exception:  # then the fields are not what is wrong
    return
  for argument in argv:
    if argument.startswith("--config."):
      _check_given(flag_values.config, argument)


def _check_given(config: ConfigDict, argument: str) -> None:
  """Raises UserError if an argument `--config.FIELD=VALUE` names no field, or has no value of its kind."""
  name, equals, text = argument.removeprefix("--config.").partition("=")
  _check_field(config, name)
  block, _, field = name.rpartition(".")
  if equals:
    _check_kind(config, name, text)
  elif _field(config, block).get_type(field) is not bool:
    raise UserError(f"--config.{name} has no value; write --config.{name}=VALUE, or leave it out")


def _explain_flag(name: str) -> None:
  """Raises UserError if a flag that does not exist is called like fields of configs."""
  known = {one for mode in modes.MODES for one in _names(modes.of_mode(mode))}
  meant = sorted(one for one in known if one == name or one.endswith(f".{name}"))
  if meant:
    fields = " or ".join(f"--config.{one}" for one in meant)
    raise UserError(f"no flag --{name}; set the field of the config, {fields}")


def _names(config: ConfigDict) -> Iterator[str]:
  """Yields the dotted names of all fields of a config that have a value of their own."""
  for name, value in config.items():
    if isinstance(value, ConfigDict):
      yield from (f"{name}.{one}" for one in _names(value))
    else:
      yield name


def _check_kind(config: ConfigDict, name: str, text: str) -> None:
  """Raises UserError if a text is no value of the field of this dotted name."""
  block, _, field = name.rpartition(".")
  parser, what = _PARSERS.get(_field(config, block).get_type(field), (None, ""))
  try:
    if parser is not None:
      parser.parse(text)
  except ValueError:
    raise UserError(f"{name} = {text!r} is not {what}; set --config.{name} to one") from None


def config_names() -> list[str]:
  """Returns the names of the configs that are installed with the package, sorted."""
  paths = (path for folder in _config_folders() for path in folder.glob("*.py"))
  return sorted({path.stem for path in paths if path.stem != "__init__"})


def _config_folders() -> list[pathlib.Path]:
  spec = importlib.util.find_spec("discipline_jax.configs")
  installed = spec.submodule_search_locations or () if spec else ()
  return [*map(pathlib.Path, installed), pathlib.Path(__file__).parent.parent / "configs"]


def _find_config(argument: str) -> str:
  """Replaces the name of a config by the path of the file that is installed with the package.

  So `--config=dna_h3` and `--config=configs/dna_h3.py` work from any folder, also with `:MODEL` after them.
  """
  flag, _, value = argument.partition("=")
  value, colon, model = value.partition(":")
  if flag != "--config" or not value or pathlib.Path(value).is_file():
    return argument
  folders = _config_folders()
  if pathlib.Path(value).parent in (pathlib.Path("."), pathlib.Path("configs")):
    for folder in folders:
      path = folder / f"{pathlib.Path(value).stem}.py"
      if path.exists():
        return f"--config={path}{colon}{model}"
  raise UserError(f"no config file {value}; give a path, or {_choices(value, config_names())}")


def at_least(config: ConfigDict, least: float, names: Iterable[str]) -> None:
  """Raises UserError if one of these fields, by dotted name, is set to less than `least`, or is not finite."""
  for name in names:
    value = _field(config, name)
    if value is None:
      continue
    if not (math.isfinite(value) and value >= least):
      what = (
        f"less than {least}" if math.isfinite(value) and least else f"not a number from {least} on"
      )
      raise UserError(f"{name} = {value} is {what}; set --config.{name}")


def rates(config: ConfigDict, names: Iterable[str]) -> None:
  """Raises UserError if one of these fields is set, but not in [0, 1)."""
  for name in names:
    value = _field(config, name)
    if value is not None and not 0 <= value < 1:
      raise UserError(f"{name} = {value} is not in [0, 1); set --config.{name}")


def one_of(config: ConfigDict, choices: dict[str, Iterable[str]]) -> None:
  """Raises UserError if the value of a field is not one of its choices."""
  for name, known in choices.items():
    value = _field(config, name)
    if value not in known:
      raise UserError(f"{name} = {value!r} is not one of: {', '.join(known)}")


def _field(config: ConfigDict, name: str):
  for part in filter(None, name.split(".")):
    config = config[part]
  return config


def format_rows(rows: Mapping[str, str]) -> str:
  """Formats named lines as a table of two columns."""
  width = max(10, *map(len, rows))
  return "\n".join(f"{name:{width}} {value}" for name, value in rows.items())


def format_columns(rows: Sequence[Sequence[str]]) -> str:
  """Formats rows of equally many cells as a table, the first row its head."""
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  return "\n".join(
    "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
    for row in rows
  )
