"""The gradient of the autoregressive layer on a sample of sequences in all blocks, by prefix sums
(Zheng et al. 2024).

It equals the gradient of the layer's definition without forming the matrices E_t.
"""

from collections.abc import Sequence

from icl.core.lazy import Tensor, torch
from icl.models.autoregressive.config import Config, drawn
from icl.models.autoregressive.gradients import Gradient
from icl.models.optimisers import Params

# The number of sequences per chunk; its prefix sums fit in the cache.
CHUNK = 100


def of_all_blocks(weights: Params, configs: Sequence[Config]) -> Gradient:
    """L over each run's sequences and its gradient in all blocks, real and imaginary parts.

    With M_t = sum_{i<t} x_i x_i* and x_{t-1} = W* x_t, every product of tokens is one with M_t: for
    z_t = (x_t; x_{t-1}) and K z_t = (v; v'), the layer's sum is E E* K z_t = (x_1 (x_1* v) + W h;
    h), h = M_t (W* v + v'). So a position needs one product with M_t forward, one backward, and
    matrices that do not depend on t.

    weights : `KQ` (runs, 2 d, 2 d, 2) and `PV` (runs, d, 2 d, 2)
    """
    key_query, projection_value = (torch.view_as_complex(weights[name]) for name in ("KQ", "PV"))
    found = []
    for kq, pv, config in zip(key_query, projection_value, configs, strict=True):
        w, u = (torch.from_numpy(part).to(kq) for part in drawn(config))
        chunks = [slice(first, first + CHUNK) for first in range(0, len(w), CHUNK)]
        parts = [_chunk(kq, pv, w[chunk], u[chunk], config.length) for chunk in chunks]
        found.append([sum(of_chunk) / len(w) for of_chunk in zip(*parts, strict=True)])
    losses, of_kq, of_pv = zip(*found, strict=True)
    slopes = (torch.view_as_real(torch.stack(of_run)) for of_run in (of_kq, of_pv))
    return torch.tensor(losses, dtype=torch.float64), dict(zip(("KQ", "PV"), slopes, strict=True))


def _chunk(
    key_query: Tensor, projection_value: Tensor, w: Tensor, u: Tensor, length: int
) -> tuple[float, Tensor, Tensor]:
    """L and its gradient, summed over a chunk of sequences x_t = w^(t-1) u of this length; w and u
    are (c, d).

    Positions t = 2 ... T - 1, here called n, are the last axis.
    """
    d = w.shape[1]
    powers = torch.cumprod(w[..., None].expand(-1, -1, length - 1), dim=-1)
    x = torch.cat([u[..., None], powers * u[..., None]], dim=-1)
    before, x, wanted = x[..., :-2], x[..., 1:-1].contiguous(), x[..., 2:]
    sums = torch.cumsum(
        before[:, :, None] * before.conj()[:, None], dim=-1
    )  # M_t, Hermitian, (c, d, d, n)
    share = 1 / torch.arange(1, length - 1, dtype=w.real.dtype, device=w.device)

    (k22, k23), (k32, k33) = key_query.reshape(2, d, 2, d).transpose(1, 2)
    p2, p3 = projection_value[:, :d], projection_value[:, d:]
    ahead, back = w[:, None], w.conj()[:, None]  # (.) W and (.) W*, on the right
    seen = k22 + k23 * back  # v = seen x_t
    query = w.conj()[..., None] * seen + k32 + k33 * back  # W* v + v' = query x_t
    first = u.conj()[:, None] @ seen  # x_1* v = first x_t
    out, out_first = p2 * ahead + p3, u @ p2.T
    h = (sums * (query @ x)[:, None]).sum(dim=2)  # (c, d, n)
    alpha = first @ x  # (c, 1, n)
    residual = (out @ h + out_first[..., None] * alpha) * share - wanted
    loss = float(residual.real.square().sum() + residual.imag.square().sum()) / 2

    pull = residual * share
    to_h, to_alpha = out.mH @ pull, out_first.conj()[:, None] @ pull
    to_query = (sums * to_h[:, None]).sum(dim=2) @ x.mH  # (c, d, d)
    to_seen = w[..., None] * to_query + u[..., None] * (to_alpha @ x.mH)
    rows = [torch.cat([part.sum(0), (part * ahead).sum(0)], dim=1) for part in (to_seen, to_query)]
    to_out, to_out_first = pull @ h.mH, (pull * alpha.conj()).sum(-1)
    to_p2 = (to_out * back).sum(0) + to_out_first.T @ u.conj()
    return loss, torch.cat(rows), torch.cat([to_p2, to_out.sum(0)], dim=1)
