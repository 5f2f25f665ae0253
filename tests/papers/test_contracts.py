"""Requirements on every figure that discovery finds, so that a new figure is tested automatically.

Each distinct training runs once per session, at the smoke scale.
"""

import ast
import copy
import dataclasses
import io
import math
import re
import sys
from collections.abc import Iterator
from functools import cache
from operator import attrgetter
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from torch.testing import assert_close

from icl import registry
from icl.core.config import SCALES, digest
from icl.core.runs import Runs
from icl.core.table import Table, validate
from icl.core.training import train
from icl.drawing import compared
from icl.evidence import ledger, published_curves
from icl.evidence.judging import INCONCLUSIVE
from icl.evidence.ledger import Claim
from icl.pipeline import figures
from icl.pipeline.plan import Plan
from icl.report import formulas

FIGURES = list(registry.figures())
LEAST_SEEDS = {"paper": 10, "workstation": 5, "laptop": 5, "smoke": 1}

every_figure = pytest.mark.parametrize("name", FIGURES)
every_scale = pytest.mark.parametrize("scale", SCALES)


@cache
def trained(name: str) -> Runs:
    return train(Plan("smoke").sweep(name))


def runs_of(name: str) -> dict[str, Runs]:
    """Return the runs for the figure's `measure`: shared weights, the figure's test constants."""
    return {
        key: dataclasses.replace(trained(key), sweep=sweep)
        for key, sweep in figures.sweeps(name, "smoke", {}).items()
    }


@cache
def measured(name: str) -> Table:
    return figures.measure(name, runs_of(name), "smoke")


def constants(config: Any) -> dict[str, Any]:
    """Return a config's constants without its seed."""
    return {key: value for key, value in dataclasses.asdict(config).items() if key != "seed"}


# The plan


@every_figure
@every_scale
def test_sweeps_have_names_and_every_combination_of_what_they_sweep(name: str, scale: str) -> None:
    """Each combination is there once, with enough seeds, the same for all.

    Constants that vary together, such as K and N/K at N = K^2, count as one.
    """
    sweeps, again = (list(figures.sweeps(name, scale, {}).values()) for _ in range(2))
    names = [sweep.name for sweep in sweeps]
    assert sweeps and sweeps == again and len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", each) for each in names)
    for sweep in sweeps:
        points = [constants(config) for config in sweep.configs]
        columns = {key: [point[key] for point in points] for key in points[0]}
        independent = {tuple(map(values.index, values)) for values in columns.values()}
        combinations = math.prod(len(set(column)) for column in independent)
        seeds: dict[str, list[int]] = {}
        for config, point in zip(sweep.configs, points, strict=True):
            seeds.setdefault(digest(point), []).append(config.seed)
        assert len(seeds) == combinations
        assert len({tuple(of_point) for of_point in seeds.values()}) == 1
        assert len(set(sweep.seeds)) == len(sweep.configs) // combinations
        assert len(set(sweep.seeds)) >= (LEAST_SEEDS[scale] if sweep.is_random else 1)


@every_figure
@every_scale
def test_reduced_scales_reduce_only_amounts_and_say_so(name: str, scale: str) -> None:
    """Fewer seeds, steps or prompts, but the same swept values; the note says `reduced`."""
    of_scales = (figures.sweeps(name, one, {}).values() for one in (scale, "paper"))
    pairs = list(zip(*of_scales, strict=True))
    for ours, papers in pairs:
        assert (ours.name, ours.model.name) == (papers.name, papers.model.name)
        assert set(ours.seeds) <= set(papers.seeds) and ours.snapshots[-1] <= papers.snapshots[-1]
        for key in constants(ours.configs[0]):
            assert set(ours.varied(key)) == set(papers.varied(key)), key
    note = figures.note(name, scale, {}).full
    assert note.startswith(f"{scale} scale, ")
    assert ("reduced" in note) == any(ours.plain() != papers.plain() for ours, papers in pairs)


# The table


@every_figure
def test_measuring_gives_a_valid_table(name: str) -> None:
    table = measured(name)
    validate(table)
    assert (table.figure, table.scale) == (name, "smoke")
    planned = {seed for sweep in registry.figure(name).sweeps("smoke") for seed in sweep.seeds}
    assert set(table.runs["seed"].dropna()) | set(table.curves["seed"].dropna()) <= planned
    known = table.curves.dropna(subset=["value", "low", "high"])
    assert (known["low"] <= known["value"]).all() and (known["value"] <= known["high"]).all()


@every_figure
def test_measuring_twice_gives_identical_tables_and_does_not_change_the_weights(name: str) -> None:
    runs = runs_of(name)
    weights = {key: trained(key).weights for key in runs}
    before = copy.deepcopy(weights)
    assert_same(figures.measure(name, runs, "smoke"), measured(name))
    assert_close(weights, before, rtol=0, atol=0, equal_nan=True)


def assert_same(one: Table, other: Table) -> None:
    pd.testing.assert_frame_equal(one.runs, other.runs, check_exact=True)
    pd.testing.assert_frame_equal(one.curves, other.curves, check_exact=True)


@every_figure
def test_every_bound_has_one_value_per_run(name: str) -> None:
    for claim in ledger.claims(name):
        for bound in (*claim.bounds, *claim.conditions):
            values = measured(name).fact(bound.observable)
            assert (set(values) == {None}) == (bound.statistic == "exact"), bound.observable


@every_figure
def test_smoke_verdicts_are_inconclusive(name: str) -> None:
    before = copy.deepcopy(measured(name))
    verdicts = figures.judge(name, measured(name))
    for verdict, claim in zip(verdicts, ledger.claims(name), strict=True):
        assert verdict.claim == claim.id
        assert (verdict.scale, verdict.outcome) == ("smoke", INCONCLUSIVE)
        assert len(verdict.parts) == len(claim.bounds)
    assert_same(measured(name), before)


THEOREMS = [claim for paper in ledger.papers() for claim in paper.claims if claim.kind == "theorem"]
IDENTITIES = [identity for paper in ledger.papers() for identity in paper.identities]


@pytest.mark.parametrize("claim", THEOREMS, ids=attrgetter("id"))
def test_a_theorem_has_a_formula_that_the_report_can_show(claim: Claim) -> None:
    assert claim.formula
    assert formulas.mathml(claim.formula).startswith("<math")


@pytest.mark.parametrize("identity", IDENTITIES, ids=lambda identity: identity.id)
def test_the_test_of_an_identity_exists(identity: ledger.Identity) -> None:
    path, _, name = identity.test.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


# The picture


@pytest.fixture
def same_global_style() -> Iterator[None]:
    before = dict(rcParams)
    yield
    assert dict(rcParams) == before
    pyplot: ModuleType | None = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


def rendered(picture: Figure) -> bytes:
    out = io.BytesIO()
    picture.savefig(out, format="png")
    return out.getvalue()


def cut_labels(picture: Figure) -> list[str]:
    """Return the axes, titles and texts that the picture's edge cuts by more than two pixels."""
    picture.draw_without_rendering()
    width, height = picture.bbox.size
    boxes = [(text.get_text(), text.get_window_extent()) for text in picture.texts]
    for axes in picture.axes:
        boxes.append((axes.get_title(), axes.title.get_window_extent()))
        boxes.append((f"{axes.get_label()}: x", axes.xaxis.get_tightbbox()))
        boxes.append((f"{axes.get_label()}: y", axes.yaxis.get_tightbbox()))
    drawn = [(name, box) for name, box in boxes if box is not None and box.width > 0]
    return [
        name for name, box in drawn if min(box.x0, box.y0, width - box.x1, height - box.y1) < -2
    ]


def heat_map(axes: Axes) -> QuadMesh | None:
    return next((part for part in axes.collections if isinstance(part, QuadMesh)), None)


def names_beside(axes: Axes) -> bool:
    """Return whether curves have names beside them, dots below them, or colours on a colour bar."""
    words = any(text.get_text().isalpha() for text in axes.get_xticklabels())
    return bool(axes.texts) or words or axes.get_label() == "<colorbar>"


@every_figure
@pytest.mark.usefixtures("same_global_style")
def test_drawing_gives_a_labelled_figure(name: str) -> None:
    before = copy.deepcopy(measured(name))
    picture = registry.figure(name).draw(measured(name))
    assert isinstance(picture, Figure)
    assert_same(measured(name), before)
    panels = [axes for axes in picture.axes if axes.get_label() != "<colorbar>"]
    assert panels and len({axes.get_label() for axes in panels}) == len(panels)
    curves = [axes for axes in panels if heat_map(axes) is None]
    assert all(axes.get_xlabel() or picture.get_supxlabel() for axes in curves)
    assert all(axes.get_ylabel() or picture.get_supylabel() for axes in curves)
    assert picture.legends or any(axes.get_legend() or names_beside(axes) for axes in picture.axes)
    assert cut_labels(picture) == []
    # Rendering may move panels again, so both pictures are new.
    one, other = (rendered(registry.figure(name).draw(before)) for _ in range(2))
    assert one == other


COMPARED = [name for name in FIGURES if f"{name}_compared" in Plan("smoke").targets(name)]


@pytest.mark.parametrize("name", COMPARED)
@pytest.mark.usefixtures("same_global_style")
def test_all_runs_and_published_numbers_are_compared(name: str) -> None:
    """Every published number is an open mark, and every run of a series that the figure draws a
    line or points.
    """
    published = published_curves.load(name)
    table = measured(name)
    one = registry.figure(name)
    picture = compared.draw(one.draw(table), table, published)
    assert one.draws_one_run == (table.drawn_seed is not None)
    artists: list[Any] = [artist for artist in picture.findobj() if artist.get_gid()]
    if published is not None:
        for series, rows in published.groupby("series"):
            marks = [artist for artist in artists if artist.get_gid() == f"published {series}"]
            places = np.concatenate([mark.get_offsets() for mark in marks])
            assert sorted(map(tuple, places)) == sorted(zip(rows["x"], rows["y"], strict=True))
        # Our curves have the same names.
        assert set(published["series"]) <= {artist.get_gid() for artist in artists}
    if one.draws_one_run:
        styles = [style for axes in one.draw(table).axes for style, *_ in compared.series_of(axes)]
        drawn = {style.series for style in styles}
        assert len(picture.axes) == len(drawn)
        seeds = table.runs["seed"].nunique()
        runs = [artist for artist in artists if artist.get_gid() == "runs"]
        lines = [artist for artist in runs if hasattr(artist, "get_xydata")]
        assert len(lines) == seeds * len(drawn) or sum(len(part.get_offsets()) for part in runs) > 0
    assert len(rendered(picture)) > 1000


@pytest.mark.slow
@every_figure
def test_the_picture_depends_on_the_table(name: str) -> None:
    """Moving all values to another height of their axes changes the picture."""
    draw = registry.figure(name).draw
    pictures = []
    for part in (0.3, 0.6):
        table = copy.deepcopy(measured(name))
        bands = ["value", "band_low", "band_high"]
        for axes in draw(measured(name)).axes:
            for frame, columns in ((table.runs, "value"), (table.curves, bands)):
                frame.loc[frame["panel"] == axes.get_label(), columns] = value_at(axes, part)
        pictures.append(rendered(draw(table)))
    assert pictures[0] != pictures[1]


def value_at(axes: Axes, part: float) -> float:
    """Return the value at a fraction of the axes' height or of a heat map's colour range."""
    if mesh := heat_map(axes):
        low, high = mesh.get_clim()
        return float(low + part * (high - low))
    return float(axes.transData.inverted().transform(axes.transAxes.transform((0.5, part)))[1])


@pytest.mark.parametrize("name", [name for name in FIGURES if published_curves.path(name)])
def test_every_published_point_is_measured_and_every_panel_has_a_distance(name: str) -> None:
    published = published_curves.load(name)
    table = measured(name)
    assert published is not None
    distances = published_curves.distances(table, published)
    assert {row["panel"] for row in distances} == set(published["panel"])
    assert all(row["matched"] > 0 for row in distances)
    for panel, rows in published.groupby("panel"):
        observable = rows["observable"].iloc[0]
        for (series, kind), points in rows.groupby(["series", "kind"]):
            frame = table.runs if kind == "scatter" else table.curves
            ours = frame[(frame["panel"] == panel) & (frame["series"] == series)]
            ours = ours[(ours["observable"] == observable) | (observable == "")]
            column, wanted = ("colour", "c") if kind == "scatter" else ("x", "x")
            distance = abs(points[wanted].to_numpy()[:, None] - ours[column].to_numpy(float))
            near = (distance <= published_curves.X_TOLERANCE).any(axis=1)
            assert near.all(), (panel, series, points[wanted][~near])
