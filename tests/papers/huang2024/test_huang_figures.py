"""Parts that only the figures of Huang et al. have: closed forms, phases, an animation."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from icl.core.files import save_animation
from icl.core.training import train
from icl.drawing import plotting
from icl.papers.huang2024 import huang_four_phases, huang_heatmap, population_gradient, theory, trainings
from icl.papers.huang2024 import softmax_attention as system
from icl.pipeline import figures


@pytest.mark.slow
def test_the_heatmap_has_an_animation(tmp_path: Path) -> None:
    """Frames have equal sizes, and the file is reproducible."""
    runs = {key: train(sweep) for key, sweep in figures.sweeps("huang_heatmap", "smoke", {}).items()}
    table = figures.measure("huang_heatmap", runs, "smoke")
    pictures = huang_heatmap.frames(table)
    assert figures.is_animated("huang_heatmap")
    assert len(pictures) >= 10
    assert len({tuple(picture.get_size_inches()) for picture in pictures}) == 1
    for name in ("a", "b"):
        save_animation(pictures[:2] + pictures[-1:], tmp_path / f"{name}.gif", "smoke scale")
    assert (tmp_path / "a.gif").read_bytes() == (tmp_path / "b.gif").read_bytes()
    with Image.open(tmp_path / "a.gif") as film:
        assert (film.n_frames, film.info["loop"], film.info["comment"]) == (3, 0, b"smoke scale")


def test_other_figures_have_no_animation() -> None:
    assert not figures.is_animated("huang_rates")


def test_crossings_are_interpolated_linearly() -> None:
    time, falling = np.array([0.0, 1.0, 3.0]), np.array([4.0, 2.0, 1.0])
    assert trainings.crossing(time, falling, 3.0) == 0.5
    assert trainings.crossing(time, falling, 1.5) == 2.0
    assert trainings.crossing(time, falling, 5.0) == 0.0
    assert np.isnan(trainings.crossing(time, falling, 0.5))
    assert np.isnan(trainings.first_step(falling < 0)) and trainings.first_step(falling < 3) == 1


def test_the_boundaries_of_the_phases() -> None:
    """For an artificial training with known boundaries."""
    ratio = np.array([4, 3, 2, 1.5, 1, 0.8, 0.5, 0.3, 0.2])
    descent = np.stack([np.ones(9), -ratio, 0 * ratio], axis=1)
    q = np.stack([np.linspace(0, 4.0, 10)] * 3, axis=1)
    usual = huang_four_phases.boundaries(q, descent, 20, system.Test())
    assert usual == {"t_I": 2.0, "t_switch": 4.0, "t_II": 6.0, "t_III": 7.0}
    other = huang_four_phases.boundaries(q, descent, 20, system.Test(phase_ratio=4.0, phase_weight=0.5))
    assert other == {"t_I": 0.0, "t_switch": 4.0, "t_II": 8.0, "t_III": 4.0}


def test_closed_forms() -> None:
    assert theory.dominant_time(0.01) == pytest.approx(np.log(10) / 0.01)
    assert theory.rare_time(20, 0.01) == pytest.approx(400 * np.log(20) + 20 * np.log(200) / 0.01)
    assert theory.escape_time(20, 0.5) == 800 and theory.escape_time(20, 0.0) == 400


def test_descent_follows_from_the_change_of_the_weights() -> None:
    runs = train(figures.sweeps("huang_four_phases", "smoke", {})["huang_phases_small"])
    config, descent = runs.sweep.configs[0], trainings.descent(runs, 0)
    _, other = population_gradient.columns(runs.weights["Q"][0].numpy(), config.prompt_law)
    np.testing.assert_allclose(descent, other.descent[:-1], rtol=1e-9, atol=1e-14)


def test_shaded_phases_end_at_a_missing_boundary() -> None:
    _, axes = plotting.canvas((300, 200), (40, 280, 10, 170))
    plotting.shade(axes, [0.0, 1.0, float("nan"), 3.0], ("I", "II", "III"), font=10)
    assert [text.get_text() for text in axes.texts] == ["I"]
