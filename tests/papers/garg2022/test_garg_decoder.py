"""Garg et al.'s decoder: the published model, causality, prefixes and chunks."""

from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from transformers import GPT2Config, GPT2Model

from icl.models.optimisers import Params
from icl.papers.garg2022 import decoder, gpt2
from tests.papers.garg2022.test_garg_gpt2 import sweep
from tests.rounding import chained, rounding

HEADS = 2
WIDTH = 16
predict = partial(decoder.predict, heads=HEADS)


def weights(count: int = 2, dtype: torch.dtype = torch.float64) -> Params:
    """Random weights, biases and gains, large enough that every part matters."""
    params = gpt2.init(sweep((100, 101)[:count]).configs)
    rng = np.random.default_rng(7)
    noise = {name: torch.from_numpy(rng.normal(0, 0.2, w.shape)) for name, w in params.items()}
    return {name: (w + noise[name]).to(dtype) for name, w in params.items()}


def prompts(seed: int = 1, points: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(1, 3, points, 4)), rng.normal(size=(1, 3, points))


def hugging_face(dtype: torch.dtype) -> GPT2Model:
    """GPT-2 with random weights, biases, gains and positions."""
    sizes = dict(n_positions=14, n_embd=WIDTH, n_layer=2, n_head=HEADS, vocab_size=1)
    off = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    ends = dict(bos_token_id=0, eos_token_id=0)
    config = GPT2Config(**sizes, **off, **ends, attn_implementation="eager")
    model = GPT2Model(config).to(dtype).eval()
    rng = np.random.default_rng(3)
    with torch.no_grad():
        for w in model.parameters():
            w.copy_(torch.from_numpy(rng.normal(0, 0.3, w.shape)))
    return model


def from_hugging_face(model: torch.nn.Module) -> Params:
    """One run with the layers of the model, whose Conv1D is (in, out), as ours."""
    theirs = dict(model.named_parameters())
    params = {"positions": theirs["wpe.weight"][:13]}
    names = {"final_norm": "ln_f"}
    for n in range(model.config.n_layer):
        both = (theirs[f"h.{n}.attn.c_attn.{part}"].split(WIDTH, -1) for part in ("weight", "bias"))
        for name, matrix, bias in zip(("queries", "keys", "values"), *both, strict=True):
            params[f"layer{n + 1}.{name}"], params[f"layer{n + 1}.{name}.bias"] = matrix, bias
        parts = dict(attention_norm="ln_1", mlp_norm="ln_2", output="attn.c_proj")
        parts |= dict(up="mlp.c_fc", down="mlp.c_proj")
        names |= {f"layer{n + 1}.{ours}": f"h.{n}.{name}" for ours, name in parts.items()}
    for ours, name in names.items():
        params[f"{ours}.gain" if "norm" in ours else ours] = theirs[f"{name}.weight"]
        params[f"{ours}.bias"] = theirs[f"{name}.bias"]
    return {name: w.detach()[None] for name, w in params.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_predictions_equal_those_of_the_published_model(dtype: torch.dtype) -> None:
    """Hugging Face's GPT-2 with learned positions between two linear maps, at every other token."""
    model = hugging_face(dtype)
    ends = {n: w for n, w in weights(1, dtype).items() if n.startswith("read_")}
    params = from_hugging_face(model) | ends
    inputs, labels = prompts()
    # x_0 y_0 x_1 ... x_{n-1} y_{n-1} as tokens of d coordinates
    tokens = np.zeros((3, 14, 4))
    tokens[:, ::2], tokens[:, 1::2, 0] = inputs[0], labels[0]
    embedded = torch.from_numpy(tokens).to(dtype) @ ends["read_in"][0] + ends["read_in.bias"][0]
    with torch.no_grad():
        stream = model(inputs_embeds=embedded).last_hidden_state
        answers = stream @ ends["read_out"][0] + ends["read_out.bias"][0]
    expected = answers[:, ::2, 0].double().numpy()
    ours = predict(params, inputs, labels)[0]
    tolerance = rounding(dtype, chained(params)) * abs(expected).max()
    assert_allclose(ours, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("k", range(7))
def test_a_prediction_depends_on_all_earlier_numbers_and_on_no_others(k: int) -> None:
    """The prediction at input k has no slope in later examples and in its own label."""
    inputs, labels = (torch.from_numpy(part).requires_grad_() for part in prompts())
    answers = decoder.predictions(weights(1), inputs, labels, HEADS)[:, :, k]
    by_inputs, by_labels = torch.autograd.grad(answers.sum(), [inputs, labels])
    for slopes, seen in ((by_inputs, k + 1), (by_labels, k)):
        assert (slopes[:, :, :seen] != 0).all() and (slopes[:, :, seen:] == 0).all()


def test_each_query_is_predicted_as_the_next_input() -> None:
    params = weights()
    inputs, labels = prompts()
    queries, _ = prompts(2)
    prefixes = decoder.predict_prefixes(params, inputs, labels, queries, heads=HEADS)
    for k in range(7):
        examples = inputs[:, :, :k], labels[:, :, :k]
        together = decoder.predict_queries(params, *examples, queries, heads=HEADS)
        assert_allclose(prefixes[:, :, k], together[:, :, k], rtol=1e-9, atol=1e-11)
        for q in range(7):
            longer = np.concatenate([inputs[:, :, :k], queries[:, :, q : q + 1]], axis=2)
            expected = predict(params, longer, labels[:, :, : k + 1])[:, :, k]
            assert_allclose(together[:, :, q], expected, rtol=1e-9, atol=1e-11)


def test_neither_chunks_nor_prompts_of_other_runs_change_predictions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = prompts(1), prompts(2)
    separate = predict(weights(), *map(np.concatenate, zip(*both, strict=True)))
    monkeypatch.setattr(decoder, "CHUNK", 2)
    for run, shared in enumerate(both):
        assert_allclose(separate[run], predict(weights(), *shared)[run], rtol=1e-12)


def test_more_points_than_learned_positions_are_refused() -> None:
    with pytest.raises(ValueError, match="position 14; the model has learned 13"):
        predict(weights(), *prompts(points=8))
