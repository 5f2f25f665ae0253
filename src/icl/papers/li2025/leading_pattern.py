"""Which TSR pattern leads at each step of a chain: the one whose columns the query attends to most (Li et al. 2025)."""

from collections.abc import Sequence

import numpy as np

from icl.core.lazy import torch
from icl.models.optimisers import Params
from icl.papers.li2025 import prompts
from icl.papers.li2025.columns import attend, columns
from icl.papers.li2025.decoding import draw_test
from icl.papers.li2025.one_layer import Config, Test


def right_leads(
    params: Params, configs: Sequence[Config], test: Test, setting: prompts.Setting, length: int, queries: int
) -> np.ndarray:
    """Share of queries at each step k whose right next pattern leads: (runs, K).

        argmax_j sum_{i : z_k^i = mu'_j} softmax_i((W_K p_i)' W_Q p_query) = f_k(z_{k-1})

    The query's earlier steps are those of its right chain. Attention on an example counts for the pattern that the
    example answers, at whichever step its column stands.
    """
    return np.stack(
        [_of_run({name: w[run : run + 1] for name, w in params.items()}, config, test, setting, length, queries)
         for run, config in enumerate(configs)]
    )  # fmt: skip


def _of_run(
    params: Params, config: Config, test: Test, setting: prompts.Setting, length: int, queries: int
) -> np.ndarray:
    drawn = draw_test(config, test, queries)
    shown = prompts.assemble(drawn, setting)
    chains = torch.from_numpy(prompts.with_right_chain(drawn, shown, length))[None]
    states = np.concatenate([shown.states[:, :length], shown.right[:, None]], axis=1)
    answers = torch.from_numpy(states[..., 1:].reshape(queries, -1))
    shares = np.empty(config.chain_length)
    for step in range(config.chain_length):
        steps = np.full(queries, step)
        absent = torch.from_numpy(prompts.absent_columns(steps, length, config.chain_length)).flatten(1)
        prompt = columns(chains, chains[:, :, -1, step], torch.from_numpy(steps), config)
        maps = attend(params, prompt, config, absent[None, :, None])[1][0, :, 0, 0]
        sums = torch.zeros(queries, len(drawn.patterns), dtype=maps.dtype).scatter_add_(1, answers, maps)
        shares[step] = (sums.argmax(dim=1).numpy() == shown.right[:, step + 1]).mean()
    return shares
