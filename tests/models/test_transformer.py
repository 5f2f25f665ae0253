"""The decoder against its literal forms; the tests of Garg et al. compare it with GPT-2."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from icl.models import transformer
from icl.models.optimisers import Params
from tests.oracles.training import value_and_gradient
from tests.oracles.transformer import predict_all, predict_last
from tests.rounding import chained, rounding

RUNS = 3
PROMPTS = 4
TOKENS = 9
INPUTS = 12
HEADS = 2


def weights(layers: int = 3, dtype: torch.dtype = torch.float64, std: float = 0.3) -> Params:
    """Random weights, biases and gains included, large enough that every part matters."""
    rngs = [np.random.default_rng(run) for run in range(RUNS)]
    params = transformer.init(rngs, INPUTS, 2, width=16, hidden=64, layers=layers, std=std)
    rng = np.random.default_rng(7)
    vectors = {name: w for name, w in params.items() if w.dim() == 2}
    noisy = {n: w + torch.from_numpy(rng.normal(0, 0.2, w.shape)) for n, w in vectors.items()}
    return {name: w.to(dtype) for name, w in (params | noisy).items()}


def prompts(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    drawn = np.random.default_rng(1).normal(size=(RUNS, PROMPTS, TOKENS, INPUTS))
    return torch.from_numpy(drawn).to(dtype)


def test_start_has_the_spread_of_gpt2() -> None:
    rngs = [np.random.default_rng(0)]
    params = transformer.init(rngs, 30, 1, width=64, hidden=256, layers=3, std=0.02)
    for name in ("read_in", "layer2.queries", "layer3.values", "layer1.up"):
        assert params[name].std().item() == pytest.approx(0.02, rel=0.1)
    for name in ("layer1.output", "layer3.down"):
        assert params[name].std().item() == pytest.approx(0.02 / np.sqrt(6), rel=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_last_token_equals_the_last_of_all(dtype: torch.dtype) -> None:
    tokens = prompts(dtype)
    params = weights(dtype=dtype, std=0.1)
    tolerance = rounding(dtype, chained(params))
    value, slopes = value_and_gradient(lambda w: predict_last(w, tokens, HEADS), params)
    literal = value_and_gradient(lambda w: predict_all(w, tokens, HEADS)[:, :, -1], params)
    assert_close(value, literal[0], rtol=0, atol=tolerance * value.abs().max().item())
    # Forward and back, over all tokens. Keys' biases have the gradient zero, as a difference of
    # others.
    size = max(slope.abs().max().item() for slope in slopes.values())
    assert_close(slopes, literal[1], rtol=0, atol=2 * PROMPTS * TOKENS * tolerance * size)


def test_prefixes_in_one_pass_equal_one_pass_each() -> None:
    params = weights()
    contexts = prompts()[:, :, :-1]
    query = prompts()[:, :, -1:]
    lengths = [0, 1, 4, 8]
    together = transformer.predict_prefixes(params, contexts, query[:, :, 0], lengths, HEADS)
    for k, length in enumerate(lengths):
        short = torch.cat([contexts[:, :, :length], query], dim=2)
        alone = predict_last(params, short, HEADS)
        assert_close(together[:, :, k], alone, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("read", [TOKENS, 4])
def test_explicit_derivatives_are_the_automatic_ones(
    read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attention and GELU on a CPU against the library's, with an unusual mask and several last
    tokens.
    """
    place = torch.tensor([1, 3, 5, 7, 0, 2, 4, 6, 8])
    visible = place <= place[:, None]
    x = torch.from_numpy(np.random.default_rng(2).normal(size=(RUNS, PROMPTS, TOKENS, 16)))
    within = {name: w for name, w in weights().items() if name[:5] not in ("read_", "final")}
    both = []
    for parts in (transformer._on_cpu(), (transformer._fused_attention, transformer._fused_gelu)):
        monkeypatch.setattr(transformer, "_on_cpu", lambda parts=parts: parts)

        def cubes(w: Params) -> torch.Tensor:
            return transformer.residual_stream(w, w["x"], HEADS, read, visible).pow(3)

        both.append(value_and_gradient(cubes, within | {"x": x}))
    (values, slopes), (fused, of_fused) = both
    assert_close(values, fused, rtol=1e-11, atol=1e-13)
    # Keys' biases have the gradient zero, up to the rounding of terms of size 10^4.
    assert_close(slopes, of_fused, rtol=1e-9, atol=1e-8)
    for name, slope in slopes.items():
        assert name.endswith("keys.bias") or slope.abs().max() > 0.1
