"""Lint, types, and the direction of imports."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "discipline_jax"


@pytest.mark.parametrize(
  "command", [["ruff", "check", "."], ["mypy", "discipline_jax"]], ids=["ruff", "mypy"]
)
def test_lint_and_types(command):
  result = subprocess.run(
    [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
  )
  assert result.returncode == 0, result.stdout + result.stderr


def imports(path: pathlib.Path) -> set[str]:
  names = set()
  for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
    if isinstance(node, ast.ImportFrom) and node.module:
      names.update(f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Import):
      names.update(alias.name for alias in node.names)
  return {name for name in names if name.startswith("discipline_jax.")}


@pytest.mark.parametrize(
  ("folder", "forbidden"),
  [
    ("models", ("tasks", "corpora", "training", "finetune", "plan", "pretrain", "study", "main")),
    ("tasks", ("training", "finetune", "plan", "pretrain", "study", "main")),
    ("corpora", ("training", "finetune", "plan", "pretrain", "study", "main")),
    ("training", ("finetune", "plan", "pretrain", "study", "main")),
    (".", ("main",)),
  ],
)
def test_imports_point_one_way(folder, forbidden):
  for path in (PACKAGE / folder).glob("*.py"):
    found = {name for name in imports(path) if name.split(".")[1] in forbidden}
    assert not found, f"{path.name} imports {found}"
