#!/bin/sh
# Submit a job and print its id: submit.sh RULE CORES MEGABYTES MINUTES SCRIPT
set -euf
kept=$PWD/.snakemake/cluster
mkdir -p "$kept"
# shellcheck disable=SC2086 # ICL_SBATCH holds several words, and no pattern of files (-f).
id=$(sbatch --parsable --no-requeue --job-name="icl-$1" --cpus-per-task="$2" --mem="$3" --time="$4" \
  --output="$kept/%j.log" ${ICL_SBATCH:-} "$(dirname "$0")/job.sh" "$kept" "$5")
# Where there are several clusters, the id is followed by the name of one.
echo "${id%%;*}"
