#!/bin/bash
# Runs a config on this machine, and again while the platform stops it.
#
#   launch/local.sh [--dry-run] [--restarts=100] -- --config=pretrain_small --config.corpus.path=TEXT --workdir=DIR
#
# What stands after -- goes to `python -m discipline_jax.main`. Ctrl-C and SIGTERM are passed on as SIGTERM, and end
# this script, too.
set -u
# shellcheck source=launch/run.sh
. "$(dirname "$0")/run.sh"

restarts=100
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry_run=1 ;;
    --restarts=*) restarts=${1#*=} ;;
    --) shift && break ;;
    *) fail "$1 is no option; give --dry-run or --restarts=N, then -- and the arguments of discipline_jax.main" ;;
  esac
  shift
done
[ $# -gt 0 ] || fail "no arguments for discipline_jax.main; give -- and then for example --config=quickstart"

# On a CPU under Linux these settings save a tenth to two fifths of the time (docs/speed.md).
tunables=${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=40000000000}
command=(env "GLIBC_TUNABLES=$tunables" python -m discipline_jax.main "$@")
if [ "${dry_run:-0}" = 1 ]; then
  run "${command[@]}"
  exit
fi
stopped=0
for ((start = 0; start <= restarts; start++)); do
  "${command[@]}" & # not by `run`, whose shell would get the signals in the place of Python
  process=$!
  trap 'stopped=1; kill -TERM $process' INT TERM # bash starts what runs beside it without SIGINT
  wait_for $process
  code=$?
  if [ $stopped = 1 ] || ! goes_on "$code"; then
    break
  fi
done
exit "$code"
