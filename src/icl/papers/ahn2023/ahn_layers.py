"""Deeper linear attention against as many steps of gradient descent: test loss over the number of layers (Ahn et al.)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from icl.core.lazy import lazy
from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import BAND, exact
from icl.models import estimators
from icl.papers.ahn2023 import linear_attention as system
from icl.papers.ahn2023 import trainings
from icl.papers.ahn2023.linear_attention import SKEWED, Config, Whitened

if TYPE_CHECKING:
    import torch
    from matplotlib.figure import Figure
else:
    torch = lazy("torch")

DEPTHS = (1, 2, 3, 4)
# The authors' coarse grids, on the sum over examples instead of the mean.
GRID = (0.008, 0.01, 0.02, 0.04, 0.08, 0.16)
GRIDS = {"GD": GRID, "PGD": (0.001, 0.002, 0.004, *GRID)}
DROPPED = 1


def sweeps(scale: str) -> list[Sweep]:
    """Stacks of every depth, with P = 0 and relaxed; one layer has no use for P."""
    return [
        *(trainings.sparse(scale, depth) for depth in DEPTHS),
        *(trainings.relaxed(scale, depth) for depth in DEPTHS[1:]),
    ]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Log losses on the same fresh prompts per seed, their differences, and the two identities."""
    first = runs["ahn_sparse_1"].sweep
    curves: dict[str, dict[int, np.ndarray]] = {"sparse": {}, "relaxed": {}}
    for depth in DEPTHS:
        curves["sparse"][depth] = np.log(trainings.selected_losses(runs[f"ahn_sparse_{depth}"]))
        relaxed = runs.get(f"ahn_relaxed_{depth}")
        curves["relaxed"][depth] = (
            curves["sparse"][1] if relaxed is None else np.log(trainings.selected_losses(relaxed))
        )
    curves |= _untrained(first)
    parts = [
        rows("log loss", first.seeds[: len(values)], values, x=depth, panel="depth", series=series)
        for series, own in curves.items()
        for depth, values in own.items()
    ]
    facts = _comparisons(curves)
    parts += [rows(name, first.seeds[: len(values)], values) for name, values in facts.items()]
    return join([*parts, exact(join(rows(name, 0, value) for name, value in _identities().items()))])


def _untrained(sweep: Sweep) -> dict[str, dict[int, np.ndarray]]:
    """The oracle and the descents, chosen once and seen on every seed's test prompts: series -> depth -> (seeds,)."""
    config, test = sweep.configs[0], sweep.test
    g = trainings.spectra(config, test.spectra)
    chosen = {
        (f"oracle {kind}", depth): best(depth, g).blocks(config.dimension)
        for kind, best in (("sparse", trainings.best_sparse), ("relaxed", trainings.best_relaxed))
        for depth in DEPTHS
    }
    plain = [system.fresh(own, test.prompts) for own in sweep.configs]
    found: dict[str, dict[int, np.ndarray]] = {}
    for (series, depth), blocks in chosen.items():
        losses = [system.losses_over(blocks, g, own) for own, g in zip(sweep.configs, plain, strict=True)]
        found.setdefault(series, {})[depth] = np.log(np.array(losses))
    fewer = [_shorter(own) for own in sweep.configs]
    short = [system.fresh(own, test.prompts) for own in fewer]
    for kind in ("PGD", "GD"):
        for series, configs, prompts, choose in (
            (kind, sweep.configs, plain, _finest), (f"{kind} official", fewer, short, _coarsest)
        ):  # fmt: skip
            found[series] = {}
            for depth in DEPTHS:
                rate = choose(kind, depth, configs[0], test.curve_prompts)
                each = zip(configs, prompts, strict=True)
                losses = [system.losses_over(_steps(kind, rate, depth, own), g, own) for own, g in each]
                found[series][depth] = np.log(np.array(losses))
    return found


def _shorter(config: Config) -> Config:
    return replace(config, context_length=config.context_length - DROPPED)


def _steps(kind: str, rate: float, depth: int, config: Config) -> Whitened:
    """`depth` steps of one size, in whitened coordinates: A = -rate Sigma, or -rate I if preconditioned by Sigma^-1."""
    matrix = np.eye(config.dimension) if kind == "PGD" else system.covariance(config)
    a = torch.from_numpy(np.repeat(-rate * matrix[None], depth, axis=0))
    return Whitened(torch.zeros_like(a), a)


def _finest(kind: str, depth: int, config: Config, count: int) -> float:
    """The step of least loss over prompts kept for the choice."""
    from scipy.optimize import minimize_scalar

    g = system.fresh(config, count, "choose")

    def at(rate: float) -> float:
        return float(system.losses_over(_steps(kind, rate, depth, config), g, config))

    return float(minimize_scalar(at, bounds=(0.01, 2.0), method="bounded", options={"xatol": 1e-3}).x)


def _coarsest(kind: str, depth: int, config: Config, count: int) -> float:
    """The same on the authors' grid."""
    g, rates = system.fresh(config, count, "choose"), np.array(GRIDS[kind]) * config.context_length
    losses = [system.losses_over(_steps(kind, rate, depth, config), g, config) for rate in rates]
    return float(rates[np.nanargmin(losses)])


def _comparisons(curves: Mapping[str, Mapping[int, np.ndarray]]) -> dict[str, np.ndarray]:
    """What the claims speak of, per seed."""
    sparse, oracle, pgd, gd = (curves[name] for name in ("sparse", "oracle sparse", "PGD", "GD"))
    facts = {f"|log loss - oracle|, L = {depth}": abs(sparse[depth] - oracle[depth]) for depth in DEPTHS[:3]}
    for series in ("sparse", "oracle sparse", "relaxed", "oracle relaxed"):
        own = curves[series]
        count = min(map(len, own.values()))
        gains = [own[depth][:count] - own[depth + 1][:count] for depth in DEPTHS[:-1]]
        facts[f"least gain per layer, {series}"] = np.min(gains, axis=0)
    leads = {"the transformer over preconditioned GD": (pgd, sparse), "preconditioned GD over GD": (gd, pgd)}
    for name, (behind, ahead) in leads.items():
        facts[f"least lead of {name}"] = np.min([behind[depth] - ahead[depth] for depth in DEPTHS[1:]], axis=0)
    facts["|transformer - preconditioned GD|, L = 1"] = abs(sparse[1] - pgd[1])
    for depth in (2, 3):
        relaxed = curves["relaxed"][depth]
        facts[f"log loss, relaxed less sparse, L = {depth}"] = relaxed - sparse[depth][: len(relaxed)]
    return facts


def _identities() -> dict[str, float]:
    """A8 and A9, on random weights and prompts."""
    config = Config(engine="tokens", parametrisation="sparse", layers=4, spectrum=SKEWED, init_std=0.3)
    params = system.init([config])
    drawn = system.draw_tokens(config, stream(system.SYSTEM, 0, "identities"), 100)
    z = drawn["tokens"]
    inputs, labels = np.swapaxes(z[:, :-1], -1, -2), z[:, -1]
    steps = [-a.mT.numpy() for a in params["Q"][0, :, :-1, :-1]]
    descent = estimators.preconditioned_gradient_descent(steps)(inputs[:, :-1], labels[:, :-1], inputs[:, -1])
    layers = system.predicted(params, torch.from_numpy(z)[None])[0].numpy()
    facts = {"largest |four layers - four steps|": float(abs(layers - descent).max())}
    for name in ("float64", "float32"):
        kind = getattr(torch, name)
        relaxed = replace(config, parametrisation="relaxed", layers=3)
        weights = {key: w.to(kind) for key, w in system.init([relaxed]).items()}
        batch = {key: torch.from_numpy(array)[None].to(kind) for key, array in drawn.items()}
        dense = _loss_and_slopes(weights, batch, relaxed)
        short = _loss_and_slopes(weights, system.reduced(batch), replace(relaxed, engine="gram"))
        facts[f"Gram form against attention, {name}"] = max(
            float((a - b).norm() / b.norm()) for a, b in zip(short, dense, strict=True)
        )
    return facts


def _loss_and_slopes(
    params: Mapping[str, torch.Tensor], batch: dict[str, torch.Tensor], config: Config
) -> list[torch.Tensor]:
    leaves = {name: w.clone().requires_grad_() for name, w in params.items()}
    value = system.loss(leaves, batch, [config])
    return [value.detach(), *torch.autograd.grad(value.sum(), list(leaves.values()))]


STYLES = (
    Style("GD", "Gradient Descent", "b"),
    Style("PGD", "Preconditioned GD", "g"),
    Style("sparse", "Linear Transformer, $P=0$", "r"),
    Style("relaxed", "Linear Transformer", "darkred"),
)
QUIRKS = (
    Style("GD official", "GD, 19 examples, coarse grid", "b", line=":"),
    Style("PGD official", "PGD, 19 examples, coarse grid", "g", line=":"),
)
ORACLES = (
    Style("oracle sparse", "least loss, $P=0$", "r", marker="x"),
    Style("oracle relaxed", "least loss", "darkred", marker="x"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """One panel; the widths of the authors' lines."""
    figure, axes = plotting.canvas((700, 700), (110, 680, 20, 610), panel="depth")
    for style in (*STYLES, *QUIRKS):
        own = plotting.summary(table, "depth", style.series, "log loss")
        thick = style in STYLES
        axes.errorbar(
            own["x"], own["value"], (own["band_high"] - own["value"]) / BAND if thick else None, color=style.colour,
            linestyle=style.line, linewidth=3 if thick else 2, capsize=4, label=style.label, gid=style.series,
        )  # fmt: skip
    for style in ORACLES:
        own = plotting.summary(table, "depth", style.series, "log loss")
        look: dict[str, Any] = {"color": style.colour, "marker": style.marker, "linestyle": "none"}
        axes.plot(own["x"], own["value"], markersize=10, markeredgewidth=2, label=style.label, gid=style.series, **look)
    axes.text(0.03, 0.03, r"Least squares: $-\infty$", fontsize=14, color="purple", transform=axes.transAxes)
    depth, height = Axis("Number of Layers/Steps", (0.9, 4.1), DEPTHS), Axis("log(Loss)")
    plotting.frame(axes, depth, height, font=20, ticks=16)
    plotting.legend(axes, 11, "lower left", (0.02, 0.08))
    return figure
