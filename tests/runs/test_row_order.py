"""Tests that a pre-training goes on with its rows in the order in which it began."""

import pytest

from discipline_jax import defaults
from discipline_jax.errors import UserError
from discipline_jax.runs.row_order import FILE, check_order
from discipline_jax.runs.workdir import Workdir


@pytest.fixture
def run(tmp_path):
  with Workdir(tmp_path / "run", defaults.pretrain()) as run:
    yield run


@pytest.mark.parametrize(("order", "other"), [(None, "computed"), ("computed", None)])
def test_a_run_goes_on_in_its_order(run, order, other):
  check_order(run, other)  # of a start that ended before the workdir was the run's
  check_order(run, order)
  run.claim({})
  check_order(run, order)
  with pytest.raises(UserError, match=f"{run.path / FILE}; give another --workdir"):
    check_order(run, other)


def test_a_run_of_a_version_that_kept_no_order(run):
  run.claim({})
  check_order(run, None)
  with pytest.raises(UserError, match="--workdir"):
    check_order(run, "computed")
  assert not (run.path / FILE).exists()


@pytest.mark.parametrize("content", [b"", b"[1]", b"3", b"\xff", b"{}"])
def test_a_broken_record(run, content):
  run.claim({})
  (run.path / FILE).write_bytes(content)
  with pytest.raises(UserError, match=str(run.path / FILE)):
    check_order(run, None)
