#!/bin/sh
# Installs the locked environment inside the image, in /icl, for both recipes. The argument is the address of an index
# with the CPU build of torch, or "none" to let the set-up choose.
set -eu
index=${1:-none}
[ "$index" != none ] || index=
cd "${ICL_FOLDER:-/icl}"
python3 scripts/environment.py --torch-index "$index"
