#!/bin/sh
# Submit a job and print its id: submit.sh RULE CORES MEGABYTES MINUTES SCRIPT
# The job leaves its exit code in a file, for the time when the queue has forgotten it.
set -eu
kept=$PWD/.snakemake/cluster
mkdir -p "$kept"
# shellcheck disable=SC2086 # ICL_SBATCH holds several words.
id=$(sbatch --parsable --no-requeue --job-name="icl-$1" --cpus-per-task="$2" --mem="$3" --time="$4" \
  --output="$kept/%j.log" ${ICL_SBATCH:-} <<END
#!/bin/sh
"$5"
code=\$?
echo "\$code" > "$kept/\$SLURM_JOB_ID.exit"
exit "\$code"
END
)
# Where there are several clusters, the id is followed by the name of one.
echo "${id%%;*}"
