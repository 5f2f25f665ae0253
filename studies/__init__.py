"""Searches for constants that the papers do not state; see studies/README.md. Kernels are those
of a job.
"""

from icl.pipeline import kernels

kernels.choose()
