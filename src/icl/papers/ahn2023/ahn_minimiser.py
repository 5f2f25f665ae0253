"""One layer of linear attention learns one preconditioned step: trained weights against Ahn et
al.'s equation 2.
"""

from collections.abc import Iterator

import numpy as np

from icl.core.lazy import torch
from icl.core.streams import stream
from icl.drawing import own_style
from icl.figure import Figure, Picture, Rows, Runs, Table, Trained, curves, facts, join, plotting
from icl.models import linear_attention_theory as theory
from icl.papers.ahn2023 import linear_attention as model
from icl.papers.ahn2023 import trainings
from icl.papers.ahn2023.evaluation import entries, fresh_gram_matrices
from icl.papers.ahn2023.gram_losses import averaged_loss_of_one_layer
from icl.papers.ahn2023.linear_attention import SKEWED

CASES = {"isotropic": (), "skewed": SKEWED}


def measure(runs: Trained, scale: str) -> Rows:
    """Distances over training, the matrices of the first seed, and the values that the claims
    bound.
    """
    return join(part for case in CASES for part in _of_case(case, runs["ahn_one_layer"]))


def _of_case(case: str, trained: Runs) -> Iterator[Rows]:
    """Yield the distances of the runs with one covariance from the minimiser, over their
    snapshots.
    """
    chosen = [
        run for run, config in enumerate(trained.sweep.configs) if config.spectrum == CASES[case]
    ]
    configs = [trained.sweep.configs[run] for run in chosen]
    d, n, seeds = (
        configs[0].dimension,
        configs[0].context_length,
        np.array([config.seed for config in configs]),
    )
    value, key_query = (trained.weights[name][chosen, :, 0].numpy() for name in ("V", "Q"))
    root = np.stack([model.covariance_root(config) for config in configs])[:, None]
    sigma, eye, corner = root @ root, np.eye(d), value[..., -1, -1]
    best = theory.preconditioner(sigma, n)
    # The prediction is w'G (-v Q_11) x, so attention steps with the transpose of -v Q_11.
    learnt = -np.swapaxes(corner[..., None, None] * key_query[..., :d, :d], -1, -2)
    distance = _norm(learnt - best) / _norm(best)
    weighted = _norm(root @ (learnt - best) @ root) / _norm(root @ best @ root)
    along = {case: distance, f"{case} weighted": weighted}
    yield curves("distance", "distance", seeds[:, None], trained.sweep.snapshots, along)
    excess = (
        theory.one_step_loss(learnt, sigma, eye, n) / theory.one_step_loss(best, sigma, eye, n) - 1
    )
    corner_share = np.linalg.norm(value[..., -1, :d], axis=-1) / abs(corner)
    label_share = np.linalg.norm(key_query[..., d, :d], axis=-1) / _norm(key_query[..., :d, :d])
    reached, lowest = np.transpose([excess_losses(trained, run) for run in chosen])
    bounded = {
        "excess loss": excess[:, -1],
        "final weighted distance": weighted[:, -1],
        "rest of V over its corner": corner_share[:, -1],
        "Q_21 over Q_11": label_share[:, -1],
        "trained loss over the least, less 1": reached,
        "lowest loss around equation 2, less 1": lowest,
    }
    yield facts(seeds, {f"{name}, {case}": values for name, values in bounded.items()})
    yield entries(seeds[0], learnt[0, -1], f"{case} trained")
    yield entries(seeds[0], best[0, 0], f"{case} equation 2")


def _norm(matrices: np.ndarray) -> np.ndarray:
    return np.linalg.norm(matrices, axis=(-2, -1))


AROUND = (0.03, 3.0)
"""Smallest and largest distance from equation 2 at which the loss is evaluated, relative to the
norm of its weights.
"""


def excess_losses(trained: Runs, run: int) -> tuple[float, float]:
    """Return the excess loss of the trained V and Q, and the least one in random directions around
    equation 2.

    Losses on the same fresh Gram matrices, divided by that of equation 2, minus 1.
    """
    config, test = trained.sweep.configs[run], trained.sweep.test
    g = fresh_gram_matrices(config, test.curve_prompts)
    roots = [
        torch.from_numpy(root(config))[None]
        for root in (model.covariance_root, model.whitened_task_root)
    ]

    def losses(weights: np.ndarray) -> np.ndarray:
        """Of many V and Q, (2, count, 1, d + 1, d + 1): (count,)."""
        value, key_query = torch.from_numpy(weights)
        return averaged_loss_of_one_layer({"V": value, "Q": key_query}, g, *roots).numpy()

    # V and Q of the minimiser, (2, 1, 1, d + 1, d + 1); both have the same norm.
    d, minimiser = (
        config.dimension,
        theory.preconditioner(model.covariance(config), config.context_length),
    )
    best = np.zeros((2, 1, 1, d + 1, d + 1))
    best[0, ..., d, d] = np.linalg.norm(minimiser) ** 0.5
    best[1, ..., :d, :d] = -minimiser.T / np.linalg.norm(minimiser) ** 0.5
    normal = stream(model.NAME, config.seed, "directions").standard_normal(
        (2, test.directions, *best.shape[2:])
    )
    norms = np.sqrt(np.square(normal).sum(axis=(0, 2, 3, 4)))
    distances = np.geomspace(*AROUND, test.directions) * np.linalg.norm(best) / norms
    around = best + distances[:, None, None, None] * normal
    least = losses(best)[0]
    reached = losses(np.stack([trained.weights[name][run, -1:].numpy() for name in ("V", "Q")]))[0]
    # In ten parts, to save memory
    lowest = min(losses(part).min() for part in np.array_split(around, 10, axis=1))
    return reached / least - 1, lowest / least - 1


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Trained step and equation 2 side by side for both covariances, with the distances beside
    them.
    """
    kinds = {"trained": r"$-v\,Q_{11}$", "equation 2": r"$\Gamma^{-1}$"}
    rows = [[*(f"{case} {kind}" for kind in kinds), "distance"] for case in CASES]
    title = "The trained step of one layer beside the minimiser of equation 2"
    picture, axes = own_style.mosaic(rows, (800, 430), title)
    for row, case in zip(rows, CASES, strict=True):
        titles = {
            panel: f"{kind}, {case}" for panel, kind in zip(row[:2], kinds.values(), strict=True)
        }
        own_style.signed_maps(
            axes, {panel: table.matrix(panel, "entry") for panel in titles}, titles
        )
    labels = {"isotropic": "isotropic", "skewed": "skewed", "skewed weighted": "skewed,\nweighted"}
    plotting.curves(
        axes["distance"],
        table,
        own_style.styles(labels),
        "distance",
        band=plotting.deviation,
        **own_style.LINE,
    )
    own_style.over_training(axes["distance"], r"Distance to $\Gamma^{-1}$")
    return picture


FIGURES = (Figure("ahn_minimiser", trainings.sweeps("ahn_one_layer"), measure, draw),)
