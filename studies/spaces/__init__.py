"""The ranges that unpublished constants are searched in, one file per system, and beside it what came of it."""

import importlib
import pkgutil
from functools import cache

from icl.core.config import ConstantError
from studies.space import Space


@cache
def spaces() -> dict[str, Space]:
    """System -> its space, of every file of this package."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").SPACE for name in names}


def of(system: str) -> Space:
    """The space of a system.

    Raises ConstantError if there is none.
    """
    if system not in spaces():
        raise ConstantError(f"search of {system!r}: there is none; there are {', '.join(spaces())}")
    return spaces()[system]
