"""The weights Q of the softmax layer in two forms: as a matrix, and as its distinct entries.

In the basis of the features, Q[n, k] = v_n' Q v_k. With one dominant feature v_1 and K - 1 equally likely ones, the
columns for v_1 and for any other v_k have the distinct entries (A_1, 0, B_{1,n}) and (A_k, B_{k,1}, B_{k,n}): shape (2,
3).
"""

from icl.core.lazy import Tensor, torch


def full_matrix(q: "Tensor", features: int) -> "Tensor":
    """Q in the basis of the features, (..., K, K), from either form."""
    k = features
    if q.shape[-2:] == (k, k):
        return q
    full = q[..., 1, 2, None, None].expand(*q.shape[:-2], k, k).clone()
    full[..., :, 0] = q[..., 0, 2, None]
    full[..., 0, 1:] = q[..., 1, 1, None]
    torch.diagonal(full, dim1=-2, dim2=-1)[...] = q[..., 1, 0, None]
    full[..., 0, 0] = q[..., 0, 0]
    return full


def distinct_entries(q: "Tensor") -> "Tensor":
    """The distinct entries, (..., 2, 3), from either form; for a general Q, means over the rare features."""
    if q.shape[-2:] == (2, 3):
        return q
    k = q.shape[-1]
    diagonal = torch.diagonal(q, dim1=-2, dim2=-1)
    rest = q[..., 1:, 1:].sum(dim=(-2, -1)) - diagonal[..., 1:].sum(dim=-1)
    first = [diagonal[..., 0], torch.zeros_like(diagonal[..., 0]), q[..., 1:, 0].mean(dim=-1)]
    other = [diagonal[..., 1:].mean(dim=-1), q[..., 0, 1:].mean(dim=-1), rest / ((k - 1) * (k - 2))]
    return torch.stack([torch.stack(first, -1), torch.stack(other, -1)], -2)
