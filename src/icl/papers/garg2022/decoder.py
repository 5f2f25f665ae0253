"""GPT-2's answers to prompts of linear functions (Garg et al., NeurIPS 2022): in training, to queries, to prefixes.

Every x_i and every (y_i, 0 ... 0) is one token of d coordinates; the decoder is `icl.models.transformer` with GPT-2's
learned positions added to the stream, and predicts y_k at the token of x_k.

The tokens of all inputs stand behind those of all labels in memory, each with the position that it has in the prompt
and a mask that knows these positions. Only inputs are asked, so that the last layer serves them alone; the last label
is nowhere seen and has no token.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from icl.core.lazy import lazy
from icl.models import transformer
from icl.models.optimisers import Params

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = lazy("torch")

# Prompts that are evaluated at a time.
CHUNK = 64


def _layers(params: Params, x: "Tensor", heads: int, read: int, visible: "Tensor") -> "Tensor":
    """The residual stream after the embedding as predictions at the last `read` tokens."""
    return transformer.read_out(params, transformer.lean_stream(params, x, heads, read, visible))[..., 0]


@cache
def _compiled() -> Callable[..., "Tensor"]:
    # Without the tokens' positions, which are a list: each of its lengths would be compiled anew.
    compiled: Callable[..., Tensor] = torch.compile(_layers)
    return compiled


def _fastest() -> Callable[..., "Tensor"]:
    return _compiled() if torch.cuda.is_available() else _layers


# How the layers are run in training.
LAYERS: Mapping[str, Callable[[], Callable[..., "Tensor"]]] = {
    "eager": lambda: _layers, "compiled": _compiled, "graph": _fastest
}  # fmt: skip


def predictions(
    params: Params, inputs: "Tensor", labels: "Tensor", heads: int, layers: Callable[..., "Tensor"] = _layers
) -> "Tensor":
    """Prediction of every label from what stands before it: (runs, prompts, points)."""
    count = inputs.shape[2]
    tokens = torch.cat([_label_tokens(labels[:, :, :-1], inputs.shape[3]), inputs], dim=2)
    positions = [*range(1, 2 * count - 1, 2), *range(0, 2 * count - 1, 2)]
    return _read(params, tokens, positions, heads, count, layers)


def _query_predictions(params: Params, inputs: "Tensor", labels: "Tensor", queries: "Tensor", heads: int) -> "Tensor":
    """Prediction for every query after the same examples: (runs, prompts, queries)."""
    count, asked = inputs.shape[2], queries.shape[2]
    tokens = torch.cat([_label_tokens(labels, inputs.shape[3]), inputs, queries], dim=2)
    positions = [*range(1, 2 * count, 2), *range(0, 2 * count, 2), *([2 * count] * asked)]
    return _read(params, tokens, positions, heads, asked)


def _label_tokens(labels: "Tensor", dimension: int) -> "Tensor":
    """(y, 0 ... 0): (..., n) -> (..., n, d)."""
    return torch.nn.functional.pad(labels[..., None], (0, dimension - 1))


def _read(
    params: Params,
    tokens: "Tensor",
    positions: Sequence[int],
    heads: int,
    read: int,
    layers: Callable[..., "Tensor"] = _layers,
) -> "Tensor":
    """Predictions at the last `read` tokens, where each token sees itself and those of earlier positions."""
    if max(positions) >= params["positions"].shape[1]:
        raise ValueError(
            f"a prompt reaches position {max(positions)}; the model has learned {params['positions'].shape[1]}"
        )
    place, visible = _placed(tuple(positions), tokens.device)
    x = transformer.read_in(params, tokens) + params["positions"].index_select(1, place)[:, None]
    return layers(params, x, heads, read, visible)


@lru_cache(maxsize=64)
def _placed(positions: tuple[int, ...], device: "torch.device") -> "tuple[Tensor, Tensor]":
    """The tokens' positions, and which tokens each sees; kept, since a CUDA graph cannot fetch them from the host."""
    place = torch.tensor(positions, device=device)
    return place, (place < place[:, None]) | torch.eye(len(positions), dtype=torch.bool, device=device)


# Evaluation. Inputs and queries are (runs or 1, prompts, points, d), labels (runs or 1, prompts, points); with 1 all
# runs see the same prompts. Answers are float64 (runs, prompts, points).


def predict(weights: Params, inputs: np.ndarray, labels: np.ndarray, heads: int) -> np.ndarray:
    """Predictions at every position k from the examples 0 ... k - 1 and input k; the last label is not used.

    Raises ValueError for more points than the model has learned positions for.
    """
    return _in_chunks(predictions, weights, (inputs, labels), heads)


def predict_queries(
    weights: Params, inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray, heads: int
) -> np.ndarray:
    """Predictions for any number of queries that stand, each alone, behind the same examples, from none on.

    The examples are computed once. Raises ValueError for more of them than the model has learned positions for.
    """
    return _in_chunks(_query_predictions, weights, (inputs, labels, queries), heads)


def predict_prefixes(
    weights: Params, inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray, heads: int
) -> np.ndarray:
    """Predictions for query k behind the examples 0 ... k - 1, for all k in one pass; the last example is not used.

    But for rounding one `predict_queries` for each k, and `predict` where the queries are the inputs.
    """
    return _in_chunks(_prefix_predictions, weights, (inputs, labels, queries), heads)


def _prefix_predictions(params: Params, inputs: "Tensor", labels: "Tensor", queries: "Tensor", heads: int) -> "Tensor":
    """A query stands where the next example would, sees what stands before it, and is seen by none."""
    count, d = queries.shape[2], queries.shape[3]
    tokens = torch.cat([_label_tokens(labels[:, :, :-1], d), inputs[:, :, :-1], queries], dim=2)
    shown = [*range(1, 2 * count - 2, 2), *range(0, 2 * count - 2, 2)]
    place = torch.tensor([*shown, *range(0, 2 * count, 2)], device=tokens.device)
    example = torch.arange(len(place), device=tokens.device) < len(shown)
    visible = ((place < place[:, None]) & example) | torch.eye(len(place), dtype=torch.bool, device=tokens.device)
    x = transformer.read_in(params, tokens) + params["positions"][:, None, place]
    return transformer.read_out(params, transformer.residual_stream(params, x, heads, count, visible))[..., 0]


def _in_chunks(
    function: Callable[..., "Tensor"], weights: Params, arrays: Sequence[np.ndarray], heads: int
) -> np.ndarray:
    like = weights["read_in"]
    tensors = [torch.from_numpy(np.ascontiguousarray(a)).to(like) for a in arrays]
    tensors = [a.expand(like.shape[0], *a.shape[1:]) for a in tensors]
    with torch.no_grad():
        parts = [
            function(weights, *part, heads)
            for part in zip(*(torch.split(a, CHUNK, dim=1) for a in tensors), strict=True)
        ]
    result: np.ndarray = torch.cat(parts, dim=1).double().cpu().numpy()
    return result
