"""Modules that are loaded on first use.

Importing torch costs more than a second, and Snakemake parses the workflow (and with it every experiment's
sweeps) again in every cluster job. Modules on that path take torch from here.
"""

import importlib.util
import sys
from types import ModuleType


def lazy(name: str) -> ModuleType:
    """The module `name`, executed at its first attribute access.

    Raises ModuleNotFoundError if no such module is installed.
    """
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"no module named {name!r}", name=name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
