"""Settings under which products and sums have one order on every x86 processor that has AVX2.

By default the order depends on the vector units of the processor. Libraries read them when they are loaded, so this
module imports nothing that loads numpy or torch.
"""

import os

ONE_ORDER = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2", "OPENBLAS_CORETYPE": "Haswell"}
"""For torch's own kernels, the matrix products of torch (MKL) and those of numpy (OpenBLAS)."""


def choose() -> None:
    """Set ONE_ORDER in the environment; a variable that is set already is kept."""
    for variable, value in ONE_ORDER.items():
        os.environ.setdefault(variable, value)
