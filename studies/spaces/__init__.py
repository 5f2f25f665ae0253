"""The search spaces of unpublished constants, one module per system, each with a CSV file of its results."""

import importlib
import pkgutil
from functools import cache

from icl.core.config import ConstantError
from studies.space import Space


@cache
def spaces() -> dict[str, Space]:
    """System -> its space, for every module of this package."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").SPACE for name in names}


def of(system: str) -> Space:
    """The space of a system.

    Raises ConstantError if there is none.
    """
    if system not in spaces():
        raise ConstantError(f"search of {system!r}: no such search; try {', '.join(spaces())}")
    return spaces()[system]
