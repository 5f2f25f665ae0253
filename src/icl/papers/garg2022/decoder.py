"""GPT-2's predictions on prompts of linear functions (Garg et al., NeurIPS 2022), in training and
evaluation.

Every x_i and every (y_i, 0 ... 0) is one token of d coordinates. The decoder is
`icl.models.transformer` with GPT-2's learned positions added to the residual stream; it predicts
y_k at the token of x_k.

In memory the tokens of all labels precede those of all inputs; each token has its position in the
prompt, and the mask follows these positions. Predictions are needed only at inputs, so the last
layer computes only those. The last label is never seen and has no token.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.models import transformer
from icl.models.optimisers import Params

# Number of prompts per evaluation batch.
CHUNK = 64


def predictions(params: Params, inputs: Tensor, labels: Tensor, heads: int) -> Tensor:
    """Return the prediction of every label from the tokens before it, (runs, prompts, points)."""
    count = inputs.shape[2]
    return _read(params, inputs, labels[:, :, :-1], range(0, 2 * count, 2), heads, count)


def _query_predictions(
    params: Params, inputs: Tensor, labels: Tensor, queries: Tensor, heads: int
) -> Tensor:
    """Return the prediction for every query after the same examples, (runs, prompts, queries)."""
    count, read = inputs.shape[2], queries.shape[2]
    positions = [*range(0, 2 * count, 2), *([2 * count] * read)]
    return _read(
        params, torch.cat([inputs, queries], dim=2), labels, positions, heads, read, hidden=read
    )


def _prefix_predictions(
    params: Params, inputs: Tensor, labels: Tensor, queries: Tensor, heads: int
) -> Tensor:
    """Predictions for queries in the positions of the next examples, (runs, prompts, points)."""
    count = queries.shape[2]
    positions = [*range(0, 2 * count - 2, 2), *range(0, 2 * count, 2)]
    tokens = torch.cat([inputs[:, :, :-1], queries], dim=2)
    return _read(params, tokens, labels[:, :, :-1], positions, heads, count, hidden=count)


def _read(
    params: Params,
    inputs: Tensor,
    labels: Tensor,
    positions: Sequence[int],
    heads: int,
    read: int,
    hidden: int = 0,
) -> Tensor:
    """Predictions at the last `read` of some inputs with their positions in the prompt.

    Each token sees itself and those at earlier positions except the last `hidden`.
    """
    places, learned = (*range(1, 2 * labels.shape[2], 2), *positions), params["positions"].shape[1]
    if max(places) >= learned:
        raise ValueError(
            f"a prompt reaches position {max(places)}; the model has learned {learned}"
        )
    tokens = torch.cat(
        [torch.nn.functional.pad(labels[..., None], (0, inputs.shape[3] - 1)), inputs], dim=2
    )
    place, visible = _placed(places, hidden, tokens.device)
    x = transformer.read_in(params, tokens) + params["positions"].index_select(1, place)[:, None]
    return transformer.read_out(
        params, transformer.residual_stream(params, x, heads, read, visible)
    )[..., 0]


@lru_cache(maxsize=64)
def _placed(
    positions: tuple[int, ...], hidden: int, device: "torch.device"
) -> tuple[Tensor, Tensor]:
    """Return the tokens' positions and the mask."""
    place, count = torch.tensor(positions, device=device), len(positions)
    shown = torch.arange(count, device=device) < count - hidden
    return place, ((place < place[:, None]) & shown) | torch.eye(
        count, dtype=torch.bool, device=device
    )


def _on_arrays(function: Callable[..., Tensor]) -> Callable[..., np.ndarray]:
    """Return a function of tensors (above) as one of numpy arrays for evaluation, by chunks of
    prompts.

    Inputs and queries are (runs or 1, prompts, points, d), labels (runs or 1, prompts, points);
    with 1 all runs see the same prompts. Predictions are float64 (runs, prompts, points). Raises
    ValueError for more examples than the model has learned positions for.
    """

    def evaluated(weights: Params, *arrays: np.ndarray, heads: int) -> np.ndarray:
        like = weights["read_in"]
        tensors = [torch.from_numpy(np.ascontiguousarray(a)).to(like) for a in arrays]
        chunks = zip(
            *(torch.split(a.expand(len(like), *a.shape[1:]), CHUNK, dim=1) for a in tensors),
            strict=True,
        )
        with torch.no_grad():
            return (
                torch.cat([function(weights, *chunk, heads) for chunk in chunks], dim=1)
                .double()
                .cpu()
                .numpy()
            )

    return evaluated


predict = _on_arrays(predictions)
"""(weights, inputs, labels) -> predictions at every position k from the examples 0 ... k - 1 and
input k.
"""
predict_queries = _on_arrays(_query_predictions)
"""(weights, inputs, labels, queries) -> predictions for queries, each on its own after the same
examples, or none.
"""
predict_prefixes = _on_arrays(_prefix_predictions)
"""(weights, inputs, labels, queries) -> predictions for query k after the examples 0 ... k - 1, for
all k in one pass.

Up to rounding this equals one `predict_queries` per k, and `predict` if the queries are the inputs.
"""
