#!/bin/sh
# Runs the image's Snakemake on the clone in the current folder, with the clone's sources.
set -eu
export PYTHONPATH="$PWD/src"
[ -w "${HOME:-/}" ] || export HOME="$PWD/.cache"
exec "${ICL_FOLDER:-/icl}/.venv/bin/snakemake" "$@"
