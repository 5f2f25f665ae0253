"""The arithmetic of a machine: its processor, settings, and digests of operations, by which two
machines are compared.

Products and sums are rounded in an order that depends on the processor and on settings of the
libraries. Machines with equal digests give the same results; else the first operation that differs
says where to look.
"""

import hashlib
import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from icl.core.files import read_text
from icl.core.lazy import torch
from icl.core.streams import stream

SETTINGS = ("ATEN_CPU_CAPABILITY", "MKL_CBWR", "OPENBLAS_CORETYPE", "OMP_NUM_THREADS")
"""Environment variables that decide an order of summation: of torch's own kernels, MKL,
OpenBLAS, and by threads.
"""


def processor() -> str:
    named = re.search(r"^model name.*?: *(.*)$", read_text(Path("/proc/cpuinfo")), re.MULTILINE)
    return named[1].strip() if named else platform.processor() or platform.machine()


def _drawn(*shape: int) -> np.ndarray:
    """Numbers between -1 and 1, each exact: they involve no function of the processor's library."""
    return 2 * stream("arithmetic", 0, str(shape)).random(shape) - 1


def _results() -> Iterator[tuple[str, Any]]:
    """Yield every operation's name and result, random streams first, on shapes as in trainings."""
    source = stream("arithmetic", 0, "words")
    yield "random words", source.bit_generator.random_raw(1000)
    yield "normal numbers", source.standard_normal(1000)
    square = _drawn(40, 40)
    tall = _drawn(96, 64)
    yield "numpy exponential", np.exp(tall)
    yield "numpy sum", tall.astype(np.float32).sum()
    yield "numpy product", tall @ _drawn(64, 64)
    yield "numpy QR", np.linalg.qr(square)[0]
    yield "numpy eigenvalues", np.linalg.eigvalsh(square + square.T)
    for dtype in (torch.float32, torch.float64):
        kind = str(dtype).removeprefix("torch.")
        x = torch.from_numpy(_drawn(20, 96, 64)).to(dtype)
        functions: dict[str, Callable[[Any], Any]] = {
            "exponential": torch.exp,
            "error function": torch.erf,
            "hyperbolic tangent": torch.tanh,
            "sum": torch.sum,
            "softmax": lambda x: torch.softmax(x, -1),
        }
        for name, function in functions.items():
            yield f"torch {name} {kind}", function(x)
        for shape in ((64, 64), (64, 256), (20, 64, 96)):
            yield f"torch product {kind} {shape}", x @ torch.from_numpy(_drawn(*shape)).to(dtype)
        yield f"torch QR {kind}", torch.linalg.qr(x[0, :40, :40])[0]
        root = (0.001 * x.square()).sqrt().add_(1e-8)
        yield f"torch optimiser step {kind}", torch.addcdiv(x, 0.1 * x, root, value=-1e-3)


@cache
def record() -> dict[str, Any]:
    """Return processor, vector units in use, settings, threads and operation -> digest of its
    result.
    """
    with torch.no_grad():
        results = {name: np.ascontiguousarray(result) for name, result in _results()}
    return {
        "processor": processor(),
        "units": torch.backends.cpu.get_cpu_capability(),
        "settings": {name: os.environ.get(name, "") for name in SETTINGS},
        "threads": torch.get_num_threads(),
        "operations": {
            name: hashlib.sha256(result.tobytes()).hexdigest()[:12]
            for name, result in results.items()
        },
    }


def digest(recorded: Mapping[str, Any]) -> str:
    return hashlib.sha256("".join(recorded["operations"].values()).encode()).hexdigest()[:12]


def first_difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Return the first operation with another digest in the two records; empty without any."""
    other = theirs["operations"]
    differ = (name for name, one in ours["operations"].items() if other.get(name, one) != one)
    return next(differ, "")
