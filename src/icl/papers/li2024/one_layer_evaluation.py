"""Measurements on the one-layer model of Li et al. 2024: test prompts, attention, neurons, errors, embeddings."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Params
from icl.papers.li2024.evaluation import Domain, noise, sample_test_prompts, shifted_domain, training_domain
from icl.papers.li2024.one_layer import QUERY_TOO, Config, Test, strength_by_law
from icl.papers.li2024.prompts import prompt_tokens


@dataclass(frozen=True)
class Evaluation:
    """Test prompts of all runs: tokens (runs, prompts, l + 1, d), labels and patterns (runs, prompts, l + 1).

    query_direction : unit vector of the query's IDR or ODR pattern, (runs, prompts, d)
    attended : the columns that the query attends to (see Config)
    answer_margin : an answer is right if z F is above it (see PatternTest)
    """

    tokens: "Tensor"
    labels: "Tensor"
    patterns: "Tensor"
    query_direction: "Tensor"
    attended: str
    answer_margin: float


def in_domain(configs: Sequence[Config], test: Test) -> Evaluation:
    """Prompts of unseen tasks over the IDR and IDI patterns."""
    return _evaluation(configs, test, training_domain)


def out_of_domain(configs: Sequence[Config], test: Test) -> Evaluation:
    """Prompts of all tasks over ODR patterns (IDR patterns combined with coefficient sum S_1) and ODI patterns."""
    return _evaluation(configs, test, lambda config: shifted_domain(config, test.combination, test.coefficient_sum))


def _evaluation(configs: Sequence[Config], test: Test, domain_of: Callable[[Config], Domain]) -> Evaluation:
    parts = [_test_arrays(config, test, domain_of(config)) for config in configs]
    arrays = [np.stack(a) for a in zip(*parts, strict=True)]
    tensors = [torch.from_numpy(a).to(torch.float64 if a.dtype.kind == "f" else torch.int64) for a in arrays]
    return Evaluation(tensors[0], tensors[1], tensors[2], tensors[3], configs[0].attended, test.answer_margin)


def _test_arrays(config: Config, test: Test, domain: Domain) -> tuple[np.ndarray, ...]:
    """Tokens, labels, patterns and the direction of the query's pattern of one run."""
    batch = sample_test_prompts(config, test, domain, config.irrelevant_strength * config.pattern_norm)
    batch = dataclasses.replace(batch, strength=test.strength_ratio * strength_by_law(config, batch.strength))
    features, q = config.feature_dimension, config.label_direction
    direction = np.zeros((test.prompts, features + len(q)))
    units = domain.relevant / np.linalg.norm(domain.relevant, axis=-1, keepdims=True)
    direction[:, :features] = units[batch.pattern[:, -1]]
    tokens = prompt_tokens(batch, domain.relevant, domain.irrelevant, q)
    tokens[..., :features] += noise(config, test, domain, tokens[..., :features].shape)
    return tokens, batch.label, batch.pattern, direction


def scores(params: Params, prompts: Evaluation) -> "Tensor":
    """(W_K p_i)^T W_Q p_query for every context, and last for the query: (runs, prompts, l + 1)."""
    queries = torch.einsum("rpd,red->rpe", prompts.tokens[:, :, -1], params["W_Q"])
    pulled = torch.einsum("rpe,red->rpd", queries, params["W_K"])
    return torch.einsum("rpld,rpd->rpl", prompts.tokens, pulled)


def attention(params: Params, prompts: Evaluation, context_length: int) -> "Tensor":
    """Attention on the first `context_length` contexts, and on the query if it is attended to; 0 elsewhere:
    (runs, prompts, l + 1).
    """
    all_scores = scores(params, prompts)
    masked = torch.arange(all_scores.shape[-1]) >= context_length
    masked[-1] = prompts.attended != QUERY_TOO
    return torch.softmax(all_scores.masked_fill(masked, -torch.inf), dim=-1)


def contributions(params: Params, prompts: Evaluation, context_length: int) -> "Tensor":
    """a_i ReLU(w_i^T sum_j W_V p_j s_j) of every neuron i from the first `context_length` contexts: (runs, prompts, m).

    Their sum over neurons is the logit F; leaving neurons out of the sum prunes them.
    """
    context = torch.einsum("rpl,rpld->rpd", attention(params, prompts, context_length), prompts.tokens)
    rows = torch.bmm(params["W_O"], params["W_V"])
    return params["a"][:, None] * torch.relu(torch.bmm(context, rows.mT))


def wrong(logits: "Tensor", prompts: Evaluation) -> np.ndarray:
    """Whether z F is NaN or at most the answer margin, for every prompt: bool (runs, prompts)."""
    answers: np.ndarray = ~(logits * prompts.labels[..., -1] > prompts.answer_margin).numpy()
    return answers


def hinge(logits: "Tensor", prompts: Evaluation) -> np.ndarray:
    """Mean hinge loss max(0, 1 - z F): (runs,)."""
    result: np.ndarray = torch.relu(1 - logits * prompts.labels[..., -1]).mean(dim=-1).numpy()
    return result


def attention_on_same(params: Params, prompts: Evaluation) -> np.ndarray:
    """Attention summed over the columns that carry the query's pattern, averaged over prompts: (runs,)."""
    same = prompts.patterns == prompts.patterns[..., -1:]
    weights = attention(params, prompts, prompts.tokens.shape[2] - 1)
    result: np.ndarray = (weights * same).sum(dim=-1).mean(dim=-1).numpy()
    return result


def attended_context(params: Params, prompts: Evaluation, config: Config) -> dict[str, np.ndarray]:
    """How close sum_s p_s softmax_s is to (mu, z q), mu the query's pattern: the mean cosine of its feature part with
    mu, and the mean of z times its label part in units of q, (runs,) each.
    """
    weights = attention(params, prompts, prompts.tokens.shape[2] - 1)
    attended = torch.einsum("rpl,rpld->rpd", weights, prompts.tokens)
    feature, label = attended[..., : config.feature_dimension], attended[..., config.feature_dimension :]
    direction, q = prompts.query_direction[..., : config.feature_dimension], torch.from_numpy(config.label_direction)
    cosine = (feature * direction).sum(dim=-1) / feature.norm(dim=-1)
    labels = (label @ q) / (q @ q) * prompts.labels[..., -1]
    return {
        "cosine of the attended features with the pattern": cosine.mean(dim=-1).numpy(),
        "attended label times z": labels.mean(dim=-1).numpy(),
    }


def projections(params: Params, prompts: Evaluation, feature_dimension: int) -> dict[str, np.ndarray]:
    """Mean magnitudes of figure 8, (runs,) each, within the feature block.

    ``W_Q p_query`` and ``W_K p_i`` (over contexts with the query's pattern) are norms, ``xdr W_Q p_query`` and
    ``xdr W_K p_i`` the sizes of their components along the query's IDR or ODR pattern.
    """
    same = (prompts.patterns[..., :-1] == prompts.patterns[..., -1:]).double()
    direction = prompts.query_direction[..., :feature_dimension]
    query = torch.einsum("rpd,red->rpe", prompts.tokens[:, :, -1], params["W_Q"])[..., :feature_dimension]
    keys = torch.einsum("rpld,red->rple", prompts.tokens[:, :, :-1], params["W_K"])[..., :feature_dimension]

    def over_same(values: "Tensor") -> np.ndarray:
        mean: np.ndarray = ((values * same).sum(dim=(1, 2)) / same.sum(dim=(1, 2))).numpy()
        return mean

    return {
        "W_Q p_query": query.norm(dim=-1).mean(dim=-1).numpy(),
        "W_K p_i": over_same(keys.norm(dim=-1)),
        "xdr W_Q p_query": (query * direction).sum(dim=-1).abs().mean(dim=-1).numpy(),
        "xdr W_K p_i": over_same(torch.einsum("rple,rpe->rpl", keys, direction).abs()),
    }


def embeddings(params: Params, config: Config) -> dict[str, np.ndarray]:
    """Blocks of the rows of W_O W_V, (runs, m) each: norm of the feature block and its angle (radians) to mu-bar, the
    mean IDR pattern; norm of the label block and its angle to q.
    """
    rows = torch.bmm(params["W_O"], params["W_V"]).numpy()
    feature, label = np.split(rows, [config.feature_dimension], axis=-1)
    mean_pattern = config.axis_patterns[0].mean(axis=0)
    return {
        "feature magnitude": np.linalg.norm(feature, axis=-1),
        "feature angle": _angle(feature, mean_pattern),
        "label magnitude": np.linalg.norm(label, axis=-1),
        "label angle": _angle(label, config.label_direction),
    }


def _angle(rows: np.ndarray, direction: np.ndarray) -> np.ndarray:
    cosine = rows @ direction / (np.linalg.norm(rows, axis=-1) * np.linalg.norm(direction))
    return np.arccos(np.clip(cosine, -1, 1))
