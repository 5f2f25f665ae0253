#!/bin/sh
# Snakemake of the image on the clone in the current folder, whose own sources are imported.
set -eu
export PYTHONPATH="$PWD/src"
[ -w "${HOME:-/}" ] || export HOME="$PWD/.cache"
exec "${ICL_FOLDER:-/icl}/.venv/bin/snakemake" "$@"
