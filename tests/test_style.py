"""Tests lint, types, the direction of imports, and the size of files and functions."""

import ast
import functools
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "discipline_jax"
# From the lowest layer to the highest. A module may import lower layers, and its own; a name also stands for the
# modules below it. Within a line, names do not import each other.
LAYERS = (
  ("errors",),
  ("label_metrics", "correlations"),
  ("streams", "letters", "metrics", "launchers", "repeated_warnings"),
  ("files",),
  ("exit_codes",),
  ("report",),
  ("models",),
  ("analysis", "defaults"),
  ("modes", "arguments"),
  ("command_line", "grids", "table_files"),
  ("tasks", "corpora"),
  ("training",),
  ("programs", "runs"),
  ("finetune", "pretrain", "predict", "export", "hosts"),
  ("study", "comparison", "measures", "embedding_sources"),
  ("compare", "search", "analyze", "inspect", "embed"),
  ("main",),
)
# The lines of a function, of a file, and the parameters of a function that a reader can follow.
LONGEST_FUNCTION, LONGEST_FILE, MOST_PARAMETERS = 60, 350, 9
SOURCES = sorted(
  path for folder in ("discipline_jax", "configs", "benchmarks") for path in (ROOT / folder).rglob("*.py")
)  # fmt: skip


@pytest.mark.parametrize(
  "command", [["ruff", "check", "."], ["mypy", "discipline_jax"]], ids=["ruff", "mypy"]
)
def test_lint_and_types(command):
  result = subprocess.run(
    [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
  )
  assert result.returncode == 0, result.stdout + result.stderr


def module_name(path: pathlib.Path) -> str:
  return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {
  module_name(path): path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"
}


@functools.cache
def imported_modules(path: pathlib.Path) -> set[str]:
  """Returns the package's modules that a file imports, at its top or inside functions."""
  names = set()
  for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
    if isinstance(node, ast.ImportFrom) and node.module:
      names.add(node.module)
      names.update(f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Import):
      names.update(alias.name for alias in node.names)
  own = {
    name.removeprefix("discipline_jax.") for name in names if name.startswith("discipline_jax.")
  }
  return own & MODULES.keys()


def place(module: str) -> tuple[int, str]:
  """Returns the number of a module's layer, and its name there."""
  top = module.partition(".")[0]
  found = [number for number, names in enumerate(LAYERS) if top in names]
  assert found, f"{module} stands in no layer; add it to LAYERS"
  return found[0], top


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_point_down(module):
  """The imports of imported modules count, too."""
  layer, top = place(module)
  seen, left = {module}, [module]
  while left:
    for other in imported_modules(MODULES[left.pop()]) - seen:
      seen.add(other)
      left.append(other)
      other_layer, other_top = place(other)
      assert other_layer < layer or other_top == top, f"{module} reaches {other}"


def test_no_two_modules_import_each_other():
  imports = {module: imported_modules(path) - {module} for module, path in MODULES.items()}
  while imports:
    free = [module for module, others in imports.items() if not others & imports.keys()]
    assert free, f"a circle among {sorted(imports)}"
    for module in free:
      del imports[module]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sizes(path):
  text = path.read_text(encoding="utf-8")
  assert len(text.splitlines()) <= LONGEST_FILE
  for node in ast.walk(ast.parse(text)):
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
      parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
      assert len(parameters) <= MOST_PARAMETERS, f"{node.name} has {len(parameters)} parameters"
      if path.name != "defaults.py":  # its functions are tables of fields
        lines = node.end_lineno - node.lineno + 1
        assert lines <= LONGEST_FUNCTION, f"{node.name} has {lines} lines"


def test_no_module_asks_for_the_default_backend():
  """The platform is the mesh's; `Platform.default` serves callers without a mesh."""
  for path in PACKAGE.rglob("*.py"):
    assert "default_backend" not in path.read_text(encoding="utf-8"), path


def test_data_classes_are_frozen():
  """What one part hands to another cannot be changed behind its back, and can be a key."""
  for path in PACKAGE.rglob("*.py"):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
      for decorator in getattr(node, "decorator_list", []):
        if "dataclasses.dataclass" in ast.unparse(decorator):
          assert "frozen=True" in ast.unparse(decorator), f"{path.name}:{node.lineno}"
