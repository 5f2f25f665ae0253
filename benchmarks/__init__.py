"""Benchmarks: ratios of two times, in the ROWS of each module; see benchmarks.__main__. Kernels are those of a job."""

import os

from icl.pipeline.run import ONE_ORDER

os.environ.update(ONE_ORDER)
