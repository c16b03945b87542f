#!/bin/bash
# Runs a config on a Cloud TPU slice: asks for it, installs the package on all hosts, runs, and asks again if it is taken.
#
#   launch/tpu_slice.sh [--dry-run] --name=NAME --zone=ZONE --type=v5litepod-8 --mount=SERVER:/PATH [--project=PROJECT] \
#     [--spot] [--keep] [--restarts=100] -- \
#     --config=pretrain_bert_base --config.corpus.path=/runs/CORPUS --config.cache_dir=/runs/cache --workdir=/runs/base
#
# docs/scale.md has all commands before and after it. CORPUS is a prepared corpus: the hosts have no TensorFlow Datasets.
# --type: v5litepod-N (v5e), v5p-N (N cores, two a chip) or v6e-N; newer TPUs are offered by GKE and Compute Engine only.
# --mount: a file system (NFS, Filestore) that outlives the slice; all hosts get it as /runs. This script must go on running, to
# ask again: start it in tmux. Without --keep, the slice is deleted when it ends, for whatever reason. Needs git and gcloud, with
# credentials; the project is that of gcloud's configuration unless --project names another. The committed state of the
# repository is what runs.
set -u
# shellcheck source=launch/run.sh
. "$(dirname "$0")/run.sh"

name='' zone='' type='' mount='' keep=0 restarts=100 options=() project=()
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry_run=1 ;;
    --name=*) name=${1#*=} ;;
    --zone=*) zone=${1#*=} ;;
    --type=*) type=${1#*=} ;;
    --mount=*) mount=${1#*=} ;;
    --project=*) project=("--project=${1#*=}") ;;
    --spot) options+=(--spot) ;;
    --keep) keep=1 ;;
    --restarts=*) restarts=${1#*=} ;;
    --) shift && break ;;
    *) fail "$1 is no option; see the first lines of $0" ;;
  esac
  shift
done
[ -n "$name" ] && [ -n "$zone" ] && [ -n "$type" ] && [ -n "$mount" ] ||
  fail "give --name=NAME --zone=ZONE --type=TYPE --mount=SERVER:/PATH"
[ $# -gt 0 ] || fail "no arguments for discipline_jax.main; give -- and then for example --config=pretrain_bert_base"
case $type in
  v5litepod-*) runtime=v2-alpha-tpuv5-lite ;;
  v5p-*) runtime=v2-alpha-tpuv5 ;;
  v6e-*) runtime=v2-alpha-tpuv6e ;;
  *) fail "--type=$type is not v5litepod-N, v5p-N or v6e-N" ;;
esac
[ "${dry_run:-0}" = 1 ] || gcloud auth print-access-token >/dev/null || fail "gcloud has no credentials; run gcloud auth login"

where=("--zone=$zone" "${project[@]}")
queue=(gcloud compute tpus queued-resources)
on_all=(gcloud compute tpus tpu-vm)
# The images of TPUs have an older Python than the package needs.
install="sudo apt-get install -qq -y nfs-common >/dev/null; sudo mkdir -p /runs; mountpoint -q /runs || sudo mount $mount /runs;
 rm -rf package && mkdir package && tar -xf discipline_jax.tar -C package && python3 -m pip install -q --user uv &&
 python3 -m uv venv -q --clear --python 3.12 venv && python3 -m uv pip install -q --python venv/bin/python -e 'package[tpu]'"
# Left over from runs on several slices, these variables would make the hosts wait for slices that are not there.
# shellcheck disable=SC2016 # the hosts expand it
clean='for one in $(env | sed -n "s/^\(MEGASCALE_[A-Z_]*\)=.*/\1/p"); do unset "$one"; done'
start="$clean; cd package && ../venv/bin/python -m discipline_jax.main $(printf '%q ' "$@")"

state() {
  if [ "${dry_run:-0}" = 1 ]; then
    echo "$pretended"
  else
    "${queue[@]}" describe "$name" "${where[@]}" --format='value(state.state)' 2>/dev/null
  fi
}

delete() {
  run "${queue[@]}" delete "$name" "${where[@]}" --force --quiet
}

# shellcheck disable=SC2329 # the trap below calls it
finish() {
  rm -rf "$folder"
  [ "$keep" = 1 ] || [ -z "$(state)" ] || delete
}

pretended='' # the state that a dry run takes for true
folder=$(mktemp -d) || fail "no temporary folder can be made; set TMPDIR to a place that can be written"
package=$folder/discipline_jax.tar
trap finish EXIT
trap 'exit 130' INT TERM
git -C "$(dirname "$0")/.." archive -o "$package" HEAD || fail "no git repository in $(dirname "$0")/.."
for ((attempt = 0; attempt <= restarts; attempt++)); do
  case $(state) in SUSPENDED | FAILED) delete ;; esac
  if [ -z "$(state)" ]; then
    run "${queue[@]}" create "$name" "--node-id=$name" "--accelerator-type=$type" "--runtime-version=$runtime" \
      "${where[@]}" "${options[@]}" || exit 3
    pretended=ACTIVE
  fi
  until [ "$(state)" = ACTIVE ]; do
    case $(state) in SUSPENDED | FAILED) continue 2 ;; esac
    sleep 30
  done
  run "${on_all[@]}" scp --worker=all "${where[@]}" "$package" "$name:" &&
    run "${on_all[@]}" ssh "$name" "${where[@]}" --worker=all --command="$install" &&
    run "${on_all[@]}" ssh "$name" "${where[@]}" --worker=all --command="$start"
  code=$?
  # 255: a connection broke. The state of a slice that is taken says so only after a while.
  if [ $code = 255 ]; then
    run sleep 60
  elif [ "$(state)" = ACTIVE ] && ! goes_on "$code"; then
    break
  fi
done
exit "$code"
