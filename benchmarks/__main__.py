"""Run all benchmarks, or those named on the command line, and print one table."""

import importlib
import pkgutil
import sys
import time
import traceback
from contextlib import redirect_stdout

import torch

import benchmarks
from benchmarks.timing import Row


def measured(name: str) -> list[Row] | None:
    """The rows of one module, or None if it failed; its output goes to stderr."""
    start = time.perf_counter()
    try:
        module = importlib.import_module(f"benchmarks.{name}")
        if not hasattr(module, "main"):
            return []
        print(f"{name} ...", file=sys.stderr, flush=True)
        with redirect_stdout(sys.stderr):
            rows = list(module.main())
    except Exception:
        traceback.print_exc()
        return None
    print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return rows


def line(name: str, value: float, target: float | None) -> str:
    """One row of the table."""
    if target is None:
        return f"{name:68} {value:10.4g}"
    least = "at least" in name
    kept = value >= target if least else value <= target
    return f"{name:68} {value:10.4g}   {'>=' if least else '<='} {target:<8.4g} {'yes' if kept else 'NO'}"


def main(wanted: list[str]) -> None:
    """Print the table."""
    there = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.name.startswith("_")]
    table = []
    torch.set_num_threads(1)
    for name in wanted or there:
        rows = measured(name)
        table += [f"{name}: failed, see above"] if rows is None else [line(*row) for row in rows]
    print("\n".join(["", f"{'measurement':68} {'value':>10}   target", *table]))


if __name__ == "__main__":
    main(sys.argv[1:])
