"""The law of the test inputs that the classical curves of figure 27 imply, without any model."""

import numpy as np

from icl.evidence import published_curves
from icl.models import estimators
from icl.papers.li2024 import one_layer_evaluation
from icl.papers.li2024.classical_figures import LENGTHS
from icl.papers.li2024.one_layer import Config, Test

RATIOS = (1.0, 2.0, 2.5, 3.0)
LEVELS = (0.6, 0.7, 0.75, 0.8, 0.85, 0.9)
PROMPTS = 8000
SEED = 100
LEAST = 1 / (2 * PROMPTS)
"""Replaces an error rate of zero."""


def distance(ratio: float, noise: float) -> float:
    """Mean |log10 ratio| of the five fits' errors to the published ones, over the context lengths of figure 27.

    ratio : kappa' of the test over kappa of the training; noise : expected norm of the noise over beta
    """
    config = Config(seed=SEED)
    prompts = one_layer_evaluation.in_domain([config], Test(prompts=PROMPTS, strength_ratio=ratio, noise=noise))
    inputs, labels = prompts.tokens[0, ..., : config.feature_dimension].numpy(), prompts.labels[0].numpy()
    published = published_curves.published("figure27").set_index(["series", "x"])["y"]
    ratios = []
    for name, classify in estimators.batched_classifiers().items():
        for length in LENGTHS:
            answers = classify(inputs[:, :length], labels[:, :length], inputs[:, -1])
            error = max(float(np.mean(answers != labels[:, -1])), LEAST)
            ratios.append(abs(np.log10(error / published[name, length])))
    return float(np.mean(ratios))


def table() -> str:
    """The distances as a Markdown table with a row per kappa' and a column per noise."""
    lines = [f"| kappa'/kappa | {' | '.join(f'{noise:g}' for noise in LEVELS)} |", "| --- " * (len(LEVELS) + 1) + "|"]
    lines += [f"| {r:g} | {' | '.join(f'{distance(r, noise):.2f}' for noise in LEVELS)} |" for r in RATIOS]
    return "\n".join(lines)
