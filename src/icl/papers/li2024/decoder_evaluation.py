"""Measurements on the GPT-2 style model of Li et al. 2024: test prompts, logits, attention, label embeddings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from icl.core.lazy import lazy
from icl.models import transformer
from icl.models.optimisers import Params
from icl.papers.li2024.decoder import HEADS, Config, Test, without_idle_read_in
from icl.papers.li2024.evaluation import Domain, noise, sample_test_prompts, shifted_domain, training_domain
from icl.papers.li2024.prompts import prompt_tokens

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = lazy("torch")

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


def attention_on_same(params: Params, config: Config, prompts: Evaluation, heads: str = "mean") -> np.ndarray:
    """Attention of the query summed over the columns with its own pattern, averaged over prompts: (runs, layers).

    heads : mean or largest over the heads (see HEADS)

    The query's own column counts. This is inferred: uniform attention then gives (alpha' / 2 * 20 + 1) / 21 = 0.4286,
    and figure 22 starts at 0.427.
    """
    used = without_idle_read_in(params, prompts.tokens)
    same = (prompts.patterns == prompts.patterns[..., -1:]).float()
    with torch.no_grad():
        parts = [
            torch.einsum("rplht,rpt->rplh", transformer.attention_of_last(used, part, config.heads), mask)
            for part, mask in zip(
                torch.split(prompts.tokens, CHUNK, dim=1), torch.split(same, CHUNK, dim=1), strict=True
            )
        ]
    result: np.ndarray = HEADS[heads](torch.cat(parts, dim=1).double().mean(dim=1)).numpy()
    return result


def label_embeddings(params: Params, config: Config, layer: int, heads: int | None = None) -> dict[str, np.ndarray]:
    """Label embedding of every MLP neuron in layer `layer` = 1 ... layers, the analogue of the label block of W_O W_V.

    In eq. 7, W_V gives the values and W_O is the first map of the MLP. So we take row i of W_up W_values (as maps
    acting from the left), which is what neuron i reads from an attended token's residual stream. Its projection onto
    the image of the label coordinates under the read-in map is the label embedding. This is inferred: figures 24 and 25
    start at magnitudes of 0.009 to 0.016, this product at 0.0175 over both heads and at 0.0124 over one of them; with
    the output projection between the two maps it would start at 0.001.

    heads : number of heads in the product, counted from the first; None for all

    Returns
    -------
    ``magnitude`` : norm of the embedding, (runs, mlp_width); ``angle`` : between it and the image of q, radians;
    ``sign`` : +1 or -1, sign of the neuron's gain on F through W_down and the read-out alone
    """
    name = f"layer{layer}"
    with torch.no_grad():
        image = params["read_in"][:, config.feature_dimension :].double()
        within = torch.linalg.qr(image.mT).Q
        used = config.width if heads is None else heads * config.width // config.heads
        values, up = params[f"{name}.values"][..., :used], params[f"{name}.up"][:, :used]
        neurons = torch.bmm(values, up).mT.double()
        rows = torch.bmm(neurons, within)
        magnitude = rows.norm(dim=-1)
        # q is the first label coordinate.
        q = torch.bmm(image[:, :1], within)
        cosine = (rows * q).sum(dim=-1) / (magnitude * q.norm(dim=-1))
        gain = torch.bmm(params[f"{name}.down"], _read_out(params))[..., 0].numpy()
    angle = torch.arccos(cosine.clamp(-1, 1)).numpy()
    return {"magnitude": magnitude.numpy(), "angle": angle, "sign": np.where(gain > 0, 1.0, -1.0)}


def _read_out(params: Params) -> "Tensor":
    """The final LayerNorm's centring and gain, and the read-out, as one map: (runs, width, 1)."""
    column = params["final_norm.gain"][..., None] * params["read_out"]
    return column - column.mean(dim=1, keepdim=True)
