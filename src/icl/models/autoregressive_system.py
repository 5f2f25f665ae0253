"""The autoregressive layer under the name by which sweeps and constants find it, among the files of this folder."""

from icl.models.autoregressive.config import Config, Test
from icl.models.autoregressive.model import FROZEN, init, is_random, loss_and_gradient, optimiser, sample

__all__ = ["FROZEN", "SYSTEM", "Config", "Test", "init", "is_random", "loss_and_gradient", "optimiser", "sample"]

SYSTEM = "zheng_ar"
