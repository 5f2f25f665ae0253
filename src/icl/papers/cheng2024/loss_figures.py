"""Losses of trained transformers against context length and depth, for each kernel of the labels.

cheng_kernels : one nonlinearity in every model, beside the scalar oracle
cheng_heads : a linear head and an exp head in one model, against either alone
"""

from collections.abc import Iterator, Sequence

import numpy as np

from icl.drawing import own_style
from icl.figure import (
    Axes,
    Figure,
    Picture,
    Rows,
    Style,
    Sweep,
    Table,
    Trained,
    curves,
    facts,
    join,
    plotting,
    rows,
)
from icl.papers.cheng2024 import trainings
from icl.papers.cheng2024.trainings import DEPTHS, KERNELS, LAWS, LENGTHS, Losses, Setting

# A training that ends further above the oracle than this in log loss is counted below the panels.
BEHIND = 0.05
# The orders that we expect at L = 3, n = 14, best first; no published order is known.
ORDERS = {
    "half_exp": ("softmax", "exp", "relu", "linear"),
    "relu": ("relu", "softmax", "exp", "linear"),
    "linear": ("linear", "softmax", "exp", "relu"),
}
# The gaps between neighbours of the first order, as observables.
PAIRS = (
    "log loss of exp over softmax",
    "log loss of relu over exp",
    "log loss of linear over relu",
)
MATCHED = {"linear": "linear", "relu": "relu", "half_exp": "exp"}
# Observable -> labels and single heads with which two heads are compared at L = 3, n = 14.
GAINS = {
    "least log loss of one head over two, mixed labels": (("comb", "linear"), ("comb", "exp")),
    "least log loss of the other head over two": (("linear", "exp"), ("half_exp", "linear")),
}

EVERY_LENGTH = (2, 4, 6, 8, 10, 12, 14)
"""The context lengths of the Bayes line, which include all others."""
Panels = dict[str, tuple[str, Sequence[int], Sequence[int]]]
"""Panel -> the kernel of the labels, the depths and the context lengths, of which one is x and
the other is fixed.
"""
OVER_LENGTH: Panels = {f"{law}, L = 3": (law, (3,), EVERY_LENGTH) for law in LAWS}
OVER_DEPTH: Panels = {f"{law}, n = {n}": (law, DEPTHS, (n,)) for n in (14, 6) for law in LAWS}
OF_KERNELS: Panels = OVER_LENGTH | OVER_DEPTH
OF_HEADS: Panels = {law: (law, DEPTHS, (14,)) for law in ("linear", "half_exp", "comb")}


def sweeps_of_kernels(scale: str) -> list[Sweep]:
    """Return transformers and the scalar oracle: every nonlinearity on every label kernel over
    depth and length.
    """
    trained = [
        sweep
        for kernels in trainings.SHORT
        for sweep in trainings.over_length_and_depth(kernels, scale)
    ]
    return [
        *trained,
        *trainings.oracles(
            "by_length", scale, labels=LAWS, layers=(3,), context_length=LENGTHS[:-1]
        ),
        *trainings.oracles(
            "by_depth_at_14", scale, labels=(*LAWS, "exp"), layers=DEPTHS, context_length=(14,)
        ),
        *trainings.oracles("by_depth_at_6", scale, labels=LAWS, layers=(1, 5), context_length=(6,)),
    ]


def sweeps_of_heads(scale: str) -> list[Sweep]:
    """Return transformers with one head, shared with cheng_kernels except on mixed labels, and
    with two heads.
    """
    sizes = {"layers": DEPTHS, "context_length": (14,)}
    return [
        *trainings.over_length_and_depth(("linear", "relu", "exp"), scale),
        trainings.transformers(
            "one_head", scale, kernel=("linear", "exp"), labels=("comb",), **sizes
        ),
        trainings.transformers(
            "two_heads", scale, kernel=("linear_exp",), labels=tuple(OF_HEADS), **sizes
        ),
    ]


def measure_kernels(runs: Trained, scale: str) -> Rows:
    """Log losses of transformers, oracle and Bayes, the values that the claims bound, and counts
    of trainings.
    """
    seeds, count = trainings.seeds_and_prompts(runs)
    finished = trainings.final_losses(
        {name: each for name, each in runs.items() if "oracle" not in name}
    )
    oracle = trainings.oracle_losses(
        {name: each for name, each in runs.items() if "oracle" in name}, scale
    )
    trained = trainings.diverged_as_untrained(finished, seeds, count)
    # The trainings of every seed: all, those that diverged, and those that ended behind the oracle
    diverged = np.isnan(list(finished.values())).sum(axis=0)
    behind = np.sum([finished[one] > oracle[one] + BEHIND for one in finished], axis=0)
    counts = {"all": len(finished), "diverged": diverged, "behind": behind}
    parts = [
        *log_losses(trained, OF_KERNELS, KERNELS, seeds),
        *log_losses(oracle, OF_KERNELS, KERNELS, seeds, " oracle"),
        *bayes_losses(OF_KERNELS, seeds, count),
        facts(seeds, bounded(trained, oracle)),
        curves("trainings", "trainings", seeds, np.nan, counts),
    ]
    return join(parts)


def measure_heads(runs: Trained, scale: str) -> Rows:
    """Log losses over depth, Bayes, and the gain of two heads over one."""
    seeds, count = trainings.seeds_and_prompts(runs)
    losses = trainings.diverged_as_untrained(trainings.final_losses(runs), seeds, count)
    kernels = [style.series for style in STYLES_OF_HEADS]
    parts = [*log_losses(losses, OF_HEADS, kernels, seeds), *bayes_losses(OF_HEADS, seeds, count)]
    for name, pairs in GAINS.items():
        gains = [
            losses[Setting(law, one, 3, 14)] - losses[Setting(law, "linear_exp", 3, 14)]
            for law, one in pairs
        ]
        parts.append(rows(name, seeds, np.min(gains, axis=0)))
    return join(parts)


def log_losses(
    losses: Losses, panels: Panels, kernels: Sequence[str], seeds: list[int], kind: str = ""
) -> Iterator[Rows]:
    """Log losses of each kernel wherever it was trained; the series are "<kernel><kind>"."""
    for panel, (law, depths, lengths) in panels.items():
        for kernel in kernels:
            settings = [
                s
                for depth in depths
                for n in lengths
                if (s := Setting(law, kernel, depth, n)) in losses
            ]
            x = [[s.context_length if len(lengths) > 1 else s.layers] for s in settings]
            yield rows(
                "log loss",
                seeds,
                [losses[s] for s in settings],
                x=x,
                panel=panel,
                series=kernel + kind,
            )


def bayes_losses(panels: Panels, seeds: list[int], count: int) -> Iterator[Rows]:
    """Yield the log losses of Bayes, without and with the published code's jitters."""
    for panel, (law, depths, lengths) in panels.items():
        losses = np.array(
            [[trainings.bayes(law, n, seed, count) for seed in seeds] for n in lengths]
        )
        x = np.array(lengths if len(lengths) > 1 else depths)[:, None]
        for index, series in enumerate(("bayes", "jittered bayes")):
            yield rows("log loss", seeds, losses[..., index], x=x, panel=panel, series=series)


def bounded(trained: Losses, oracle: Losses) -> dict[str, np.ndarray]:
    """Return the values that the claims bound, (seeds,) each.

    trained : losses of transformers, where diverged trainings count as untrained
    """
    ordered = {
        law: [Setting(law, kernel, 3, 14) for kernel in order] for law, order in ORDERS.items()
    }
    matched = [
        [Setting(law, h, depth, n) for depth in DEPTHS]
        for law, h in MATCHED.items()
        for n in (14, 6)
    ]
    shallow, deep = (Setting("half_exp", "linear", depth, 14) for depth in (1, 5))
    rises = np.diff([[trained[setting] for setting in path] for path in matched], axis=1)
    falls, least_falls = (
        np.array([losses[path[0]] - losses[path[-1]] for path in matched[::2]])
        for losses in (trained, oracle)
    )
    values = {
        "largest rise of the matched log loss with depth": rises.max(axis=(0, 1)),
        "least fall of the matched log loss, less half of the oracle's": (
            falls - least_falls / 2
        ).min(axis=0),
        "fall of linear attention's log loss on half_exp labels": trained[shallow] - trained[deep],
    }
    for law, settings in ordered.items():
        gaps = np.diff([trained[setting] for setting in settings], axis=0)
        values[f"least gap of the order, {law} labels"] = gaps.min(axis=0)
    gaps = np.diff(
        [oracle[setting._replace(labels="exp")] for setting in ordered["half_exp"]], axis=0
    )
    values |= {f"{pair}, exp labels": gap for pair, gap in zip(PAIRS, gaps, strict=True)}
    return values


STYLES = own_style.styles(dict(zip(KERNELS, KERNELS, strict=True)), markers=True)
ORACLES = [style._replace(series=f"{style.series} oracle", marker="") for style in STYLES]
BAYES = Style("bayes", "Bayes", "k", line="-")
JITTERED = Style("jittered bayes", "floor of the code's jitter", "0.45", line=":")
STYLES_OF_HEADS = own_style.styles(
    {"linear": "linear", "exp": "exp", "linear_exp": "two heads"}, markers=True
)
TITLES = {
    "linear": r"$\langle u,v\rangle$",
    "relu": r"$\max(0,\langle u,v\rangle)$",
    "half_exp": r"$e^{\langle u,v\rangle/2}$",
    "comb": r"$e^{\langle u_{12},v_{12}\rangle/2}+\langle u_{34},v_{34}\rangle$",
}
# From n = d on linear labels are known exactly, and the axis ends above that floor. On exponential
# labels some trainings of linear attention have losses of several hundred.
LIMITS = dict.fromkeys(("half_exp", "half_exp, L = 3", "half_exp, n = 14"), (-2.3, 0.8)) | {
    "half_exp, n = 6": (-1.3, 0.8),
    "linear, L = 3": (-8.5, 0.6),
    "linear, n = 14": (-13, 0.6),
    "linear, n = 6": (-9.5, 0.6),
}


@plotting.under_defaults
def draw_kernels(table: Table) -> Picture:
    """Draw nine panels: one column per label kernel, rows over context length and over depth."""
    title = "Test loss of four attention kernels (columns: the kernel of the labels)"
    picture, axes_of = own_style.panels(list(OF_KERNELS), 3, title, (330, 260))
    for panel, axes in axes_of.items():
        law, fixed = panel.split(", ")
        plotting.curves(
            axes,
            table,
            (JITTERED, BAYES) if law == "linear" else (BAYES,),
            "log loss",
            linewidth=1.5,
        )
        plotting.curves(axes, table, ORACLES, "log loss", linewidth=1, alpha=0.5)
        plotting.curves(
            axes, table, STYLES, "log loss", band=plotting.pale, markersize=5, linewidth=1.5
        )
        x, ticks = (
            ("Context length", EVERY_LENGTH) if panel in OVER_LENGTH else ("Layer depth", DEPTHS)
        )
        frame(axes, panel, x, ticks, f"labels {TITLES[law]}, ${fixed.replace(' ', '')}$")
    numbers = table.runs[table.runs["panel"] == "trainings"].groupby("series")["value"].sum()
    counted = (
        f"{numbers['diverged']:.0f} of {numbers['all']:.0f} trainings diverged and count as "
        f"untrained; {numbers['behind']:.0f} ended more than {BEHIND} above the scalar oracle in "
        f"log loss"
    )
    own_style.legend(picture, [*STYLES, BAYES, JITTERED], title=f"Pale: scalar oracle. {counted}")
    return picture


@plotting.under_defaults
def draw_heads(table: Table) -> Picture:
    """Draw one panel for each kernel of the labels."""
    title = "Test loss of one head and of two over depth (columns: the kernel of the labels)"
    picture, axes_of = own_style.panels(list(OF_HEADS), 3, title, (330, 290))
    # The other two Bayes lines are far below every curve.
    plotting.curves(axes_of["half_exp"], table, [BAYES], "log loss", linewidth=1.5)
    for law, axes in axes_of.items():
        plotting.curves(
            axes,
            table,
            STYLES_OF_HEADS,
            "log loss",
            band=plotting.pale,
            markersize=5,
            linewidth=1.5,
        )
        frame(axes, law, "Layer depth", DEPTHS, f"labels {TITLES[law]}, $n=14$")
    own_style.legend(picture, [*STYLES_OF_HEADS, BAYES])
    return picture


def frame(axes: Axes, panel: str, x: str, ticks: Sequence[int], words: str) -> None:
    """Set the labels of a panel, its ticks in x and its limits in y."""
    axes.set(xticks=ticks, ylim=LIMITS.get(panel))
    own_style.axis_labels(axes, x, "log(test loss)", words)
    plotting.edge_arrows(axes)


FIGURES = (
    Figure("cheng_kernels", sweeps_of_kernels, measure_kernels, draw_kernels),
    Figure("cheng_heads", sweeps_of_heads, measure_heads, draw_heads),
)
