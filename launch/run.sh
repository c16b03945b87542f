# shellcheck shell=bash
# Shared by the scripts of this folder, which read it with `.`: runs a command, or with dry_run=1 prints it.

run() {
  if [ "${dry_run:-0}" = 1 ]; then
    printf '%q ' "$@"
    echo
  else
    "$@"
  fi
}

# Fails with one line.
fail() {
  echo "error: $*" >&2
  exit 2
}

# Says if a run that ended with this exit code goes on when it is started again: it was stopped by the platform (75), or
# another process of it died and JAX aborted this one (134).
goes_on() {
  [ "$1" = 75 ] || [ "$1" = 134 ]
}

# Waits until a process ends, also if a signal interrupts the waiting; returns its exit code.
wait_for() {
  local code
  wait "$1"
  code=$?
  while kill -0 "$1" 2>/dev/null; do
    wait "$1"
    code=$?
  done
  return $code
}
