"""The seed of the published pictures of Li et al.: of the runs of a model, the nearest to its visible figures.

A published picture shows one training. Its seed is an unpublished constant like the others, one per model, and applies
to all figures of the model, also to those without published numbers.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from icl.core import discovery
from icl.core.config import FIRST_SEED
from icl.core.runs import Runs, load_all
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.evidence import distance, published_curves
from icl.pipeline import figures

VISIBLE: Mapping[str, tuple[str, ...]] = {
    "li_icl": ("figure8", "figure9", "figure10", "figure11", "figure14", "figure27"),
    "li_icl_stack": ("figure21", "figure22", "figure24", "figure25"),
    "li_icl_gpt2": ("figure12",),
    "li_cot": ("figure17", "figure19", "figure20"),
}
"""Model -> its figures with published numbers."""


def distances(model: str, scale: str) -> pd.DataFrame:
    """Distance (icl.evidence.distance) of every run of a model from each visible figure: one row per seed, a column per
    figure and the joint distance.
    """
    trained: dict[str, Runs] = {}
    rows: dict[int, dict[str, float]] = {}
    for name in VISIBLE[model]:
        (sweep,) = figures.sweeps(name, scale, {}, FIRST_SEED).values()
        if sweep.name not in trained:
            trained[sweep.name] = _trained(sweep, scale)
        runs = trained[sweep.name]
        published = published_curves.published(name)
        for index, seed in enumerate(sweep.seeds):
            rows.setdefault(seed, {})[name] = _distance(name, runs.alone(index, sweep.test), scale, published)
    table = pd.DataFrame.from_dict(rows, orient="index")
    return table.assign(joint=np.log1p(table).mean(axis=1)).rename_axis("seed")


def _trained(sweep: Sweep, scale: str) -> Runs:
    """The stored runs of a sweep, as `snakemake` trains them for its figures, or new ones."""
    folder = Path("results") / scale / "runs" / sweep.name
    # Files with more dots in their names are unfinished.
    files = sorted(path for path in folder.glob("*.safetensors") if path.name.count(".") == 1)
    return load_all({sweep.name: sweep}, files)[sweep.name] if files else train(sweep)


def _distance(name: str, run: Runs, scale: str, published: pd.DataFrame) -> float:
    return distance.of_figure(figures.measure(name, {run.sweep.name: run}, scale), published).whole


def table(model: str, scale: str) -> str:
    """The distances as text, nearest run first, and the seed that the model's figures draw."""
    found = distances(model, scale).sort_values("joint")
    drawn = discovery.system(model).Test().drawn_seed
    return f"{found.to_string(float_format='{:.2f}'.format)}\n{model}: nearest {found.index[0]}, drawn {drawn}"
