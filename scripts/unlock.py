"""Remove the lock of a killed Snakemake in this folder; the lock of a running one stays."""

from icl.pipeline import lock

for line in lock.unlock():
    print(line)
