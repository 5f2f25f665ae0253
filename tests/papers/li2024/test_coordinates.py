"""The laws of coordinates: orthogonal axes, and the angle between q and sign(q) that matters under Adam."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.papers.li2024 import decoder, one_layer
from icl.papers.li2024.coordinates import LABEL_LAWS, PATTERN_LAWS, towards

ROUNDING = 1e-12


@pytest.mark.parametrize("law", PATTERN_LAWS)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 40))
def test_patterns_are_orthonormal_under_every_law(law: str, seed: int, size: int) -> None:
    axes = PATTERN_LAWS[law](np.random.default_rng(seed), size)
    np.testing.assert_allclose(axes.T @ axes, np.eye(size), atol=ROUNDING)


@pytest.mark.parametrize("law", LABEL_LAWS)
@given(seed=st.integers(0, 2**32), size=st.integers(2, 40))
def test_the_first_label_axis_is_the_direction_of_q(law: str, seed: int, size: int) -> None:
    q = LABEL_LAWS[law](np.random.default_rng(seed), size)
    axes = towards(q)
    np.testing.assert_allclose(axes @ axes.T, np.eye(size), atol=ROUNDING)
    np.testing.assert_allclose(axes[:, 0], q / np.linalg.norm(q), atol=ROUNDING)


@pytest.mark.parametrize(
    ("law", "cosine"),
    [
        ("uniform entries", np.sqrt(3) / 2),
        ("positive uniform entries", np.sqrt(3) / 2),
        ("Gaussian entries", np.sqrt(2 / np.pi)),
        ("axis", 1.0),
    ],
)
def test_the_angle_between_q_and_sign_q_follows_from_its_law(law: str, cosine: float) -> None:
    """E|u| / sqrt(E u^2) over the law of an entry u: pi/6 for uniform entries, the angle at which figure 11 ends."""
    size = 200_000
    q = LABEL_LAWS[law](np.random.default_rng(0), size)
    measured = np.abs(q).sum() / np.linalg.norm(q) / np.sqrt(np.count_nonzero(q))
    # Standard deviations below 1 give the mean of `size` entries a standard error below 0.0023.
    assert abs(measured - cosine) < 5 * 0.0023


@given(seed=st.integers(0, 1000))
def test_axes_are_block_diagonal_and_orthogonal(seed: int) -> None:
    config = one_layer.Config(seed=seed)
    axes, d_x = config.axes, config.feature_dimension
    np.testing.assert_allclose(axes.T @ axes, np.eye(len(axes)), atol=ROUNDING)
    assert not axes[:d_x, d_x:].any() and not axes[d_x:, :d_x].any()


def test_a_change_of_coordinates_keeps_the_products() -> None:
    """W_K^T W_Q and W_O W_V are the same maps in the other axes, and the decoder's read-in map keeps its norm."""
    configs = [one_layer.Config(seed=seed) for seed in (0, 1)]
    rng = torch.Generator().manual_seed(0)
    params = {n: torch.randn(w.shape, generator=rng, dtype=w.dtype) for n, w in one_layer.init(configs).items()}
    turned = one_layer.in_axes(params, configs)
    for run, config in enumerate(configs):
        axes = torch.from_numpy(config.axes)
        for left, right in (("W_K", "W_Q"), ("W_V", "W_V")):
            plain = axes.T @ params[left][run].T @ params[right][run] @ axes
            torch.testing.assert_close(turned[left][run].T @ turned[right][run], plain)
        torch.testing.assert_close(
            turned["W_O"][run] @ turned["W_V"][run], params["W_O"][run] @ params["W_V"][run] @ axes
        )
    small = [decoder.Config(seed=seed, width=8, mlp_width=8) for seed in (0, 1)]
    weights = decoder.init(small)
    moved = decoder.in_axes(weights, small)["read_in"]
    torch.testing.assert_close(moved.norm(dim=(1, 2)), weights["read_in"].norm(dim=(1, 2)))


@pytest.mark.parametrize("prompts", [32, 96])
def test_a_finite_training_set_is_passed_through_repeatedly(prompts: int) -> None:
    configs = [one_layer.Config(seed=seed, batch=32, training_prompts=prompts) for seed in (0, 1)]
    endless = [one_layer.Config(seed=seed, batch=32) for seed in (0, 1)]
    length = prompts // 32
    for step in range(2 * length):
        batch, fresh = one_layer.sample(configs, step), one_layer.sample(endless, step % length)
        assert all(np.array_equal(batch[name], fresh[name]) for name in batch)
