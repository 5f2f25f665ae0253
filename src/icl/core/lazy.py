"""Modules that are loaded on first use.

Importing torch takes more than a second, and every cluster job parses the workflow, and with it the sweeps of every
figure, again. Modules on that path import torch lazily.
"""

import importlib
from types import ModuleType
from typing import Any


class _Lazy(ModuleType):
    # Unlike importlib's LazyLoader this is not in sys.modules, where matplotlib looks torch up to recognise its tensors
    # and would thereby load it.
    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


def lazy(name: str) -> ModuleType:
    """A stand-in for the module `name`, which is imported when one of its attributes is first used.

    The first use raises ModuleNotFoundError if no such module is installed.
    """
    return _Lazy(name)
