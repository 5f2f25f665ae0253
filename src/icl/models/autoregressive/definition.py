"""The autoregressive layer by its definition: E_t E_t* at every position, gradients by automatic differentiation.

Zheng et al. 2024, section 3: y_t is the first block of W^PV E_t E_t* W^KQ e_t / (t - 1).
"""

from collections.abc import Sequence

from icl.core.lazy import Tensor, torch
from icl.models.autoregressive.config import Config, sequences
from icl.models.autoregressive.gradients import Gradient, differentiated
from icl.models.optimisers import Params


def of_all_blocks(weights: Params, configs: Sequence[Config]) -> Gradient:
    """L of each run over its sequences and its gradient; weights as `model.all_blocks`, real and imaginary parts."""

    def losses(key_query: Tensor, projection_value: Tensor) -> Tensor:
        blocks = zip(torch.view_as_complex(key_query), torch.view_as_complex(projection_value), strict=True)
        samples = [torch.from_numpy(sequences(config)) for config in configs]
        every = [loss(*embedded(kq, pv), x.to(kq)) for (kq, pv), x in zip(blocks, samples, strict=True)]
        return torch.stack(every).double()

    return differentiated(losses, weights)


def embedded(key_query: Tensor, projection_value: Tensor) -> tuple[Tensor, Tensor]:
    """W^KQ and W^PV, (3 d, 3 d) each, from the parts that multiply tokens (x_t; x_{t-1}); the rest is zero."""
    d, pad = len(projection_value), torch.nn.functional.pad
    return pad(key_query, (d, 0, d, 0)), pad(projection_value, (d, 0, 0, 2 * d))


def loss(key_query: Tensor, projection_value: Tensor, x: Tensor) -> Tensor:
    """1/2 sum_t E |y_t - x_{t+1}|^2 for full matrices (3 d, 3 d) over sequences x (m, T, d)."""
    residual = predictions(key_query, projection_value, x) - x[:, 2:]
    return (residual.real.square() + residual.imag.square()).sum() / (2 * len(x))


def predictions(key_query: Tensor, projection_value: Tensor, x: Tensor) -> Tensor:
    """y_t, t = 2 ... T - 1, each from its own E_t E_t* / (t - 1): (m, T - 2, d)."""
    before = torch.nn.functional.pad(x[:, :-1], (0, 0, 1, 0))
    embedding = torch.cat([torch.zeros_like(x), x, before], dim=2).mT  # E, (m, 3 d, T)
    outputs = []
    for t in range(2, x.shape[1]):
        prefix = embedding[..., :t]
        outputs.append(projection_value @ (prefix @ prefix.mH / (t - 1)) @ key_query @ prefix[..., -1:])
    return torch.cat(outputs, dim=2)[:, : x.shape[2]].mT
