"""Packages `discipline_jax`, and `configs/` as `discipline_jax.configs`; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

setup(
  packages=[
    *find_packages(include=["discipline_jax", "discipline_jax.*"]),
    "discipline_jax.configs",
  ],
  package_data={"discipline_jax.report": ["paper.csv", "templates/*"]},
  package_dir={"discipline_jax": "discipline_jax", "discipline_jax.configs": "configs"},
)
