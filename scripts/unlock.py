"""Remove the lock that a killed Snakemake has left in this folder; a living one's stays."""

from icl.pipeline import lock

for line in lock.unlock():
    print(line)
