"""Attention of the query's column to four groups of columns: same or different TSR pattern, same or different step."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.drawing.plotting import Style
from icl.models.optimisers import Params
from icl.papers.li2025 import prompts
from icl.papers.li2025.columns import attend, columns
from icl.papers.li2025.decoding import draw_test
from icl.papers.li2025.one_layer import Config, Test

GROUPS = ("same TSR, same step", "same TSR, diff. step", "diff. TSR, same step", "diff. TSR, diff. step")
STYLES = tuple(
    Style(group, group, f"C{index}", line=line)
    for index, (group, line) in enumerate(zip(GROUPS, ("-", "--", "-.", ":"), strict=True))
)


def attention(
    params: Params, configs: Sequence[Config], test: Test, setting: prompts.Setting, length: int, queries: int
) -> np.ndarray:
    """Attention of the query's column to each of the four GROUPS, averaged over steps and queries: (runs, layers,
    heads, 4).

    All columns of an example that starts with the query's pattern have the same TSR. So do the query's own earlier
    columns, which are taken from the right chain.
    """
    prompt, absent, group = _prompts(
        tuple(configs), test, setting.fraction, setting.matrices.tobytes(), setting.start_law, length, queries
    )
    maps = attend(params, prompt, configs[0], absent)[1]
    weights = torch.einsum("rblhc,rbcg->rlhg", maps, group) / prompt.shape[1]
    summed: np.ndarray = weights.numpy()
    return summed


@lru_cache(maxsize=2)
def _prompts(configs: tuple[Config, ...], test: Test, fraction: float, matrices: bytes, start_law: str, length: int,
             queries: int) -> "tuple[Tensor, Tensor, Tensor]":  # fmt: skip
    """Prompts (runs, queries, columns + 1, D), -inf for absent columns, and the groups of the columns (see _groups)."""
    k, specific = test.chain_length, test.specific_patterns
    setting = prompts.Setting(fraction, np.frombuffer(matrices).reshape(k, specific, specific), start_law)
    query_step = np.arange(queries) % k
    prompt, same_start = [], []
    for config in configs:
        drawn = draw_test(config, test, queries)
        shown = prompts.assemble(drawn, setting)
        chains = torch.from_numpy(prompts.with_right_chain(drawn, shown, length))
        query = chains[np.arange(queries), -1, query_step]
        prompt.append(columns(chains, query, torch.from_numpy(query_step), config))
        same_start.append(shown.states[:, :length, 0] == shown.right[:, :1])
    absent, group = _groups(np.stack(same_start), query_step, k)
    return torch.stack(prompt), torch.from_numpy(absent), torch.from_numpy(group)


def _groups(same_start: np.ndarray, query_step: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """-inf for absent columns (1, queries, 1, columns), and the group of each column (runs, queries, columns, 4).

    same_start : (runs, queries, examples); the query's own steps before `query_step` follow the examples
    """
    runs, queries, examples = same_start.shape
    shape = (runs, queries, examples + 1, steps)
    same_tsr = np.concatenate([same_start, np.ones((runs, queries, 1), dtype=bool)], axis=2)[..., None]
    same_step = (np.arange(steps) == query_step[:, None])[:, None]
    absent = prompts.absent_columns(query_step, examples, steps)
    members = [(same_tsr == tsr) & (same_step == step) for tsr in (True, False) for step in (True, False)]
    group = np.stack([np.broadcast_to(member, shape) for member in members], axis=-1)
    return absent.reshape(1, queries, 1, -1), (group * 1.0).reshape(runs, queries, -1, len(GROUPS))
