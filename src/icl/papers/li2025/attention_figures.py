"""Attention of the query's column over training: figure 20, and each head of three layers (Li et
al. 2025).
"""

from dataclasses import replace
from typing import Any

import numpy as np

from icl.core.config import grid
from icl.core.lazy import Tensor, torch
from icl.drawing import own_style, plotting
from icl.evidence import errors
from icl.figure import (
    Axis,
    Figure,
    Picture,
    Rows,
    Runs,
    Style,
    Sweep,
    Table,
    Trained,
    curves,
    facts,
    join,
    single,
)
from icl.papers.li2025 import one_layer, prompts, trainings
from icl.papers.li2025.decoding import draw_test
from icl.papers.li2025.one_layer import Config, Evaluation, attend, columns

STYLES = (
    Style("same TSR, same step", "same TSR, same step", "C0", line="-"),
    Style("same TSR, diff. step", "same TSR, diff. step", "C1", line="--"),
    Style("diff. TSR, same step", "diff. TSR, same step", "C2", line="-."),
    Style("diff. TSR, diff. step", "diff. TSR, diff. step", "C3", line=":"),
)
GROUPS = [style.series for style in STYLES]


def prompt_columns(
    drawn: prompts.Draw, shown: prompts.Prompts, length: int, steps: np.ndarray, config: Config
) -> tuple[Tensor, Tensor]:
    """Prompts of `length` examples and the query's right chain, (1, queries, columns + 1, D), and
    -inf for the columns of that chain from the query's step on, 0 for the others, (1, queries, 1,
    columns).

    steps : of the queries, from 0, (queries,)
    """
    right = drawn.patterns[shown.right]
    right[:, 0] = shown.query
    chains = torch.from_numpy(np.concatenate([shown.vectors[:, :length], right[:, None]], axis=1))[
        None
    ]
    prompt = columns(
        chains, chains[:, np.arange(len(steps)), -1, steps], torch.from_numpy(steps), [config]
    )
    is_query = np.arange(length + 1)[:, None] == length
    later = np.arange(config.chain_length) >= steps[:, None, None]
    return prompt, torch.from_numpy(np.where(is_query & later, -np.inf, 0.0)).flatten(1)[
        None, :, None
    ]


def attention(runs: Runs, test: Evaluation, length: int, queries: int) -> np.ndarray:
    """Attention of the query's column to each of the four GROUPS, averaged over steps and queries:
    (snapshots, runs, layers, heads, 4).

    All columns of an example that starts with the query's pattern have the same TSR. So do the
    query's own earlier columns, which are taken from the right chain.
    """
    configs, length = runs.sweep.configs, min(length, test.context_length_test)
    steps = np.arange(queries) % test.chain_length
    other_step = np.arange(test.chain_length) != steps[:, None, None]
    prompt, group = [], []
    for config in configs:
        drawn = draw_test(config, test, queries)
        shown = prompts.assemble(drawn, test.setting())
        of_run, absent = prompt_columns(drawn, shown, length, steps, config)
        other_tsr = np.pad(shown.states[:, :length, 0] != shown.right[:, :1], ((0, 0), (0, 1)))[
            ..., None
        ]
        prompt.append(of_run)
        group.append(np.eye(len(GROUPS))[(2 * other_tsr + other_step).reshape(queries, -1)])
    everything, members = torch.cat(prompt), torch.from_numpy(np.stack(group))
    maps = (
        attend(runs.at(step), everything, configs[0], absent)[1] for step in runs.sweep.snapshots
    )
    return np.stack(
        [torch.einsum("rblhc,rbcg->rlhg", at, members).numpy() / queries for at in maps]
    )


def by_group(weights: np.ndarray) -> dict[str, np.ndarray]:
    """Return the weights of each group of columns: (..., 4) -> (...)."""
    return dict(zip(GROUPS, np.moveaxis(weights, -1, 0), strict=True))


def right_leads(runs: Runs, length: int, queries: int) -> np.ndarray:
    """Share of queries at each step k whose right next pattern leads at the end of training: (runs,
    K).

        argmax_j sum_{i : z_k^i = mu'_j} softmax_i((W_K p_i)' W_Q p_query) = f_k(z_{k-1})

    The query's earlier steps are those of its right chain. Attention on an example counts for the
    pattern that the example answers, at whichever step its column stands.
    """
    test, last = runs.sweep.test, runs.last()
    shares = np.empty((len(runs.sweep.configs), test.chain_length))
    for run, config in enumerate(runs.sweep.configs):
        drawn = draw_test(config, test, queries)
        shown = prompts.assemble(drawn, test.setting())
        answers = np.concatenate([shown.states[:, :length, 1:], shown.right[:, None, 1:]], axis=1)
        for step in range(test.chain_length):
            prompt, absent = prompt_columns(drawn, shown, length, np.full(queries, step), config)
            maps = attend({n: w[[run]] for n, w in last.items()}, prompt, config, absent)[1][
                0, :, 0, 0
            ]
            sums = torch.zeros(queries, len(drawn.patterns), dtype=maps.dtype)
            sums.scatter_add_(1, torch.from_numpy(answers).flatten(1), maps)
            shares[run, step] = (sums.argmax(dim=1).numpy() == shown.right[:, step + 1]).mean()
    return shares


# Figure 20

END_OF_STAGE, LENGTH, FRACTION, QUERIES, LEADING_QUERIES = 83, 20, 0.4, 90, 300


def measure(runs: Trained, scale: str) -> Rows:
    """Return the four attention weights at every snapshot, and the claims' observables."""
    trained = single(runs)
    seeds, test, drawn = trained.sweep.seeds, trained.sweep.test, trainings.drawn(trained)
    snapshots = np.array(trained.sweep.snapshots)
    clean = replace(
        test, noise=0.0, path_probability=1.0, primacy=1.0, relevant_fraction_test=FRACTION
    )
    weights = attention(trained, clean, LENGTH, min(QUERIES, test.queries))[:, :, 0, 0]
    # The smoke scale, which has fewer steps, has the same axis.
    where = {"panel": "main", "x": snapshots * trainings.STEPS["paper"] / snapshots[-1]}
    parts = [trainings.drawn_run(trained)]
    for group, of_group in by_group(weights).items():
        parts += errors.drawn_curve(
            seeds, drawn, "attention weight", of_group, series=group, **where
        )
    leads = right_leads(trained, test.context_length_test, min(LEADING_QUERIES, test.queries)).min(
        axis=1
    )
    found = stages(weights, snapshots) | {
        "least share of queries whose right pattern leads, over steps": leads
    }
    return join([*parts, facts(seeds, found | trainings.conditions(trained))])


def stages(weights: np.ndarray, steps: np.ndarray) -> dict[str, np.ndarray]:
    """Observables of the two stages, (runs,) each, from weights (snapshots, runs, 4); NaN if a
    stage does not end.
    """
    both, off, step_only = weights[..., 0], weights[..., 1] + weights[..., 3], weights[..., 2]
    passes, step_found, peak = both > 0.6, off < 0.05, step_only.max(axis=0)
    # The last snapshot before the weight on both exceeds 0.6, or the first one if it already does.
    before = np.maximum(passes.argmax(axis=0) - 1, 0)
    off_before = np.take_along_axis(off, before[None], axis=0)[0]
    return {
        "same TSR and step at the end": both[-1],
        "off-step weight before same TSR and step passes 0.6": np.where(
            passes.any(axis=0), off_before, np.nan
        ),
        "rise of the other TSR on the step": peak - step_only[0],
        "fall of the other TSR on the step": peak - step_only[-1],
        "end of the first stage": np.where(
            step_found.any(axis=0), steps[step_found.argmax(axis=0)], np.nan
        ),
    }


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Draw the published picture, an enlarged screenshot with axes and letters 5 % larger than
    in its siblings.
    """
    figure, axes = plotting.canvas((400, 403), (79.33, 370.20, 18.17, 342.83))
    plotting.curves(axes, table, STYLES, "attention weight")
    axes.axvline(END_OF_STAGE, color="k", linestyle=":", linewidth=3)
    x = Axis("Iterations", (0, 1000), range(0, 1001, 200))
    plotting.frame(axes, x, Axis("Attention weight in average", (0, 1)), font=15.8)
    plotting.legend(axes, 12.6, "lower left", (0.146, 0.326), spacing=0.6)
    return figure


# Three layers of two heads

LAYERS, HEADS = 3, 2
PANELS = {
    (layer, head): f"layer {layer + 1}, head {head + 1}"
    for head in range(HEADS)
    for layer in range(LAYERS)
}
DEEP: dict[str, Any] = {
    "chain_length": [2],
    "relevant_fraction": [0.7],
    "context_length": [20],
    "pattern_norm": [1.0],
    "code_norm": [1.0],
    "attention_start": [0.25],
    "start_std": [0.1],
    "value_start": [1.0],
    "learning_rate": [0.2],
}
SNAPSHOTS, SHORTEST = (0, 50, 100, 150, 200, 300, 400, *range(600, 2001, 200)), (0, 10)
# Seeds, prompts per batch and queries.
AMOUNTS = {"paper": (20, 120, 400), "laptop": (6, 40, 100), "smoke": (2, 10, 10)}


def sweeps_deep(scale: str) -> list[Sweep]:
    """Return the training of the three-layer model."""
    (seeds, batch, queries), snapshots = AMOUNTS[scale], SHORTEST if scale == "smoke" else SNAPSHOTS
    configs = grid(
        trainings.pinned(layers=LAYERS, heads=HEADS), **DEEP, batch=[batch], seed=range(seeds)
    )
    test = Evaluation(
        chain_length=2,
        relevant_fraction_test=0.7,
        noise=0.0,
        context_length_test=20,
        queries=queries,
    )
    return [Sweep("li_cot_three_layer", one_layer.MODEL, configs, snapshots, test)]


def measure_deep(runs: Trained, scale: str) -> Rows:
    """Attention of every head to the four groups of columns at every snapshot, and its change
    per layer.
    """
    trained = single(runs)
    test, seeds, x = (
        trained.sweep.test,
        trained.sweep.seeds,
        np.array(trained.sweep.snapshots)[:, None],
    )
    weights = attention(trained, test, trained.sweep.configs[0].context_length, test.queries)
    parts = [
        curves("attention weight", panel, seeds, x, by_group(weights[:, :, layer, head]))
        for (layer, head), panel in PANELS.items()
    ]
    for layer in range(LAYERS):
        both, same_tsr, same_step, neither = by_group(weights[:, :, layer].mean(axis=2)).values()
        off, share = same_tsr + neither, both / (both + same_step)
        found = {
            "same TSR, same step at the end": both[-1],
            "fall off the step": off[0] - off[-1],
            "rise of the TSR's share of the step": share[-1] - share[0],
        }
        parts.append(
            facts(seeds, {f"{name}, layer {layer + 1}": of_runs for name, of_runs in found.items()})
        )
    return join(parts)


@plotting.under_defaults
def draw_deep(table: Table) -> Picture:
    """Draw a panel per head, and a column per layer."""
    title = "Attention of the query by pattern (TSR) and step, in each head of three layers"
    figure, panels = own_style.panels(list(PANELS.values()), LAYERS, title, (265, 200))
    for name, axes in panels.items():
        styles = own_style.styles({group: group for group in GROUPS})
        plotting.curves(
            axes, table, styles, "attention weight", band=plotting.pale, **own_style.LINE
        )
        axes.set(xlim=(0, None), ylim=(0, 1))
        own_style.axis_labels(axes, "", "", name.capitalize())
    for head in range(HEADS):
        own_style.name_curves(panels[PANELS[LAYERS - 1, head]])
    own_style.common_labels(figure, "Iterations", "Attention weight")
    return figure


FIGURES = (
    Figure("figure20", trainings.shared_training, measure, draw, draws_one_run=True),
    Figure("cot_three_layer", sweeps_deep, measure_deep, draw_deep),
)
