"""Benchmarks: ratios of two times, in the ROWS of each module; see benchmarks.__main__."""
