"""Measurements on the GPT-2 style model of Li et al. 2024: test prompts, logits and wrong answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.models import transformer
from icl.models.optimisers import Params
from icl.papers.li2024.decoder import Config, Test, without_idle_read_in
from icl.papers.li2024.evaluation import Domain, noise, sample_test_prompts, shifted_domain, training_domain
from icl.papers.li2024.prompts import prompt_tokens

# Prompts evaluated at a time: keeps the activations of ten runs below 200 MB.
CHUNK = 200


@dataclass(frozen=True)
class Evaluation:
    """Test prompts of all runs.

    tokens : float32 (runs, prompts, l + 1, d_X + 1); labels and patterns : (runs, prompts, l + 1)
    answer_margin : an answer is right if z F is above it (see PatternTest)
    """

    tokens: "Tensor"
    labels: "Tensor"
    patterns: "Tensor"
    answer_margin: float


def in_domain(configs: Sequence[Config], test: Test) -> Evaluation:
    """Prompts of unseen tasks over the IDR and IDI patterns."""
    return _evaluation(configs, test, training_domain)


def out_of_domain(configs: Sequence[Config], test: Test) -> Evaluation:
    """Prompts of all tasks over ODR patterns (IDR patterns combined with coefficient sum S_1) and ODI patterns."""

    def domain_of(config: Config) -> Domain:
        return shifted_domain(config, test.combination, test.coefficient_sum)

    return _evaluation(configs, test, domain_of)


def _evaluation(configs: Sequence[Config], test: Test, domain_of: Callable[[Config], Domain]) -> Evaluation:
    parts = []
    for config in configs:
        domain = domain_of(config)
        batch = sample_test_prompts(config, test, domain, config.irrelevant_strength * config.pattern_norm)
        tokens = prompt_tokens(batch, domain.relevant, domain.irrelevant, np.ones(1))
        tokens[..., :-1] += noise(config, test, domain, tokens[..., :-1].shape)
        parts.append((tokens.astype(np.float32), batch.label.astype(np.float32), batch.pattern))
    stacked = [torch.from_numpy(np.stack(a)) for a in zip(*parts, strict=True)]
    return Evaluation(stacked[0], stacked[1], stacked[2], test.answer_margin)


def logits(params: Params, config: Config, prompts: Evaluation, lengths: Sequence[int]) -> np.ndarray:
    """F at the query of every prompt given its first l contexts, for each l in `lengths`: (runs, prompts, lengths).

    All lengths use the same prompts, so curves over the context length are paired.
    """
    used = without_idle_read_in(params, prompts.tokens)
    with torch.no_grad():
        parts = [
            transformer.predict_prefixes(used, part[:, :, :-1], part[:, :, -1], lengths, config.heads)[..., 0]
            for part in torch.split(prompts.tokens, CHUNK, dim=1)
        ]
    result: np.ndarray = torch.cat(parts, dim=1).double().numpy()
    return result


def wrong(logits: np.ndarray, prompts: Evaluation) -> np.ndarray:
    """Whether z F is NaN or at most the answer margin: bool (runs, prompts, lengths)."""
    answers: np.ndarray = ~(logits * prompts.labels[..., -1:].double().numpy() > prompts.answer_margin)
    return answers
