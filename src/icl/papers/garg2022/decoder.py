"""GPT-2's predictions on prompts of linear functions (Garg et al., NeurIPS 2022), in training and evaluation.

Every x_i and every (y_i, 0 ... 0) is one token of d coordinates. The decoder is `icl.models.transformer` with GPT-2's
learned positions added to the residual stream; it predicts y_k at the token of x_k.

In memory the tokens of all labels precede those of all inputs; each token has its position in the prompt, and the mask
follows these positions. Predictions are needed only at inputs, so the last layer computes only those. The last label is
never seen and has no token.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.models import transformer
from icl.models.optimisers import Params

# Number of prompts per evaluation batch.
CHUNK = 64


def _layers(params: Params, x: "Tensor", heads: int, read: int, visible: "Tensor") -> "Tensor":
    """The predictions at the last `read` tokens from the embedded tokens x."""
    return transformer.read_out(params, transformer.residual_stream(params, x, heads, read, visible))[..., 0]


@cache
def _compiled() -> Callable[..., "Tensor"]:
    # The list of positions is not an argument, since each of its lengths would be compiled separately.
    compiled: Callable[..., Tensor] = torch.compile(_layers)
    return compiled


def _fastest() -> Callable[..., "Tensor"]:
    return _compiled() if torch.cuda.is_available() else _layers


# Execution -> how the layers run in training.
LAYERS: Mapping[str, Callable[[], Callable[..., "Tensor"]]] = {
    "eager": lambda: _layers, "compiled": _compiled, "graph": _fastest
}  # fmt: skip


def predictions(
    params: Params, inputs: "Tensor", labels: "Tensor", heads: int, layers: Callable[..., "Tensor"] = _layers
) -> "Tensor":
    """Return the prediction of every label from the tokens before it, (runs, prompts, points)."""
    count = inputs.shape[2]
    tokens = torch.cat([_label_tokens(labels[:, :, :-1], inputs.shape[3]), inputs], dim=2)
    positions = [*range(1, 2 * count - 1, 2), *range(0, 2 * count - 1, 2)]
    return _read(params, tokens, positions, heads, count, layers)


def _query_predictions(params: Params, inputs: "Tensor", labels: "Tensor", queries: "Tensor", heads: int) -> "Tensor":
    """The prediction for every query after the same examples, (runs, prompts, queries)."""
    count, read = inputs.shape[2], queries.shape[2]
    tokens = torch.cat([_label_tokens(labels, inputs.shape[3]), inputs, queries], dim=2)
    positions = [*range(1, 2 * count, 2), *range(0, 2 * count, 2), *([2 * count] * read)]
    return _read(params, tokens, positions, heads, read)


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
    """Predictions at the last `read` tokens; each token sees itself and those at earlier positions."""
    if max(positions) >= params["positions"].shape[1]:
        raise ValueError(
            f"a prompt reaches position {max(positions)}; the model has learned {params['positions'].shape[1]}"
        )
    place, visible = _placed(tuple(positions), tokens.device)
    x = transformer.read_in(params, tokens) + params["positions"].index_select(1, place)[:, None]
    return layers(params, x, heads, read, visible)


@lru_cache(maxsize=64)
def _placed(positions: tuple[int, ...], device: "torch.device") -> "tuple[Tensor, Tensor]":
    """The tokens' positions and the mask, cached because a CUDA graph cannot copy them from the host."""
    place = torch.tensor(positions, device=device)
    return place, (place < place[:, None]) | torch.eye(len(positions), dtype=torch.bool, device=device)


# Evaluation. Inputs and queries are (runs or 1, prompts, points, d), labels (runs or 1, prompts, points); with 1 all
# runs see the same prompts. Predictions are float64 (runs, prompts, points).


def predict(weights: Params, inputs: np.ndarray, labels: np.ndarray, heads: int) -> np.ndarray:
    """Return predictions at every position k from the examples 0 ... k - 1 and input k; the last label is not used.

    Raises ValueError for more points than the model has learned positions for.
    """
    return _in_chunks(predictions, weights, (inputs, labels), heads)


def predict_queries(
    weights: Params, inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray, heads: int
) -> np.ndarray:
    """Return predictions for queries, each on its own after the same examples.

    The examples, of which there may be none, are computed once. Raises ValueError for more examples than the model has
    learned positions for.
    """
    return _in_chunks(_query_predictions, weights, (inputs, labels, queries), heads)


def predict_prefixes(
    weights: Params, inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray, heads: int
) -> np.ndarray:
    """Return predictions for query k after the examples 0 ... k - 1, for all k in one pass; the last example is unused.

    Up to rounding this equals one `predict_queries` per k, and `predict` if the queries are the inputs.
    """
    return _in_chunks(_prefix_predictions, weights, (inputs, labels, queries), heads)


def _prefix_predictions(params: Params, inputs: "Tensor", labels: "Tensor", queries: "Tensor", heads: int) -> "Tensor":
    """Predictions for queries in the position of the next example; each sees the examples before it, none sees it."""
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
