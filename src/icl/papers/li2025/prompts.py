"""Tasks of K steps in context, f = f_K o ... o f_1, over patterns (Li et al. 2025).

A chain is z_0, z_1, ..., z_K with z_k = f_k(z_{k-1}). Training shows chains over training-relevant (TRR) patterns
without errors. Testing shows chains over testing-specific (TSR) patterns, which lie in the span of the TRR patterns,
with bounded noise on every vector and errors in the steps: z_k follows row z_{k-1} of the step-wise transition matrix
A_k. f_k(i) is the likeliest outcome argmax_j A_k(i, j), and B = A_1 ... A_K is the law of z_K when only both ends are
shown.
"""

from dataclasses import dataclass

import numpy as np

# Sums of rounded probabilities, and comparisons of products of them.
ROUNDING = 1e-9


def transitions(matrices: np.ndarray) -> np.ndarray:
    """The step-wise transition matrices A_1 ... A_K, checked: float64 (K, M', M').

    Raises ValueError, naming the step, for what is not square, not a probability or has a row that does not sum to 1.
    """
    a = np.asarray(matrices, dtype=np.float64)
    if a.ndim != 3 or a.shape[1] != a.shape[2] or a.shape[0] < 1:
        raise ValueError(f"transition matrices of shape {a.shape}: must be (K, M', M'), one square matrix per step")
    for step, matrix in enumerate(a, start=1):
        if not np.isfinite(matrix).all() or matrix.min() < 0 or matrix.max() > 1 + ROUNDING:
            raise ValueError(f"transition matrix A_{step}: entries must be probabilities, from 0 to 1")
        sums = matrix.sum(axis=1)
        if np.abs(sums - 1).max() > ROUNDING:
            row = int(np.abs(sums - 1).argmax())
            raise ValueError(f"transition matrix A_{step}: row {row} sums to {sums[row]:g}, must sum to 1")
    return a


def product(matrices: np.ndarray) -> np.ndarray:
    """B = A_1 A_2 ... A_K: (K, M', M') -> (M', M')."""
    return np.linalg.multi_dot(list(matrices)) if len(matrices) > 1 else matrices[0]


def best_chains(matrices: np.ndarray) -> np.ndarray:
    """The right chains i, f_1(i), f_2(f_1(i)), ...: (K, M', M') -> int64 (M', K + 1)."""
    chain = [np.arange(matrices.shape[1])]
    for matrix in matrices:
        chain.append(matrix.argmax(axis=1)[chain[-1]])
    return np.stack(chain, axis=1)


def path_probability(matrices: np.ndarray) -> float:
    """tau^f, the least probability of a right chain: min_i prod_k A_k(f_{k-1} ... f_1(i), f_k ... f_1(i))."""
    chains = best_chains(matrices)
    steps = [matrix[chains[:, k], chains[:, k + 1]] for k, matrix in enumerate(matrices)]
    return float(np.prod(steps, axis=0).min())


def end_probability(matrices: np.ndarray) -> float:
    """tau_o^f, the least probability of the likeliest end: min_i max_j B(i, j)."""
    return float(product(matrices).max(axis=1).min())


def primacy(matrices: np.ndarray) -> float:
    """rho^f, how far the likeliest outcome leads: min over steps and rows of (first - second) / first.

    1 for a single pattern, which leaves no other outcome.
    """
    if matrices.shape[-1] == 1:
        return 1.0
    ordered = np.sort(matrices, axis=-1)
    return float((1 - ordered[..., -2] / ordered[..., -1]).min())


def end_primacy(matrices: np.ndarray) -> float:
    """rho_o^f, the primacy of B."""
    return primacy(product(matrices)[None])


def condition_1(matrices: np.ndarray) -> np.ndarray:
    """Whether the likeliest end is the end of the right chain, argmax_j B(i, j) = f(i), for every start: bool (M',)."""
    ends: np.ndarray = best_chains(matrices)[:, -1]
    held: np.ndarray = product(matrices).argmax(axis=1) == ends
    return held


def worked_example() -> dict[str, float]:
    """The talk's example of two steps over two patterns, by the definitions: how far B, tau^f and tau_o^f are from the
    numbers that it states, and for each start whether Condition 1 is broken (1) or holds (0).
    """
    a = transitions(np.array([[[0.6, 0.4], [0.4, 0.6]], [[0.4, 0.6], [0.8, 0.2]]]))
    stated = np.array([0.56, 0.44, 0.64, 0.36, 0.36, 0.56])
    found = np.array([*product(a).ravel(), path_probability(a), end_probability(a)])
    first, second = ~condition_1(a)
    return {
        "largest deviation from the stated numbers": float(np.abs(found - stated).max()),
        "Condition 1 broken for start 1": float(first),
        "Condition 1 broken for start 2": float(second),
    }


def with_primacy(steps: int, patterns: int, probability: float, lead: float) -> np.ndarray:
    """Transition matrices with tau^f = `probability` and rho^f = `lead`, as few of the steps noisy as can be.

    In a row whose right outcome has probability p no other may have more than (1 - rho) p, so that
    p >= 1 / (1 + (M' - 1)(1 - rho)) = p_min; and some row must have exactly this gap, so that p <= 1 / (2 - rho) there.
    As every row lies on a right chain, such matrices exist just if p_min^K <= tau <= 1 / (2 - rho). All but one noisy
    step have p = p_min, the last noisy one the rest; exact steps are the identity. All starts are alike: right
    chains stay in place, the best wrong outcome of i is i + 1 (mod M') and the others share what is left. With one
    noisy step B = A_1, so that tau_o^f = tau, rho_o^f = rho and Condition 1 holds.

    Returns (K, M', M'). Raises ValueError, saying why, where none exist.
    """
    if patterns < 1 or steps < 1:
        raise ValueError(f"K = {steps} and M' = {patterns}: must both be at least 1")
    if not (0 < probability <= 1 and 0 < lead <= 1):
        raise ValueError(f"tau = {probability:g} and rho = {lead:g}: must both be above 0 and at most 1")
    if patterns == 1 and lead < 1:
        raise ValueError(f"rho = {lead:g}: must be 1 for a single pattern, which leaves no other outcome")
    least, most = feasible(steps, patterns, lead)
    if not least - ROUNDING <= probability <= most + ROUNDING:
        raise ValueError(
            f"no {steps} stochastic matrices of {patterns} patterns have tau = {probability:g} and rho = {lead:g}: "
            f"with this K, M' and rho, tau must lie in [{least:.4g}, {most:.4g}]"
        )
    smallest, left, chosen = 1 / (1 + (patterns - 1) * (1 - lead)), probability, []
    while left < smallest - ROUNDING:
        chosen.append(smallest)
        left /= smallest
    chosen.append(left)
    noisy = [_cyclic(patterns, min(p, 1.0), lead) for p in chosen]
    return transitions(np.stack([*noisy, *[np.eye(patterns)] * (steps - len(noisy))]))


def feasible(steps: int, patterns: int, lead: float) -> tuple[float, float]:
    """The least and the largest tau^f that go with rho^f = `lead`, see `with_primacy`."""
    return float((1 + (patterns - 1) * (1 - lead)) ** -steps), 1 / (2 - lead)


def _cyclic(patterns: int, right: float, lead: float) -> np.ndarray:
    """p on the diagonal, the best wrong outcome beside it, the rest shared: (M', M')."""
    wrong = min((1 - lead) * right, 1 - right)
    row = np.full(patterns, (1 - right - wrong) / max(patterns - 2, 1))
    row[0] = right
    if patterns > 1:
        row[1] = wrong
    return np.stack([np.roll(row, shift) for shift in range(patterns)])


def misleading(steps: int, patterns: int, drawn: int, first: float, second: float, pull: float) -> np.ndarray:
    """Transition matrices that break Condition 1 for `drawn` of the M' starts, in the manner of the talk's example.

    With the start h = `drawn`, step 1 goes from each of the starts 0, ..., h to its own successor with probability
    `first`, else to any other of theirs alike. Step 2 goes from the successor of i < h to i's own end with probability
    `second`, else to that of h, where h's own successor arrives with probability `pull` (else at any of theirs). So the
    end of h collects the errors: B(i, h) exceeds B(i, i) although every single step is most often right. The other
    starts and steps are exact.

    The example's matrices are those of M' = 2, `drawn` = 1, first = second = 0.6 and pull = 0.8, up to names.
    Raises ValueError if these numbers break no start or break h.
    """
    if steps < 2 or not 1 <= drawn < patterns:
        raise ValueError(f"K = {steps}, {drawn} of {patterns} starts: needs two steps, and a start more than are drawn")
    one, two, h, part = np.eye(patterns), np.eye(patterns), drawn, slice(drawn + 1)
    one[part, part] = (1 - first) / h
    np.fill_diagonal(one[part, part], first)
    np.fill_diagonal(two[:h, :h], second)
    two[:h, h], two[h, :h], two[h, h] = 1 - second, (1 - pull) / h, pull
    made = transitions(np.stack([one, two, *[np.eye(patterns)] * (steps - 2)]))
    at_home = (best_chains(made) == np.arange(patterns)[:, None]).all()
    if not at_home or not (condition_1(made) == (np.arange(patterns) >= drawn)).all():
        raise ValueError(f"probabilities {first:g}, {second:g} and {pull:g}: do not break Condition 1 as meant")
    return made


def gathering(steps: int, patterns: int, drawn: int, probability: float, noisy: int) -> np.ndarray:
    """Transition matrices whose errors all end in one place, which breaks Condition 1 for `drawn` of the M' starts.

    In each of the first `noisy` steps, the chain of a start i < `drawn` =: h stays on the right way with probability
    p = tau^(1 / noisy), and else goes over to that of h, which makes no errors. So B(i, i) = tau^f = `probability` and
    B(i, h) = 1 - tau^f: of all matrices with this tau^f, these lead a single answer astray with the greatest margin.
    The other starts and steps are exact.

    Raises ValueError if Condition 1 would hold, as it does for any matrices with tau^f of 1/2 or more.
    """
    if not 1 <= drawn < patterns:
        raise ValueError(f"{drawn} of {patterns} starts: needs a start more than are drawn")
    if not 1 < noisy <= steps:
        raise ValueError(f"{noisy} of {steps} steps noisy: needs two, as a single one decides the end")
    right = probability ** (1 / noisy)
    if not (0 < probability < 1 / 2 < right):
        raise ValueError(
            f"tau = {probability:g}: must be below 1/2, and above {0.5**noisy:g}, where a step fails first"
        )
    one = np.eye(patterns)
    one[:drawn] *= right
    one[:drawn, drawn] = 1 - right
    return transitions(np.stack([one] * noisy + [np.eye(patterns)] * (steps - noisy)))


def sharing(length: int, fraction: float) -> np.ndarray:
    """Which examples start where the query does: bool (length,).

    Every prefix of n examples has ceil(alpha n) of them, the least number that makes a fraction alpha or more.
    """
    counts = np.ceil(fraction * np.arange(length + 1) - ROUNDING)
    shared: np.ndarray = np.diff(counts) > 0
    return shared


@dataclass(frozen=True)
class Chains:
    """A batch of training prompts, by the distinct chains in them; leading axes are free.

    states : int64 (..., 1 + others, K + 1), pattern of every z_k; row 0 is the query's chain
    shared : how many examples follow the query's chain; every other row stands for one example
    """

    states: np.ndarray
    shared: int


def words_per_prompt(steps: int, patterns: int, length: int) -> int:
    """Random 64-bit words that `training_chains` uses for one prompt of any alpha."""
    return (steps + 1) * patterns + length


def training_chains(words: np.ndarray, steps: int, patterns: int, length: int, fraction: float) -> Chains:
    """Prompts of fresh tasks, their steps f_k independent uniform permutations of the M patterns.

    The query's start is uniform; of l examples ceil(alpha l) start where it does and the others uniformly elsewhere. As
    permutations are composed, z_k = sigma_k(i) with independent uniform permutations sigma_0, ..., sigma_K, where the
    query is i = 0. Without errors, examples that share a start are equal, and each is given once.

    words : uint64 (..., words_per_prompt(steps, patterns, length))
    Raises ValueError for one pattern and alpha < 1: there is no other one to start from.
    """
    shared = int(sharing(length, fraction).sum())
    if patterns == 1 and shared < length:
        raise ValueError("patterns = 1: alpha must be 1, for no other pattern is left to the other examples")
    sigma = permutations(words[..., length:].reshape(*words.shape[:-1], steps + 1, patterns))
    # The examples that share no start take the last words, so that other alphas leave them as they are.
    other = ((words[..., shared:length] >> np.uint64(40)) * np.uint64(patterns - 1) >> np.uint64(24)).astype(
        np.int64
    ) + 1
    index = np.concatenate([np.zeros_like(words[..., :1], dtype=np.int64), other], axis=-1)
    states = np.take_along_axis(sigma, index[..., None, :], axis=-1)
    return Chains(np.moveaxis(states, -1, -2), shared)


def permutations(words: np.ndarray) -> np.ndarray:
    """Uniform permutations from random words, by sorting: uint64 (..., n) -> int64 (..., n)."""
    n = words.shape[-1]
    low = np.uint64((1 << (n - 1).bit_length()) - 1)
    # The index replaces the lowest bits, and comes out in the order of the others.
    ordered = np.sort((words & ~low) | np.arange(n, dtype=np.uint64), axis=-1)
    return (ordered & low).astype(np.int64)


def counted_starts(uniform: np.ndarray, start: np.ndarray, patterns: int, fraction: float) -> np.ndarray:
    """Starts of examples: of the first n, ceil(alpha' n) are the query's, for every n; others uniformly elsewhere.

    uniform : (queries, length) on [0, 1), start : (queries,); returns int64 (queries, length)
    """
    elsewhere = (start[:, None] + 1 + (uniform * (patterns - 1)).astype(np.int64)) % patterns
    return np.where(sharing(uniform.shape[1], fraction), start[:, None], elsewhere)


def independent_starts(uniform: np.ndarray, start: np.ndarray, patterns: int, fraction: float) -> np.ndarray:
    """The same with each example's start being the query's with probability alpha', whatever those of the others."""
    left = np.clip((uniform - fraction) / max(1 - fraction, ROUNDING), 0, 1 - ROUNDING)
    elsewhere = (start[:, None] + 1 + (left * (patterns - 1)).astype(np.int64)) % patterns
    return np.where(uniform < fraction, start[:, None], elsewhere)


STARTS = {"counted": counted_starts, "independent": independent_starts}


def testing_chains(
    uniform: np.ndarray, start: np.ndarray, matrices: np.ndarray, fraction: float, law: str = "counted"
) -> np.ndarray:
    """Examples with errors: int64 (queries, length, K + 1); the examples of a shorter context are the first of these.

    z_0 follows the law of STARTS and z_k row z_{k-1} of A_k. The same uniforms serve all settings, which are therefore
    paired.

    uniform : (queries, length, K + 1) on [0, 1), start : (queries,), matrices : (K, M', M')
    """
    patterns = matrices.shape[1]
    states = [STARTS[law](uniform[..., 0], start, patterns, fraction)]
    for k, matrix in enumerate(matrices, start=1):
        # The likeliest outcome first, so that a step's errors are the same draws in all settings.
        order = np.argsort(-matrix, axis=1, kind="stable")
        edges = np.cumsum(np.take_along_axis(matrix, order, axis=1), axis=1)
        edges[edges > 1 - ROUNDING] = 1
        rank = np.zeros(states[-1].shape, dtype=np.int64)
        for column in range(patterns - 1):
            rank += uniform[..., k] >= edges[states[-1], column]
        states.append(order[states[-1], rank])
    return np.stack(states, axis=-1)


def rotated_patterns(rng: np.random.Generator, number: int, dimension: int) -> np.ndarray:
    """TSR patterns: orthonormal, uniformly random in the span of M orthonormal TRR patterns: (M', M).

    Raises ValueError for more of them than the span has dimensions.
    """
    if number > dimension:
        raise ValueError(f"{number} TSR patterns: at most {dimension} orthonormal ones lie in the span of the TRR ones")
    q, r = np.linalg.qr(rng.standard_normal((dimension, number)))
    return (q * np.sign(np.diag(r))).T


def independent_patterns(rng: np.random.Generator, number: int, dimension: int) -> np.ndarray:
    """TSR patterns: independent, of norm one and uniformly random in the span, so not orthogonal: (M', M)."""
    vectors = rng.standard_normal((dimension, number)).T
    unit: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


PATTERNS = {"orthonormal": rotated_patterns, "independent": independent_patterns}


def noise_sizes(law: str, rng: np.random.Generator, shape: tuple[int, int], dimension: int) -> np.ndarray:
    """Norms of noise vectors relative to their root mean square, float32, to be multiplied with (prompts, vectors).

    "equal": all the same; "gaussian": those of Gaussian vectors; "uniform": uniform from 0 on, for each vector;
    "prompt": the same, one for all vectors of a prompt
    """
    if law == "gaussian":
        sizes = np.sqrt(rng.chisquare(dimension, shape) / dimension)
    elif law == "equal":
        sizes = np.ones((1, 1))
    else:
        sizes = np.sqrt(3) * rng.random(shape if law == "uniform" else (shape[0], 1))
    return sizes.astype(np.float32)


NOISES = ("equal", "gaussian", "uniform", "prompt")


def bounded_noise(rng: np.random.Generator, shape: tuple[int, ...], norm: float) -> np.ndarray:
    """Noise vectors of the given norm and uniform direction: float32 `shape`, vectors along the last axis."""
    noise = rng.standard_normal(shape, dtype=np.float32)
    noise *= np.float32(norm) / np.sqrt(np.einsum("...d,...d->...", noise, noise))[..., None]
    return noise


# Test prompts


@dataclass(frozen=True)
class Setting:
    """What test prompts are drawn from: alpha', the transition matrices (K, M', M') and the law of their starts.

    Raises ValueError for alpha' outside (0, 1] and for matrices that are not stochastic.
    """

    fraction: float
    matrices: np.ndarray
    examples: str = "counted"

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise ValueError(f"alpha' = {self.fraction!r}: must be above 0 and at most 1")
        object.__setattr__(self, "matrices", transitions(self.matrices))


@dataclass(frozen=True)
class Draw:
    """The randomness of one run's test prompts, whatever the setting.

    patterns : the TSR patterns, (M', M); noise (queries, l_ts, K + 1, M) and query_noise (queries, M)
    uniform : (queries, l_ts, K + 1), start : (queries,), see testing_chains
    names : which pattern stands for state i of z_k in a query's task, (queries, K + 1, M'); so tasks are fresh
    """

    patterns: np.ndarray
    noise: np.ndarray
    query_noise: np.ndarray
    uniform: np.ndarray
    start: np.ndarray
    names: np.ndarray


PER_QUERY = ("noise", "query_noise", "uniform", "start", "names")


@dataclass(frozen=True)
class Prompts:
    """Test prompts of one run and setting, by names of patterns and as vectors.

    states : (queries, l_ts, K + 1), right : the query's right chain (queries, K + 1)
    vectors : TSR pattern plus noise, (queries, l_ts, K + 1, M), query : (queries, M)
    """

    states: np.ndarray
    right: np.ndarray
    vectors: np.ndarray
    query: np.ndarray


def prompts(drawn: Draw, setting: Setting, which: slice = slice(None)) -> Prompts:
    """The prompts that a draw gives in a setting, or some of them."""
    drawn = Draw(drawn.patterns, *(getattr(drawn, name)[which] for name in PER_QUERY))
    steps = np.arange(drawn.names.shape[1])
    each = np.arange(len(drawn.start))[:, None]
    raw = testing_chains(drawn.uniform, drawn.start, setting.matrices, setting.fraction, setting.examples)
    states = drawn.names[each[..., None], steps, raw]
    right = drawn.names[each, steps, best_chains(setting.matrices)[drawn.start]]
    query = drawn.patterns[right[:, 0]] + drawn.query_noise
    return Prompts(states, right, drawn.patterns[states] + drawn.noise, query)
