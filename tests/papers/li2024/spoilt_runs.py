"""Small real runs of Li et al. 2024, and the changes that break the bounds of the claims.

The runs are real trainings with six seeds: the one-layer model as it is, the stack of three layers in fewer steps, and
the GPT-2 style model on a smaller, easier task that it learns in seconds. The tests do not depend on how well the
published claims hold: the sabotaged run breaks a bound, and the same run without the sabotage (the control) does not.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from icl.core import discovery
from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.papers.li2024 import (
    decoder,
    decoder_evaluation,
    icl_lucky_neurons,
    one_layer_evaluation,
    one_layer_figures,
    one_training,
    stacked_figures,
)
from icl.pipeline import figures
from tests import sabotaged
from tests.sabotaged import Outcome, Patch, same, untouched

FIGURES = [name for name, paper in discovery.figures().items() if paper == "li2024"]
FIGURE_OF = sabotaged.figures_of_claims(FIGURES)
SEEDS, PROMPTS = 6, {"figure27": 10, "figure28": 10}


def smaller_gpt2(sweep: Sweep) -> Sweep:
    """An easier sweep, solved within 300 steps: narrow model, all tasks seen, few and weak irrelevant patterns."""
    configs = grid(
        decoder.Config,
        irrelevant_patterns=[2], irrelevant_strength=[0.2], label_dimension=[2], width=[16], mlp_width=[32],
        init_std=[0.1], task_shifts=[5], batch=[8], learning_rate=[5e-3], steps=[300],
        pattern_law=["axes"], label_law=["axis"], pattern_norm=[1.0], training_noise=[0.0], seed=range(SEEDS),
    )  # fmt: skip
    plain = dataclasses.replace(sweep.test, noise=0.0)
    return dataclasses.replace(sweep, configs=configs, snapshots=tuple(range(0, 301, 15)), test=plain)


def shorter_stack(sweep: Sweep) -> Sweep:
    """The stack of three layers at twice its learning rate, for 1,000 steps."""
    configs = tuple(dataclasses.replace(c, learning_rate=2 * c.learning_rate) for c in sweep.configs)
    return dataclasses.replace(sweep, configs=configs, snapshots=tuple(range(0, 1001, 50)))


# Sweeps that are too long even with six seeds -> how they are made smaller.
SMALLER: Mapping[str, Callable[[Sweep], Sweep]] = {
    "li_icl_alpha": lambda sweep: dataclasses.replace(sweep, snapshots=(300,)),
    "li_icl_gpt2": smaller_gpt2,
    "li_icl_stack": shorter_stack,
}


def small(sweep: Sweep, prompts: int = 200) -> Sweep:
    few = tuple(config for config in sweep.configs if config.seed < SEEDS)
    test = dataclasses.replace(sweep.test, prompts=prompts)
    few_seeds = dataclasses.replace(sweep, configs=few, test=test)
    return SMALLER[sweep.name](few_seeds) if sweep.name in SMALLER else few_seeds


@cache
def trained(name: str) -> Runs:
    return train(small(sabotaged.trainings(FIGURES)[name]))


def runs_of(name: str) -> dict[str, Runs]:
    planned = figures.sweeps(name, "laptop", {})
    return {
        key: dataclasses.replace(trained(key), sweep=small(sweep, PROMPTS.get(name, 200)))
        for key, sweep in planned.items()
    }


# Sabotaged runs


def at_snapshots(runs: Runs, index: Any, **weights: torch.Tensor) -> Runs:
    """The runs with other weights at some snapshots."""
    new = {name: w.clone() for name, w in runs.weights.items()}
    for name, w in weights.items():
        new[name][:, index] = w
    return dataclasses.replace(runs, weights=new)


def untrained(runs: Runs) -> Runs:
    """Nothing was learnt: the final weights equal the initial ones."""
    return at_snapshots(runs, -1, **{name: w[:, 0] for name, w in runs.weights.items()})


def trained_from_the_start(runs: Runs) -> Runs:
    return at_snapshots(runs, 0, **{name: w[:, -1] for name, w in runs.weights.items()})


def silent_at_the_start(runs: Runs) -> Runs:
    """At epoch 0 no neuron is active: the rows of W_O are zero."""
    return at_snapshots(runs, 0, W_O=torch.zeros_like(runs.weights["W_O"][:, 0]))


def forgotten(runs: Runs) -> Runs:
    """At the last epoch of figure 9 the weights are the initial ones again."""
    index = runs.sweep.snapshots.index(one_layer_figures.LONG_EPOCHS[-1])
    return at_snapshots(runs, index, **{name: w[:, 0] for name, w in runs.weights.items()})


def best_everywhere(runs: Runs) -> Runs:
    """All runs have the weights of the run with the least held-out loss."""
    best = one_training.choice(runs).index
    return dataclasses.replace(runs, weights={n: w[[best] * len(w)] for n, w in runs.weights.items()})


def uniform_attention(runs: Runs) -> Runs:
    return at_snapshots(runs, slice(None), W_K=torch.zeros_like(runs.weights["W_K"]))


def shuffled_queries_and_keys(runs: Runs) -> Runs:
    """The outputs of W_Q and W_K in random order: same norm, but not along the pattern."""
    size = runs.weights["W_Q"].shape[-1]
    order = torch.from_numpy(np.random.default_rng(0).permutation(size))
    return at_snapshots(runs, -1, **{name: runs.last()[name][:, order] for name in ("W_Q", "W_K")})


def fresh_values(runs: Runs) -> Runs:
    """W_V is Gaussian, with the standard deviation of the trained one."""
    last = runs.last()["W_V"]
    noise = torch.from_numpy(np.random.default_rng(0).standard_normal(last.shape))
    return at_snapshots(runs, -1, W_V=noise * last.std())


def negated_readout(runs: Runs) -> Runs:
    return at_snapshots(runs, slice(None), a=-runs.weights["a"])


def negated_decoder_readout(runs: Runs) -> Runs:
    names = [name for name in runs.weights if name.startswith("read_out")]
    return at_snapshots(runs, slice(None), **{name: -runs.weights[name] for name in names})


def norms(runs: Runs) -> torch.Tensor:
    """Final row norms of W_O: (runs, m, 1)."""
    return runs.last()["W_O"].norm(dim=-1, keepdim=True)


def rescaled_rows(runs: Runs, scale: torch.Tensor) -> Runs:
    """The rows of W_O times `scale` > 0, (runs, m, 1), and a divided by it: the same function with other norms."""
    last = runs.last()
    return at_snapshots(runs, -1, W_O=last["W_O"] * scale, a=last["a"] / scale[..., 0])


def equal_rows(runs: Runs) -> Runs:
    """No neuron is small."""
    return rescaled_rows(runs, 1 / norms(runs))


def one_giant_row(runs: Runs) -> Runs:
    """All neurons but one are small."""
    largest = norms(runs) == norms(runs).amax(dim=1, keepdim=True)
    return rescaled_rows(runs, torch.where(largest, 100.0, 1.0).double())


def all_rows_grown(runs: Runs) -> Runs:
    """The small neurons have grown too."""
    return rescaled_rows(runs, torch.full_like(norms(runs), 3.0))


def reversed_norms(runs: Runs) -> Runs:
    """The neurons with the largest norms get the smallest ones."""
    return rescaled_rows(runs, norms(runs) ** -2)


def large_rows_without_effect(runs: Runs) -> Runs:
    """A fifth of the neurons get the largest rows, but a read-out of almost zero."""
    idle = torch.arange(norms(runs).shape[1]) < round(0.2 * norms(runs).shape[1])
    runs = rescaled_rows(runs, torch.where(idle, 100.0, 1.0)[:, None].double())
    return at_snapshots(runs, -1, a=torch.where(idle, 1e-9, 1.0) * runs.last()["a"])


def small_rows_of_the_unlucky(runs: Runs) -> Runs:
    """The neurons that are not lucky at the start have hardly grown."""
    prompts = one_layer_evaluation.in_domain(runs.sweep.configs, runs.sweep.test)
    is_lucky = icl_lucky_neurons.lucky(runs.at(0), prompts, icl_lucky_neurons.MOSTLY)
    return rescaled_rows(runs, torch.from_numpy(np.where(is_lucky, 1.0, 0.2))[..., None])


def sped_up(losses: np.ndarray, factor: int) -> np.ndarray:
    """The losses (..., steps) of a training that is `factor` times as fast."""
    steps = losses.shape[-1]
    return losses[..., np.minimum(factor * np.arange(steps), steps - 1)]


def fast_with_large_alpha(runs: Runs) -> Runs:
    """The trainings with alpha = 0.75 and 1 are three times as fast."""
    losses = runs.losses.copy()
    losses[3 * SEEDS :] = sped_up(losses[3 * SEEDS :], 3)
    return dataclasses.replace(runs, losses=losses)


def fast_with_few_patterns(runs: Runs) -> Runs:
    """The trainings with M_1 = 6 and 8 are four times and twice as fast."""
    factor = {"li_icl_sgd": 4, "li_icl_sgd_relevant_8": 2}.get(runs.sweep.name, 1)
    return dataclasses.replace(runs, losses=sped_up(runs.losses, factor))


def trained_on_longer_prompts(runs: Runs) -> Runs:
    """The run trained on one context gets the weights of the run trained on twenty."""
    is_short = runs.sweep.name == "li_icl_sgd_context_length_1"
    return at_snapshots(runs, -1, **trained("li_icl_sgd").last()) if is_short else runs


def reversed_norms_of_many_patterns(runs: Runs) -> Runs:
    """`reversed_norms`, only with 60 irrelevant patterns."""
    return reversed_norms(runs) if runs.sweep.name.endswith("_irrelevant_60") else runs


# Sabotaged evaluation


def fractions_mislabelled(system: Any, instead: Mapping[float, float]) -> Patch:
    """Test prompts with another alpha' than the stated one."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        for domain in ("in_domain", "out_of_domain"):
            patch.setattr(system, domain, mislabelled(getattr(system, domain)))

    def mislabelled(prompts_of: Any) -> Any:
        def wrong(configs: Any, test: Any) -> Any:
            fraction = instead.get(test.relevant_fraction_test, test.relevant_fraction_test)
            return prompts_of(configs, dataclasses.replace(test, relevant_fraction_test=fraction))

        return wrong

    return apply


def wrong_answers(share: Callable[[float], float]) -> Patch:
    """Flip the answers of a fraction of the three-layer model's out-of-domain prompts that depends on S_1."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        prompts_of = decoder_evaluation.out_of_domain

        def wrong(configs: Any, test: Any) -> Any:
            prompts = prompts_of(configs, test)
            labels = prompts.labels.clone()
            labels[:, : round(share(test.coefficient_sum) * test.prompts), -1] *= -1
            return dataclasses.replace(prompts, labels=labels)

        patch.setattr(decoder_evaluation, "out_of_domain", wrong)

    return apply


def most_attentive_layer(patch: pytest.MonkeyPatch) -> None:
    """Every layer has the attention of the one that attends most: in the smaller task not all find the pattern."""
    attention = stacked_figures.attention_on_same

    def of_the_best(runs: Runs, prompts: Any) -> np.ndarray:
        by_layer = attention(runs, prompts)
        return np.broadcast_to(by_layer.max(axis=-1, keepdims=True), by_layer.shape)

    patch.setattr(stacked_figures, "attention_on_same", of_the_best)


def larger_shares(patch: pytest.MonkeyPatch) -> None:
    """Skip R = 0.2, where margins above 1 keep the loss low."""
    patch.setattr(discovery.module("icl_large_neurons"), "JUDGED", (0.4, 0.6, 0.8))


def harder_answers(patch: pytest.MonkeyPatch) -> None:
    """Logits at two thirds of their size: more errors, so fewer ties between draws."""
    wrong = one_layer_evaluation.wrong
    patch.setattr(one_layer_evaluation, "wrong", lambda logits, prompts: wrong(logits / 1.5, prompts))


harder_below_one = wrong_answers(lambda total: 0.5 - total / 3)
harder_above_one = wrong_answers(lambda total: total / 3)


# Sabotages of the bounds


@dataclass(frozen=True)
class Sabotage:
    """Changes of the runs and of the evaluation that break a bound, and those of the control, which keep it."""

    runs: Callable[[Runs], Runs] = same
    test: Patch = untouched
    control: Patch = untouched
    control_runs: Callable[[Runs], Runs] = same


LI_ICL_REVERSED = fractions_mislabelled(one_layer_evaluation, {0.4: 1.0, 0.6: 0.8, 0.8: 0.6, 1.0: 0.4})
LI_ICL_FALLING = fractions_mislabelled(one_layer_evaluation, {0.6: 1.0, 0.8: 0.6, 1.0: 0.3})
GPT2_FALLING = fractions_mislabelled(decoder_evaluation, {1.0: 0.6, 0.9: 0.8, 0.8: 1.0})
NOTHING_LEARNT = Sabotage(untrained)
WRONG_SIGN = Sabotage(negated_readout)


@cache
def measured(name: str, change: Callable[[Runs], Runs], apply: Patch) -> pd.DataFrame:
    with pytest.MonkeyPatch.context() as patch:
        apply(patch)
        return figures.measure(name, {key: change(runs) for key, runs in runs_of(name).items()}, "laptop")


def judged(claim: str, observable: str, change: Callable[[Runs], Runs], apply: Patch) -> Outcome:
    """Outcome of a claim, and of its bound on one observable, on the sabotaged figure."""
    name = FIGURE_OF[claim]
    return sabotaged.judged(name, measured(name, change, apply), claim, observable)


def assert_decided(claim: str, observable: str, sabotage: Sabotage) -> None:
    """The sabotage contradicts the bound, and its control does not."""
    spoilt = judged(claim, observable, sabotage.runs, sabotage.test)
    control = judged(claim, observable, sabotage.control_runs, sabotage.control)
    sabotaged.assert_only_the_spoilt_is_contradicted(spoilt, control)
    assert spoilt[1].runs == control[1].runs == SEEDS
