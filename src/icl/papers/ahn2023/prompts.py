"""Prompts of Ahn et al. 2023, y_i = <w, x_i> with x_i ~ N(0, Sigma), in three forms.

The forms are the literal tokens; the Gram matrix of the examples' columns with the query's column, which determines the
output of a stack of linear layers; and the whitened Gram matrix of the inputs alone.

In whitened coordinates x = R x' with the symmetric root R of Sigma, and the task is R w ~ N(0, T^2).
"""

import numpy as np

from icl.core.lazy import Tensor
from icl.models import attention
from icl.tasks import linear_regression as tasks

Arrays = dict[str, np.ndarray]


def tokens(
    generator: np.random.Generator, count: int, context_length: int, root: np.ndarray, task_factor: np.ndarray | None
) -> Arrays:
    """Return literal prompts: tokens Z with a hidden query label, (count, d + 1, n + 1), and the true label, (count,).

    root : Sigma^(1/2), (d, d); task_factor : S with w ~ N(0, S S'), (d, d); None for w ~ N(0, I)
    """
    normal = tasks.gaussian(generator, (count,), context_length, len(root))
    prompts = tasks.with_covariance(normal, root, task_factor)
    shown = prompts.labels.copy()
    shown[..., -1] = 0
    columns = np.concatenate([prompts.inputs, shown[..., None]], axis=-1)
    return {"tokens": np.swapaxes(columns, -1, -2), "target": prompts.labels[..., -1]}


def gram_and_query(
    generator: np.random.Generator, count: int, context_length: int, root: np.ndarray, task_root: np.ndarray
) -> Arrays:
    """Return the statistics of literal prompts, sampled directly: the Gram matrix comes from a Wishart matrix.

    gram : (1/n) sum_i z_i z_i', (d + 1, d + 1, count); query : the query's column, (d + 1, 1, count); target : the
    query's true label, (count,)
    """
    d = len(root)
    g = root @ tasks.wishart(generator, (count,), context_length, d) @ root / context_length
    w = generator.standard_normal((count, d)) @ np.linalg.solve(root, task_root)
    x = generator.standard_normal((count, d)) @ root
    gw = np.einsum("mde,me->md", g, w)
    full = np.empty((d + 1, d + 1, count))
    full[:d, :d], full[:d, d], full[d, :d] = np.moveaxis(g, 0, -1), gw.T, gw.T
    full[d, d] = np.sum(w * gw, axis=-1)
    query = np.concatenate([x.T, np.zeros((1, count))])
    return {"gram": full, "query": query[:, None], "target": np.sum(w * x, axis=-1)}


def whitened_gram(generator: np.random.Generator, count: int, context_length: int, dimension: int) -> Arrays:
    """Return (1/n) X'X of whitened inputs X, (n, d), with the prompts on the last axis, (d, d, count)."""
    g = tasks.wishart(generator, (count,), context_length, dimension) / context_length
    return {"gram": np.ascontiguousarray(np.moveaxis(g, 0, -1))}


def gram_and_query_of(batch: "dict[str, Tensor]") -> "dict[str, Tensor]":
    """Return the statistics of literal prompts in the form of `gram_and_query`; runs are the first axis."""
    full, query = attention.gram(batch["tokens"])
    return {"gram": full.movedim(1, -1).contiguous(), "query": query.movedim(1, -1), "target": batch["target"]}
