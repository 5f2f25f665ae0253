"""Chain of thought on TSR patterns outside the span of the TRR patterns, which theorem 5 of Li et al. 2025 leaves open.

Training moves no weight along directions orthogonal to all TRR patterns: there W_Q and W_K stay delta I, and W_V
copies. So the layer acts on such patterns with its initial weights, and with the trained weights of the positional
codes.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.table import rows
from icl.models.optimisers import Params
from icl.papers.li2025 import decoding, one_layer

RARE = 0.1
"""alpha', below 1/M': most examples then have another start than the query, and a majority vote over all is wrong."""


def off_span(params: Params, configs: Sequence[one_layer.Config]) -> Params:
    """The weights that act on M patterns orthogonal to all TRR patterns, with the shapes of `params`."""
    codes = slice(2 * configs[0].relevant_patterns, None)
    weights = one_layer.init(configs)
    for name in ("W_Q", "W_K"):
        weights[name][..., codes, codes] = params[name][..., codes, codes]
    return weights


def errors(runs: Runs) -> Iterator[pd.DataFrame]:
    """CoT errors in and off the span, on the same prompts with few relevant examples and no noise or errors."""
    configs, test = runs.sweep.configs, runs.sweep.test
    exact = test.variation({"noise": 0.0, "relevant_fraction_test": RARE, "path_probability": 1.0, "primacy": 1.0})
    for where, params in (("in", runs.last()), ("off", off_span(runs.last(), configs))):
        length = [test.context_length_test]
        wrong = decoding.cot_wrong(params, configs, exact, [exact.setting()], length)
        error: np.ndarray = wrong[0, 0].mean(axis=-1)
        yield rows(f"error {where} the span, alpha' = {RARE:g}", runs.sweep.seeds, error)
