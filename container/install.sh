#!/bin/sh
# What both recipes do inside the image: the environment of the lock, in /icl. An address names an index with the CPU
# build of torch; "none" leaves the choice to the set-up.
set -eu
index=${1:-none}
[ "$index" != none ] || index=
cd "${ICL_FOLDER:-/icl}"
python3 scripts/environment.py --torch-index "$index"
