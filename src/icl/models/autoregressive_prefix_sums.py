"""The gradient of the autoregressive layer on a sample of sequences in all blocks, by prefix sums (Zheng et al. 2024).

It equals the gradient of `autoregressive_definition` without forming the matrices E_t.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Params

# The number of sequences per chunk; its prefix sums fit in the cache.
CHUNK = 100


class Sample(NamedTuple):
    """Sequences x_t = w^(t-1) u of length T: eigenvalues w, complex (m, d), and first tokens u, (m, d)."""

    w: np.ndarray
    u: np.ndarray
    length: int


def loss_and_gradient(weights: Params, samples: Sequence[Sample]) -> "tuple[Tensor, Params]":
    """L over each run's sequences and its gradient in all blocks, real and imaginary parts, without E_t.

    With M_t = sum_{i<t} x_i x_i* and x_{t-1} = W* x_t, every product of tokens is one with M_t: for z_t =
    (x_t; x_{t-1}) and K z_t = (v; v'), the layer's sum is E E* K z_t = (x_1 (x_1* v) + W h; h), h = M_t (W* v + v').
    So a position needs one product with M_t forward, one backward, and matrices that do not depend on t.

    weights : `KQ` (runs, 2 d, 2 d, 2) and `PV` (runs, d, 2 d, 2). Runs that share a sample share its prefix sums.
    """
    key_query, projection_value = (torch.view_as_complex(weights[name]) for name in ("KQ", "PV"))
    totals = [_Totals.zeros(key_query[run], projection_value[run]) for run in range(len(samples))]
    groups: dict[tuple[int, int], list[int]] = {}
    for run, sample in enumerate(samples):
        groups.setdefault((id(sample.w), sample.length), []).append(run)
    for runs in groups.values():
        sample = samples[runs[0]]
        w, u = (torch.from_numpy(part).to(key_query.dtype) for part in sample[:2])
        for start in range(0, len(w), CHUNK):
            part = _Prefix.of(w[start : start + CHUNK], u[start : start + CHUNK], sample.length)
            for run in runs:
                totals[run].add(part, key_query[run], projection_value[run])
    return _averaged(totals, [len(sample.w) for sample in samples])


@dataclass
class _Prefix:
    """A chunk of sequences: w, u (c, d); x_t and x_{t+1}, t = 2 ... T - 1, (c, d, T - 2); M_t (c, d, d, T - 2)."""

    w: "Tensor"
    u: "Tensor"
    x: "Tensor"
    wanted: "Tensor"
    sums: "Tensor"
    share: "Tensor"

    @classmethod
    def of(cls, w: "Tensor", u: "Tensor", length: int) -> "_Prefix":
        powers = torch.cumprod(w[..., None].expand(-1, -1, length - 1), dim=-1)
        x = torch.cat([u[..., None], powers * u[..., None]], dim=-1)
        before = x[..., :-2]
        sums = torch.cumsum(before[:, :, None] * before.conj()[:, None], dim=-1)
        share = 1 / torch.arange(1, length - 1, dtype=w.real.dtype, device=w.device)
        return cls(w, u, x[..., 1:-1].contiguous(), x[..., 2:], sums, share)


@dataclass
class _Totals:
    """The sums of one run over its sequences: L and the gradients."""

    loss: float
    key_query: "Tensor"
    projection_value: "Tensor"

    @classmethod
    def zeros(cls, key_query: "Tensor", projection_value: "Tensor") -> "_Totals":
        return cls(0.0, torch.zeros_like(key_query), torch.zeros_like(projection_value))

    def add(self, part: _Prefix, key_query: "Tensor", projection_value: "Tensor") -> None:
        """Add the forward and backward passes of one chunk."""
        d, w, u, x = part.w.shape[1], part.w, part.u, part.x
        k = key_query.reshape(2, d, 2, d)
        k22, k23, k32, k33 = k[0, :, 0], k[0, :, 1], k[1, :, 0], k[1, :, 1]
        p2, p3 = projection_value[:, :d], projection_value[:, d:]
        back = w.conj()[:, None]  # (.) W*, on the right
        seen = k22 + k23 * back  # v = seen x_t
        query = w.conj()[..., None] * seen + k32 + k33 * back  # W* v + v' = query x_t
        first = (u.conj()[:, None] @ seen)[:, 0]  # x_1* v = first x_t, (c, d)
        out, out_first = p2 * w[:, None] + p3, u @ p2.T
        h = (part.sums * (query @ x)[:, None]).sum(dim=2)  # M_t is Hermitian; (c, d, n)
        alpha = first[:, None] @ x  # (c, 1, n)
        residual = (out @ h + out_first[..., None] * alpha) * part.share - part.wanted
        self.loss += float(residual.real.square().sum() + residual.imag.square().sum()) / 2
        pull = residual * part.share
        to_h, to_alpha = out.mH @ pull, out_first.conj()[:, None] @ pull
        to_query = (part.sums * to_h[:, None]).sum(dim=2) @ x.mH  # (c, d, d)
        to_first = to_alpha @ x.mH  # (c, 1, d)
        to_seen = w[..., None] * to_query + u[..., None] * to_first
        ahead = w[:, None]
        self.key_query += torch.cat(
            [
                torch.cat([to_seen.sum(0), (to_seen * ahead).sum(0)], dim=1),
                torch.cat([to_query.sum(0), (to_query * ahead).sum(0)], dim=1),
            ]
        )
        to_out = pull @ h.mH
        to_out_first = (pull * alpha.conj()).sum(-1)
        to_p2 = (to_out * back).sum(0) + to_out_first.T @ u.conj()
        self.projection_value += torch.cat([to_p2, to_out.sum(0)], dim=1)


def _averaged(totals: "list[_Totals]", counts: Sequence[int]) -> "tuple[Tensor, Params]":
    values = torch.tensor([total.loss / m for total, m in zip(totals, counts, strict=True)], dtype=torch.float64)
    names = {"KQ": "key_query", "PV": "projection_value"}
    return values, {
        key: torch.stack(
            [torch.view_as_real(getattr(total, name) / m) for total, m in zip(totals, counts, strict=True)]
        )
        for key, name in names.items()
    }
