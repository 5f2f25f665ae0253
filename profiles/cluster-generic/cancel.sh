#!/bin/sh
# Cancel jobs: cancel.sh ID ...
# In the background and out of reach of a second Ctrl-C, since Snakemake waits for two seconds only.
setsid scancel "$@" > /dev/null 2>&1 &
