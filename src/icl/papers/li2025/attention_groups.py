"""Attention of the query's column on four groups of columns: same TSR pattern or not, same step or not."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from icl.core.lazy import lazy
from icl.drawing.plotting import Style
from icl.models.optimisers import Params
from icl.papers.li2025 import prompts
from icl.papers.li2025.columns import attend, columns
from icl.papers.li2025.decoding import draw_test
from icl.papers.li2025.one_layer import Config, Test

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = lazy("torch")

GROUPS = ("same TSR, same step", "same TSR, diff. step", "diff. TSR, same step", "diff. TSR, diff. step")
STYLES = tuple(
    Style(group, group, f"C{index}", line=line)
    for index, (group, line) in enumerate(zip(GROUPS, ("-", "--", "-.", ":"), strict=True))
)


def attention(
    params: Params, configs: Sequence[Config], test: Test, setting: prompts.Setting, length: int, queries: int
) -> np.ndarray:
    """Attention of the query's column summed over the four GROUPS of columns, averaged over steps and queries: (runs,
    layers, heads, 4).

    An example has the same TSR if it starts with the query's pattern, at whichever step the column stands. The query's
    own earlier columns, taken from the right chain, count as such.
    """
    prompt, absent, group = _attended(
        tuple(configs), test, setting.fraction, setting.matrices.tobytes(), setting.start_law, length, queries
    )
    maps = attend(params, prompt, configs[0], absent)[1]
    weights = torch.einsum("rblhc,rbcg->rlhg", maps, group) / prompt.shape[1]
    summed: np.ndarray = weights.numpy()
    return summed


@lru_cache(maxsize=2)
def _attended(configs: tuple[Config, ...], test: Test, fraction: float, matrices: bytes, start_law: str, length: int,
              queries: int) -> "tuple[Tensor, Tensor, Tensor]":  # fmt: skip
    """The prompts (runs, queries, columns + 1, D), -inf for columns that are not there and the groups of the others."""
    k, specific = test.chain_length, test.specific_patterns
    setting = prompts.Setting(fraction, np.frombuffer(matrices).reshape(k, specific, specific), start_law)
    asked = np.arange(queries) % k
    prompt, same_start = [], []
    for config in configs:
        drawn = draw_test(config, test, queries)
        shown = prompts.assemble(drawn, setting)
        right = drawn.patterns[shown.right]  # the query's right chain, as vectors
        right[:, 0] = shown.query
        chains = torch.from_numpy(np.concatenate([shown.vectors[:, :length], right[:, None]], axis=1))
        query = torch.from_numpy(right[np.arange(queries), asked])
        prompt.append(columns(chains, query, torch.from_numpy(asked), config))
        same_start.append(shown.states[:, :length, 0] == shown.right[:, :1])
    absent, group = _groups(np.stack(same_start), asked, k)
    return torch.stack(prompt), torch.from_numpy(absent), torch.from_numpy(group)


def _groups(same_start: np.ndarray, asked: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Which columns are not there, -inf (runs, queries, 1, columns), and the group of each (runs, queries, columns, 4).

    same_start : (runs, queries, examples); the query's own chain follows the examples, with the steps before `asked`
    """
    runs, queries, examples = same_start.shape
    shape = (runs, queries, examples + 1, steps)
    same_tsr = np.concatenate([same_start, np.ones((runs, queries, 1), dtype=bool)], axis=2)[..., None]
    same_step = (np.arange(steps) == asked[:, None])[:, None]
    not_answered = (np.arange(examples + 1)[:, None] == examples) & (np.arange(steps) >= asked[:, None, None])
    absent = np.where(np.broadcast_to(not_answered, shape), -np.inf, 0.0)
    members = [(same_tsr == tsr) & (same_step == step) for tsr in (True, False) for step in (True, False)]
    group = np.stack([np.broadcast_to(member, shape) for member in members], axis=-1)
    return absent.reshape(runs, queries, 1, -1), (group * 1.0).reshape(runs, queries, -1, len(GROUPS))
