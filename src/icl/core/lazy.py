"""Modules that are loaded on first use.

Importing torch costs more than a second, and Snakemake parses the workflow (and with it every experiment's
sweeps) again in every cluster job. Modules on that path take torch from here.
"""

import importlib
from types import ModuleType
from typing import Any


class _Lazy(ModuleType):
    # Not registered in sys.modules, as importlib's LazyLoader would be: matplotlib asks there whether an array may be
    # torch's, and by asking would load it.
    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


def lazy(name: str) -> ModuleType:
    """A stand-in for the module `name`, which is imported when one of its attributes is first asked for.

    The first use raises ModuleNotFoundError if no such module is installed.
    """
    return _Lazy(name)
