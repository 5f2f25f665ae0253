"""torch, imported on first use, and names of types for annotations alone.

Importing torch takes more than a second, and every cluster job parses the workflow, and with it the
sweeps of every figure, again. Modules on that path take torch from here, and the types of torch and
matplotlib that they only annotate.
"""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any


class _Lazy(ModuleType):
    # Unlike importlib's LazyLoader this is not in sys.modules, where matplotlib looks torch up to
    # recognise its tensors and would thereby load it.
    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from torch import Tensor
else:
    torch = _Lazy("torch")
    Axes = Picture = Tensor = Any

__all__ = ["Axes", "Picture", "Tensor", "torch"]
