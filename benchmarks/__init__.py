"""Benchmarks: `python -m benchmarks` runs every module here that has main(), and prints one table.

`python -m benchmarks mesa_layer` runs one of them. A module's main() returns rows (name, value, target): a value should
not exceed its target unless the name says "at least"; a target of None means that there is none. torch has one thread.
Nothing here fails a run.
"""
