#!/bin/sh
# Run a job and leave its exit code, for the time when the queue has forgotten it: job.sh FOLDER SCRIPT
"$2"
code=$?
echo "$code" > "$1/$SLURM_JOB_ID.exit"
exit "$code"
