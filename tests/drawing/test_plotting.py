"""Drawing: the published layout for any table, no change of global state, and overlays in the right place."""

from __future__ import annotations

import io
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import same_color, to_hex
from matplotlib.figure import Figure
from PIL import Image

from icl.core import discovery
from icl.core.files import save_picture
from icl.drawing import fonts, overlays, plotting
from icl.evidence import published_curves

OBSERVABLE = {8: "magnitude", 9: "attention weight", 21: "attention weight", 22: "attention weight"}
VISIBLE = (8, 9, 10, 11, 12, 14, 21, 22, 24, 25, 27)
HIDDEN = {13: 12, 15: 14, 23: 22, 26: 25, 28: 27}
"""Each hidden figure with the visible sibling whose numbers stand in for its own here."""
SCATTER = (10, 11, 24, 25, 26)


def module(number: int) -> ModuleType:
    return discovery.module(f"figure{number}")


def draw(number: int, table: pd.DataFrame) -> Figure:
    return discovery.figure(f"figure{number}").draw(table)


def table_of(published: pd.DataFrame, observable: str) -> pd.DataFrame:
    """The published numbers as a table of our runs."""
    scatter = published["kind"] == "scatter"
    edges = {"low": published["y_lo"].fillna(published["y"]), "high": published["y_hi"].fillna(published["y"])}
    return pd.DataFrame(
        {
            "figure": published["figure"],
            "scale": "paper",
            "panel": published["panel"],
            "series": published["series"],
            "x": published["x"].astype(float),
            "observable": np.where(published["kind"] == "bar", "neuron magnitude", observable),
            "seed": np.where(scatter, 0, -1),
            "colour": published["c"],
            "value": published["y"],
            "statistic": np.where(scatter, "run", "mean"),
            "count": 10,
            "band_low": edges["low"],
            "band_high": edges["high"],
            "low": edges["low"],
            "high": edges["high"],
        }
    )


def table(number: int) -> pd.DataFrame:
    """A table for any figure: the published numbers or, without any, artificial ones like those of a related figure."""
    source = HIDDEN.get(number, number)
    published = published_curves.load(f"figure{source}")
    assert published is not None
    observable = "magnitude" if source in SCATTER else OBSERVABLE.get(source, "classification error")
    rows = table_of(published, observable)
    if number in (13, 15):
        model = rows[rows["series"] == ("S_1=1.3" if number == 13 else "Random")]
        guides = rows[rows["series"] == "baseline"].assign(panel="main")
        series = [style.series for style in module(number).STYLES]
        rows = pd.concat([model.assign(panel="main", series=name) for name in series] + [guides])
    return rows


def pixels(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, dpi=100, format="rgba")
    return stream.getvalue()


@pytest.mark.parametrize("number", [*VISIBLE, *HIDDEN])
def test_legend_repeats_labels_in_order(number: int) -> None:
    figure = draw(number, table(number))
    legend = figure.axes[0].get_legend()
    labels = [text.get_text() for text in legend.get_texts() if text.get_text() != "baseline"]
    assert labels == [style.label for style in module(number).STYLES]


@pytest.mark.parametrize("number", [n for n in (*VISIBLE, *HIDDEN) if n not in SCATTER])
def test_curves_carry_their_style_and_numbers(number: int) -> None:
    data = table(number)
    axes = draw(number, data).axes[0]
    lines = {line.get_gid(): line for line in axes.lines if line.get_gid() not in (None, "baseline")}
    assert list(lines) == [style.series for style in module(number).STYLES]
    for style in module(number).STYLES:
        line, rows = lines[style.series], data[data["series"] == style.series]
        assert same_color(line.get_color(), style.colour)
        assert line.get_marker() in (style.marker, "None")
        np.testing.assert_array_equal(line.get_xydata(), rows[["x", "value"]].to_numpy())


@pytest.mark.parametrize("number", [n for n in (*VISIBLE, *HIDDEN) if n in SCATTER])
def test_scatters_show_every_point_and_start_their_legend_at_the_first_epoch(number: int) -> None:
    data = table(number)
    figure = draw(number, data.sample(frac=1, random_state=0))
    assert len(figure.axes) == 1 + len(module(number).STYLES)
    for style in module(number).STYLES:
        (points,) = [artist for artist in figure.axes[0].collections if artist.get_gid() == style.series]
        rows = data[data["series"] == style.series]
        drawn = np.column_stack([points.get_offsets(), points.get_array()])
        expected = rows[["x", "value", "colour"]].to_numpy()
        np.testing.assert_array_equal(drawn[np.lexsort(drawn.T)], expected[np.lexsort(expected.T)])
        assert points.get_array()[0] == 0


LOOK = {
    8: ((400, 400), ("Epoches", (0, 401), 0, 400), ("Magnitude", (0.3285, 1.8305), 0.5, 1.75)),
    9: ((400, 400), ("Epoches", (0, 201), 0, 200), ("Attention weight summation", (0, 1), 0, 1)),
    10: (
        (400, 400),
        (r"Angle to $\bar{\mu}$", (0, math.pi + 0.01), 0, math.pi),
        ("Magnitude", (-0.0014, 0.4843), 0, 0.4),
    ),
    11: ((500, 400), ("Angle to $q$", (0, math.pi + 0.01), 0, math.pi), ("Magnitude", (-0.047, 1.391), 0, 1.25)),
    12: ((400, 400), ("Context length", (0, 20), 0, 20), ("Classification error", (1e-3, 0.1), 1e-3, 0.1)),
    13: ((450, 450), ("Context length", (0, 20), 0, 20), ("Classification error", (6e-3, 4), 1e-2, 1)),
    14: ((500, 500), ("Pruning rate", (0, 26), 6, 26), ("Classification error", (1e-3, 0.2), 1e-3, 0.1)),
    15: ((450, 450), ("Pruning rate", (0, 26), 6, 26), ("Classification error", (1e-3, 0.2), 1e-3, 0.1)),
    21: ((400, 400), ("Epoches", (0, 1605.4), 0, 1600), ("Attention weight in average", (0.1142, 0.8859), 0.2, 0.8)),
    22: ((400, 400), ("Epoches", (0, 1605.4), 0, 1600), ("Attention weight in average", (0.1789, 0.8212), 0.2, 0.8)),
    24: ((500, 400), ("Angle to $q$", (0, math.pi + 0.01), 0, math.pi), ("Magnitude", (0.0071, 0.0549), 0.01, 0.05)),
    25: ((500, 400), ("Angle to $q$", (0, math.pi + 0.01), 0, math.pi), ("Magnitude", (0.0074, 0.0379), 0.01, 0.035)),
    27: ((520, 520), ("# of contexts or samples", (6, 20), 8, 20), ("Classification error", (1e-3, 1), 1e-3, 1)),
    28: ((520, 520), ("# of contexts or samples", (6, 20), 8, 20), ("Classification error", (1e-3, 2), 1e-3, 1)),
}
"""Size in pixels, and per axis label, limits, first and last visible tick, as read from the published pictures."""


@pytest.mark.parametrize("number", LOOK)
def test_layout_is_the_published_one(number: int) -> None:
    size, *sides = LOOK[number]
    figure = draw(number, table(number))
    assert tuple(figure.get_size_inches() * 100) == pytest.approx(size)
    axes = figure.axes[0]
    for (label, limits, first, last), axis in zip(sides, (axes.xaxis, axes.yaxis), strict=True):
        assert axis.get_label().get_text() == label
        low, high = sorted(axis.get_view_interval())
        assert (low, high) == pytest.approx(limits, abs=0.004 * (limits[1] - limits[0]))
        ticks = [tick for tick in axis.get_ticklocs() if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9) + 1e-9]
        assert (ticks[0], ticks[-1]) == pytest.approx((first, last), abs=1e-9)


def test_bands_are_opaque_and_under_the_curves() -> None:
    data = table(12)
    axes = draw(12, data).axes[0]
    assert [to_hex(band.get_facecolor()[0]) for band in axes.collections] == [plotting.BANDS[c] for c in "rbmcy"]
    assert {band.get_alpha() for band in axes.collections} == {None}
    assert max(band.get_zorder() for band in axes.collections) < min(line.get_zorder() for line in axes.lines)
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    first = data[data["series"] == "S_1=1.3"]
    assert set(heights) == {*first["band_low"], *first["band_high"]}


def test_figure_14_counts_neurons_below_and_names_rates() -> None:
    left, right = draw(14, table(14)).axes
    assert [label.get_text() for label in left.get_xticklabels()] == ["10%", "20%", "30%", "40%"]
    assert list(left.get_xticks()) == [6, 13, 19, 26]
    assert (left.get_label(), right.get_label()) == ("left axis", "right axis")
    assert (right.get_ylabel(), right.get_ylim()) == ("Magnitude of neurons", (0, 0.8))
    assert len(right.patches) == 27
    assert left.get_legend().get_texts()[0].get_text() == "baseline"


@pytest.mark.parametrize("change", ["drop", "double"])
def test_a_curve_that_is_absent_or_ambiguous_is_an_error(change: str) -> None:
    data = table(12)
    chosen = data["series"] == "S_1=0.9"
    data = data[~chosen] if change == "drop" else pd.concat([data, data[chosen]])
    with pytest.raises(ValueError, match=r"S_1=0\.9"):
        draw(12, data)


def test_other_observables_and_single_runs_do_not_reach_the_curves() -> None:
    data = table(12)
    others = pd.concat(
        [data.assign(observable="hinge loss", value=0.05), data.assign(statistic="run", seed=3, value=0.06)]
    )
    assert pixels(draw(12, pd.concat([others, data]))) == pixels(draw(12, data))


@pytest.mark.parametrize("number", [10, 12, 14])
def test_drawing_is_deterministic_and_ignores_user_settings(number: int) -> None:
    plain = pixels(draw(number, table(number)))
    hostile: Any = {
        "font.size": 31.0,
        "font.sans-serif": ["DejaVu Serif"],
        "axes.facecolor": "k",
        "lines.linewidth": 9.0,
        "xtick.direction": "in",
        "axes.autolimit_mode": "round_numbers",
        "text.hinting": "force_autohint",
        "mathtext.default": "rm",
        "image.cmap": "hot",
    }
    with matplotlib.rc_context(hostile):
        assert pixels(draw(number, table(number))) == plain


def test_no_global_setting_changes() -> None:
    before = dict(matplotlib.rcParams)
    published = published_curves.load("figure12")
    assert published is not None
    figure = draw(12, table(12))
    overlays.overlay(figure, published)
    pixels(figure)
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("number", VISIBLE)
def test_overlay_draws_the_published_points_on_their_axes(number: int) -> None:
    published = published_curves.load(f"figure{number}")
    assert published is not None
    figure = overlays.overlay(draw(number, table(number)), published)
    panels = {axes.get_label(): axes for axes in figure.axes}
    for (panel, series), rows in published.groupby(["panel", "series"]):
        drawn = [*panels[panel].lines, *panels[panel].collections]
        (artist,) = [artist for artist in drawn if artist.get_gid() == f"published {series}"]
        points = artist.get_offsets() if rows["kind"].iloc[0] == "scatter" else artist.get_xydata()
        np.testing.assert_array_equal(points, rows[["x", "y"]].to_numpy(float))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["published (digitised)"]


@pytest.mark.parametrize("number", [10, 11, 24, 25])
def test_published_points_have_our_colours_and_markers(number: int) -> None:
    """They are open and have the colour of their epoch."""
    published = published_curves.load(f"figure{number}")
    assert published is not None
    axes = overlays.overlay(draw(number, table(number)), published).axes[0]
    by_name = {points.get_gid(): points for points in axes.collections}
    for style in module(number).STYLES:
        ours, theirs = by_name[style.series], by_name[f"published {style.series}"]
        epochs = published["c"][published["series"] == style.series]
        np.testing.assert_allclose(theirs.get_edgecolors(), ours.get_cmap()(ours.norm(epochs)))
        assert (theirs.get_facecolors() == 1).all()


def test_formulas_have_their_own_typefaces_whatever_the_font_cache_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import font_manager

    known = [font for font in font_manager.fontManager.ttflist if "STIX" not in font.name]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", known)
    fonts.add_own.cache_clear()
    with plotting.defaults():
        assert any(font.name == "STIXGeneral" for font in font_manager.fontManager.ttflist)
    fonts.add_own.cache_clear()


def test_overlay_refuses_a_panel_that_is_not_there() -> None:
    published = published_curves.load("figure12")
    assert published is not None
    with pytest.raises(KeyError, match="left axis"):
        overlays.overlay(draw(12, table(12)), published.assign(panel="left axis"))


@pytest.mark.parametrize("number", [8, 14, 25])
def test_the_note_is_in_the_file_and_not_in_the_picture(number: int, tmp_path: Path) -> None:
    figure, note = draw(number, table(number)), "laptop scale, one of 20 seeds; reduced: 20 of 40 seeds, α' = 1"
    for name, words in (("noted.png", note), ("plain.png", ""), ("noted.pdf", note)):
        save_picture(figure, tmp_path / name, words)
    with Image.open(tmp_path / "noted.png") as noted, Image.open(tmp_path / "plain.png") as plain:
        assert noted.text["Description"] == note
        assert noted.size == LOOK[number][0]
        assert noted.tobytes() == plain.tobytes()
    assert b"/Subject" in (tmp_path / "noted.pdf").read_bytes()


# Errors of one run


def errors(values: list[float], prompts: int, statistic: str = "single") -> pd.DataFrame:
    """Figure 12's curves at a few lengths, from one run with `prompts` prompts."""
    data = table(12)
    lengths = sorted(data["x"].unique())[: len(values)]
    data = data[data["x"].isin(lengths)].assign(statistic=statistic, count=prompts)
    data["value"] = data["x"].map(dict(zip(lengths, values, strict=True)))
    return data.assign(band_low=data["value"], band_high=data["value"])


def test_no_error_in_n_prompts_is_an_open_marker_at_one_in_n() -> None:
    axes = draw(12, errors([0.05, 0.0, 0.004, 0.0], prompts=500)).axes[0]
    lines = {line.get_gid(): line for line in axes.lines if line.get_gid()}
    for style in module(12).STYLES:
        np.testing.assert_allclose(lines[style.series].get_ydata(), [0.05, 1 / 500, 0.004, 1 / 500])
        none = lines[f"{style.series}, no error"]
        np.testing.assert_allclose(none.get_ydata(), [1 / 500, 1 / 500])
        assert same_color(none.get_markerfacecolor(), "w") and same_color(none.get_markeredgecolor(), style.colour)


def test_a_mean_over_runs_of_unknown_prompts_has_no_least_error() -> None:
    axes = draw(12, errors([0.05, 0.0], prompts=10, statistic="mean")).axes[0]
    assert not [line for line in axes.lines if "no error" in str(line.get_gid())]
    assert {float(line.get_ydata()[1]) for line in axes.lines if line.get_gid()} == {0.0}


@pytest.mark.parametrize("number", [*VISIBLE, *HIDDEN])
def test_curves_and_points_are_clipped_at_the_frame(number: int) -> None:
    axes = draw(number, table(number)).axes[0]
    drawn = [*axes.lines, *axes.collections, *axes.patches]
    assert drawn and all(artist.get_clip_on() and artist.get_clip_box() is not None for artist in drawn)


@pytest.mark.parametrize("number", [8, 10, 11, 21, 24])
@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_axes_that_follow_the_published_data_widen_for_ours_only(number: int, factor: float) -> None:
    data = table(number)
    published = LOOK[number][2][1]
    data["value"] *= factor
    low, high = draw(number, data).axes[0].get_ylim()
    assert low < data["value"].min() and data["value"].max() < high
    if published[0] <= data["value"].min():
        assert low == published[0]
    if data["value"].max() <= published[1]:
        assert high == published[1]


@pytest.mark.parametrize("number", [8, 9, 12, 27])
def test_published_curves_have_our_colours_dashed_and_open(number: int) -> None:
    published = published_curves.load(f"figure{number}")
    assert published is not None
    axes = overlays.overlay(draw(number, table(number)), published).axes[0]
    for style in module(number).STYLES:
        (line,) = [line for line in axes.lines if line.get_gid() == f"published {style.series}"]
        assert same_color(line.get_color(), style.colour)
        assert line.get_linestyle() == "--" and same_color(line.get_markerfacecolor(), "w")
