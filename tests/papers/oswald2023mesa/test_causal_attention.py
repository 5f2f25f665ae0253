"""Causal attention: causality, one Cholesky factor for T ridge regressions, and derivatives."""

import pytest
import torch

from icl.papers.oswald2023mesa.causal_attention import inverse_factor, linear, lower_ones, mesa, mesa_reverse
from tests.oracles.oswald2023mesa import ridge_regressions
from tests.oracles.oswald2023mesa_layer import mesa_by_position

F64 = torch.float64


def drawn(*leading: int, positions: int = 30, keys: int = 5, values: int = 3) -> tuple[torch.Tensor, ...]:
    """Random keys, queries, values and ridges."""
    rng = torch.Generator().manual_seed(0)
    sizes = (keys, keys, values)
    arrays = [torch.randn(*leading, positions, size, generator=rng, dtype=F64) for size in sizes]
    return (*arrays, 0.1 + torch.rand(leading, generator=rng, dtype=F64))


def test_linear_attention_is_the_sum_over_the_past() -> None:
    k, q, v, _ = drawn(2)
    o = linear(k, q, v)
    for t in range(k.shape[1]):
        expected = sum(v[:, s] * (k[:, s] * q[:, t]).sum(-1, keepdim=True) for s in range(t + 1))
        torch.testing.assert_close(o[:, t], expected)


@pytest.mark.parametrize("size", [1, 2, 25, 26, 50, 53])
def test_the_inverse_factor_by_halves_equals_that_of_torch(size: int) -> None:
    k = drawn(3, positions=size)[0]
    gram = k @ k.mT + torch.eye(size, dtype=F64)
    expected = torch.linalg.inv(torch.linalg.cholesky(gram))
    # Rounding: entries are at most 1, the condition number is below 1e3.
    torch.testing.assert_close(inverse_factor(gram), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 0.01, 30.0])
def test_one_cholesky_factor_gives_every_ridge_regression(scale: float) -> None:
    """U8, for a ridge that dominates, is comparable, or is negligible."""
    k, q, v, r = drawn(2, 3, positions=50, keys=20, values=10)
    o, _ = mesa(scale * k, q, v, r)
    torch.testing.assert_close(o, mesa_by_position(scale * k, q, v, r), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(o, ridge_regressions(scale * k, q, v, r), rtol=1e-9, atol=1e-9)


def test_a_single_position_is_a_ridge_regression_on_itself() -> None:
    k, q, v, r = drawn(4, positions=1)
    share = (k * q).sum(-1, keepdim=True) / ((k * k).sum(-1, keepdim=True) + r[:, None, None])
    torch.testing.assert_close(mesa(k, q, v, r)[0], v * share)


def test_a_large_ridge_gives_linear_attention_over_the_ridge() -> None:
    """r o -> sum_s v_s (k_s . q_t), one step of gradient descent, with a remainder of order 1/r."""
    k, q, v, r = drawn(2)
    large = 1e7 * torch.ones_like(r)
    torch.testing.assert_close(1e7 * mesa(k, q, v, large)[0], linear(k, q, v), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("layer", ["linear", "mesa"])
def test_the_future_never_changes_the_past(layer: str) -> None:
    k, q, v, r = drawn(2)
    cut = 12

    def outputs(*arrays: torch.Tensor) -> torch.Tensor:
        return linear(*arrays) if layer == "linear" else mesa(*arrays, r)[0]

    changed = [torch.cat([a[:, :cut], 5 * a[:, cut:].flip(1)], dim=1) for a in (k, q, v)]
    before, after = outputs(k, q, v), outputs(*changed)
    # Not bit for bit: matrix products may sum in another order.
    torch.testing.assert_close(before[:, :cut], after[:, :cut], rtol=0, atol=1e-12)
    assert (before[:, cut:] - after[:, cut:]).abs().max() > 1e-3


def test_the_reverse_agrees_with_automatic_differentiation() -> None:
    inputs = [a.requires_grad_() for a in drawn(2, 3)]
    o, solved = mesa(*inputs)
    weight = torch.cos(torch.arange(o.numel(), dtype=F64)).reshape(o.shape)
    expected = torch.autograd.grad((o * weight).sum(), inputs)
    with torch.no_grad():
        derivatives = mesa_reverse(solved, weight)
    for ours, theirs in zip(derivatives, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_the_reverse_agrees_with_finite_differences() -> None:
    """Independent of torch's derivatives of Cholesky factors, which could share an error."""

    class Mesa(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):  # type: ignore[no-untyped-def]
            o, ctx.solved = mesa(*inputs)
            return o

        @staticmethod
        def backward(ctx, gradient):  # type: ignore[no-untyped-def]
            return mesa_reverse(ctx.solved, gradient)

    inputs = [a.requires_grad_() for a in drawn(2, positions=6, keys=3, values=2)]
    assert torch.autograd.gradcheck(Mesa.apply, inputs)


def test_a_matrix_that_is_not_positive_definite_gives_nan_only_in_its_own_output() -> None:
    k, q, v, r = drawn(3)
    alone, _ = mesa(k[:1], q[:1], v[:1], r[:1])
    r[1], k[2, 4] = -100.0, float("inf")
    o, solved = mesa(k, q, v, r)
    torch.testing.assert_close(o[:1], alone)
    assert o[1].isnan().any() and o[2].isnan().any()
    gradients = mesa_reverse(solved, torch.ones_like(o))
    assert all(g[0].isfinite().all() for g in gradients)


def test_the_mask_is_causal() -> None:
    mask = lower_ones(torch.zeros(2, 4, 3))
    assert torch.equal(mask, torch.tril(torch.ones(4, 4)))
