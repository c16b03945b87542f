#!/bin/bash
# Runs a config on a GKE cluster with TPUs, by xpk; Kubernetes starts it again when it is stopped.
#
#   launch/gke.sh [--dry-run] --cluster=CLUSTER --zone=ZONE --project=PROJECT --image=IMAGE --name=NAME \
#     --tpu-type=v5litepod-16 --storage=STORAGE [--slices=1] [--restarts=20] -- \
#     --config=pretrain_bert_base --config.corpus.path=DIR/CORPUS --config.cache_dir=DIR/cache --workdir=DIR/base
#
# IMAGE is built from launch/Dockerfile and pushed to a registry that the cluster reads. STORAGE is a file system that `xpk
# storage create` (or `attach`) made known to the cluster, and DIR a folder in it: without one, a stopped run begins anew.
# CORPUS is a prepared corpus (docs/scale.md). Needs xpk (pip install xpk). launch/jobset.yaml is for kubectl, without xpk.
set -u
# shellcheck source=launch/run.sh
. "$(dirname "$0")/run.sh"

cluster='' zone='' project='' image='' name='' type='' storage='' slices=1 restarts=20
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry_run=1 ;;
    --cluster=*) cluster=${1#*=} ;;
    --zone=*) zone=${1#*=} ;;
    --project=*) project=${1#*=} ;;
    --image=*) image=${1#*=} ;;
    --name=*) name=${1#*=} ;;
    --tpu-type=*) type=${1#*=} ;;
    --storage=*) storage=${1#*=} ;;
    --slices=*) slices=${1#*=} ;;
    --restarts=*) restarts=${1#*=} ;;
    --) shift && break ;;
    *) fail "$1 is no option; see the first lines of $0" ;;
  esac
  shift
done
for one in cluster zone project image name storage; do
  [ -n "${!one}" ] || fail "--$one is missing; see the first lines of $0"
done
[ -n "$type" ] || fail "--tpu-type is missing; see the first lines of $0"
[ $# -gt 0 ] || fail "no arguments for discipline_jax.main; give -- and then for example --config=pretrain_bert_base"

run xpk workload create "--cluster=$cluster" "--zone=$zone" "--project=$project" "--workload=$name" "--tpu-type=$type" \
  "--num-slices=$slices" "--docker-image=$image" "--storage=$storage" --termination-grace-period-seconds=120 "--max-restarts=$restarts" --restart-on-exit-codes=75,134 \
  "--command=python -m discipline_jax.main $(printf '%q ' "$@")"
