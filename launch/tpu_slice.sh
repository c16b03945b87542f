#!/bin/bash
# Runs a config on a Cloud TPU slice: asks for it, installs the package on all hosts, runs, and asks again if it is taken.
#
#   launch/tpu_slice.sh [--dry-run] --name=NAME --zone=ZONE --type=v5litepod-8 [--project=PROJECT] [--spot] [--keep] \
#     -- --config=pretrain_bert_base --workdir=DIR
#
# --type: v5litepod-N (v5e), v5p-N (N cores, two a chip) or v6e-N; newer TPUs are offered by GKE and Compute Engine only.
# DIR must be seen by all hosts of the slice. Without --keep, the slice is deleted at the end. Needs gcloud; the project is
# that of its configuration unless --project names another.
set -u
# shellcheck source=launch/run.sh
. "$(dirname "$0")/run.sh"

name='' zone='' type='' keep=0 options=() project=()
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry_run=1 ;;
    --name=*) name=${1#*=} ;;
    --zone=*) zone=${1#*=} ;;
    --type=*) type=${1#*=} ;;
    --project=*) project=("--project=${1#*=}") ;;
    --spot) options+=(--spot) ;;
    --keep) keep=1 ;;
    --) shift && break ;;
    *) fail "$1 is no option; see the first lines of $0" ;;
  esac
  shift
done
[ -n "$name" ] && [ -n "$zone" ] && [ -n "$type" ] || fail "give --name=NAME --zone=ZONE --type=TYPE"
[ $# -gt 0 ] || fail "no arguments for discipline_jax.main; give -- and then for example --config=pretrain_bert_base"
case $type in
  v5litepod-*) runtime=v2-alpha-tpuv5-lite ;;
  v5p-*) runtime=v2-alpha-tpuv5 ;;
  v6e-*) runtime=v2-alpha-tpuv6e ;;
  *) fail "--type=$type is not v5litepod-N, v5p-N or v6e-N" ;;
esac

where=("--zone=$zone" "${project[@]}")
queue=(gcloud compute tpus queued-resources)
on_all=(gcloud compute tpus tpu-vm)
arguments=$(printf '%q ' "$@")
# Left over from runs on several slices, these variables would make the hosts wait for slices that are not there.
# shellcheck disable=SC2016 # the hosts expand it
clean='for one in $(env | sed -n "s/^\(MEGASCALE_[A-Z_]*\)=.*/\1/p"); do unset "$one"; done'

state() {
  if [ "${dry_run:-0}" = 1 ]; then
    echo ACTIVE
  else
    "${queue[@]}" describe "$name" "${where[@]}" --format='value(state.state)' 2>/dev/null
  fi
}

delete() {
  run "${queue[@]}" delete "$name" "${where[@]}" --force --quiet
}

while true; do
  if [ "$(state)" = SUSPENDED ] || [ "$(state)" = FAILED ]; then
    delete
  fi
  if [ -z "$(state)" ] || [ "${dry_run:-0}" = 1 ]; then
    run "${queue[@]}" create "$name" "--node-id=$name" "--accelerator-type=$type" "--runtime-version=$runtime" \
      "${where[@]}" "${options[@]}" || exit 3
  fi
  until [ "$(state)" = ACTIVE ]; do
    case $(state) in SUSPENDED | FAILED) continue 2 ;; esac
    sleep 30
  done
  run "${on_all[@]}" scp --recurse --worker=all "${where[@]}" "$(cd "$(dirname "$0")/.." && pwd)" "$name:discipline_jax"
  run "${on_all[@]}" ssh "$name" "${where[@]}" --worker=all --command="pip install -q -e 'discipline_jax[tpu]'" || exit 3
  run "${on_all[@]}" ssh "$name" "${where[@]}" --worker=all \
    --command="$clean; cd discipline_jax && python -m discipline_jax.main $arguments"
  code=$?
  # A run that ends because its slice is taken goes on when the slice is there again.
  if [ "$(state)" = ACTIVE ] && ! goes_on "$code"; then
    break
  fi
done
[ "$keep" = 1 ] || delete
exit "$code"
