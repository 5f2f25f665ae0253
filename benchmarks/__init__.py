"""Benchmarks: `python -m benchmarks` runs every module here that has main(), and prints one table.

A module's main() returns rows (name, value, target): a value should not exceed its target unless the name says "at
least"; a target of None means that there is none. Nothing here fails a run.
"""
