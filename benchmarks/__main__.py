"""Print one table of ratios of two times; the exit code is 1 if a target is missed or a row fails.

python -m benchmarks                 all rows
python -m benchmarks garg            those of one module
python -m benchmarks li 'softmax'    those of one module, and all whose name contains the word
"""

import importlib
import math
import pkgutil
import sys
import traceback

import benchmarks
from benchmarks.timing import Row

FOUND = [one.name for one in pkgutil.iter_modules(benchmarks.__path__)]
MODULES = [name for name in FOUND if name not in ("__main__", "timing")]


def chosen(words: list[str]) -> list[Row]:
    """Return the rows of the named modules and those whose names contain a word; by default all."""
    rows: list[Row] = []
    for name in MODULES:
        for row in importlib.import_module(f"benchmarks.{name}").ROWS:
            if not words or name in words or any(word in row.name for word in words):
                rows.append(row)
    return rows


def measure(row: Row) -> bool:
    """Print the row of the table; whether its target is reached."""
    try:
        first, second = row.seconds()
    except Exception:
        traceback.print_exc()
        print(f"{row.name:80} failed, see above", flush=True)
        return False
    reached = row.at_least <= first / second <= row.at_most
    target = f"<= {row.at_most:<6g}" if row.at_most < math.inf else ""
    target = f">= {row.at_least:<6g}" if row.at_least > 0 else target
    numbers = f"{1e3 * first:9.3g} {1e3 * second:9.3g} {first / second:9.3g}"
    answer = ("yes" if reached else "NO") if target else ""
    print(f"{row.name:80} {numbers}  {target}{answer}".rstrip(), flush=True)
    return reached


if __name__ == "__main__":
    print(f"{'first / second':80} {'ms':>9} {'ms':>9} {'ratio':>9}  target")
    sys.exit(not all([measure(row) for row in chosen(sys.argv[1:])]))
