"""The linear self-attention layer on prompts (Zhang et al. 2024, section 3).

    f = E + W^PV E (E' W^KQ E) / rho,   y_hat = the bottom right entry of f

E, (d + 1, rho + 1), holds the examples (x_i, y_i) and, last, the query (x_query, 0); rho is the number of examples.
"""

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.models import attention
from icl.models.optimisers import Params
from icl.papers.zhang2024.population_flow import Blocks


def prediction(value: "Tensor", key_query: "Tensor", batch: Params) -> "Tensor":
    """Return the bottom right entry of f for every prompt of every run, (runs, B).

    value, key_query : W^PV and W^KQ, (runs, d + 1, d + 1)
    batch : inputs (runs, B, rho + 1, d) and labels (runs, B, rho + 1); the query's label is not used
    """
    tokens = attention.tokens(batch["inputs"], batch["labels"])
    scores = tokens.mT @ (key_query[:, None] @ tokens[..., -1:])
    read = value[:, None, -1:] @ tokens
    return (read @ scores)[..., 0, 0] / (tokens.shape[-1] - 1) + tokens[..., -1, -1]


def matrices(blocks: Blocks) -> "tuple[Tensor, Tensor]":
    """Return W^PV and W^KQ, (..., d + 1, d + 1), with the two blocks and zeros elsewhere."""
    d = blocks.u.shape[-1]
    value = np.zeros((*np.shape(blocks.c), d + 1, d + 1))
    key_query = value.copy()
    value[..., -1, -1], key_query[..., :-1, :-1] = blocks.c, blocks.u
    return torch.from_numpy(value), torch.from_numpy(key_query)


def blocks(weights: Params) -> Blocks:
    """Return U, (..., d, d), and c, (...), from the weights of the population flow or from both matrices."""
    if "U" in weights:
        return Blocks(weights["U"].cpu().numpy(), weights["c"].cpu().numpy())
    return Blocks(weights["W_KQ"][..., :-1, :-1].cpu().numpy(), weights["W_PV"][..., -1, -1].cpu().numpy())
