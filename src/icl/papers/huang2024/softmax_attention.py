"""One softmax layer learns linear regression over discrete features (Huang, Cheng and Liang, ICML 2024).

    y_hat = sum_i y_i softmax_i(x_i' Q x_query),   L = 1/2 E (y_hat - <w, x_query>)^2,   gradient descent from Q = 0

A_k = v_k' Q v_k is the weight of a query on its own feature, B_{k,n} = v_n' Q v_k on another. Five engines compute the
same gradient from less and less: `tokens` from the literal prompts, `empirical` and `counts` from the prompts' counts,
`exact` from the law of the counts, `mean_field` from its limit for long prompts. With Attn_n = c_n e^{q_n} / sum_m c_m
e^{q_m} in column k of Q, S = sum_m Attn_m^2, and L_k the error for the query v_k,

    L_k = 1/2 E [S + 1 - 2 Attn_k],   -dL/dA_k = p_k E [Attn_k (S + 1 - 2 Attn_k)],
    -dL/dB_{k,n} = p_k E [Attn_n (S - Attn_n - Attn_k)]
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import lazy
from icl.core.streams import stream
from icl.models.optimisers import Optimiser, Params, gradient_flow
from icl.papers.huang2024 import prompts as tasks

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = lazy("torch")

SYSTEM = "huang_softmax"
FROZEN = ()
SYMMETRIC = ("exact", "mean_field")


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of the training."""

    engine: str = constant(
        "exact", "ours", "the population gradient that the theorems speak of, without sampling",
        choices=("exact", "mean_field", "counts", "empirical", "tokens"),
    )  # fmt: skip
    features: int = constant(
        20, "ours", "not in any text that could be consulted; the smallest K that shows every stage",
        letter="K", at_least=3, at_most=100000,
    )  # fmt: skip
    contexts_per_feature: int = constant(
        20, "ours", "not stated; makes the share of prompts without feature k, the floor of 2 L_k, 2e-5 at p_1 = 1/2",
        letter="N/K", at_least=1, at_most=1000,
    )  # fmt: skip
    dominant_probability: float = constant(
        0.5, "ours", "the talk says Theta(1); 1/2 makes the phases visible from K = 20 on. 0: balanced, p_n = 1/K",
        letter="p_1", at_least=0,
    )  # fmt: skip
    probabilities: str = constant(
        "", "ours", "p_1 ... p_K separated by blanks, in place of one dominant and K - 1 equal features (sampled only)",
        letter="p",
    )  # fmt: skip
    rate: float = constant(1.0, "ours", "not stated; only eta times the step matters below 32", letter="eta", above=0)
    growth: float = constant(
        0.0, "ours", "0: constant rate; else the rate stays at `growth` times the time passed, for long tails",
        at_least=0, at_most=0.1,
    )  # fmt: skip
    prompts: int = constant(
        300, "published", "ICML paper, appendix B (secondary source); `counts` draws them anew at every step",
        letter="M", at_least=1, at_most=1000000,
    )  # fmt: skip
    extra_dimensions: int = constant(
        4, "ours", "directions of the token space without a feature; only `tokens` has them, and nothing happens there",
        letter="d - K", at_least=0, at_most=1000,
    )  # fmt: skip
    target: float = constant(
        0.01, "ours", "the prediction error that the figures ask for first", letter="eps", above=0, at_most=0.5
    )
    least_ratio: float = constant(
        0.0, "ours", "2 in the figures of phases: |beta_{k,1}| must start above that multiple of alpha_k", letter="r_0",
        at_least=0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dominant_probability >= 1:
            raise self.error("dominant_probability", "below 1, or the other features never occur")
        if self.probabilities:
            self._check_probabilities()
        rarest = float(self.law().min())
        missing = tasks.absent(rarest, self.context_length)
        if self.engine != "mean_field" and missing / 2 >= self.target:
            least = -np.log(2 * self.target) / -np.log1p(-rarest) / self.features
            raise self.error(
                "contexts_per_feature",
                f"at least {int(np.ceil(least))} to reach the error {self.target:g}: with N = {self.context_length}, "
                f"{missing:.2g} of the prompts lack the rarest feature, its error stays above {missing / 2:.2g}, "
                f"{missing / 2 / self.target:.3g} times the target",
            )
        ratio = initial_ratio(self.features, self.p_1)
        if ratio <= self.least_ratio:
            raise self.error(
                "dominant_probability",
                f"so large (or features, now {self.features}, so many) that |beta_(k,1)| / alpha_k starts above "
                f"{self.least_ratio:g}; it starts at {ratio:.3g}, and there is no phase I",
            )

    def _check_probabilities(self) -> None:
        if self.engine in SYMMETRIC:
            raise self.error("probabilities", f"empty for the engine {self.engine}: it needs K - 1 equal features")
        try:
            p = np.array([float(word) for word in self.probabilities.split()])
        except ValueError:
            raise self.error("probabilities", "numbers separated by blanks") from None
        if complaint := tasks.probability_complaint(p, self.features):
            raise self.error("probabilities", complaint)

    @property
    def context_length(self) -> int:
        """N."""
        return self.contexts_per_feature * self.features

    @property
    def p_1(self) -> float:
        """The probability of v_1; 1/K where no feature is dominant."""
        return self.dominant_probability or 1 / self.features

    def law(self) -> np.ndarray:
        """p, (K,)."""
        if self.probabilities:
            return np.array([float(word) for word in self.probabilities.split()])
        return tasks.imbalanced(self.features, self.p_1)


@dataclass(frozen=True)
class Test(Constants):
    """Constants of the evaluation on fresh prompts; population errors need none."""

    prompts_test: int = constant(20000, "ours", "a share of 0.98 is then known to 0.001", at_least=1)
    evaluations: int = constant(10, "ours", "independent sets of fresh prompts, for the intervals", at_least=1)


def initial_ratio(features: int, dominant: float) -> float:
    """r_0 = |beta_{k,1}| / alpha_k at Q = 0 for N -> infinity (ours):

    p_1 (p_1 + p_k - S_0) / (p_k (1 + S_0 - 2 p_k)) with S_0 = p_1^2 + (1 - p_1)^2 / (K - 1).
    """
    p_1, p_k = dominant, (1 - dominant) / (features - 1)
    s_0 = p_1**2 + (1 - p_1) ** 2 / (features - 1)
    return p_1 * (p_1 + p_k - s_0) / (p_k * (1 + s_0 - 2 * p_k))


def is_random(configs: Sequence[Config]) -> bool:
    """Whether prompts are sampled: in training, or in the evaluation, for which a sweep then has several seeds."""
    return any(config.engine not in SYMMETRIC for config in configs) or len({config.seed for config in configs}) > 1


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Q = 0, float64.

    The symmetric engines hold the columns of Q for v_1 and for any other v_k by their distinct entries, (runs, 2, 3):
    (A_1, 0, B_{1,n}) and (A_k, B_{k,1}, B_{k,n}). The others hold Q in the basis of the features, (runs, K, K), with
    Q[n, k] = v_n' Q v_k; gradients vanish outside their span.
    """
    k = configs[0].features
    shape = (2, 3) if configs[0].engine in SYMMETRIC else (k, k)
    return {"Q": torch.zeros((len(configs), *shape), dtype=torch.float64, device=device)}


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """What the engine draws for `step`: nothing, fresh counts, the fixed bank of prompts, or fresh literal prompts."""
    return SAMPLERS[configs[0].engine](tuple(configs), step)


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """L of every run, with the engine's gradient as its derivative: (runs,)."""
    q = params["Q"]
    losses, gradient = ENGINES[configs[0].engine](q.detach(), batch, configs)
    # What is added is zero, and its derivative is the gradient that the engine found.
    return losses + ((q - q.detach()) * gradient).flatten(1).sum(dim=1)


def schedule(growth: float, step: int) -> float:
    """The rate over its first value: 1 while growth * time is below it, then growing by 1 + growth per step."""
    steady = round(1 / growth) if growth else step
    return float((1 + growth) ** max(step - steady, 0))


def times(config: Config, steps: int) -> np.ndarray:
    """eta t, the sum of the rates before each step: (steps + 1,)."""
    rates = [config.rate * schedule(config.growth, step) for step in range(steps)]
    return np.concatenate([[0.0], np.cumsum(rates)])


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """Gradient descent, with a rate that grows where `growth` says so."""
    return gradient_flow([c.rate for c in configs], lambda step: schedule(configs[0].growth, step))


# exact and mean_field: sums over the law of the counts


class Column(NamedTuple):
    """Expectations over prompts with the query v_k; leading axes are those of the weights.

    error : L_k; descent : -dL / d(A, B_1, B), (..., 3); attention : E Attn on v_k, v_1 and the rest, (..., 3);
    gap : E (1 - Attn_k)^2
    """

    error: np.ndarray
    descent: np.ndarray
    attention: np.ndarray
    gap: np.ndarray


def _cubic_forms() -> np.ndarray:
    """The expectations in terms of those of three factors, see `expectations`: (13, 8)."""
    one, (k, first, rest), zero = np.ones(3), np.eye(3), np.zeros(3)
    product, other = np.multiply.outer, one - k
    gap = product(other, other)  # (1 - a_k)^2
    below, squares = gap + product(first, first), product(k, k) + product(first, first)
    forms = [  # as coefficients of three factors a, and of o a
        (product(below, one) / 2, one / 2),
        (product(k, below), k),
        (product(first, squares - product(first + k, one)), first),
        (product(rest, squares - product(k, one)), rest - one),
        *((product(a, product(one, one)), zero) for a in (k, first, rest)),
        (product(gap, one), zero),
    ]
    return np.array(
        [[*(sum(cubic[each] for each in set(permutations(t))) for t in tasks.TRIPLES), *o] for cubic, o in forms]
    ).T


FORMS = _cubic_forms()
# How often e^A, e^{B_1} and e^B are factors of each product: (3, 13).
POWERS = np.array([[(*t,).count(i) for t in (*tasks.TRIPLES, (0, 2, 2), (1, 2, 2), (2, 2, 2))] for i in range(3)]) * 1.0


def expectations(q: np.ndarray, laws: Sequence[tasks.Cells]) -> np.ndarray:
    """L, the three gradients of the module's head (those on the rest added up), E a_k, E a_1, E a_r and E (1 - a_k)^2,
    by the entries q = (A, B_1, B) of columns of Q, (..., columns, 3), and the law of each: (..., columns, 8).

    With c = (c_k, c_1, R), e = e^q and Z = c . e, the scores on v_k, on v_1 and on the rest are a_i = c_i e_i / Z, and
    o = squares e_r^2 / Z^2 is the rest's part of S = a_k^2 + a_1^2 + o. As the a_i add up to one, everything that is
    wanted is a sum of products of three scores, as in E (1 - a_k)^2 = E (a_1 + a_r)^2 (a_k + a_1 + a_r), and

        E a_i a_j a_l = e_i e_j e_l sum_cells weight c_i c_j c_l Z^-3,
        E o a_i = e_r^2 e_i sum_cells weight squares c_i Z^-3.

    Only Z^-3 depends on q, and the 13 sums are one product with a matrix. Only differences of the entries of q matter;
    B is taken off, and all is finite while the others are within 200 of it; they grow like the logarithm of time.
    """
    over = q - q[..., 2:]
    e, sums = np.exp(over), np.exp(over @ POWERS)
    for index, cells in enumerate(laws):
        inverse = e[..., index, :] @ cells.counts
        np.divide(1, inverse, out=inverse)
        cube = inverse * inverse
        cube *= inverse
        sums[..., index, :] *= cube @ cells.cubes
    return sums @ FORMS


def column(q: np.ndarray, cells: tasks.Cells, probability: float) -> Column:
    """One column of Q by its entries q = (A, B_1, B), (..., 3), in work proportional to the number of cells."""
    found = expectations(q[..., None, :], (cells,))[..., 0, :]
    descent = found[..., 1:4] * (probability * np.array([1, 1, 1 / cells.others]))
    return Column(found[..., 0], descent, found[..., 4:7], found[..., 7])


def columns(q: np.ndarray, config: Config) -> tuple[Column, Column]:
    """Both columns of the symmetric weights q, (..., 2, 3): for the query v_1 and for any other v_k."""
    (first, other), _ = _law(config.engine, config.features, config.p_1, config.context_length)
    p_k = (1 - config.p_1) / (config.features - 1)
    return column(q[..., 0, :], first, config.p_1), column(q[..., 1, :], other, p_k)


def exact(q: "Tensor", batch: Params, configs: Sequence[Config]) -> "tuple[Tensor, Tensor]":
    """L and its gradient over all prompts, by summing over c_k and a Gauss rule for c_1: (runs,) and (runs, 2, 3).

    Each run by itself: runs differ in their numbers of cells, and those that differ only by the seed are one. The
    gradient is that of one entry of Q each. In numpy, whose calls cost a third of torch's at this size.
    """
    known: dict[tuple[object, ...], np.ndarray] = {}
    found = []
    for own, config in zip(q.cpu().numpy(), configs, strict=True):
        law = (config.engine, config.features, config.p_1, config.context_length)
        same = (law, own.tobytes())
        if same not in known:
            laws, shares = _law(*law)
            known[same] = expectations(own, laws)[:, :4] * shares
        found.append(known[same])
    both = np.array(found)
    losses, gradient = both[:, 0, 0] + both[:, 1, 0], both[:, :, 1:]
    return torch.from_numpy(losses).to(q.device), torch.from_numpy(gradient).to(q.device)


@lru_cache(maxsize=64)
def _law(
    engine: str, features: int, p_1: float, context_length: int
) -> tuple[tuple[tasks.Cells, tasks.Cells], np.ndarray]:
    """The cells of v_1 and of another v_k; and what turns L_k and its gradient into the column's part of L and the
    gradient of one entry: (2, 4).
    """
    if engine == "mean_field":
        first, other = tasks.mean_field_cells(features, p_1)
    else:
        first = tasks.condensed(tasks.dominant_cells(features, p_1, context_length))
        other = tasks.condensed(tasks.rare_cells(features, p_1, context_length))
    p_k = (1 - p_1) / (features - 1)
    shares = [[p_1, -p_1, -p_1, -p_1 / first.others], [1 - p_1, -p_k, -p_k, -p_k / other.others]]
    return (first, other), np.array(shares)


# counts: fresh prompts, averaged over the query and over w


def counts(q: "Tensor", batch: Params, configs: Sequence[Config]) -> "tuple[Tensor, Tensor]":
    """L and its gradient over M prompts given by their counts, every query weighted by p_k and w integrated out:
    (runs,) and (runs, K, K). Two products of (M, K) by (K, K) and two back; any p.
    """
    c, p = batch["counts"], torch.from_numpy(np.stack([config.law() for config in configs])).to(q.device)
    weights = (q - q.amax(dim=-2, keepdim=True)).exp()  # (runs, n, k)
    z = (c @ weights).reciprocal()  # (runs, M, k)
    own = c * torch.diagonal(weights, dim1=-2, dim2=-1)[:, None] * z  # Attn_k
    s = (c.square() @ weights.square()) * z.square()
    mean = c.shape[1]
    # E Attn_n (S - Attn_k) - E Attn_n^2, and E Attn_k more on the diagonal
    descent = weights * (c.mT @ ((s - own) * z)) - weights.square() * (c.square().mT @ z.square())
    descent = (descent + torch.diag_embed(own.sum(dim=1))) * p[:, None] / mean
    errors = (s + 1 - 2 * own).mean(dim=1) / 2
    return (p * errors).sum(dim=1), -descent


def errors_over(q: "Tensor", c: "Tensor") -> "Tensor":
    """L_k of every query over prompts given by their counts: Q (..., K, K) and (M, K) -> (..., K)."""
    weights = (q - q.amax(dim=-2, keepdim=True)).exp()
    z = (c @ weights).reciprocal()
    own = c * torch.diagonal(weights, dim1=-2, dim2=-1)[..., None, :] * z
    return ((c.square() @ weights.square()) * z.square() + 1 - 2 * own).mean(dim=-2) / 2


# empirical: the paper's protocol


def empirical(q: "Tensor", batch: Params, configs: Sequence[Config]) -> "tuple[Tensor, Tensor]":
    """L over M prompts with their own query and task, and its gradient: (runs,) and (runs, K, K)."""
    attention, error, predicted = _predicted(q, batch)
    share = 1 / error.shape[1]
    pull = share * error[..., None] * attention * (batch["task"] - predicted[..., None])
    asked = torch.nn.functional.one_hot(batch["query"], q.shape[-1]).to(q.dtype)
    return share * error.square().sum(dim=1) / 2, pull.mT @ asked


def training_errors(q: "Tensor", batch: Params) -> "Tensor":
    """Mean of half the squared error over the prompts of each query, NaN for one that is never asked: (runs, K)."""
    _, error, _ = _predicted(q, batch)
    asked = torch.nn.functional.one_hot(batch["query"], q.shape[-1]).to(q.dtype)
    return (error.square()[:, None] @ asked)[:, 0] / 2 / asked.sum(dim=1)


def _predicted(q: "Tensor", batch: Params) -> "tuple[Tensor, Tensor, Tensor]":
    c, u, k = batch["counts"], batch["task"], batch["query"]
    scores = q.mT.gather(1, k[..., None].expand(-1, -1, q.shape[-1]))  # column k_m of Q, (runs, M, K)
    weights = c * (scores - scores.amax(dim=-1, keepdim=True)).exp()
    attention = weights / weights.sum(dim=-1, keepdim=True)
    predicted = (attention * u).sum(dim=-1)
    return attention, predicted - u.gather(-1, k[..., None])[..., 0], predicted


# tokens: the literal model, the oracle of the others


def tokens(q: "Tensor", batch: Params, configs: Sequence[Config]) -> "tuple[Tensor, Tensor]":
    """L over literal prompts E and its gradient by automatic differentiation, in the basis of the features."""
    losses, gradients = [], []
    for run, config in enumerate(configs):
        v = torch.from_numpy(basis(config))
        own = tasks.Prompts(*(batch[name][run].numpy() for name in ("features", "query", "task")))
        value, full = literal_gradient(v.mT @ q[run] @ v, torch.from_numpy(tasks.tokens(own, v.numpy())), own)
        losses.append(value)
        gradients.append(v @ full @ v.mT)
    return torch.stack(losses), torch.stack(gradients)


def literal_gradient(full: "Tensor", prompt: "Tensor", batch: tasks.Prompts) -> "tuple[Tensor, Tensor]":
    """The mean of half the squared error and its derivative in Q (d, d), for prompts E (M, d + 1, N + 1)."""
    leaf = full.detach().requires_grad_()
    with torch.enable_grad():
        wanted = torch.from_numpy(np.take_along_axis(batch.task, batch.query[:, None], axis=1)[:, 0])
        value = (literal_prediction(leaf, prompt) - wanted).square().mean() / 2
    return value.detach(), torch.autograd.grad(value, leaf)[0]


def literal_prediction(full: "Tensor", prompt: "Tensor") -> "Tensor":
    """y_hat = sum_i y_i softmax_i(x_i' Q x_query) over the first N columns of E: (M,)."""
    x, y, query = prompt[:, :-1, :-1], prompt[:, -1, :-1], prompt[:, :-1, -1]
    scores = ((query @ full.mT)[:, None] @ x)[:, 0]
    return (torch.softmax(scores, dim=-1) * y).sum(dim=-1)


def basis(config: Config) -> np.ndarray:
    """The features: K random orthonormal rows, (K, d)."""
    k, d = config.features, config.features + config.extra_dimensions
    return np.linalg.qr(stream(SYSTEM, config.seed, "features").standard_normal((d, k)))[0].T


# what the engines draw, and the weights in one form


def _nothing(configs: tuple[Config, ...], step: int) -> dict[str, np.ndarray]:
    return {}


def fresh_counts(config: Config, purpose: str, step: int, number: int) -> np.ndarray:
    """Counts of `number` fresh prompts of one run, (number, K)."""
    return tasks.counts(stream(SYSTEM, config.seed, purpose, step), config.law(), config.context_length, number)


def _counts(configs: tuple[Config, ...], step: int) -> dict[str, np.ndarray]:
    return {"counts": np.stack([fresh_counts(c, "train", step, c.prompts) for c in configs])}


@lru_cache(maxsize=4)
def _bank(configs: tuple[Config, ...]) -> dict[str, np.ndarray]:
    drawn = _tokens(configs, 0)
    per_run = [tasks.counts_of(features, configs[0].features) for features in drawn["features"]]
    return {"counts": np.stack(per_run), "query": drawn["query"], "task": drawn["task"]}


def _fixed(configs: tuple[Config, ...], step: int) -> dict[str, np.ndarray]:
    return _bank(configs)


def _tokens(configs: tuple[Config, ...], step: int) -> dict[str, np.ndarray]:
    drawn = [
        tasks.prompts(stream(SYSTEM, c.seed, "train", step), c.law(), c.context_length, c.prompts) for c in configs
    ]
    return {name: np.stack([getattr(own, name) for own in drawn]) for name in ("features", "query", "task")}


Engine = Callable[["Tensor", Params, Sequence[Config]], "tuple[Tensor, Tensor]"]
ENGINES: dict[str, Engine] = {
    "exact": exact,
    "mean_field": exact,
    "counts": counts,
    "empirical": empirical,
    "tokens": tokens,
}
SAMPLERS: dict[str, Callable[[tuple[Config, ...], int], dict[str, np.ndarray]]] = {
    "exact": _nothing,
    "mean_field": _nothing,
    "counts": _counts,
    "empirical": _fixed,
    "tokens": _tokens,
}


def matrix(q: "Tensor", config: Config) -> "Tensor":
    """Q in the basis of the features, (..., K, K), from either form of the weights."""
    k = config.features
    if q.shape[-2:] == (k, k) and config.engine not in SYMMETRIC:
        return q
    full = q[..., 1, 2, None, None].expand(*q.shape[:-2], k, k).clone()
    full[..., :, 0] = q[..., 0, 2, None]
    full[..., 0, 1:] = q[..., 1, 1, None]
    torch.diagonal(full, dim1=-2, dim2=-1)[...] = q[..., 1, 0, None]
    full[..., 0, 0] = q[..., 0, 0]
    return full


def symmetric(q: "Tensor", config: Config) -> "Tensor":
    """The distinct entries (..., 2, 3), see `init`; of a general Q their means over the features other than v_1."""
    if config.engine in SYMMETRIC:
        return q
    k = config.features
    own = torch.diagonal(q, dim1=-2, dim2=-1)
    rest = q[..., 1:, 1:].sum(dim=(-2, -1)) - own[..., 1:].sum(dim=-1)
    first = [own[..., 0], torch.zeros_like(own[..., 0]), q[..., 1:, 0].mean(dim=-1)]
    other = [own[..., 1:].mean(dim=-1), q[..., 0, 1:].mean(dim=-1), rest / ((k - 1) * (k - 2))]
    return torch.stack([torch.stack(first, -1), torch.stack(other, -1)], -2)
