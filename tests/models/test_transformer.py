"""The decoder against Hugging Face's GPT-2 and its own literal forms, and its symmetries."""

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2Model

from icl.models import transformer
from icl.models.optimisers import Params
from tests.oracles.transformer import causal, predict_all, predict_last
from tests.rounding import chained, rounding

RUNS = 3
PROMPTS = 4
TOKENS = 9
INPUTS = 12
HEADS = 2


def weights(layers: int = 3, dtype: torch.dtype = torch.float64, std: float = 0.3) -> Params:
    """Random weights, biases and gains included, large enough that every part matters."""
    rngs = [np.random.default_rng(run) for run in range(RUNS)]
    params = transformer.init(
        rngs, inputs=INPUTS, outputs=2, width=16, hidden=64, layers=layers, std=std
    )
    rng = np.random.default_rng(7)
    noise = {
        name: torch.from_numpy(rng.normal(0, 0.2, w.shape))
        for name, w in params.items()
        if w.dim() == 2
    }
    return {name: (w + noise.get(name, 0)).to(dtype) for name, w in params.items()}


def prompts(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.from_numpy(
        np.random.default_rng(1).normal(size=(RUNS, PROMPTS, TOKENS, INPUTS))
    ).to(dtype)


def hugging_face(
    width: int, layers: int, positions: int, std: float, dtype: torch.dtype
) -> GPT2Model:
    """GPT-2 with random weights, biases, gains and positions."""
    config = GPT2Config(
        n_positions=positions,
        n_embd=width,
        n_layer=layers,
        n_head=HEADS,
        vocab_size=1,
        bos_token_id=0,
        eos_token_id=0,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        attn_implementation="eager",
    )
    model = GPT2Model(config).to(dtype).eval()
    rng = np.random.default_rng(3)
    with torch.no_grad():
        for w in model.parameters():
            w.copy_(torch.from_numpy(rng.normal(0, std, w.shape)))
    return model


def from_hugging_face(model: torch.nn.Module, width: int) -> Params:
    """One run with the model's weights, the identity as read-out. Conv1D is (in, out), as ours."""
    theirs = dict(model.named_parameters())
    dtype = theirs["wte.weight"].dtype
    params = {
        "read_out": torch.eye(width, dtype=dtype),
        "read_out.bias": torch.zeros(width, dtype=dtype),
    }
    names = {"final_norm": "ln_f"}
    for n in range(model.config.n_layer):
        both = (theirs[f"h.{n}.attn.c_attn.{part}"].split(width, -1) for part in ("weight", "bias"))
        for name, matrix, bias in zip(("queries", "keys", "values"), *both, strict=True):
            params[f"layer{n + 1}.{name}"], params[f"layer{n + 1}.{name}.bias"] = matrix, bias
        parts = {
            "attention_norm": "ln_1",
            "mlp_norm": "ln_2",
            "output": "attn.c_proj",
            "up": "mlp.c_fc",
            "down": "mlp.c_proj",
        }
        names |= {f"layer{n + 1}.{ours}": f"h.{n}.{name}" for ours, name in parts.items()}
    for ours, name in names.items():
        params[f"{ours}.gain" if "norm" in ours else ours] = theirs[f"{name}.weight"]
        params[f"{ours}.bias"] = theirs[f"{name}.bias"]
    return {name: w.detach()[None] for name, w in params.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hidden_states_equal_those_of_hugging_face(dtype: torch.dtype) -> None:
    model = hugging_face(64, 3, 16, 0.2, dtype)
    with torch.no_grad():
        model.wpe.weight.zero_()
    params = from_hugging_face(model, 64)
    embedded = torch.from_numpy(np.random.default_rng(4).normal(size=(1, PROMPTS, TOKENS, 64))).to(
        dtype
    )
    with torch.no_grad():
        expected = model(inputs_embeds=embedded[0]).last_hidden_state
        stream = transformer.residual_stream(params, embedded, HEADS, TOKENS, causal(TOKENS))
    # The read-out is the identity here, so that predictions are the hidden states.
    ours = transformer.read_out(params, stream)[0]
    atol = rounding(dtype, chained(params)) * expected.abs().max().item()
    assert torch.allclose(ours, expected, rtol=0, atol=atol)


def test_start_has_the_spread_of_gpt2() -> None:
    params = transformer.init(
        [np.random.default_rng(0)], 30, 1, width=64, hidden=256, layers=3, std=0.02
    )
    spread = {name: w.std().item() for name, w in params.items() if w.dim() == 3}
    for name in ("read_in", "layer2.queries", "layer3.values", "layer1.up"):
        assert spread[name] == pytest.approx(0.02, rel=0.1)
    for name in ("layer1.output", "layer3.down"):
        assert spread[name] == pytest.approx(0.02 / np.sqrt(6), rel=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_last_token_equals_the_last_of_all(dtype: torch.dtype) -> None:
    tokens = prompts(dtype)
    values = []
    grads = []
    tolerance = rounding(dtype, chained(weights()))
    for predict in (predict_last, lambda *given: predict_all(*given)[:, :, -1]):
        leaves = {name: w.requires_grad_() for name, w in weights(dtype=dtype, std=0.1).items()}
        values.append(predict(leaves, tokens, HEADS))
        grads.append(torch.autograd.grad(values[-1].square().sum(), list(leaves.values())))
    assert torch.allclose(*values, rtol=0, atol=tolerance * values[0].abs().max().item())
    for name, a, b in zip(weights(), *grads, strict=True):
        # Forward and back, over all tokens. Keys' biases have the gradient zero, as a difference of
        # others.
        size = max(part.abs().max().item() for part in grads[0])
        assert torch.allclose(a, b, rtol=0, atol=2 * PROMPTS * TOKENS * tolerance * size), name


def test_prefixes_in_one_pass_equal_one_pass_each() -> None:
    params = weights()
    tokens = prompts()
    lengths = [0, 1, 4, 8]
    together = transformer.predict_prefixes(
        params, tokens[:, :, :-1], tokens[:, :, -1], lengths, HEADS
    )
    for k, length in enumerate(lengths):
        short = torch.cat([tokens[:, :, :length], tokens[:, :, -1:]], dim=2)
        assert torch.allclose(
            together[:, :, k], predict_last(params, short, HEADS), rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize("read", [TOKENS, 4])
def test_explicit_derivatives_are_the_automatic_ones(
    read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attention and GELU on a CPU against the library's, with an unusual mask and several last
    tokens.
    """
    place = torch.tensor([1, 3, 5, 7, 0, 2, 4, 6, 8])
    visible = place <= place[:, None]
    outs = []
    grads = []
    x = torch.from_numpy(np.random.default_rng(2).normal(size=(RUNS, PROMPTS, TOKENS, 16)))
    within = {
        name: w for name, w in (weights() | {"x": x}).items() if name[:5] not in ("read_", "final")
    }
    for parts in (transformer._on_cpu(), (transformer._fused_attention, transformer._fused_gelu)):
        monkeypatch.setattr(transformer, "_on_cpu", lambda parts=parts: parts)
        leaves = {name: w.clone().requires_grad_() for name, w in within.items()}
        outs.append(transformer.residual_stream(leaves, leaves["x"], HEADS, read, visible))
        grads.append(torch.autograd.grad(outs[-1].pow(3).sum(), list(leaves.values())))
    assert torch.allclose(*outs, rtol=1e-12, atol=1e-13)
    for name, a, b in zip(within, *grads, strict=True):
        # Keys' biases have the gradient zero, up to the rounding of terms of size 10^4.
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-8), name
        assert name.endswith("keys.bias") or a.abs().max() > 0.1
