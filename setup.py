"""Packages `discipline_jax`, and `configs/` as `discipline_jax.configs`; everything else is in pyproject.toml."""

from setuptools import setup

setup(
  packages=[
    "discipline_jax",
    "discipline_jax.models",
    "discipline_jax.tasks",
    "discipline_jax.training",
    "discipline_jax.configs",
  ],
  package_dir={"discipline_jax": "discipline_jax", "discipline_jax.configs": "configs"},
)
