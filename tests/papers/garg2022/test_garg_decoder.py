"""Garg et al.'s decoder: causality, the published model, queries and prefixes, prompts in chunks."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.core.config import grid
from icl.models import transformer
from icl.models.optimisers import Params
from icl.papers.garg2022 import decoder, gpt2
from tests.models.test_transformer import from_hugging_face

HEADS = 2
SMALL = {"dimension": [4], "points": [7], "layers": [2], "heads": [HEADS], "width": [16], "first_dimension": [2],
         "first_points": [3]}  # fmt: skip


def weights(count: int = 2, dtype: torch.dtype = torch.float64) -> Params:
    """Random weights, biases and gains, large enough that every part matters."""
    configs = grid(gpt2.Config, seed=range(100, 100 + count), **SMALL)
    params, rng = gpt2.init(configs), np.random.default_rng(7)
    return {n: (w + torch.from_numpy(rng.normal(0, 0.2, w.shape))).to(dtype) for n, w in params.items()}


def prompts(seed: int = 1, points: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """The same three prompts for all runs."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(1, 3, points, 4)), rng.normal(size=(1, 3, points))


# Causality


def test_a_prediction_sees_neither_later_examples_nor_its_own_label() -> None:
    inputs, labels = prompts()
    before = decoder.predict(weights(), inputs, labels, HEADS)
    for k in range(7):
        changed = inputs.copy(), labels.copy()
        changed[0][:, :, k + 1 :] += 1
        changed[1][:, :, k:] -= 1
        after = decoder.predict(weights(), *changed, HEADS)
        assert np.array_equal(after[:, :, : k + 1], before[:, :, : k + 1])
        if k < 6:
            assert (after[:, :, k + 1 :] != before[:, :, k + 1 :]).all()


def test_a_prediction_depends_on_every_earlier_number() -> None:
    inputs, labels = prompts()
    before = decoder.predict(weights(), inputs, labels, HEADS)[:, :, -1]
    for k in range(7):
        for d in range(4):
            changed = inputs.copy()
            changed[:, :, k, d] += 0.1
            assert (decoder.predict(weights(), changed, labels, HEADS)[:, :, -1] != before).all()
    for k in range(6):
        changed = labels.copy()
        changed[:, :, k] += 0.1
        assert (decoder.predict(weights(), inputs, changed, HEADS)[:, :, -1] != before).all()


def alternating(inputs: np.ndarray, labels: np.ndarray) -> torch.Tensor:
    """x_0 y_0 x_1 ... x_{n-1} y_{n-1} as tokens of d coordinates, in this order."""
    label_tokens = np.zeros_like(inputs)
    label_tokens[..., 0] = labels
    return torch.from_numpy(np.stack([inputs, label_tokens], axis=-2).reshape(*inputs.shape[:2], -1, inputs.shape[-1]))


def test_predictions_equal_one_prompt_per_prefix() -> None:
    """The literal form has the tokens in order, the usual causal mask, and one forward pass per position."""
    params, (inputs, labels) = weights(), prompts()
    tokens = alternating(inputs, labels).expand(2, -1, -1, -1)
    together = decoder.predict(params, inputs, labels, HEADS)
    assert together.shape == (2, 3, 7)
    for k in range(7):
        prefix = tokens[:, :, : 2 * k + 1]
        x = transformer.read_in(params, prefix) + params["positions"][:, None, : 2 * k + 1]
        alone = transformer.read_out(params, transformer.residual_stream(params, x, HEADS, 1))[:, :, 0, 0]
        np.testing.assert_allclose(together[:, :, k], alone.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_predictions_equal_those_of_the_published_model(dtype: torch.dtype, tolerance: float) -> None:
    """Compared with transformers' GPT-2 with learned positions between two linear maps, at every other token."""
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        n_positions=14, n_embd=16, n_layer=2, n_head=HEADS, vocab_size=1, bos_token_id=0, eos_token_id=0,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, attn_implementation="eager",
    )  # fmt: skip
    model, rng = GPT2Model(config).to(dtype).eval(), np.random.default_rng(3)
    with torch.no_grad():
        for w in model.parameters():
            w.copy_(torch.from_numpy(rng.normal(0, 0.3, w.shape)))
    ends = {n: w for n, w in weights(1, dtype).items() if n.startswith("read_")}
    params = from_hugging_face(model, 16) | ends | {"positions": model.wpe.weight.detach()[None, :13]}
    inputs, labels = prompts()
    tokens = alternating(inputs, labels)[0].to(dtype)
    with torch.no_grad():
        stream = model(inputs_embeds=tokens @ ends["read_in"][0] + ends["read_in.bias"][0]).last_hidden_state
        expected = (stream @ ends["read_out"][0] + ends["read_out.bias"][0])[:, ::2, 0].double().numpy()
    ours = decoder.predict(params, inputs, labels, HEADS)[0]
    np.testing.assert_allclose(ours, expected, rtol=0, atol=tolerance * abs(expected).max())


def test_each_query_is_predicted_as_the_next_input() -> None:
    params, (inputs, labels), (queries, _) = weights(), prompts(), prompts(2, points=4)
    for k in range(7):
        together = decoder.predict_queries(params, inputs[:, :, :k], labels[:, :, :k], queries, HEADS)
        assert together.shape == (2, 3, 4)
        for q in range(4):
            long = np.concatenate([inputs[:, :, :k], queries[:, :, q : q + 1]], axis=2)
            alone = decoder.predict(params, long, labels[:, :, : k + 1], HEADS)[:, :, k]
            np.testing.assert_allclose(together[:, :, q], alone, rtol=1e-9, atol=1e-11)


def test_runs_may_have_different_prompts() -> None:
    params, first, second = weights(), prompts(1), prompts(2)
    stacked = [np.concatenate(pair) for pair in zip(first, second, strict=True)]
    separate = decoder.predict(params, stacked[0], stacked[1], HEADS)
    for run, shared in enumerate((first, second)):
        np.testing.assert_allclose(separate[run], decoder.predict(params, *shared, HEADS)[run], rtol=1e-12)


def test_chunks_do_not_change_the_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, labels = prompts()
    at_once = decoder.predict(weights(), inputs, labels, HEADS)
    monkeypatch.setattr(decoder, "CHUNK", 2)
    np.testing.assert_allclose(decoder.predict(weights(), inputs, labels, HEADS), at_once, rtol=1e-12)


def test_more_points_than_learned_positions_are_refused() -> None:
    inputs, labels = prompts(points=8)
    with pytest.raises(ValueError, match="position 14; the model has learned 13"):
        decoder.predict(weights(), inputs, labels, HEADS)


@given(st.integers(0, 2**32 - 1), st.integers(0, 6))
def test_later_numbers_of_any_size_do_not_change_a_prediction(seed: int, k: int) -> None:
    """The prediction at input k stays the same bit for bit."""
    inputs, labels = prompts()
    rng, before = np.random.default_rng(seed), decoder.predict(weights(), inputs, labels, HEADS)
    inputs[:, :, k + 1 :] = 100 * rng.standard_normal(inputs[:, :, k + 1 :].shape)
    labels[:, :, k:] = 100 * rng.standard_normal(labels[:, :, k:].shape)
    after = decoder.predict(weights(), inputs, labels, HEADS)
    assert np.array_equal(after[:, :, : k + 1], before[:, :, : k + 1])
