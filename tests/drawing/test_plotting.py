"""Drawing: the published layout for any table, the look of series, overlays in place, and files."""

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
import seaborn
from matplotlib.axes import Axes
from matplotlib.colors import same_color, to_hex
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from numpy.testing import assert_array_equal
from PIL import Image

from icl import registry
from icl.core.table import ERROR, Table, chosen, join, rows
from icl.drawing import compared, darkgrid, fonts, own_style, plotting
from icl.drawing.plotting import Axis, Style
from icl.drawing.saving import save_animation, save_picture
from icl.evidence.errors import drawn_run
from icl.evidence.intervals import summarise
from icl.papers.li2024 import error_figures, neuron_figures, pruning, training_curves

ANGLES = (0, math.pi + 0.01)
EPOCHS = ("Epoches", (0, 1605.4), 0, 1600)
CONTEXTS = ("Context length", (0, 20), 0, 20)
SAMPLES = ("# of contexts or samples", (6, 20), 8, 20)
RATES = ("Pruning rate", (0, 26), 6, 26)
ANGLE = ("Angle to $q$", ANGLES, 0, math.pi)
MEAN_ANGLE = (r"Angle to $\bar{\mu}$", ANGLES, 0, math.pi)
ERRORS = "Classification error"
SUMS = "Attention weight summation"
WEIGHTS = "Attention weight in average"
LOOK = {
    8: ((400, 400), ("Epoches", (0, 401), 0, 400), ("Magnitude", (0.3285, 1.8305), 0.5, 1.75)),
    9: ((400, 400), ("Epoches", (0, 201), 0, 200), (SUMS, (0, 1), 0, 1)),
    10: ((400, 400), MEAN_ANGLE, ("Magnitude", (-0.0014, 0.4843), 0, 0.4)),
    11: ((500, 400), ANGLE, ("Magnitude", (-0.047, 1.391), 0, 1.25)),
    12: ((400, 400), CONTEXTS, (ERRORS, (1e-3, 0.1), 1e-3, 0.1)),
    13: ((450, 450), CONTEXTS, (ERRORS, (6e-3, 4), 1e-2, 1)),
    14: ((500, 500), RATES, (ERRORS, (1e-3, 0.2), 1e-3, 0.1)),
    15: ((450, 450), RATES, (ERRORS, (1e-3, 0.2), 1e-3, 0.1)),
    21: ((400, 400), EPOCHS, (WEIGHTS, (0.1142, 0.8859), 0.2, 0.8)),
    22: ((400, 400), EPOCHS, (WEIGHTS, (0.1789, 0.8212), 0.2, 0.8)),
    24: ((500, 400), ANGLE, ("Magnitude", (0.0071, 0.0549), 0.01, 0.05)),
    25: ((500, 400), ANGLE, ("Magnitude", (0.0074, 0.0379), 0.01, 0.035)),
    27: ((520, 520), SAMPLES, (ERRORS, (1e-3, 1), 1e-3, 1)),
    28: ((520, 520), SAMPLES, (ERRORS, (1e-3, 2), 1e-3, 1)),
}
"""Size in pixels, and per axis label, limits, first and last visible tick, as read from the
published pictures.
"""
HIDDEN = {13: 12, 15: 14, 23: 22, 26: 25, 28: 27}
"""Each figure without published numbers, and the one whose numbers it is drawn with here."""
SCATTER = (10, 11, 24, 25, 26)
STYLES: dict[int, Sequence[Any]] = {
    8: training_curves.MAGNITUDES,
    **dict.fromkeys((9, 21, 22, 23), training_curves.ATTENTION),
    10: neuron_figures.FEATURES,
    **dict.fromkeys((11, 24, 25, 26), neuron_figures.LABELS),
    12: error_figures.SUM_STYLES,
    13: error_figures.FRACTION_STYLES,
    14: pruning.ORDERS,
    15: pruning.FRACTION_STYLES,
    **dict.fromkeys((27, 28), error_figures.METHODS),
}
Make = Callable[[int], Table]


@pytest.fixture
def table(published_table: Callable[[str], Table]) -> Make:

    def make(number: int) -> Table:
        made = published_table(f"figure{HIDDEN.get(number, number)}")
        if number in (13, 15):
            model = chosen(made.curves, series="S_1=1.3" if number == 13 else "Random")
            guides = chosen(made.curves, series="baseline").assign(panel="main")
            series = [model.assign(panel="main", series=style.series) for style in STYLES[number]]
            made = replace(made, curves=join([*series, guides]))
        return made

    return make


def draw(number: int, table: Table) -> Figure:
    return registry.figure(f"figure{number}").draw(table)


def pixels(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, dpi=100, format="rgba")
    return stream.getvalue()


@pytest.mark.parametrize("number", LOOK)
def test_the_layout_is_the_published_one(number: int, table: Make) -> None:
    size, *sides = LOOK[number]
    figure = draw(number, table(number))
    assert tuple(figure.get_size_inches() * 100) == pytest.approx(size)
    axes = figure.axes[0]
    for (label, limits, first, last), axis in zip(sides, (axes.xaxis, axes.yaxis), strict=True):
        assert axis.get_label().get_text() == label
        low, high = sorted(axis.get_view_interval())
        assert (low, high) == pytest.approx(limits, abs=0.004 * (limits[1] - limits[0]))
        ticks = axis.get_ticklocs()
        shown = ticks[(low * (1 - 1e-9) <= ticks) & (ticks <= high * (1 + 1e-9) + 1e-9)]
        assert (shown[0], shown[-1]) == pytest.approx((first, last), abs=1e-9)


@pytest.mark.parametrize("number", [*LOOK, 23, 26])
def test_series_have_their_style_their_numbers_and_an_entry_of_the_legend(
    number: int, table: Make
) -> None:
    """A scatter has every point of its run, from the first epoch on, and a colour bar."""
    made = table(number)
    figure = draw(number, replace(made, runs=made.runs.sample(frac=1, random_state=0)))
    axes = figure.axes[0]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    wanted = [style.label for style in STYLES[number]]
    assert [label for label in labels if label != "baseline"] == wanted
    for style in STYLES[number]:
        if number in SCATTER:
            (points,) = [part for part in axes.collections if part.get_gid() == style.series]
            drawn = np.column_stack([points.get_offsets(), points.get_array()])
            ours = chosen(made.runs, series=style.series)
            expected = ours[["x", "value", "colour"]].to_numpy()
            assert_array_equal(drawn[np.lexsort(drawn.T)], expected[np.lexsort(expected.T)])
            assert points.get_array()[0] == 0 and len(figure.axes) == 1 + len(wanted)
        else:
            (line,) = [line for line in axes.lines if line.get_gid() == style.series]
            ours = chosen(made.curves, series=style.series)
            assert same_color(line.get_color(), style.colour)
            assert line.get_marker() in (style.marker, "None")
            assert_array_equal(line.get_xydata(), ours[["x", "value"]].to_numpy())
    artists = [*axes.lines, *axes.collections, *axes.patches]
    assert artists and all(one.get_clip_on() and one.get_clip_box() for one in artists)


@pytest.mark.parametrize("number", [8, 10, 11, 21, 24])
@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_axes_that_follow_the_published_data_widen_for_ours_only(
    number: int, factor: float, table: Make
) -> None:
    made = table(number)
    least, most = LOOK[number][2][1]
    runs, curves = (part.assign(value=factor * part["value"]) for part in (made.runs, made.curves))
    values = runs["value"] if number in SCATTER else curves["value"][curves["value"] != 0]
    low, high = draw(number, replace(made, runs=runs, curves=curves)).axes[0].get_ylim()
    assert low < values.min() and values.max() < high
    assert (low == least) == (least <= values.min()) and (high == most) == (values.max() <= most)


def test_bands_are_opaque_in_the_published_colour_and_lie_under_the_curves(
    table: Make,
) -> None:
    made = table(12)
    axes = draw(12, made).axes[0]
    for band, colour in zip(axes.collections, "rbmcy", strict=True):
        assert band.get_zorder() < 2
        assert to_hex(band.get_facecolor()[0], keep_alpha=True) == f"{plotting.BANDS[colour]}ff"
    first = made.curve("main", "S_1=1.3", ERROR)
    edges = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert set(edges) == {*first["band_low"], *first["band_high"]}


def test_figure_14_counts_neurons_below_and_names_rates(table: Make) -> None:
    left, right = draw(14, table(14)).axes
    assert [label.get_text() for label in left.get_xticklabels()] == ["10%", "20%", "30%", "40%"]
    assert list(left.get_xticks()) == [6, 13, 19, 26]
    assert (right.get_ylabel(), right.get_ylim()) == ("Magnitude of neurons", (0, 0.8))
    assert len(right.patches) == 27
    assert left.get_legend().get_texts()[0].get_text() == "baseline"


@pytest.mark.parametrize("number", [10, 12, 14])
def test_users_settings_and_font_caches_change_no_pixel(
    number: int, table: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = pixels(draw(number, table(number)))
    hostile: Any = {
        "font.size": 31.0,
        "axes.facecolor": "k",
        "axes.autolimit_mode": "round_numbers",
        "text.hinting": "force_autohint",
        "mathtext.default": "rm",
    }
    manager = matplotlib.font_manager.fontManager
    others = [font for font in manager.ttflist if "STIX" not in font.name]
    monkeypatch.setattr(manager, "ttflist", others)
    fonts.add_own.cache_clear()
    with matplotlib.rc_context(hostile):
        assert pixels(draw(number, table(number))) == plain
    fonts.add_own.cache_clear()


# Helpers on tables of a few numbers

STYLE = Style("ours", "Ours", "r", "x")


def axes_of(*parts: pd.DataFrame) -> tuple[Axes, Table]:
    return plotting.canvas((300, 200), (50, 290, 10, 150))[1], summarise("f", "laptop", join(parts))


def test_points_outside_a_logarithmic_axis_and_zeros_have_arrows_at_the_edge() -> None:
    errors = rows(ERROR, None, [0.05, 0.0, 2.0, 1e-5], panel="main", series="ours", x=[2, 4, 6, 8])
    axes, table = axes_of(errors)
    plotting.curves(axes, table, [STYLE], ERROR)
    plotting.frame(axes, Axis("x", (0, 10)), Axis("y", (1e-3, 1), log=True), 9)
    below, above = axes.lines[1:]
    assert_array_equal(below.get_xydata(), [[4, 1e-3], [8, 1e-3]])
    assert_array_equal(above.get_xydata(), [[6, 1]])
    plotting.none_tick(axes, 1e-4)
    powers = [f"$10^{{{n}}}$" for n in (-3, -2, -1, 0)]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["none", *powers]


def test_panels_lie_at_their_pixels() -> None:
    edges = plotting.grid_edges(("a", "b", "c"), (50, 150, 20, 100), (120, 110), columns=2)
    assert edges == {"a": (50, 150, 20, 100), "b": (170, 270, 20, 100), "c": (50, 150, 130, 210)}
    _, panels = plotting.panels((300, 250), edges)
    for name, axes in panels.items():
        left, bottom, right, top = axes.bbox.extents
        assert (left, right, 250 - top, 250 - bottom) == pytest.approx(edges[name])
        assert plotting.panel_of(axes) == name
    named = Axis("y", ticks=[0, 1], names=["no", "yes"])
    plotting.frame(panels["a"], Axis("x", (1, 100), log=True), named, 9, 7)
    assert panels["a"].get_xlim() == (1, 100) and panels["a"].get_xscale() == "log"
    assert [text.get_text() for text in panels["a"].get_yticklabels()] == ["no", "yes"]


def test_heatmaps_count_from_the_first_row_on_top_and_shades_end_at_a_nan() -> None:
    axes = plotting.canvas((300, 200), (50, 290, 10, 150))[1]
    mesh = plotting.heatmap(axes, np.arange(6.0).reshape(2, 3), "A", first=0, vmin=0, vmax=5)
    assert (axes.get_xlim(), axes.get_ylim(), mesh.get_clim()) == ((-0.5, 2.5), (1.5, -0.5), (0, 5))
    assert_array_equal(mesh.get_array().reshape(-1), range(6))
    plotting.shade(axes, [0.0, 1.0, 2.0, math.nan], ["I", "II", "III"], 9)
    assert [text.get_text() for text in axes.texts] == ["I", "II"]
    assert [(patch.get_x(), patch.get_width()) for patch in axes.patches] == [(0, 1), (1, 1)]


def test_the_dark_grid_is_seaborns() -> None:
    colours = [getattr(darkgrid, name) for name in "BLUE ORANGE GREEN RED PINK TAN".split()]
    assert colours == seaborn.color_palette("colorblind").as_hex()[:6]
    ours = Figure().add_subplot()
    darkgrid.grid_look(ours)
    with seaborn.axes_style("darkgrid"):
        theirs = Figure().add_subplot()

    def look(axes: Axes) -> tuple[Any, ...]:
        line = axes.xaxis.get_gridlines()[0]
        of_line = to_hex(line.get_color()), line.get_linestyle(), line.get_visible()
        return axes.get_facecolor(), axes.get_axisbelow(), *of_line

    assert look(ours) == look(theirs)


# The own style, comparisons and files


@pytest.mark.parametrize("ends", [[0.5, 0.5, 0.5], [0.0, 0.99, 1.0], [0.2, 0.6, 0.61]])
def test_labels_at_the_curves_do_not_overlap_and_keep_their_order(ends: list[float]) -> None:
    _, panels = own_style.panels(["a"], 1)
    for end, style in zip(ends, own_style.styles({"u": "U", "v": "V", "w": "W"}), strict=True):
        plotting.curve(panels["a"], style, [0, 1], [0, end])
    panels["a"].set_ylim(0, 1)
    own_style.name_curves(panels["a"])
    heights = [words.xy[1] for words in panels["a"].texts if isinstance(words, Annotation)]
    assert np.diff(heights).min() > 0.04 and max(heights) <= 1
    assert [words.get_text() for words in panels["a"].texts] == ["U", "V", "W"]


def test_equal_runs_are_separate_dots_and_zeros_lie_at_none() -> None:
    _, panels = own_style.panels(["a"], 1)
    (style,) = own_style.styles({"u": "U"})
    points = pd.DataFrame({"seed": [0, 1, 2], "x": 2.0, "value": [0.3, 0.3, 0.0]})
    own_style.log_ticks(panels["a"], [1, 2], [0.1, 1])
    none = own_style.below(points["value"])
    own_style.dots(panels["a"], points, style, none)
    low, high = panels["a"].get_ylim()
    assert none == pytest.approx(0.1) and low < none < 0.3 < high
    data = [line.get_xydata()[0] for line in panels["a"].lines]
    assert_array_equal(data, [[2, 0.3], [2, 0.3], [2, none]])
    places = [line.get_transform().transform(line.get_xydata())[0, 0] for line in panels["a"].lines]
    assert np.diff(places).min() > 3


def test_a_picture_keeps_the_layout_that_it_found_first() -> None:
    picture, panels = own_style.panels(["a", "b"], 2, "title")
    picture.colorbar(own_style.share_map(panels["b"], np.eye(3)), ax=panels["b"])
    places = []
    for _ in range(3):
        picture.draw_without_rendering()
        places.append([axes.get_position().bounds for axes in picture.axes])
    assert places[0] == places[1] == places[2]


PLACE = {"panel": "main", "series": "ours"}


def three_runs(last: float, observable: str) -> tuple[Axes, Table]:
    """Return drawing and table of three runs; the third, which ends at `last`, is drawn."""
    values = np.array([[0.5, 0.1], [0.4, 0.0], [0.3, last]]).T
    runs = rows(observable, range(3), values, x=[[1.0], [2.0]], statistic="point", **PLACE)
    drawn = rows(observable, 2, values[:, 2], x=[1.0, 2.0], statistic="single", **PLACE)
    axes, table = axes_of(runs, drawn, drawn_run(range(3), 2))
    plotting.curves(axes, table, [STYLE], observable)
    return axes, table


def test_a_comparison_shows_every_run_and_names_zeros() -> None:
    axes, table = three_runs(0.2, ERROR)
    axes.set_yscale("log")
    numbers = pd.DataFrame([{**PLACE, "x": 1.5, "y": 0.7, "c": math.nan}])
    picture = compared.draw(axes.figure, table, numbers)
    (panel,) = picture.axes
    greys = [line for line in panel.lines if line.get_gid() == "runs"]
    assert len(greys) == 3 and panel.get_ylim()[1] > 0.7
    none = panel.get_yticks()[0]
    assert greys[1].get_ydata()[1] == none < 0.1 and panel.get_yticklabels()[0].get_text() == "none"
    (marks,) = [part for part in panel.collections if part.get_gid() == "published ours"]
    assert_array_equal(marks.get_offsets(), [[1.5, 0.7]])
    with pytest.raises(KeyError, match="elsewhere"):
        compared.draw(axes.figure, table, numbers.assign(panel="elsewhere"))
    runs, curves = (
        pd.concat([part, part.assign(observable="loss")]) for part in (table.runs, table.curves)
    )
    more = replace(table, runs=runs, curves=curves)
    with pytest.raises(ValueError, match="curves of several observables"):
        compared.draw(axes.figure, more, numbers)


def test_a_comparison_counts_the_runs_that_rise_and_fall_if_some_do_either() -> None:
    titles = []
    for last in (0.1, 0.7):
        axes, table = three_runs(last, "weight")
        titles.append(compared.draw(axes.figure, table, None).axes[0].get_title())
    assert "runs" not in titles[0] and titles[1].endswith("(3 runs: 1 rise, 2 fall)")


def test_the_series_of_one_axes_share_a_panel_where_they_would_be_too_many() -> None:
    names = [f"series {number}" for number in range(compared.MOST)]
    labels: Any = {"panel": "main", "series": np.reshape(names, (-1, 1)), "statistic": "exact"}
    axes, table = axes_of(rows(ERROR, None, [0.1, 0.2], x=[0, 1], **labels))
    plotting.curves(axes, table, [Style(name, name, "k") for name in names], ERROR)
    other = axes.figure.add_subplot(label="other")
    plotting.curve(other, STYLE, [0, 1], [0.1, 0.2])
    numbers = pd.DataFrame({"panel": "main", "series": names, "x": 0.5, "y": 0.15, "c": math.nan})
    assert len(compared.draw(axes.figure, table, numbers).axes) == compared.MOST
    numbers.loc[len(numbers)] = ["other", STYLE.series, 0.5, 0.15, math.nan]
    picture = compared.draw(axes.figure, table, numbers)
    assert [axes.get_title() for axes in picture.axes] == ["Main", f"other: {STYLE.label}"]
    first = [line for line in picture.axes[0].lines if line.get_gid() in names[:6]]
    assert len({str(line.get_linestyle()) for line in first}) > 1
    assert len(picture.legends[0].texts) == 13


def test_the_note_is_in_the_file_and_in_a_strip_below(table: Make, tmp_path: Path) -> None:
    figure = draw(12, table(12))
    note = "laptop scale, one of 20 seeds; reduced: 20 of 40 seeds, α' = 1"
    for name, below in (("noted.png", [note]), ("plain.png", []), ("noted.pdf", [note])):
        save_picture(figure, tmp_path / name, note, below)
    noted: Any = Image.open(tmp_path / "noted.png")
    assert noted.text["Description"] == note
    pictures = noted, Image.open(tmp_path / "plain.png")
    whole, plain = (np.asarray(one.convert("RGB")) for one in pictures)
    above, strip = np.split(whole, [len(plain)])
    assert_array_equal(above, plain)
    assert 0 < len(strip) < 40 and len(np.unique(strip)) > 2
    assert b"/Subject" in (tmp_path / "noted.pdf").read_bytes()


def test_an_animation_shows_its_frames_and_stays_at_the_last(table: Make, tmp_path: Path) -> None:
    frames = [draw(8, table(8)), draw(9, table(9))]
    for name in ("a.gif", "b.gif"):
        save_animation(frames, tmp_path / name, "a note")
    assert (tmp_path / "a.gif").read_bytes() == (tmp_path / "b.gif").read_bytes()
    with Image.open(tmp_path / "a.gif") as image:
        assert (image.n_frames, image.size) == (2, (400, 400))
        about = {"comment": b"a note", "loop": 0, "duration": 250}
        assert about.items() <= image.info.items()
        image.seek(1)
        assert image.info["duration"] == 2000
