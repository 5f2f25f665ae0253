"""GPT-2 style model of three layers on pattern classification (Li et al., ICML 2024, figures 12, 13 and 21 to 26).

The prompts are those of the one-layer model, `icl.papers.li2024.prompts`: columns (x_i; y_i) and (x_query; 0). The
decoder, `icl.models.transformer`, is trained by a gradient method (see OPTIMISERS) on the hinge loss of its logit F at the
query.

The read-in map starts Gaussian, a law that no rotation of the feature space or of the label space changes; so
patterns are taken as coordinate axes: IDR pattern j is beta e_j, IDI pattern k is e_{M_1 + k} and q is e_{d_X}. The
label coordinates beyond q are then zero in every token. Their rows of the read-in map stay as they start (figures 24
to 26 compare q with them) and take no part in the products: a token is its first d_X + 1 coordinates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import lazy
from icl.core.streams import stream, words
from icl.models import transformer
from icl.models.optimisers import SCHEDULES, Optimiser, Params, adam, momentum
from icl.papers.li2024 import prompts as tasks

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = lazy("torch")

SYSTEM = "li_icl_gpt2"
FROZEN: tuple[str, ...] = ()

# How the rates of the runs and their common schedule become a method. Momentum SGD takes a hundred times the rate: 0.1
# is as usual for it as 0.001 is for Adam, and its steps shrink with the gradient.
OPTIMISERS: Mapping[str, Callable[[Sequence[float], Callable[[int], float]], Optimiser]] = {
    "adam": lambda rates, schedule: adam(rates, schedule),
    "momentum": lambda rates, schedule: momentum([100 * rate for rate in rates], schedule),
}
# How ODR patterns are made of the IDR patterns mu and the coefficient sum S_1.
PATTERN_LAWS: Mapping[str, Callable[[np.random.Generator, np.ndarray, float], np.ndarray]] = {
    "unit pairs": lambda rng, mu, total: tasks.combined_patterns(mu, total),
    "equal pairs": lambda rng, mu, total: tasks.halved_patterns(mu, total),
    "one scaled": lambda rng, mu, total: tasks.scaled_patterns(mu, total),
    "pairs apart": lambda rng, mu, total: tasks.apart_patterns(mu, total),
    "spread": tasks.spread_patterns,
    "independent": tasks.independent_patterns,
}
# Attention weights (runs, layers, heads) as one number per layer.
HEADS: Mapping[str, Callable[["Tensor"], "Tensor"]] = {
    "mean": lambda weights: weights.mean(dim=-1),
    "largest": lambda weights: weights.amax(dim=-1),
}

# Prompts that are evaluated at a time: few enough for the activations of ten runs to stay below 200 MB.
CHUNK = 200


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of the training."""

    relevant_patterns: int = constant(
        6, "published", "ICML paper, experiments (secondary source)", letter="M_1", at_least=6, at_most=1000, even=True
    )
    irrelevant_patterns: int = constant(
        24, "published", "ICML paper, experiments (secondary source)", letter="M_2", at_least=1, at_most=1000
    )
    label_dimension: int = constant(
        30, "inferred", "feature and label rows of W_O W_V start with equal norms in figures 10 and 11",
        letter="d_Y", at_least=1, at_most=1000,
    )  # fmt: skip
    layers: int = constant(3, "published", "the talk, captions of the attention figures", at_least=1, at_most=100)
    heads: int = constant(2, "published", "ICML paper, experiments (secondary source)", at_least=1, at_most=100)
    width: int = constant(
        64, "inferred", "the one published preset of 3 layers and 2 heads (Garg et al. 2022, tiny)", at_least=2
    )
    mlp_width: int = constant(256, "inferred", "GPT-2: four times the width", at_least=1)
    init_std: float = constant(
        0.02, "inferred", "GPT-2: N(0, 0.02^2), residual projections divided by sqrt(2 layers)", above=0
    )
    pattern_norm: float = constant(
        1.0, "ours", "not stated; LayerNorm removes a common scale, label and pattern are of equal size",
        letter="beta", above=0,
    )  # fmt: skip
    irrelevant_strength: float = constant(
        0.5, "inferred", "figure 8 starts with norm(W p) / norm(xdr W p) = 1.04: |kappa| <= 0.5 beta, uniform",
        letter="kappa/beta", at_least=0,
    )  # fmt: skip
    relevant_fraction: float = constant(
        0.8, "published", "ICML paper, experiments (secondary source)", letter="alpha", above=0, at_most=1
    )
    context_length: int = constant(
        20, "published", "ICML paper, experiments (secondary source)", letter="l_tr", at_least=1, at_most=1000
    )
    least_contexts: int = constant(
        0, "ours", "contexts after which training first asks: 0 trains every length up to l_tr, l_tr the longest alone",
        letter="l_min", at_least=0,
    )  # fmt: skip
    task_shifts: int = constant(
        3, "ours", "tasks (i, i + s mod M_1), s <= 3: the smallest even cover that meets both published conditions, at "
        "least M_1 tasks and a share of (M_1 - 1)^(-1/2); s <= 2 learnt as well on three trial seeds, s <= 1 did not",
        letter="tasks / M_1", at_least=1,
    )  # fmt: skip
    task_choice: str = constant(
        "cyclic", "ours", "which tasks: the shifts 1, 2 ... of one cycle, or drawn per seed, as many other shifts of "
        "another cycle; the papers ask that they cover the patterns evenly, which both do",
        choices=tuple(tasks.CHOICES),
    )  # fmt: skip
    batch: int = constant(
        16, "ours", "a prompt is asked after 0 ... l_tr contexts, so that a step takes 336 losses; 24 prompts cost "
        "half as much again and did as well in the same time", letter="B", at_least=1,
    )  # fmt: skip
    optimiser: str = constant(
        "adam", "ours", "not stated for this model; what GPT-2 is trained with. momentum: SGD, which the theory has "
        "and figure 24 suggests, with momentum 0.9 and a hundred times the rate; further from the figures, see "
        "gallery/calibration.md", choices=tuple(OPTIMISERS),
    )  # fmt: skip
    rate: float = constant(
        1e-3, "ours", "with one random length per batch 2e-3 unsettled three of three trial seeds and 7e-4 was no "
        "better; at 1e-3 ten of ten trial seeds learnt within 2400 steps as trained here",
        letter="eta", above=0,
    )  # fmt: skip
    schedule: str = constant(
        "linear", "ours", "how the rate goes on after its rise: down to 0 at `steps`, to damp the swings of the error "
        "on other tasks from step to step", choices=tuple(SCHEDULES),
    )  # fmt: skip
    warm_up: int = constant(100, "ours", "steps of linear rise, while Adam's second moments settle", at_least=0)
    steps: int = constant(
        1600, "inferred", "the 1600 epochs of figures 21 to 26, one step each; the ten trial seeds 100 to 109 then end "
        "at figure 12's level for S_1 >= 1 (0.003 and 0.005 at l = 20, 0.047 at l = 4)", letter="T", at_least=1,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.task_shifts >= self.relevant_patterns:
            raise self.error("task_shifts", f"below relevant_patterns = {self.relevant_patterns}")
        if self.least_contexts > self.context_length:
            raise self.error("least_contexts", f"at most context_length = {self.context_length}")
        if self.width % self.heads:
            raise self.error("heads", f"a divisor of width = {self.width}")

    @property
    def feature_dimension(self) -> int:
        """d_X = M_1 + M_2: the patterns span the feature space."""
        return self.relevant_patterns + self.irrelevant_patterns

    @cached_property
    def train_tasks(self) -> np.ndarray:
        """(tasks, 2)."""
        rng = stream(SYSTEM, self.seed, "tasks")
        return tasks.CHOICES[self.task_choice](rng, self.relevant_patterns, self.task_shifts)


@dataclass(frozen=True)
class Test(Constants):
    """Constants of the evaluation."""

    relevant_fraction_test: float = constant(
        0.8, "inferred", "figure 22 starts at 0.427, near (0.8 / 2 * 20 + 1) / 21: uniform attention, alpha' = 0.8",
        letter="alpha'", above=0, at_most=1,
    )  # fmt: skip
    coefficient_sum: float = constant(
        1.1, "ours", "not stated but for figure 12; the smallest plotted value that Theorem 2 covers",
        letter="S_1", above=0, at_most=float(np.sqrt(2)),
    )  # fmt: skip
    pattern_law: str = constant(
        "unit pairs", "inferred", "pairs because M'_1 = M_1 / 2, orthonormal as a later talk of the author says; equal "
        "pairs follow S_1 in figure 12 more reliably and are not clearly nearer to the published curves in all, see "
        "gallery/calibration.md", choices=tuple(PATTERN_LAWS),
    )  # fmt: skip
    irrelevant_growth: float = constant(
        1.0, "ours", "calibrated, see gallery/calibration.md: moves no figure, so kappa has its law of training",
        letter="kappa'/kappa", at_least=0,
    )  # fmt: skip
    relevant_fraction_figure21: float = constant(
        1.0, "inferred", "figure 21 starts at 0.5245, near (1.0 / 2 * 20 + 1) / 21: uniform attention, alpha' = 1",
        letter="alpha'", above=0, at_most=1,
    )  # fmt: skip
    attention_heads: str = constant(
        "largest", "inferred", "calibrated, see gallery/calibration.md: figures 21 and 22 end nearer to one head than "
        "to the mean of two; the captions name no head", choices=tuple(HEADS),
    )  # fmt: skip
    embedding_heads: int = constant(
        1, "inferred", "figures 24 and 25 start at mean magnitudes of 0.013 and 0.012: the values of one head give "
        "0.0124, of both 0.0175", at_least=1,
    )  # fmt: skip
    context_length_test: int = constant(20, "published", "the axis of figures 12 and 13", letter="l_ts", at_least=1)
    prompts: int = constant(2000, "ours", "a standard error of 0.0007 per run at an error of 0.001", at_least=1)


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Weights at the start, float32 (see icl.models.transformer)."""
    first = configs[0]
    params = transformer.init(
        [stream(SYSTEM, config.seed, "init") for config in configs],
        inputs=first.feature_dimension + first.label_dimension,
        outputs=1,
        width=first.width,
        hidden=first.mlp_width,
        layers=first.layers,
        std=first.init_std,
    )
    return {name: w.to(device) for name, w in params.items()}


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """Batch `step` of every run by its factors (see tasks.binary_patterns.Prompts), (runs, B, 2 l - l_min + 1) each.

    A prompt has l = l_tr contexts and then queries of the same task, one to be asked after k contexts for each k from
    l_min to l.
    """
    first, l_tr = configs[0], configs[0].context_length
    blocks = words(SYSTEM, [c.seed for c in configs], "train", step, (first.batch, 2 * l_tr + 2))
    contexts, queries, task = np.split(blocks, [l_tr + 1, 2 * l_tr + 1], axis=-1)
    fraction = np.array([c.relevant_fraction for c in configs], dtype=np.float32)[:, None, None]
    strength = np.array([c.irrelevant_strength * c.pattern_norm for c in configs])[:, None, None]
    sets = np.stack([c.train_tasks for c in configs])[:, None]
    patterns = first.relevant_patterns, first.irrelevant_patterns
    # The task's word is shared, and with it the task; the last column of each part is a query.
    start = tasks.prompts(np.concatenate([contexts, task], axis=-1), sets, *patterns, fraction, strength)
    alone = np.stack(np.broadcast_arrays(queries, task), axis=-1)
    more = tasks.prompts(alone, sets[:, None], *patterns, fraction[..., None], strength[..., None])
    joined = {
        name: np.concatenate([getattr(start, name), getattr(more, name)[..., 0]], axis=-1)
        for name in ("pattern", "irrelevant", "strength", "label")
    }
    joined["irrelevant"] += first.relevant_patterns
    if first.least_contexts:
        # All queries were drawn, so that runs of one seed see the same prompts whichever of them are asked.
        asked = np.r_[:l_tr, l_tr + first.least_contexts : 2 * l_tr + 1]
        joined = {name: np.ascontiguousarray(a[..., asked]) for name, a in joined.items()}
    return {name: a.astype(np.float32) if a.dtype.kind == "f" else a for name, a in joined.items()}


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """Hinge loss max(0, 1 - z F) of every run, mean over prompts and context lengths l_min ... l_tr: (runs,).

    One random length per batch has the same mean; but then a batch of short prompts, whose labels cannot be known,
    shakes what the others have taught, and tasks outside of the training set are learnt far less reliably.
    """
    first, label = configs[0], batch["label"]
    l_tr = first.context_length
    norms = label.new_tensor([c.pattern_norm for c in configs])[:, None, None, None]
    tokens = label.new_zeros(*label.shape, first.feature_dimension + 1)
    tokens.scatter_(-1, batch["pattern"][..., None], norms.expand(*label.shape, 1))
    tokens.scatter_(-1, batch["irrelevant"][..., None], batch["strength"][..., None])
    tokens[:, :, :l_tr, -1] = label[:, :, :l_tr]
    contexts, queries = tokens[:, :, :l_tr], tokens[:, :, l_tr:]
    asked = range(first.least_contexts, l_tr + 1)
    logits = transformer.predict_prefixes(in_use(params, tokens), contexts, queries, asked, first.heads)
    return torch.relu(1 - label[:, :, l_tr:] * logits[..., 0]).mean(dim=(-1, -2))


def in_use(params: Params, tokens: "Tensor") -> Params:
    """The weights with the read-in rows of the tokens' coordinates only."""
    return {**params, "read_in": params["read_in"][:, : tokens.shape[-1]]}


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """The chosen method; its rate rises linearly over `warm_up` steps and then follows the schedule up to `steps`."""
    first = configs[0]
    return OPTIMISERS[first.optimiser]([c.rate for c in configs], SCHEDULES[first.schedule](first.warm_up, first.steps))


@dataclass(frozen=True)
class Evaluation:
    """Test prompts of all runs.

    tokens : float32 (runs, prompts, l + 1, d_X + 1); labels and patterns : (runs, prompts, l + 1)
    """

    tokens: "Tensor"
    labels: "Tensor"
    patterns: "Tensor"


class Patterns(NamedTuple):
    """What prompts are made of: tasks (tasks, 2), relevant (M, d_X), irrelevant (M_2, d_X); kappa times `growth`."""

    task_set: np.ndarray
    relevant: np.ndarray
    irrelevant: np.ndarray
    growth: float


def in_domain(configs: Sequence[Config], test: Test) -> Evaluation:
    """Prompts of tasks that training did not use, over the IDR and IDI patterns."""

    def patterns(config: Config) -> Patterns:
        return Patterns(tasks.unseen_tasks(config.relevant_patterns, config.train_tasks), *basis(config), 1.0)

    return _evaluation(configs, test, "in domain", patterns)


def out_of_domain(configs: Sequence[Config], test: Test) -> Evaluation:
    """Prompts of all tasks over ODR patterns (IDR patterns combined with coefficient sum S_1) and ODI patterns."""

    def patterns(config: Config) -> Patterns:
        relevant, irrelevant = basis(config)
        law = PATTERN_LAWS[test.pattern_law]
        combined = law(stream(SYSTEM, config.seed, "combination"), relevant, test.coefficient_sum)
        rotated = tasks.rotated_patterns(stream(SYSTEM, config.seed, "rotation"), irrelevant)
        return Patterns(tasks.all_tasks(len(combined)), combined, rotated, test.irrelevant_growth)

    return _evaluation(configs, test, "out of domain", patterns)


def basis(config: Config) -> tuple[np.ndarray, np.ndarray]:
    """The patterns as coordinate axes: mu (M_1, d_X) of norm beta and nu (M_2, d_X) of norm 1."""
    axes = np.eye(config.feature_dimension)
    return config.pattern_norm * axes[: config.relevant_patterns], axes[config.relevant_patterns :]


def _evaluation(
    configs: Sequence[Config], test: Test, purpose: str, patterns: Callable[[Config], Patterns]
) -> Evaluation:
    # The address holds neither alpha' nor S_1: curves over them are paired.
    shape = (test.prompts, tasks.words_per_prompt(test.context_length_test))
    parts = []
    for config in configs:
        task_set, relevant, irrelevant, growth = patterns(config)
        block = words(SYSTEM, [config.seed], purpose, 0, shape)[0]
        strength = growth * config.irrelevant_strength * config.pattern_norm
        batch = tasks.prompts(block, task_set, len(relevant), len(irrelevant), test.relevant_fraction_test, strength)
        tokens = tasks.tokens(batch, relevant, irrelevant, np.ones(1)).astype(np.float32)
        parts.append((tokens, batch.label.astype(np.float32), batch.pattern))
    return Evaluation(*(torch.from_numpy(np.stack(a)) for a in zip(*parts, strict=True)))


def logits(params: Params, config: Config, prompts: Evaluation, lengths: Sequence[int]) -> np.ndarray:
    """F for the query of every prompt after its first l contexts, for each l in `lengths`: (runs, prompts, lengths).

    The same prompts serve all lengths, so that curves over the context length are paired.
    """
    used = in_use(params, prompts.tokens)
    with torch.no_grad():
        parts = [
            transformer.predict_prefixes(used, part[:, :, :-1], part[:, :, -1], lengths, config.heads)[..., 0]
            for part in torch.split(prompts.tokens, CHUNK, dim=1)
        ]
    result: np.ndarray = torch.cat(parts, dim=1).double().numpy()
    return result


def classification_error(logits: np.ndarray, prompts: Evaluation) -> np.ndarray:
    """Share of prompts that are answered wrongly: (runs, lengths)."""
    error: np.ndarray = wrong(logits, prompts).mean(axis=1)
    return error


def wrong(logits: np.ndarray, prompts: Evaluation) -> np.ndarray:
    """Whether sign F is other than the label, F = 0 or NaN included: bool (runs, prompts, lengths)."""
    answers: np.ndarray = ~(_margins(logits, prompts) > 0)
    return answers


def hinge(logits: np.ndarray, prompts: Evaluation) -> np.ndarray:
    """mean max(0, 1 - z F): (runs, lengths)."""
    loss: np.ndarray = np.maximum(0, 1 - _margins(logits, prompts)).mean(axis=1)
    return loss


def _margins(logits: np.ndarray, prompts: Evaluation) -> np.ndarray:
    margins: np.ndarray = logits * prompts.labels[..., -1:].double().numpy()
    return margins


def attention_on_same(params: Params, config: Config, prompts: Evaluation, heads: str = "mean") -> np.ndarray:
    """Attention of the query summed over the columns with its own pattern, averaged over prompts: (runs, layers).

    Of the heads the mean, or the largest (see HEADS).

    The query's own column counts. Inferred: under uniform attention this gives (alpha' / 2 * 20 + 1) / 21 = 0.4286,
    and figure 22 starts at 0.427.
    """
    used = in_use(params, prompts.tokens)
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
    """What stands for the label block of W_O W_V in layer `layer` = 1 ... layers, for every neuron of its MLP.

    Eq. 7 names the values W_V and the first map of the MLP W_O, so the product of these two is taken: row i of
    W_up W_values (as maps acting from the left) is what neuron i reads off an attended token's place in the residual
    stream. Its part within the image of the label coordinates under the read-in map is the label embedding. Inferred:
    figures 24 and 25 start at magnitudes of 0.009 to 0.016, this product at 0.0175 over both heads and at 0.0124 over
    one of them, and with the output projection between the two maps at 0.001.

    heads : over how many heads the product is taken, from the first; None for all

    Returns
    -------
    ``magnitude`` : norm of that part, (runs, mlp_width); ``angle`` : between it and the image of q, radians;
    ``sign`` : +1 or -1, of the neuron's gain on F by the path through W_down and the read-out alone
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
