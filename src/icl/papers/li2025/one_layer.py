"""Softmax attention trained to reason in steps, and asked with and without them (Li et al., ICLR 2025).

    F(P) = sum_{i < len P} W_V p_i softmax_i((W_K p_i)^T W_Q p_query),   p_i + c_{i mod K} written p_i   (talk, eq. 11)

A column p = (z_{k-1}; z_k) is one step of one example, and the last one, (v_{k-1}; 0), asks for step k. The positional
codes c are periodic. Training: SGD on |F - z_k|^2 / 2 over W_Q, W_K and W_V. W_Q and W_K start at delta I and W_V
copies the lower half, which no rotation of the feature space changes; so TRR patterns are beta times coordinate axes: a
column has its z_{k-1} in the first M coordinates, its z_k in the next M and its code after that, D in all. Further
dimensions of the feature space would stay as they start and say nothing.

More than one layer or head (`layers`, `heads`) stacks the same attention: every column adds what it attends to,
the query's column is attended to by none, and F is what the last layer leaves in the lower half of the query's column.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import lazy
from icl.core.streams import stream, words
from icl.models.optimisers import Optimiser, Params, sgd
from icl.papers.li2025 import prompts as tasks

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = lazy("torch")

SYSTEM = "li_cot"
FROZEN = ()


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of the training."""

    relevant_patterns: int = constant(
        20, "ours", "not stated; more than the TSR patterns in their span, few enough to be cheap; the figures tell "
        "noise / sqrt(M): see gallery/calibration.md", letter="M", at_least=2, at_most=1000,
    )  # fmt: skip
    chain_length: int = constant(
        3, "inferred", "same-step attention starts at 0.33 = 1/K in figure 20", letter="K", at_least=1, at_most=20
    )
    relevant_fraction: float = constant(
        0.4, "inferred", "attention on examples that start as the query does begins at 0.41 in figure 20",
        letter="alpha", above=0, at_most=1,
    )  # fmt: skip
    context_length: int = constant(
        5, "ours", "not stated; the theorem asks for at least 1/alpha; calibrated: see gallery/calibration.md",
        letter="l_tr", at_least=1, at_most=10000,
    )  # fmt: skip
    pattern_norm: float = constant(
        1.1, "ours", "not stated; calibrated: see gallery/calibration.md", letter="beta", above=0
    )
    code_norm: float = constant(
        0.97, "ours", "not stated, the norm of the positional codes; calibrated: see gallery/calibration.md",
        letter="|c|", above=0,
    )  # fmt: skip
    attention_start: float = constant(
        0.18, "inferred", "figure 20 starts within 0.005 of alpha/K, alpha (K - 1)/K, ..., which leaves (delta beta)^2 "
        "0.07; calibrated: see gallery/calibration.md", letter="delta", above=0,
    )  # fmt: skip
    start_std: float = constant(
        0.0, "ours", "Gaussian part of the start of W_Q and W_K; several heads would stay equal without", at_least=0
    )
    value_start: float = constant(
        0.46, "ours", "not stated: W_V starts by copying z_k, times this; calibrated: see gallery/calibration.md",
        letter="W_V", at_least=0,
    )  # fmt: skip
    layers: int = constant(1, "published", "the analysed model has one layer with one head", at_least=1, at_most=12)
    heads: int = constant(1, "published", "the analysed model has one layer with one head", at_least=1, at_most=12)
    batch: int = constant(
        120, "ours", "not stated; K steps alike, and eps^-2 for eps = 0.09; half or twice as many make no difference: "
        "see gallery/calibration.md", letter="B", at_least=1,
    )  # fmt: skip
    rate: float = constant(1.6, "ours", "not stated; calibrated: see gallery/calibration.md", letter="eta", above=0)
    value_rate: float = constant(
        1.0, "inferred", "the talk trains all three matrices by SGD: rate of W_V over that of W_Q and W_K", at_least=0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relevant_fraction * self.context_length < 1 - tasks.ROUNDING:
            raise self.error(
                "relevant_fraction",
                f"at least 1 / l_tr = {1 / self.context_length:g}, for one example to share the start",
            )

    @property
    def dimension(self) -> int:
        """D, the least multiple of 8 that holds 2 M + K coordinates; those left over stay empty.

        So every run's matrices start on 64 bytes: a product of matrices sums in another order elsewhere, and a run
        alone would equal the run among others but for the last bits.
        """
        return -(-(2 * self.relevant_patterns + self.chain_length) // 8) * 8


@dataclass(frozen=True)
class Test(Constants):
    """Constants of the evaluation; chain_length is that of the training."""

    chain_length: int = constant(3, "inferred", "as in training", letter="K", at_least=1, at_most=20)
    specific_patterns: int = constant(
        7, "inferred", "without context the errors of figures 17 and 19 are 0.848 to 0.875, mean 0.863: 1 - 1/M'",
        letter="M'", at_least=2, at_most=1000,
    )  # fmt: skip
    relevant_fraction_test: float = constant(
        0.8,
        "inferred",
        "the 0.8 curve of figure 17 is the nearest to the poster's default",
        letter="alpha'",
        above=0,
        at_most=1,
    )
    path_probability: float = constant(
        0.5, "inferred", "figure 18 and the poster share a curve", letter="tau^f", above=0, at_most=1
    )
    primacy: float = constant(
        0.8, "inferred", "figure 18 and the poster share a curve", letter="rho^f", above=0, at_most=1
    )
    end_probability: float = constant(
        0.5, "inferred", "three curves of the poster are one", letter="tau_o^f", above=0, at_most=1
    )
    end_primacy: float = constant(
        0.6, "inferred", "three curves of the poster are one", letter="rho_o^f", above=0, at_most=1
    )
    noise: float = constant(
        0.9, "ours", "not stated: root mean square of the norm of the noise on every test vector, over beta; "
        "calibrated: see gallery/calibration.md", at_least=0,
    )  # fmt: skip
    noise_law: str = constant(
        "uniform", "ours", "not stated: how the norm varies; calibrated: see gallery/calibration.md",
        choices=tasks.NOISES,
    )  # fmt: skip
    query_noise: float = constant(
        1.0, "ours", "not stated: norm of the query's noise over that of the others'", at_least=0
    )
    pattern_law: str = constant(
        "orthonormal", "ours", "not stated: how TSR patterns lie in the span of the TRR patterns",
        choices=tuple(tasks.PATTERNS),
    )  # fmt: skip
    example_law: str = constant(
        "independent", "ours", "not stated: whether a share alpha' of the examples starts as the query does, or each "
        "with probability alpha'; calibrated: see gallery/calibration.md", choices=tuple(tasks.STARTS),
    )  # fmt: skip
    noisy_step: int = constant(
        2, "ours", "not stated: the first step that errs; others follow, the first after the last; calibrated: see "
        "gallery/calibration.md", at_least=1, at_most=20,
    )  # fmt: skip
    context_length_test: int = constant(
        100, "published", "the axis of figures 17 to 19", letter="l_ts", at_least=1, at_most=10000
    )
    queries: int = constant(1000, "inferred", "as in the other talk figures: four runs of 1000 prompts", at_least=1)

    misled_starts: int = constant(
        6, "ours", "not stated: how many starts break Condition 1 where it is broken; calibrated: see "
        "gallery/calibration.md", at_least=1,
    )  # fmt: skip
    misled_law: str = constant(
        "gathering", "ours", "not stated: which matrices break Condition 1, by tasks.gathering or tasks.misleading; "
        "calibrated: see gallery/calibration.md", choices=("gathering", "detour"),
    )  # fmt: skip
    misled_path: float = constant(
        0.45, "ours", "not stated: tau^f of gathering; calibrated: see gallery/calibration.md", above=0, at_most=0.49
    )
    misled_steps: int = constant(
        3, "ours", "not stated: how many steps err in gathering; calibrated: see gallery/calibration.md",
        at_least=2, at_most=20,
    )  # fmt: skip
    misled_first: float = constant(
        0.5, "ours", "not stated: probability of the right step 1 from these, in misleading", above=0, at_most=1
    )
    misled_second: float = constant(
        0.68, "ours", "not stated: probability of the right step 2 from these, in misleading", above=0, at_most=1
    )
    misled_pull: float = constant(
        1.0, "ours", "not stated: probability of the end that draws them from its own start, in misleading",
        above=0, at_most=1,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        self.setting()
        self.end_setting()
        if self.chain_length > 1 and self.specific_patterns > self.misled_starts:
            self.misleading_setting()
        if self.relevant_fraction_test * self.context_length_test < 1 - tasks.ROUNDING:
            least = 1 / self.context_length_test
            raise self.error(
                "relevant_fraction_test", f"at least 1 / l_ts = {least:g}, for one example to share the start"
            )

    def setting(self) -> tasks.Setting:
        """alpha' and transition matrices with tau^f and rho^f."""
        return self._setting("path_probability", self.path_probability, self.primacy, self.chain_length)

    def end_setting(self) -> tasks.Setting:
        """alpha' and transition matrices with tau_o^f and rho_o^f, for prompts that show only both ends.

        One step is noisy, so that B is that step and Condition 1 holds.
        """
        return self._setting("end_probability", self.end_probability, self.end_primacy, 1)

    def misleading_setting(self) -> tasks.Setting:
        """alpha' and transition matrices that break Condition 1 for `misled_starts` of the starts."""
        sizes = (self.chain_length, self.specific_patterns, self.misled_starts)
        try:
            if self.misled_law == "gathering":
                made = tasks.gathering(*sizes, self.misled_path, min(self.misled_steps, self.chain_length))
            else:
                made = tasks.misleading(*sizes, self.misled_first, self.misled_second, self.misled_pull)
        except ValueError as error:
            raise self.error("misled_starts", f"such that Condition 1 breaks; {error}") from None
        return self._placed(made)

    def _setting(self, name: str, probability: float, lead: float, noisy: int) -> tasks.Setting:
        try:
            made = tasks.with_primacy(noisy, self.specific_patterns, probability, lead)
        except ValueError as error:
            raise self.error(name, f"such that matrices exist; {error}") from None
        exact = np.broadcast_to(np.eye(self.specific_patterns), (self.chain_length - noisy, *made.shape[1:]))
        return self._placed(np.concatenate([made, exact]))

    def _placed(self, matrices: np.ndarray) -> tasks.Setting:
        """The setting with the first step's matrix at `noisy_step`, the others after it and the last ones before."""
        return tasks.Setting(
            self.relevant_fraction_test, np.roll(matrices, self.noisy_step - 1, axis=0), self.example_law
        )


# Training


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Weights at the start, float64 (runs, layers, heads, ., D): W_Q, W_K = delta I (D rows) plus a Gaussian part
    if one is asked for, and W_V, which copies z_k to the output (M rows) or, with several layers, to the lower half
    (D rows).
    """
    first = configs[0]
    m, d = first.relevant_patterns, first.dimension
    shape = (first.layers, first.heads)
    queries, keys = np.empty((2, len(configs), *shape, d, d))
    values = np.zeros((len(configs), *shape, d, d))
    for run, config in enumerate(configs):
        rng = stream(SYSTEM, config.seed, "init")
        for target in (queries, keys):
            target[run] = config.attention_start * np.eye(d) + config.start_std * rng.standard_normal((*shape, d, d))
        values[run, ..., m : 2 * m, m : 2 * m] = config.value_start / (first.heads * first.layers) * np.eye(m)
    if first.layers == 1:
        values = values[..., m : 2 * m, :]
    arrays = {"W_Q": queries, "W_K": keys, "W_V": values}
    return {name: torch.from_numpy(np.ascontiguousarray(array)).to(device) for name, array in arrays.items()}


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """Batch `step` of every run: its distinct chains (see tasks.chain_of_thought.Chains) and how often each is shown.

    ``states`` (runs, B, rows, K + 1) of the distinct chains, the query's first, and ``shared`` (runs,), how many
    examples follow the query's. Runs with fewer distinct chains are filled up with rows that stand for none.
    """
    first = configs[0]
    k, m, length = first.chain_length, first.relevant_patterns, first.context_length
    blocks = words(
        SYSTEM, [c.seed for c in configs], "train", step, (first.batch, tasks.words_per_prompt(k, m, length))
    )
    fractions = [c.relevant_fraction for c in configs]
    if len(set(fractions)) == 1:
        batch = tasks.training_chains(blocks, k, m, length, fractions[0])
        return {"states": batch.states, "shared": np.full(len(configs), batch.shared)}
    drawn = [tasks.training_chains(block, k, m, length, a) for block, a in zip(blocks, fractions, strict=True)]
    rows = max(own.states.shape[1] for own in drawn)
    states = np.stack([np.pad(own.states, ((0, 0), (0, rows - own.states.shape[1]), (0, 0))) for own in drawn])
    return {"states": states, "shared": np.array([own.shared for own in drawn])}


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """mean |F - z_k|^2 / 2 of every run: (runs,). Prompt b of the batch asks for step k = 1 + b mod K."""
    states = batch["states"]
    asked = torch.arange(states.shape[1], device=states.device) % configs[0].chain_length
    log_counts = _log_counts(states, batch["shared"], asked, configs[0])
    if configs[0].layers == configs[0].heads == 1:
        output = _single(params, states, asked, log_counts, configs)
    else:
        prompt = torch.cat([tokens(own[None], asked, c) for own, c in zip(states, configs, strict=True)])
        output = attend(params, prompt, configs[0], log_counts.flatten(2)[:, :, None])[0]
    wanted = states[:, :, 0].gather(-1, (asked + 1).expand(len(states), -1)[..., None])
    beta = _of(configs, "pattern_norm", output)
    # |F - beta e_z|^2 without forming e_z
    errors = output.square().sum(-1) - 2 * beta[:, None] * output.gather(-1, wanted)[..., 0]
    return (errors.mean(dim=-1) + beta.square()) / 2


def _of(configs: Sequence[Config], name: str, like: "Tensor") -> "Tensor":
    """A constant of every run: (runs,)."""
    return torch.tensor([getattr(config, name) for config in configs], dtype=like.dtype, device=like.device)


def scale(config: Config) -> np.ndarray:
    """The length of a column along each coordinate that it uses: beta for patterns, |c| for codes, (D,)."""
    m = config.relevant_patterns
    return np.repeat([config.pattern_norm, config.code_norm], [2 * m, config.dimension - 2 * m])


def _log_counts(states: "Tensor", shared: "Tensor", asked: "Tensor", config: Config) -> "Tensor":
    """Logarithm of how many columns of the prompt each step of each row stands for: (runs, B, rows, K).

    The query's own earlier steps are shown too, and equal those of the examples that share its start.
    """
    rows, steps = states.shape[2], config.chain_length
    row = torch.arange(rows, device=states.device)
    present = (row <= config.context_length - shared[:, None]).to(torch.float64)
    counts = torch.where(row == 0, shared[:, None].to(torch.float64), present)[:, None, :, None]
    own = torch.arange(steps, device=states.device) < asked[:, None]
    return (counts + (row == 0)[:, None] * own[:, None]).log()


def _single(
    params: Params, states: "Tensor", asked: "Tensor", log_counts: "Tensor", configs: Sequence[Config]
) -> "Tensor":
    """F of the one-layer model, (runs, B, M), without forming a column.

    A column has three coordinates other than zero, so that scores are read from u = W_K^T W_Q p_query, and the attended
    column is a histogram over the D coordinates, on which W_V acts once.
    """
    m, k = configs[0].relevant_patterns, configs[0].chain_length
    runs, prompts = states.shape[:2]
    sizes = torch.from_numpy(np.stack([scale(config) for config in configs])).to(states.device)
    w_q, w_k, w_v = (params[name][:, 0, 0] * sizes[:, None] for name in ("W_Q", "W_K", "W_V"))
    product = torch.bmm(w_q.mT, w_k)  # row: coordinate of the query
    asks = states[:, :, 0].gather(-1, asked.expand(runs, -1)[..., None])[..., 0]
    u = _rows(product, asks) + product[:, 2 * m + asked]
    x, y = states[..., :-1].flatten(2), states[..., 1:].flatten(2) + m
    place = torch.arange(k, device=states.device).repeat(states.shape[2]).expand(runs, prompts, -1) + 2 * m
    index = torch.cat([x, y, place], dim=-1)
    scores = u.gather(-1, index).reshape(runs, prompts, 3, -1).sum(dim=-2) + log_counts.flatten(2)
    attention = torch.softmax(scores, dim=-1)
    attended = torch.zeros_like(u).scatter_add(-1, index, attention.repeat(1, 1, 3))
    return torch.bmm(attended, w_v.mT)


def _rows(matrix: "Tensor", index: "Tensor") -> "Tensor":
    """Rows of each run's matrix: (runs, n, d) at (runs, B) -> (runs, B, d)."""
    runs, n, d = matrix.shape
    offset = torch.arange(runs, device=index.device)[:, None] * n
    return matrix.reshape(runs * n, d).index_select(0, (index + offset).reshape(-1)).reshape(*index.shape, d)


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """SGD on W_Q, W_K and W_V, which may have a rate of its own."""
    both, value = sgd([c.rate for c in configs]), sgd([c.rate * c.value_rate for c in configs])

    def update(params: Params, gradients: Params, state: Params, step: int) -> tuple[Params, Params]:
        changed, _ = both.update({name: params[name] for name in ("W_Q", "W_K")}, gradients, state, step)
        return changed | value.update({"W_V": params["W_V"]}, gradients, state, step)[0], state

    return Optimiser(both.init, update)


# The model on columns


def tokens(states: "Tensor", asked: "Tensor", config: Config) -> "Tensor":
    """The columns of prompts over TRR patterns, the query's last: states (runs, B, rows, K + 1), asked (B,) the step
    that is asked for, from 0 -> (runs, B, rows K + 1, D). The query's own earlier steps are not among them.
    """
    m = config.relevant_patterns
    pattern = torch.eye(m, dtype=torch.float64, device=states.device)
    own = states[:, :, 0].gather(-1, asked.expand(len(states), -1)[..., None])
    return columns(pattern[states], pattern[own[..., 0]], asked, config)


def columns(chains: "Tensor", query: "Tensor", asked: "Tensor", config: Config) -> "Tensor":
    """The same from vectors in units of beta: chains (..., rows, K + 1, M), query (..., M) and asked (...) give (...,
    rows K + 1, D).
    """
    codes = config.dimension - 2 * config.relevant_patterns
    code = torch.eye(codes, dtype=chains.dtype, device=chains.device)
    places = code[: config.chain_length].expand(*chains.shape[:-2], -1, -1)
    shown = torch.cat([chains[..., :-1, :], chains[..., 1:, :], places], dim=-1).flatten(-3, -2)
    last = torch.cat([query, torch.zeros_like(query), code[asked].expand(*query.shape[:-1], codes)], dim=-1)
    return torch.cat([shown, last[..., None, :]], dim=-2) * torch.from_numpy(scale(config))


def attend(
    params: Params, prompt: "Tensor", config: Config, log_counts: "Tensor | float" = 0.0
) -> "tuple[Tensor, Tensor]":
    """Eq. 11 as it is written, stacked where there are more layers or heads.

    prompt : (runs, B, columns, D), the query's column last
    log_counts : logarithm of how often each column but the last stands there, (runs, B, 1, columns - 1)

    Returns F (runs, B, M) and the attention of the query's column, (runs, B, layers, heads, columns - 1).
    """
    maps, now, added = [], prompt, prompt
    for layer in range(config.layers):
        # Only the query's column leaves the last layer.
        asking, shown = now[:, :, -1:] if layer == config.layers - 1 else now, now[:, :, :-1]
        parts, heads = [], []
        for head in range(config.heads):
            w_q, w_k, w_v = (params[name][:, layer, head] for name in ("W_Q", "W_K", "W_V"))
            attention = torch.softmax(_apply(w_q, asking) @ _apply(w_k, shown).mT + log_counts, dim=-1)
            parts.append(_apply(w_v, attention @ shown))
            heads.append(attention[:, :, -1])
        added = torch.stack(parts).sum(dim=0)
        maps.append(torch.stack(heads, dim=2))
        if config.layers > 1:
            now = asking + added
    m = config.relevant_patterns
    output = added[:, :, -1] if config.layers == 1 else now[:, :, -1, m : 2 * m]
    return output, torch.stack(maps, dim=2)


def _apply(weights: "Tensor", vectors: "Tensor") -> "Tensor":
    """W x for every vector of a run: (runs, e, d) and (runs, B, n, d) -> (runs, B, n, e)."""
    return torch.bmm(vectors.flatten(1, 2), weights.mT).reshape(*vectors.shape[:3], -1)


# Test prompts


# As many queries at a time as fit into a cache.
CHUNK = 50


def draw(config: Config, test: Test, queries: int | None = None) -> tasks.Draw:
    """The test prompts of one run; a longer context goes on where a shorter one ends only with equal constants."""
    if config.chain_length != test.chain_length:
        raise test.error("chain_length", f"that of the training, {config.chain_length}")
    if config.relevant_patterns < test.specific_patterns:
        raise test.error("specific_patterns", f"at most M = {config.relevant_patterns}, the dimension of their span")
    n, length, k = queries or test.queries, test.context_length_test, config.chain_length
    m, specific = config.relevant_patterns, test.specific_patterns
    rng = stream(SYSTEM, config.seed, "evaluate")
    noise = tasks.bounded_noise(rng, (n, length * (k + 1) + 1, m), test.noise)
    patterns = tasks.PATTERNS[test.pattern_law](rng, specific, m)
    uniform, start = rng.random((n, length, k + 1)), rng.integers(specific, size=n)
    names = tasks.permutations(rng.integers(2**64, size=(n, k + 1, specific), dtype=np.uint64))
    # Drawn last, so that everything else is the same for all laws.
    noise *= tasks.noise_sizes(test.noise_law, rng, noise.shape[:2], m)[..., None]
    contexts = noise[:, 1:].reshape(n, length, k + 1, m)
    return tasks.Draw(patterns, contexts, noise[:, 0] * np.float32(test.query_noise), uniform, start, names)


def cot_wrong(
    params: Params, configs: Sequence[Config], test: Test, settings: Sequence[tasks.Setting], lengths: Sequence[int]
) -> np.ndarray:
    """Share of the K steps that greedy chain of thought gets wrong, mean_k 1[v_k != z_k]: (settings, lengths, runs,
    queries).

    Step k asks with what step k - 1 answered and answers the TSR pattern next to F; the column of step k then joins the
    prompt. All lengths are prefixes of one context, so that its columns are read once.
    """
    return _evaluated(_cot, params, configs, test, settings, lengths)


def icl_wrong(
    params: Params, configs: Sequence[Config], test: Test, settings: Sequence[tasks.Setting], lengths: Sequence[int]
) -> np.ndarray:
    """Whether the one answer to prompts of the columns (z_0; z_K) is other than f(z_query), as 0 or 1: (settings,
    lengths, runs, queries). Every column stands at the first step.
    """
    return _evaluated(_icl, params, configs, test, settings, lengths)


def _evaluated(answer: "Answer", params: Params, configs: Sequence[Config], test: Test,
               settings: Sequence[tasks.Setting], lengths: Sequence[int]) -> np.ndarray:  # fmt: skip
    _check_single(configs[0])
    if max(lengths) > test.context_length_test or min(lengths) < 0:
        raise ValueError(f"lengths {list(lengths)}: must lie between 0 and l_ts = {test.context_length_test}")
    out = np.empty((len(settings), len(lengths), len(configs), test.queries))
    for run, config in enumerate(configs):
        drawn = draw(config, test)
        model = _Reader(params, run, config, drawn.patterns)
        for begin in range(0, test.queries, CHUNK):
            which = slice(begin, begin + CHUNK)
            for index, setting in enumerate(settings):
                out[index, :, run, which] = answer(model, tasks.prompts(drawn, setting, which), lengths)
    return out


def _check_single(config: Config) -> None:
    if config.layers != 1 or config.heads != 1:
        raise ValueError("errors of the model with several layers or heads: only `greedy` can tell")


class _Reader:
    """The trained layer as it acts on columns: scores for a query, and what each column says for each TSR pattern."""

    def __init__(self, params: Params, run: int, config: Config, patterns: np.ndarray) -> None:
        sizes = torch.from_numpy(scale(config))
        w_q, w_k, w_v = (params[name][run, 0, 0] * sizes for name in ("W_Q", "W_K", "W_V"))
        self.m, self.k = config.relevant_patterns, config.chain_length
        self.product = w_q.mT @ w_k
        self.patterns = torch.from_numpy(patterns).to(w_v.dtype)
        self.said = self.patterns @ w_v  # (M', D)

    def pulls(self, query: "Tensor", step: int) -> "Tensor":
        """u = W_K^T W_Q p_query, by whose products with columns they are scored: (..., M) -> (..., D)."""
        return query @ self.product[: self.m] + self.product[2 * self.m + step]

    def readouts(self, x: "Tensor", y: "Tensor", step: "Tensor | int") -> "Tensor":
        """mu'_j^T W_V p of columns (x; y) at a step, for all j: (..., M) -> (..., M')."""
        m = self.m
        return x @ self.said[:, :m].mT + y @ self.said[:, m : 2 * m].mT + self.said.T[2 * m + step]

    def read(self, vectors: "Tensor") -> "tuple[Tensor, Tensor]":
        """All vectors of a context in one row and what its columns say: (queries, l_ts, columns + 1, M) -> (queries,
        l_ts (columns + 1), M) and (queries, l_ts, columns, M').
        """
        flat = vectors.flatten(1, 2)
        m, specific = self.m, len(self.patterns)
        both = (flat @ torch.cat([self.said[:, :m], self.said[:, m : 2 * m]]).mT).reshape(*vectors.shape[:3], -1)
        places = self.said.T[2 * m : 2 * m + vectors.shape[2] - 1]
        return flat, both[:, :, :-1, :specific] + both[:, :, 1:, specific:] + places

    def sums(self, u: "Tensor", flat: "Tensor", readouts: "Tensor", lengths: Sequence[int]) -> "tuple[Tensor, Tensor]":
        """sum_i e^(score_i - top) readout_i over the first n examples for all lengths n: (pairs, lengths, M'); and top.

        u : (pairs, D); flat and readouts as from `read`, for the query of each pair

        The softmax divides this by a positive number, which does not change what is next to F.
        """
        m, (length, number) = self.m, readouts.shape[1:3]
        ends = (flat @ u[:, : 2 * m].reshape(-1, 2, m).mT).reshape(-1, length, number + 1, 2)
        scores = ends[:, :, :-1, 0] + ends[:, :, 1:, 1] + u[:, None, 2 * m : 2 * m + number]
        top = scores.amax(dim=(1, 2))
        weights = (scores - top[:, None, None]).exp()
        totals = (weights[..., None] * readouts).sum(dim=2).cumsum(dim=1)
        before = torch.nn.functional.pad(totals, (0, 0, 1, 0))
        return before[:, list(lengths)], top


Answer = Callable[[_Reader, tasks.Prompts, Sequence[int]], np.ndarray]


def _cot(model: _Reader, given: tasks.Prompts, lengths: Sequence[int]) -> np.ndarray:
    vectors, query = torch.from_numpy(given.vectors), torch.from_numpy(given.query)
    queries, specific = len(query), len(model.patterns)
    flat, readouts = model.read(vectors)
    asks = query.expand(len(lengths), *query.shape)  # what each length asks with, (lengths, queries, M)
    codes = torch.arange(queries).expand(len(lengths), -1) * specific
    own: list[tuple[Tensor, Tensor]] = []  # the columns that each length has answered itself
    wrong = torch.zeros(len(lengths), queries)
    for step in range(model.k):
        # Most lengths agree on the last answer: each different question is scored once.
        unique, pair = torch.unique(codes, return_inverse=True)
        of = unique // specific
        first = torch.empty_like(unique).scatter_(0, pair.flatten(), torch.arange(codes.numel()))
        u = model.pulls(asks.flatten(0, 1)[first], step)
        totals, top = model.sums(u, flat[of], readouts[of], lengths)
        total = totals[pair, torch.arange(len(lengths))[:, None]]
        for place, (x, y) in enumerate(own):
            mine = u[pair]
            score = (mine[..., : model.m] * x).sum(-1) + (mine[..., model.m : 2 * model.m] * y).sum(-1)
            weight = (score + mine[..., 2 * model.m + place] - top[pair]).exp()
            total = total + weight[..., None] * model.readouts(x, y, place)
        answer = total.argmax(dim=-1)
        wrong += answer != torch.from_numpy(given.right[:, step + 1])
        own.append((asks, model.patterns[answer]))
        asks, codes = own[-1][1], torch.arange(queries) * specific + answer
    share: np.ndarray = (wrong / model.k).numpy()
    return share


def _icl(model: _Reader, given: tasks.Prompts, lengths: Sequence[int]) -> np.ndarray:
    u = model.pulls(torch.from_numpy(given.query), 0)
    totals, _ = model.sums(u, *model.read(torch.from_numpy(given.vectors[:, :, [0, -1]])), lengths)
    answer = totals.argmax(dim=-1).mT
    wrong: np.ndarray = (answer != torch.from_numpy(given.right[:, -1])).double().numpy()
    return wrong


def greedy(params: Params, config: Config, patterns: np.ndarray, context: np.ndarray, query: np.ndarray) -> list[int]:
    """Chain of thought as the paper writes it, for one query: the prompt is formed anew for every step.

    params : of one run, with its axis; patterns : the output set (M', M); context : (l, K + 1, M), query : (M,)
    """
    outputs, now = torch.from_numpy(patterns), torch.from_numpy(query)
    beta = config.pattern_norm
    chain, answers = [now], []
    for step in range(config.chain_length):
        asked = torch.tensor([step])
        full = columns(torch.from_numpy(context)[None], now[None], asked, config)[0]
        earlier = [
            columns(torch.stack(chain + [now] * (config.chain_length + 1 - len(chain)))[None, None], now[None], asked,
                    config)[0, :step]
        ]  # fmt: skip
        prompt = torch.cat([full[:-1], *earlier, full[-1:]])
        output, _ = attend(params, prompt[None, None], config)
        answers.append(int((beta * outputs - output[0, 0]).square().sum(dim=-1).argmin()))
        now = outputs[answers[-1]]
        chain.append(now)
    return answers


def literal_icl(params: Params, config: Config, patterns: np.ndarray, context: np.ndarray, query: np.ndarray) -> int:
    """The one answer as the paper writes it, for one query: context (l, 2, M) of first and last vectors."""
    m, length = config.relevant_patterns, len(context)
    code = torch.eye(config.dimension - 2 * m, dtype=torch.float64)[0]
    pairs = torch.cat([torch.from_numpy(context).flatten(1), code.expand(length, -1)], dim=-1)
    last = torch.cat([torch.from_numpy(query), torch.zeros(m, dtype=torch.float64), code])
    prompt = torch.cat([pairs, last[None]]) * torch.from_numpy(scale(config))
    output, _ = attend(params, prompt[None, None], config)
    return int((config.pattern_norm * torch.from_numpy(patterns) - output[0, 0]).square().sum(dim=-1).argmin())


# Attention

GROUPS = ("same TSR, same step", "same TSR, diff. step", "diff. TSR, same step", "diff. TSR, diff. step")


def attention(
    params: Params, configs: Sequence[Config], test: Test, setting: tasks.Setting, length: int, queries: int
) -> np.ndarray:
    """Attention of the query's column summed over the four GROUPS of columns, averaged over steps and queries: (runs,
    layers, heads, 4).

    An example has the same TSR if it starts with the query's pattern, at whichever step the column stands. The query's
    own earlier columns, taken from the right chain, count as such.
    """
    prompt, absent, group = _attended(
        tuple(configs), test, setting.fraction, setting.matrices.tobytes(), setting.examples, length, queries
    )
    maps = attend(params, prompt, configs[0], absent)[1]
    weights = torch.einsum("rblhc,rbcg->rlhg", maps, group) / prompt.shape[1]
    found: np.ndarray = weights.numpy()
    return found


@lru_cache(maxsize=2)
def _attended(configs: tuple[Config, ...], test: Test, fraction: float, matrices: bytes, examples: str, length: int,
              queries: int) -> "tuple[Tensor, Tensor, Tensor]":  # fmt: skip
    """The prompts (runs, queries, columns + 1, D), -inf for columns that are not there and the groups of the others."""
    k, specific = test.chain_length, test.specific_patterns
    setting = tasks.Setting(fraction, np.frombuffer(matrices).reshape(k, specific, specific), examples)
    asked = np.arange(queries) % k
    prompt, starts = [], []
    for each in configs:
        drawn = draw(each, test, queries)
        given = tasks.prompts(drawn, setting)
        own = drawn.patterns[given.right]
        own[:, 0] = given.query
        chains = torch.from_numpy(np.concatenate([given.vectors[:, :length], own[:, None]], axis=1))
        prompt.append(columns(chains, torch.from_numpy(own[np.arange(queries), asked]), torch.from_numpy(asked), each))
        starts.append(given.states[:, :length, 0] == given.right[:, :1])
    shape = (len(configs), queries, length + 1, k)
    same_start = np.concatenate([np.stack(starts), np.ones((*shape[:2], 1), dtype=bool)], axis=2)[..., None]
    same_step = (np.arange(k) == asked[:, None])[:, None]
    own_later = (np.arange(length + 1)[:, None] == length) & (np.arange(k) >= asked[:, None, None])
    absent = np.where(np.broadcast_to(own_later, shape), -np.inf, 0.0)
    groups = [same_start == one for one in (True, False)], [same_step == one for one in (True, False)]
    group = np.stack([np.broadcast_to(a & b, shape) for a in groups[0] for b in groups[1]], axis=-1)
    return (
        torch.stack(prompt),
        torch.from_numpy(absent).flatten(2)[:, :, None],
        torch.from_numpy(group * 1.0).flatten(2, 3),
    )
