"""Sets up the tests: eight virtual CPU devices, checked types and shapes, no silent broadcasting, the real files."""

import gc
import importlib.util
import os
import pathlib
import signal
from importlib import metadata

# Compiling is most of what tests do. With 0 they run the programs that users run.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ["XLA_FLAGS"] = " ".join(
  [
    os.environ.get("XLA_FLAGS", ""),
    "--xla_force_host_platform_device_count=8",
    # XLA's older code for fused operations, in one piece, is compiled in a third of the time. A flag that a version
    # does not know ends the process, so only the version that was tried gets these.
    *(
      ("--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1")
      if os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1"
      and metadata.version("jaxlib").startswith("0.10.")
      else ()
    ),
  ]
)
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["HF_HUB_OFFLINE"] = "1"

import jax
import pytest
from beartype import BeartypeConf
from beartype.claw import beartype_package
from jaxtyping import install_import_hook

# Before anything of the package is imported: in the tests' own process, calls check the types, dtypes and shapes of
# their annotations. An int may stand for a float. jaxtyping's checks of shapes cost more than those of types, so
# they are for the modules with shapes alone.
PACKAGE = pathlib.Path(__file__).parents[1] / "discipline_jax"
SHAPED = [
  ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
  for path in PACKAGE.rglob("*.py")
  if "from jaxtyping import" in path.read_text(encoding="utf-8")
]
install_import_hook(SHAPED, "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")
beartype_package(
  "discipline_jax",
  conf=BeartypeConf(is_pep484_tower=True, claw_is_pep526=False, violation_type=TypeError),
)

from tests import whole_runs  # noqa: E402

# Tracing makes many small objects; to look for cycles among them as often as Python does takes 5% of the time.
gc.set_threshold(100_000, 50, 100)

# A shell lets what it starts in the background ignore Ctrl-C, which some tests send to themselves and to others.
signal.signal(signal.SIGINT, signal.default_int_handler)
jax.config.update("jax_numpy_rank_promotion", "raise")

TESTDATA = pathlib.Path(__file__).parent / "testdata"


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory):
  """Gives the tests a home directory of their own: all of one run, in all workers, share compiled programs."""
  base = tmp_path_factory.getbasetemp()
  home = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "home"
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv("HOME", str(home))
    jax.config.update("jax_compilation_cache_dir", str(home / ".cache" / "discipline_jax" / "xla"))
    yield


@pytest.fixture(scope="session")
def shared() -> pathlib.Path:
  """Returns the folder of real data and weights, which are not part of the project."""
  path = pathlib.Path(
    os.environ.get("DISCIPLINE_SHARED", pathlib.Path(__file__).parents[2] / "shared")
  )
  if not (path / "models").is_dir():
    pytest.skip("no ../shared with real data and weights; DISCIPLINE_SHARED can name another place")
  return path


@pytest.fixture(scope="session")
def _storage():
  if importlib.util.find_spec("gcsfs") is None:  # not imported, as the package sets it up first
    pytest.skip("no gcsfs; pip install -e '.[gcs]'")
  import fsspec.config

  from tests.serving import serving
  from tests.storage import Storage

  with serving(Storage()) as storage, pytest.MonkeyPatch.context() as patch:
    patch.setitem(fsspec.config.conf, "gcs", {"token": "anon"})  # it has read the variables already
    for name, value in storage.environment.items():
      patch.setenv(name, value)
    yield storage


@pytest.fixture
def storage(_storage, tmp_path, monkeypatch):
  """Yields a stand-in of Google Cloud Storage with an empty bucket `bucket`; the home directory is the test's own."""
  monkeypatch.setenv("HOME", str(tmp_path / "home"))
  _storage.reset()
  yield _storage
  _storage.reset()


@pytest.fixture
def cudnn(monkeypatch):
  """Stands for a machine with cuDNN, so that programs with its kernel are traced and lowered."""
  kernel = pytest.importorskip("jax._src.cudnn.fused_attention_stablehlo")
  monkeypatch.setattr(kernel, "check_cudnn_version", lambda: 91000)
  monkeypatch.setattr(kernel, "check_compute_capability", lambda _: True)
  monkeypatch.setattr(kernel, "is_cuda_compute_capability_equal", lambda _: False)
  jax.clear_caches()
  yield
  jax.clear_caches()


@pytest.fixture
def testdata() -> pathlib.Path:
  return TESTDATA


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory):
  """Returns workdir, stdout and stderr of the small run, never interrupted."""
  workdir = tmp_path_factory.mktemp("runs") / "whole"
  code, stdout, stderr = whole_runs.finish(whole_runs.start(workdir))
  assert code == 0, stderr
  return workdir, stdout, stderr


# Files whose tests take longest. They come first, so that at the end no worker is alone with one of them.
_LONGEST = (
  "test_analyze",
  "test_compare",
  "test_configs",
  "test_hilbert_cnn",
  "test_interruptions",
  "test_pretrain",
  "test_processes",
  "test_study",
  "test_study_processes",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
  items.sort(key=lambda item: item.path.stem not in _LONGEST)
