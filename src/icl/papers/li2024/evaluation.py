"""Test prompts of Li et al. 2024 in and out of domain, and the answers of the one-layer model to
them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.core.streams import random_bits, stream
from icl.core.sweep import Sweep
from icl.models.optimisers import Params
from icl.papers.li2024.one_layer import QUERY_TOO
from icl.papers.li2024.patterns import combined, haar
from icl.papers.li2024.prompts import all_tasks, prompt_tokens, sample_prompts, unseen_tasks


@dataclass(frozen=True)
class EvaluationPrompts:
    """Test prompts of all runs, in the axes of the patterns.

    tokens : (runs, prompts, l + 1, d_X + label coordinates); labels, patterns : (runs, prompts, l +
        1)
    query_direction : unit vector of the query's IDR or ODR pattern, (runs, prompts, d_X)
    """

    configs: Sequence[Any]
    test: Any
    tokens: Tensor
    labels: Tensor
    patterns: Tensor
    query_direction: Tensor

    @property
    def answer(self) -> Tensor:
        """The label z of the query, (runs, prompts)."""
        return self.labels[..., -1]


def in_domain(sweep: Sweep, **tested: Any) -> EvaluationPrompts:
    """Prompts of unseen tasks over the IDR and IDI patterns; tested : other constants of the
    sweep's test.
    """
    domains = (
        (unseen_tasks(c.relevant_patterns, c.train_tasks), *c.axis_patterns) for c in sweep.configs
    )
    return _evaluation(sweep.configs, replace(sweep.test, **tested), "in domain", domains)


def out_of_domain(sweep: Sweep, **tested: Any) -> EvaluationPrompts:
    """Prompts of all tasks over ODR patterns, IDR patterns combined with coefficient sum S_1,
    and rotated IDI ones.
    """
    test, domains = replace(sweep.test, **tested), []
    for config in sweep.configs:
        known, irrelevant = config.axis_patterns
        relevant = combined(known, test.coefficient_sum, test.combination)
        rotation = haar(stream(config.model, config.seed, "rotation"), len(irrelevant))
        domains.append((all_tasks(len(relevant)), relevant, rotation @ irrelevant))
    return _evaluation(sweep.configs, test, "out of domain", domains)


def _evaluation(
    configs: Sequence[Any], test: Any, purpose: str, domains: Iterable[tuple[np.ndarray, ...]]
) -> EvaluationPrompts:
    """domains : for each run its tasks, (tasks, 2), and relevant and irrelevant patterns, (M,
    d_X).
    """
    parts = []
    for config, (tasks, relevant, irrelevant) in zip(configs, domains, strict=True):
        # The stream does not depend on alpha' or S_1, so curves over them are paired.
        block = random_bits(
            config.model, [config.seed], purpose, 0, (test.prompts, test.context_length_test + 2)
        )[0]
        fraction, bound = test.relevant_fraction_test, config.largest_strength
        batch = sample_prompts(block, tasks, len(relevant), len(irrelevant), fraction, bound)
        batch = replace(batch, strength=test.strength(batch.strength))
        tokens = prompt_tokens(batch, relevant, irrelevant, config.label_direction)
        if test.noise:
            features = tokens[..., : config.feature_dimension]
            scale = test.noise * config.pattern_norm / np.sqrt(config.feature_dimension)
            features += scale * stream(
                config.model, config.seed, f"{purpose}, noise"
            ).standard_normal(features.shape)
        units = relevant / np.linalg.norm(relevant, axis=-1, keepdims=True)
        parts.append((tokens, batch.label, batch.pattern, units[batch.pattern[:, -1]]))
    return EvaluationPrompts(
        configs, test, *(torch.from_numpy(np.stack(part)) for part in zip(*parts, strict=True))
    )


def wrong(logits: Tensor, prompts: EvaluationPrompts) -> np.ndarray:
    """Return whether z F is NaN or at most the answer margin, for F (..., runs, prompts): bool
    (..., runs, prompts).
    """
    return ~(logits * prompts.answer > prompts.test.answer_margin).numpy()


def hinge(logits: Tensor, prompts: EvaluationPrompts) -> np.ndarray:
    """Mean hinge loss max(0, 1 - z F): (runs,)."""
    return torch.relu(1 - logits * prompts.answer).mean(dim=-1).numpy()


def attention(
    params: Params, prompts: EvaluationPrompts, context_length: int | None = None
) -> Tensor:
    """Attention of the one-layer model's query on the first `context_length` contexts, by default
    all, and on the query itself if it is attended to; 0 elsewhere: (runs, prompts, l + 1).

    params : of the one-layer model in the axes of the patterns
    """
    queries = torch.einsum("rpd,red->rpe", prompts.tokens[:, :, -1], params["W_Q"])
    pulled = torch.einsum("rpe,red->rpd", queries, params["W_K"])
    scores = torch.einsum("rpld,rpd->rpl", prompts.tokens, pulled)
    masked = torch.ones(scores.shape[-1], dtype=torch.bool)
    masked[:-1][:context_length] = False
    masked[-1] = prompts.configs[0].attended != QUERY_TOO
    return torch.softmax(scores.masked_fill(masked, -torch.inf), dim=-1)


def contributions(
    params: Params, prompts: EvaluationPrompts, context_length: int | None = None
) -> Tensor:
    """a_i ReLU(w_i^T sum_j W_V p_j s_j) of every neuron i, with s_j as `attention`: (runs, prompts,
    m).

    Their sum over neurons is the logit F; leaving neurons out of the sum prunes them.
    """
    context = torch.einsum(
        "rpl,rpld->rpd", attention(params, prompts, context_length), prompts.tokens
    )
    rows = torch.bmm(params["W_O"], params["W_V"])
    return params["a"][:, None] * torch.relu(torch.bmm(context, rows.mT))


def logits(params: Params, prompts: EvaluationPrompts, lengths: Sequence[int]) -> Tensor:
    """F of the one-layer model from the first l contexts, for each l in `lengths`: (lengths,
    runs, prompts).
    """
    return torch.stack([contributions(params, prompts, length).sum(dim=-1) for length in lengths])
