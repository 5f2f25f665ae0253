"""The decoder against Hugging Face's GPT-2 and its own other forms, and its symmetries."""

import numpy as np
import pytest
import torch

from icl.models import transformer
from icl.models.optimisers import Params

RUNS, PROMPTS, TOKENS, INPUTS, HEADS = 3, 4, 9, 12, 2


def weights(layers: int = 3, runs: int = RUNS, dtype: torch.dtype = torch.float64, std: float = 0.3) -> Params:
    """Random weights, biases and gains included, large enough that every part matters."""
    params = transformer.init(
        [np.random.default_rng(run) for run in range(runs)],
        inputs=INPUTS, outputs=2, width=16, hidden=64, layers=layers, std=std,
    )  # fmt: skip
    rng = np.random.default_rng(7)
    noise = {name: torch.from_numpy(rng.normal(0, 0.2, w.shape)) for name, w in params.items() if w.dim() == 2}
    return {name: (w + noise.get(name, 0)).to(dtype) for name, w in params.items()}


def prompts(dtype: torch.dtype = torch.float64, runs: int = RUNS) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).normal(size=(runs, PROMPTS, TOKENS, INPUTS))).to(dtype)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_hidden_states_equal_those_of_hugging_face(dtype: torch.dtype, tolerance: float) -> None:
    from transformers import GPT2Config, GPT2Model

    layers, width = 3, 64
    config = GPT2Config(
        n_positions=16, n_embd=width, n_layer=layers, n_head=HEADS, vocab_size=2,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, attn_implementation="eager",
    )  # fmt: skip
    model = GPT2Model(config).to(dtype).eval()
    rng = np.random.default_rng(3)
    with torch.no_grad():
        for w in model.parameters():
            w.copy_(torch.from_numpy(rng.normal(0, 0.2, w.shape)))
        model.wpe.weight.zero_()
    params = from_hugging_face(model, width)
    embedded = torch.from_numpy(rng.normal(size=(1, PROMPTS, TOKENS, width))).to(dtype)
    with torch.no_grad():
        expected = model(inputs_embeds=embedded[0]).last_hidden_state
        ours = transformer.read_out(params, transformer.residual_stream(params, embedded, HEADS, TOKENS))[0]
    # The read-out is the identity here, so that predictions are the hidden states.
    assert torch.allclose(ours, expected, rtol=0, atol=tolerance * expected.abs().max().item())


def from_hugging_face(model: torch.nn.Module, width: int) -> Params:
    """One run with the model's weights and the identity as read-out. Conv1D has the shape (in, out), as ours."""
    theirs = dict(model.named_parameters())
    dtype = theirs["wte.weight"].dtype
    params = {"read_out": torch.eye(width, dtype=dtype), "read_out.bias": torch.zeros(width, dtype=dtype)}
    norms = {"final_norm": "ln_f"}
    matrices = {}
    for n in range(model.config.n_layer):
        qkv = zip(
            theirs[f"h.{n}.attn.c_attn.weight"].split(width, 1),
            theirs[f"h.{n}.attn.c_attn.bias"].split(width),
            strict=True,
        )
        for name, (matrix, bias) in zip(("queries", "keys", "values"), qkv, strict=True):
            params[f"layer{n + 1}.{name}"], params[f"layer{n + 1}.{name}.bias"] = matrix, bias
        norms |= {f"layer{n + 1}.attention_norm": f"h.{n}.ln_1", f"layer{n + 1}.mlp_norm": f"h.{n}.ln_2"}
        for ours, name in (("output", "attn.c_proj"), ("up", "mlp.c_fc"), ("down", "mlp.c_proj")):
            matrices[f"layer{n + 1}.{ours}"] = f"h.{n}.{name}"
    for ours, name in norms.items():
        params[f"{ours}.gain"], params[f"{ours}.bias"] = theirs[f"{name}.weight"], theirs[f"{name}.bias"]
    for ours, name in matrices.items():
        params[ours], params[f"{ours}.bias"] = theirs[f"{name}.weight"], theirs[f"{name}.bias"]
    return {name: w.detach()[None] for name, w in params.items()}


def test_start_has_the_spread_of_gpt2() -> None:
    params = transformer.init([np.random.default_rng(0)], inputs=30, outputs=1, width=64, hidden=256, layers=3)
    spread = {name: w.std().item() for name, w in params.items() if w.dim() == 3}
    for name in ("read_in", "layer2.queries", "layer3.values", "layer1.up"):
        assert spread[name] == pytest.approx(0.02, rel=0.1)
    for name in ("layer1.output", "layer3.down"):
        assert spread[name] == pytest.approx(0.02 / np.sqrt(6), rel=0.1)
    assert transformer.layers(params) == 3


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_last_token_alone_equals_the_last_of_all(dtype: torch.dtype, tolerance: float) -> None:
    params, tokens = weights(dtype=dtype, std=0.1), prompts(dtype)
    last, everything = transformer.predict_last(params, tokens, HEADS), transformer.predict_all(params, tokens, HEADS)
    assert torch.allclose(last, everything[:, :, -1], rtol=tolerance, atol=tolerance)


def test_gradient_of_the_last_token_alone_equals_that_of_the_last_of_all() -> None:
    tokens = prompts()
    grads = []
    for predict in (transformer.predict_last, lambda *a: transformer.predict_all(*a)[:, :, -1]):
        leaves = {name: w.requires_grad_() for name, w in weights().items()}
        grads.append(torch.autograd.grad(predict(leaves, tokens, HEADS).square().sum(), list(leaves.values())))
    for name, a, b in zip(weights(), *grads, strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-10), name


def test_prefixes_in_one_pass_equal_one_pass_each() -> None:
    params, tokens, lengths = weights(), prompts(), [0, 1, 4, 8]
    together = transformer.predict_prefixes(params, tokens[:, :, :-1], tokens[:, :, -1], lengths, HEADS)
    for k, length in enumerate(lengths):
        short = torch.cat([tokens[:, :, :length], tokens[:, :, -1:]], dim=2)
        alone = transformer.predict_last(params, short, HEADS)
        assert torch.allclose(together[:, :, k], alone, rtol=1e-10, atol=1e-12)


def test_the_last_tokens_of_causal_attention_need_no_mask() -> None:
    params, tokens = weights(), prompts()
    embedded = transformer.read_in(params, tokens)
    whole = transformer.residual_stream(params, embedded, HEADS, TOKENS)
    assert torch.allclose(transformer.residual_stream(params, embedded, HEADS, 2), whole[:, :, -2:], rtol=1e-10)


@pytest.mark.parametrize("read", [TOKENS, 4])
def test_explicit_derivatives_are_the_automatic_ones(read: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention and GELU on a CPU against the library's, with an unusual mask and several last tokens."""
    place = torch.tensor([1, 3, 5, 7, 0, 2, 4, 6, 8])
    visible, outs, grads = place <= place[:, None], [], []
    x = torch.from_numpy(np.random.default_rng(2).normal(size=(RUNS, PROMPTS, TOKENS, 16)))
    explicit = transformer._on_cpu()
    for parts in (explicit, (transformer._fused_attention, transformer._fused_gelu)):
        monkeypatch.setattr(transformer, "_on_cpu", lambda parts=parts: parts)
        leaves = {name: w.requires_grad_() for name, w in (weights() | {"x": x.clone()}).items()}
        outs.append(transformer.residual_stream(leaves, leaves["x"], HEADS, read, visible))
        grads.append(
            dict(zip(leaves, torch.autograd.grad(outs[-1].pow(3).sum(), list(leaves.values()), allow_unused=True),
                     strict=True))
        )  # fmt: skip
    assert torch.allclose(*outs, rtol=1e-12, atol=1e-13)
    for name in weights() | {"x": x}:
        a, b = (grad[name] for grad in grads)
        if name.startswith(("read_", "final_")):
            assert a is None and b is None
        else:
            # Keys' biases have the gradient zero, up to the rounding of terms of size 10^4.
            assert torch.allclose(a, b, rtol=1e-9, atol=1e-8), name
            assert name.endswith("keys.bias") or a.abs().max() > 0.1


def test_layers_work_in_half_precision() -> None:
    params, x = weights(dtype=torch.float32, std=0.1), prompts(torch.float32)
    visible = torch.ones(TOKENS, TOKENS).tril().bool()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = transformer.residual_stream(params, transformer.read_in(params, x), HEADS, TOKENS, visible)
    whole = transformer.residual_stream(params, transformer.read_in(params, x), HEADS, TOKENS, visible)
    error = (half - whole).abs().max() / whole.abs().max()
    assert 1e-5 < error < 0.02


def test_a_token_does_not_see_later_ones() -> None:
    params, tokens = weights(), prompts()
    changed = tokens.clone()
    changed[:, :, 5] += 1
    before, after = (transformer.predict_all(params, t, HEADS) for t in (tokens, changed))
    assert torch.equal(before[:, :, :5], after[:, :, :5])
    assert not torch.allclose(before[:, :, 5:], after[:, :, 5:])


def test_one_layer_ignores_the_order_of_contexts_and_two_do_not() -> None:
    tokens = prompts()
    shuffled = torch.cat([tokens[:, :, :-1].flip(2), tokens[:, :, -1:]], dim=2)
    one, two = weights(layers=1), weights(layers=2)
    assert torch.allclose(*(transformer.predict_last(one, t, HEADS) for t in (tokens, shuffled)), rtol=1e-10)
    assert not torch.allclose(*(transformer.predict_last(two, t, HEADS) for t in (tokens, shuffled)), rtol=1e-3)


def test_runs_do_not_mix() -> None:
    params, tokens = weights(), prompts()
    together = transformer.predict_last(params, tokens, HEADS)
    for run in range(RUNS):
        mine = {name: w[run : run + 1] for name, w in params.items()}
        alone = transformer.predict_last(mine, tokens[run : run + 1], HEADS)
        assert torch.allclose(alone[0], together[run], rtol=1e-12, atol=1e-13)
    broken = {name: torch.cat([w[:1] * float("nan"), w[1:]]) for name, w in params.items()}
    beside = transformer.predict_last(broken, tokens, HEADS)
    assert beside[0].isnan().all()
    assert torch.equal(beside[1:], together[1:])
