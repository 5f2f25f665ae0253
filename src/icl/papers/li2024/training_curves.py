"""Figures 8, 9 and 21 to 23 of Li et al. 2024: magnitudes over training, and attention on the
contexts with the query's ODR pattern and on the others, of the one-layer model (figure 9) and of
each layer of the stack (21 to 23).
"""

from functools import partial

import numpy as np

from icl.figure import Axis, Figure, Rows, Style, Tensor, Trained, single, torch
from icl.models.optimisers import Params
from icl.papers.li2024 import evaluation, stack, trainings
from icl.papers.li2024.evaluation import EvaluationPrompts
from icl.papers.li2024.record import Look, Record, figure

ATTENTION_EPOCHS = tuple(range(0, 201, 20))
"""The epochs of figure 9."""
LEAST_RISE = 0.1
"""The rise of a layer's attention that counts as one, our choice."""
QUARTER, JUMP = 5, 4
"""A quarter and a fifth of the training of the stack, in snapshots. A plateau has at most an eighth
of the rise in the first quarter, half of a steady rise; a jump has at least 0.6 of it within a
fifth, half-way between a steady rise and all of it.
"""


def measure_magnitudes(runs: Trained, scale: str) -> Rows:
    """Magnitudes on out-of-domain prompts at every drawn epoch, and the claims' ratios at the
    end.
    """
    record, epochs = Record(single(runs)), trainings.EPOCHS
    prompts = evaluation.out_of_domain(record.runs.sweep)
    drawn = [magnitudes(record.runs.at(epoch), prompts) for epoch in epochs]
    record.curves(
        "magnitude", {series: [now[series] for now in drawn] for series in drawn[0]}, epochs
    )
    start, end = drawn[0], drawn[-1]
    along_start, along_end = (now["xdr W_Q p_query"] + now["xdr W_K p_i"] for now in (start, end))
    share = along_end / (end["W_Q p_query"] + end["W_K p_i"])
    return record.rows(
        {"share along the pattern": share, "growth along the pattern": along_end / along_start}
    )


def magnitudes(params: Params, prompts: EvaluationPrompts) -> dict[str, np.ndarray]:
    """Mean magnitudes of figure 8 within the feature block, (runs,) each.

    ``W_Q p_query`` and ``W_K p_i`` (over contexts with the query's pattern) are norms, ``xdr W_Q
    p_query`` and ``xdr W_K p_i`` the sizes of their components along the query's IDR or ODR
    pattern.
    """
    direction, size = prompts.query_direction, prompts.query_direction.shape[-1]
    same = (prompts.patterns[..., :-1] == prompts.patterns[..., -1:]).double()
    query = torch.einsum("rpd,red->rpe", prompts.tokens[:, :, -1], params["W_Q"])[..., :size]
    keys = torch.einsum("rpld,red->rple", prompts.tokens[:, :, :-1], params["W_K"])[..., :size]

    def over_same(values: Tensor) -> np.ndarray:
        return ((values * same).sum(dim=(1, 2)) / same.sum(dim=(1, 2))).numpy()

    return {
        "W_Q p_query": query.norm(dim=-1).mean(dim=-1).numpy(),
        "W_K p_i": over_same(keys.norm(dim=-1)),
        "xdr W_Q p_query": (query * direction).sum(dim=-1).abs().mean(dim=-1).numpy(),
        "xdr W_K p_i": over_same(torch.einsum("rple,rpe->rpl", keys, direction).abs()),
    }


def measure_attention(runs: Trained, scale: str) -> Rows:
    """Out-of-domain attention of the query on contexts with its own pattern and on the others."""
    record = Record(single(runs))
    prompts = evaluation.out_of_domain(record.runs.sweep)
    attention = [evaluation.attention(record.runs.at(epoch), prompts) for epoch in ATTENTION_EPOCHS]
    same = np.stack([on_same(of_epoch, prompts) for of_epoch in attention])
    record.curves("attention weight", {"The same ODR": same, "Other": 1 - same}, ATTENTION_EPOCHS)
    fall = (np.maximum.accumulate(same, axis=0) - same).max(axis=0)
    claimed = {
        "attention at the start": same[0],
        "attention at the end": same[-1],
        "largest fall of attention": fall,
    }
    return record.rows(claimed)


def on_same(attention: Tensor, prompts: EvaluationPrompts) -> np.ndarray:
    """Return the query's attention, (runs, prompts, columns), on columns with its pattern,
    averaged: (runs,).
    """
    same = prompts.patterns == prompts.patterns[..., -1:]
    return (attention * same).sum(dim=-1).mean(dim=-1).numpy()


def measure_layer(runs: Trained, scale: str, layer: int) -> Rows:
    """Out-of-domain attention of one layer of the stack on the columns with the query's pattern,
    and its rise.
    """
    trained = single(runs)
    record, configs = Record(trained), trained.sweep.configs
    prompts = evaluation.out_of_domain(trained.sweep)
    tokens = prompts.tokens[..., : configs[0].feature_dimension + 1]
    attention = (
        stack.forward(trained.at(step), tokens, configs)[1][layer - 1]
        for step in trained.sweep.snapshots
    )
    same = np.stack([on_same(of_step[:, :, -1], prompts) for of_step in attention])
    record.curves(
        "attention weight", {"The same ODR": same, "Other": 1 - same}, trainings.STACK_EPOCHS
    )
    rise = same[-1] - same[0]
    rises, early = rise >= LEAST_RISE, same[QUARTER] - same[0]
    fastest = np.max(same[JUMP:] - same[:-JUMP], axis=0)
    jumps = rises & (early <= 0.125 * rise) & (fastest >= 0.6 * rise)
    return record.rows(
        {
            "attention rises": rises.astype(float),
            "attention has a plateau and a jump": jumps.astype(float),
        }
    )


MAGNITUDES = (
    Style("W_Q p_query", "$W_Qp_{query}$", "C0", "d"),
    Style("W_K p_i", "$W_Kp_i$", "C1", "o"),
    Style("xdr W_Q p_query", "$xdrW_Qp_{query}$", "C2", "<"),
    Style("xdr W_K p_i", "$xdrW_Kp_i$", "C3", "x"),
)
ATTENTION = (Style("The same ODR", "The same ODR", "C0"), Style("Other", "Other", "C1"))


def _layer(name: str, layer: int, limits: tuple[float, float]) -> Figure:
    # With this end the ticks of figures 21 and 22 lie on their published pixels: the last before
    # the right spine.
    x = Axis("Epoches", (0, 1605.4), range(0, 1601, 320))
    y = Axis("Attention weight in average", limits, widens=True)
    look = Look(
        400, (83.53, 359.40, 15.00, 329.72), x, y, 15, (15, "center right", (0.959, 0.5), 0.418)
    )
    measure = partial(measure_layer, layer=layer)
    return figure(name, trainings.stack_training, measure, "attention weight", ATTENTION, look)


X8, Y8 = (
    Axis("Epoches", (0, 401), range(0, 401, 80)),
    Axis("Magnitude", (0.3285, 1.8305), widens=True),
)
X9, Y9 = Axis("Epoches", (0, 201), range(0, 201, 40)), Axis("Attention weight summation", (0, 1))
LEGEND8, LEGEND9 = (
    (15, "lower left", (0.258, 0.013), 0.717),
    (15, "center right", (0.963, 0.5), 0.424),
)
FIGURE8 = Look(400, (96.65, 365.90, 15.00, 329.72), X8, Y8, 15, LEGEND8)
FIGURE9 = Look(400, (83.53, 366.67, 23.00, 329.72), X9, Y9, 15, LEGEND9)
FIGURES = (
    figure(
        "figure8",
        trainings.one_layer_training,
        measure_magnitudes,
        "magnitude",
        MAGNITUDES,
        FIGURE8,
    ),
    figure(
        "figure9",
        trainings.one_layer_training,
        measure_attention,
        "attention weight",
        ATTENTION,
        FIGURE9,
    ),
    _layer("figure21", 1, (0.1142, 0.8859)),
    _layer("figure22", 2, (0.1789, 0.8212)),
    _layer("figure23", 3, (0.0669, 0.9331)),
)
