"""Benchmarks: ratios of two times, in the ROWS of each module; see benchmarks.__main__. Kernels
are those of a job.
"""

from icl.pipeline import kernels

kernels.choose()
