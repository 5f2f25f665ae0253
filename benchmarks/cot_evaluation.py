"""Chain of thought over all settings, lengths and queries at once, against a greedy loop for each query and length.

Both compute the answers of figure 17: four alpha', contexts of 0, 10, ..., 100 examples, K = 3 steps. The loop forms
the full prompt again for every step, as in the paper; `wrong_answers` also draws its prompts. CPU time of one thread
per query, the minimum of several alternating repeats. A test shows that the answers are equal.

    python -m benchmarks cot_evaluation
"""

from dataclasses import replace

import numpy as np

from benchmarks.timing import Row, least
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.li2025 import one_layer, prompts
from icl.papers.li2025.decoding import chain_of_thought, draw_test, wrong_answers
from tests.oracles import li2025

TEST = one_layer.Test(queries=100)
LENGTHS = tuple(range(0, 101, 10))
LOOPED = 3  # queries of the loop
REPEATS = 3
LEAST_RATIO = 20.0


def main() -> list[Row]:
    """Rows (name, value, target)."""
    config = one_layer.Config()
    params = one_layer.init([config])
    # Weights as after training: attention on equal patterns at equal steps.
    params |= {name: 6.0 * params[name] for name in ("W_Q", "W_K")}
    settings = [replace(TEST, relevant_fraction_test=fraction).setting() for fraction in (0.4, 0.6, 0.8, 1.0)]
    drawn = draw_test(config, TEST)
    sweep = Sweep("li_cot", one_layer.SYSTEM, (config,), (0,), TEST)
    runs = Runs(sweep, {name: w[:, None] for name, w in params.items()}, np.zeros((1, 0)))
    looped = [prompts.assemble(drawn, setting, slice(LOOPED)) for setting in settings]

    def batched() -> None:
        wrong_answers(chain_of_thought, runs, settings, LENGTHS)

    def loop() -> None:
        for shown in looped:
            for query, vectors in zip(shown.query, shown.vectors, strict=True):
                for length in LENGTHS[1:]:
                    li2025.greedy_chain(params, config, drawn.patterns, vectors[:length], query)

    seconds = least({"loop": (loop, 1), "batched": (batched, 1)}, REPEATS)
    looping, at_once = seconds["loop"] / LOOPED, seconds["batched"] / TEST.queries
    return [
        ("greedy loop / batched chain of thought: at least", looping / at_once, LEAST_RATIO),
        ("milliseconds per query, greedy loop", 1e3 * looping, None),
        ("milliseconds per query, batched", 1e3 * at_once, None),
    ]
