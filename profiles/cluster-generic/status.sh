#!/bin/sh
# Print running, success or failed: status.sh ID
read -r code 2>/dev/null < ".snakemake/cluster/$1.exit" || code=
case $code in
  0) echo success; exit ;;
  ?*) echo failed; exit ;;
esac
if ! state=$(squeue --noheader --states=all --format=%T --jobs="$1" 2>&1); then
  case $state in
    # The queue has forgotten the job, which left no exit code: it was killed, and its node perhaps too.
    *'Invalid job id'*) echo failed ;;
    # The queue does not answer; the job goes on.
    *) echo running ;;
  esac
  exit
fi
case $state in
  COMPLETED) echo success ;;
  '' | BOOT_FAIL | CANCELLED | DEADLINE | FAILED | NODE_FAIL | OUT_OF_MEMORY | PREEMPTED | TIMEOUT) echo failed ;;
  *) echo running ;;
esac
