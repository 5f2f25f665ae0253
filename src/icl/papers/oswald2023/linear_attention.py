"""One layer of linear attention learns one step of gradient descent (von Oswald et al., ICML 2023).

Tokens e_i = (x_i, y_i) with y_i = <w, x_i>, and the query (x_q, 0); keys and values come from the N examples only,

    e_j <- e_j + sum_i (e_j W_Q W_K' e_i') e_i W_V W_P,   y_hat = minus the query's last entry,   L = E (y_hat - y)^2/2.

Of the products only A, the first d rows of W_Q W_K', and b, the last column of W_V W_P, matter for the query:

    y_hat = -x_q' A G b,   G = sum_i e_i e_i'.

Three engines: `population`, the closed form of L in A and b with its gradient; `sampled`, the gradient on fresh tasks
through A and b; and `literal`, every token and weight by automatic differentiation, the oracle of `sampled`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import lazy
from icl.core.streams import stream, words
from icl.models.optimisers import Optimiser, Params, adam, clipped_together
from icl.tasks import linear_regression as tasks

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = lazy("torch")

Prompts = tasks.Prompts
SYSTEM = "oswald_gd"
FROZEN = ()
MATRICES = ("W_Q", "W_K", "W_V", "W_P")
# The deviation of a standard normal cut at two deviations.
CUT_AT, CUT_DEVIATION = 2.0, 0.87962566103424
# The steps that the published code tries: 0.001 to 25 in steps of 0.1.
PUBLISHED_RATES = np.arange(0.001, 25, 0.1)


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of the training."""

    engine: str = constant(
        "sampled", "published", "fresh tasks at every step; the plateaus live on their noise",
        choices=("sampled", "population", "literal"),
    )  # fmt: skip
    dimension: int = constant(10, "published", "notebook of the published code", letter="d", at_least=1, at_most=1000)
    context_length: int = constant(
        10, "published", "notebook of the published code; N = d throughout", letter="N", at_least=1, at_most=10000
    )
    half_width: float = constant(
        0.5, "published", "x ~ U(-1/2, 1/2) in the code; text and figures say U(-1, 1), which would give losses four "
        "times as large as the published ones", above=0,
    )  # fmt: skip
    batch: int = constant(2048, "published", "notebook of the published code", letter="B", at_least=1)
    rate: float = constant(1e-3, "published", "AdamW of the published code; its decay is 0", above=0)
    first_decay: float = constant(0.9, "published", "published code", letter="beta_1", at_least=0, at_most=0.9999)
    second_decay: float = constant(
        0.98, "published", "published code; the text says Adam's default, 0.999", letter="beta_2", at_least=0,
        at_most=0.9999,
    )  # fmt: skip
    cooling_from: int = constant(
        0, "ours", "0: constant rate, as published; else it halves every 50 steps from this one on, or Adam stays 1e-4 "
        "above the least loss at d = 50", at_least=0,
    )  # fmt: skip
    clip_norm: float = constant(
        1e-3, "published", "published code: norm of the gradient of all weights together", above=0
    )
    init_scale: float = constant(
        0.002, "published", "published code: variance times D of a normal law cut at two deviations", above=0
    )

    @property
    def tokens(self) -> int:
        """D = d + 1."""
        return self.dimension + 1


@dataclass(frozen=True)
class Test(Constants):
    """Constants of the evaluation."""

    tasks: int = constant(10000, "published", "notebook of the published code", at_least=1)
    larger_tasks: int = constant(
        40000, "ours", "tasks on larger inputs; the published 1,000 leave 7 % of uncertainty at alpha = 2", at_least=1
    )
    checked_tasks: int = constant(
        10000, "ours", "tasks of each seed on which the closed form of the loss is checked, 200,000 in all", at_least=1
    )
    shared_tasks: bool = constant(
        False, "ours", "each seed has its own tasks, so that intervals cover them; true: one set for all, as published"
    )
    gd_rate: str = constant(
        "closed form", "ours", "s / q is the best step; grid: the best of 0.001, 0.101 ... 24.901, as published",
        choices=("closed form", "grid"),
    )  # fmt: skip
    damping: float = constant(0.75, "published", "share of the update when the layer is repeated", above=0, at_most=1)
    layers: int = constant(50, "published", "how often the layer is repeated", at_least=1, at_most=1000)
    clip: float = constant(
        10.0, "inferred", "bound on the outputs on larger inputs: the last three published points need it; the "
        "released notebook has none", above=0,
    )  # fmt: skip


def is_random(configs: Sequence[Config]) -> bool:
    """Always: even the population engine starts from random weights."""
    return True


# Training


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """W_Q, W_K, W_V, W_P, each (runs, D, D) of variance init_scale / D; float32 where tasks are sampled."""
    size, sampled = configs[0].tokens, configs[0].engine == "sampled"
    drawn = np.stack([_cut_normal(c.seed, (len(MATRICES), size, size)) for c in configs])
    scale = np.array([(c.init_scale / size) ** 0.5 / CUT_DEVIATION for c in configs])
    weights = torch.from_numpy(drawn * scale[:, None, None, None]).to(
        device, torch.float32 if sampled else torch.float64
    )
    return {name: weights[:, index].clone() for index, name in enumerate(MATRICES)}


def _cut_normal(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """N(0, 1) conditioned on |z| <= 2: what falls outside is drawn again."""
    generator = stream(SYSTEM, seed, "init")
    values = generator.standard_normal(shape)
    while (outside := abs(values) > CUT_AT).any():
        values[outside] = generator.standard_normal(int(outside.sum()))
    return values


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """Fresh tasks of every run, the batch in the last axis: inputs (runs, N + 1, d, B), the query last, and w
    (runs, d, B), float32. Nothing for the population.

    An input is one of the 65,536 midpoints of a grid on (-half_width, half_width), a quarter of a random word: its
    moments are those of the uniform law to nine digits.
    """
    if configs[0].engine == "population":
        return {}
    n, d, b = configs[0].context_length, configs[0].dimension, configs[0].batch
    size = (n + 1) * d * b
    drawn = words(SYSTEM, [c.seed for c in configs], "train", step, (-(-size // 4),)).view(np.int16)
    inputs = drawn[:, :size].reshape(-1, n + 1, d, b).astype(np.float32)
    weights = np.empty((len(configs), d, b), dtype=np.float32)
    for run, config in enumerate(configs):
        inputs[run] += 0.5
        inputs[run] *= config.half_width / 2**15
        stream(SYSTEM, config.seed, "tasks", step).standard_normal(out=weights[run], dtype=np.float32)
    return {"inputs": inputs, "weights": weights}


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """L of every run, with the engine's gradient as its derivative: (runs,)."""
    # A run that diverges must not stop its neighbours.
    with np.errstate(all="ignore"):
        found = [
            ENGINES[config.engine](
                {name: w[run].detach().cpu().numpy() for name, w in params.items()},
                {name: values[run].cpu().numpy() for name, values in batch.items()},
                config,
            )
            for run, config in enumerate(configs)
        ]
    like = params["W_Q"]
    total = torch.tensor([value for value, _ in found], dtype=like.dtype, device=like.device)
    for name, w in params.items():
        gradient = torch.from_numpy(np.stack([own[name] for _, own in found])).to(w)
        # What is added is zero, and its derivative is the gradient that the engine found.
        total = total + ((w - w.detach()) * gradient).sum(dim=(1, 2))
    return total


def schedule(start: int, step: int) -> float:
    """The rate over its first value: 1 until `start`, then half as much every 50 steps; always 1 for start = 0."""
    return float(0.5 ** (max(step - start, 0) / 50)) if start else 1.0


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """Adam on gradients whose norm over all weights of a run is cut at clip_norm."""
    first, rates = configs[0], [c.rate for c in configs]
    inner = adam(rates, lambda step: schedule(first.cooling_from, step), first.first_decay, first.second_decay)
    return clipped_together(inner, [c.clip_norm for c in configs])


Weights = dict[str, np.ndarray]


def effective(weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """A, (d, D), and b, (D,)."""
    return weights["W_Q"][:-1] @ weights["W_K"].T, weights["W_V"] @ weights["W_P"][:, -1]


def _pulled_back(weights: Weights, by_a: np.ndarray, by_b: np.ndarray) -> Weights:
    """The gradient in the four matrices from that in A and b."""
    found = {name: np.zeros_like(w) for name, w in weights.items()}
    found["W_Q"][:-1] = by_a @ weights["W_K"]
    found["W_K"][:] = by_a.T @ weights["W_Q"][:-1]
    found["W_V"][:] = np.outer(by_b, weights["W_P"][:, -1])
    found["W_P"][:, -1] = weights["W_V"].T @ by_b
    return found


# population: the closed form


class Moments(NamedTuple):
    """Of N inputs with independent coordinates of mean 0, and of S = sum_i x_i x_i'.

    variance : s = E x^2; fourth : E x^4; square : q with E (S/N)^2 = q I; traced : r with E [S tr S] = r I
    spread : tau = 2 E tr S^2 + E (tr S)^2
    """

    variance: float
    fourth: float
    square: float
    traced: float
    spread: float


def moments(config: Config) -> Moments:
    """For x ~ U(-half_width, half_width)."""
    n, d, s, fourth = config.context_length, config.dimension, config.half_width**2 / 3, config.half_width**4 / 5
    square = (fourth + (d - 1) * s**2) / n + (1 - 1 / n) * s**2
    traced = n * (fourth + (d - 1) * s**2) + n * (n - 1) * d * s**2
    spread = 2 * d * n**2 * square + n * (d * fourth + d * (d - 1) * s**2) + n * (n - 1) * d**2 * s**2
    return Moments(s, fourth, square, traced, spread)


def zero_loss(config: Config) -> float:
    """L of the prediction 0: s d / 2."""
    return moments(config).variance * config.dimension / 2


def best_rate(config: Config) -> float:
    """The step of gradient descent on (1/2N) sum (<w, x_i> - y_i)^2 from 0 that leaves the least L: s / q."""
    law = moments(config)
    return law.variance / law.square


def one_step_loss(config: Config, rate: float, scale: float = 1.0) -> float:
    """L of one step of size `rate`, on inputs `scale` times as large: with a = scale^2,

    (s a d / 2) (1 - 2 rate s a + rate^2 q a^2).
    """
    law, a = moments(config), scale**2
    return a * zero_loss(config) * (1 - 2 * rate * law.variance * a + rate**2 * law.square * a**2)


def best_loss(config: Config) -> float:
    """The least L of one step, and of one layer: (s d / 2)(1 - s^2 / q)."""
    return one_step_loss(config, best_rate(config))


def saddle_loss(zero: float, best: float, dimension: int, rank: int = 1) -> float:
    """L where `rank` of the d directions are learnt: each gains as much as any other."""
    return zero - rank * (zero - best) / dimension


def _split(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    return a[:, :-1], a[:, -1], b[:-1], float(b[-1])


def preconditioner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """B = b_y A_x + a_y b_x' with A = (A_x | a_y) and b = (b_x, b_y): the part of y_hat linear in w is -x_q' B S w."""
    a_x, a_y, b_x, b_y = _split(a, b)
    return b_y * a_x + np.outer(a_y, b_x)


def population_loss(a: np.ndarray, b: np.ndarray, config: Config) -> tuple[float, np.ndarray, np.ndarray]:
    """L over all tasks and its derivatives in A and b (ours, from E over w and x of |w + A G b|^2):

    L = (s/2) { d + 2 N s tr B + N^2 q |B|^2 + b_x' T(H) b_x + 2 b_y r a_y' A_x b_x + b_y^2 |a_y|^2 tau },

    with B of `preconditioner`, H = A_x' A_x, and T(H) = E S H S
    = N [s^2 (2 H + I tr H) + (E x^4 - 3 s^2) diag H] + N (N - 1) s^2 H.
    """
    law, n, d = moments(config), config.context_length, config.dimension
    s, r, tau = law.variance, law.traced, law.spread
    a_x, a_y, b_x, b_y = _split(a, b)
    matrix, identity = preconditioner(a, b), np.eye(d)

    def sandwiched(h: np.ndarray) -> np.ndarray:
        four = s**2 * (2 * h + np.trace(h) * identity) + (law.fourth - 3 * s**2) * np.diag(np.diag(h))
        return n * four + n * (n - 1) * s**2 * h

    inner = sandwiched(a_x.T @ a_x) @ b_x
    cross = a_x @ b_x
    value = d + 2 * n * s * np.trace(matrix) + n**2 * law.square * np.sum(matrix**2)
    value += b_x @ inner + 2 * b_y * r * a_y @ cross + b_y**2 * (a_y @ a_y) * tau
    by_matrix = n * s * identity + n**2 * law.square * matrix
    by_a_x = b_y * by_matrix + a_x @ sandwiched(np.outer(b_x, b_x)) + b_y * r * np.outer(a_y, b_x)
    by_a_y = by_matrix @ b_x + b_y * r * cross + b_y**2 * tau * a_y
    by_b_x = by_matrix.T @ a_y + inner + b_y * r * a_x.T @ a_y
    by_b_y = np.sum(by_matrix * a_x) + r * a_y @ cross + b_y * (a_y @ a_y) * tau
    by_a, by_b = np.column_stack([by_a_x, by_a_y]), np.append(by_b_x, by_b_y)
    return float(s / 2 * value), s * by_a, s * by_b


def population(weights: Weights, batch: Weights, config: Config) -> tuple[float, Weights]:
    """L over all tasks and its gradient."""
    value, by_a, by_b = population_loss(*effective(weights), config)
    return value, _pulled_back(weights, by_a, by_b)


# sampled and literal: on fresh tasks


def sampled(weights: Weights, batch: Weights, config: Config) -> tuple[float, Weights]:
    """L over a batch and its gradient, without labels or tokens: with beta = b_x + b_y w, v = A_x' x_q + (a_y' x_q) w,

    y - y_hat = r = <w, x_q> + sum_i <x_i, beta> <x_i, v>,

    and the two vectors that the gradient needs, G b and G A' x_q, are (g, <w, g>) with g = sum_i x_i <x_i, beta or v>.
    Four passes over the examples, each one product and sum per number, the batch innermost.
    """
    a, b = effective(weights)
    a_x, a_y, b_x, b_y = _split(a, b)
    x, query, w = batch["inputs"][:-1], batch["inputs"][-1], batch["weights"]
    on_values = np.einsum("ndm,dm->nm", x, b_x[:, None] + b_y * w)
    on_keys = np.einsum("ndm,dm->nm", x, a_x.T @ query + (a_y @ query) * w)
    residual = np.einsum("dm,dm->m", w, query) + np.einsum("nm,nm->m", on_values, on_keys)
    value = np.mean(residual**2) / 2
    residual /= len(residual)
    of_values, of_keys = (np.einsum("ndm,nm->dm", x, scores) for scores in (on_values, on_keys))
    by_b = _with_label(of_keys, w) @ residual
    by_a = (query * residual) @ _with_label(of_values, w).T
    return float(value), _pulled_back(weights, by_a, by_b)


def _with_label(vectors: np.ndarray, w: np.ndarray) -> np.ndarray:
    """(g, <w, g>), (D, B)."""
    return np.concatenate([vectors, np.einsum("dm,dm->m", w, vectors)[None]])


def literal(weights: Weights, batch: Weights, config: Config) -> tuple[float, Weights]:
    """The same by automatic differentiation through every token and every entry of the layer's output."""
    leaves = {name: torch.from_numpy(w).requires_grad_() for name, w in weights.items()}
    with torch.enable_grad():
        inputs, w = (torch.from_numpy(batch[name]).to(leaves["W_Q"]) for name in ("inputs", "weights"))
        inputs = inputs.permute(2, 0, 1).contiguous()
        labels = (inputs * w.mT[:, None]).sum(dim=-1)
        shown = torch.cat([labels[:, :-1], torch.zeros_like(labels[:, -1:])], dim=1)
        out = literal_layer(leaves, torch.cat([inputs, shown[..., None]], dim=-1))
        value = (-out[:, -1, -1] - labels[:, -1]).square().mean() / 2
        gradients = torch.autograd.grad(value, list(leaves.values()))
    return value.item(), {name: g.numpy() for name, g in zip(leaves, gradients, strict=True)}


def literal_layer(weights: Params, tokens: "Tensor") -> "Tensor":
    """Every token after the layer, (B, N + 1, D); the last is the query."""
    examples = tokens[:, :-1]
    queries, keys, values = tokens @ weights["W_Q"], examples @ weights["W_K"], examples @ weights["W_V"]
    return tokens + (queries @ keys.mT) @ values @ weights["W_P"]


Engine = Callable[[Weights, Weights, Config], tuple[float, Weights]]
ENGINES: dict[str, Engine] = {"population": population, "sampled": sampled, "literal": literal}


# What trained layers do


class Layer(NamedTuple):
    """The products through which a layer acts on the labels.

    key_query : W_Q W_K', (D, D); value : the last column of W_V W_P, (D,)
    """

    key_query: np.ndarray
    value: np.ndarray


def layer(params: Params, run: int) -> Layer:
    """The layer of one run, in float64."""
    q, k, v, p = (params[name][run].double().cpu().numpy() for name in MATRICES)
    return Layer(q @ k.T, v @ p[:, -1])


def construction(config: Config, rate: float) -> Layer:
    """The layer that does one step of gradient descent of size `rate` on (1/2N) sum (<w, x_i> - y_i)^2, from any w:

    W_Q W_K' = diag(I, 0) and W_V W_P = -(rate / N) e_y e_y'.
    """
    key_query, value = np.eye(config.tokens), np.zeros(config.tokens)
    key_query[-1, -1], value[-1] = 0, -rate / config.context_length
    return Layer(key_query, value)


def interpolated(trained: Layer, constructed: Layer) -> Layer:
    """The mean of both, after the trained layer's free scale moved from keys and queries to the values: its x block is
    divided by its mean diagonal.
    """
    scale = np.diag(trained.key_query)[:-1].mean()
    return Layer(
        (trained.key_query / scale + constructed.key_query) / 2, (trained.value * scale + constructed.value) / 2
    )


def evaluation(config: Config, test: Test) -> Prompts:
    """The tasks on which a run is evaluated."""
    generator = stream(SYSTEM, 0 if test.shared_tasks else config.seed, "evaluate")
    return tasks.uniform(generator, (test.tasks,), config.context_length, config.dimension, config.half_width)


def larger_evaluation(config: Config, test: Test) -> Prompts:
    """The tasks whose inputs are then enlarged."""
    generator = stream(SYSTEM, 0 if test.shared_tasks else config.seed, "larger")
    return tasks.uniform(generator, (test.larger_tasks,), config.context_length, config.dimension, config.half_width)


def sensitivity(own: Layer, prompts: Prompts) -> np.ndarray:
    """The derivative of y_hat in x_q, -A G b, which is also the w by which the layer predicts: (tasks, d)."""
    x, y = prompts.inputs[:, :-1], prompts.labels[:, :-1]
    on_values = np.einsum("mnd,d->mn", x, own.value[:-1]) + y * own.value[-1]
    moved = np.concatenate(
        [np.einsum("mn,mnd->md", on_values, x), np.einsum("mn,mn->m", on_values, y)[:, None]], axis=1
    )
    return -moved @ own.key_query[:-1].T


def predictions(learnt: np.ndarray, prompts: Prompts) -> np.ndarray:
    """y_hat by the w of `sensitivity`, (tasks,)."""
    return np.einsum("md,md->m", learnt, prompts.inputs[:, -1])


def task_loss(predicted: np.ndarray, prompts: Prompts) -> float:
    """Mean of half the squared error on the query."""
    return float(np.mean((predicted - prompts.labels[:, -1]) ** 2) / 2)


def checked_loss(own: Layer, config: Config, test: Test) -> float:
    """L on fresh tasks, the query averaged out: E |w - w_hat|^2 s / 2. In parts, which fit in the cache at any d."""
    generator, part = stream(SYSTEM, config.seed, "check"), max(1, 2**18 // (config.context_length * config.dimension))
    total = 0.0
    for start in range(0, test.checked_tasks, part):
        shape = (min(part, test.checked_tasks - start),)
        given = tasks.uniform(generator, shape, config.context_length, config.dimension, config.half_width)
        total += float(np.sum((given.weights - sensitivity(own, given)) ** 2))
    return moments(config).variance * total / test.checked_tasks / 2


def layer_loss(own: Layer, config: Config) -> float:
    """L over all tasks."""
    return population_loss(own.key_query[:-1], own.value, config)[0]


def larger_inputs_loss(predicted: np.ndarray, prompts: Prompts, scale: float, clip: float = np.inf) -> float:
    """The same on the tasks with all inputs `scale` times as large, and outputs cut at +-clip.

    y_hat is cubic in the tokens, whose labels grow with the inputs: it is scale^3 times that of the given tasks.
    """
    return float(np.mean((np.clip(scale**3 * predicted, -clip, clip) - scale * prompts.labels[:, -1]) ** 2) / 2)


def repeated(own: Layer, prompts: Prompts, layers: int, damping: float) -> np.ndarray:
    """Predictions after 1 ... `layers` applications of the layer to all tokens, of which only the labels move, by
    `damping` times the update: (layers, tasks).

    Token e becomes e + damping (e W_Q W_K' G b) e_y. Of G = sum_i e_i e_i' only the last row changes, and what is
    needed of the query is the derivative of its label in x_q.
    """
    x, p = prompts.inputs[:, :-1], np.einsum("mn,mnd->md", prompts.labels[:, :-1], prompts.inputs[:, :-1])
    gram, t = np.swapaxes(x, 1, 2) @ x, np.sum(prompts.labels[:, :-1] ** 2, axis=1)
    b_x, b_y, slope, found = own.value[:-1], own.value[-1], np.zeros_like(p), []
    fixed = gram @ b_x
    for _ in range(layers):
        moved = np.concatenate([fixed + b_y * p, (p @ b_x + b_y * t)[:, None]], axis=1)
        u = damping * moved @ own.key_query.T
        u_x, u_y = u[:, :-1], u[:, -1]
        slope = slope + u_x + u_y[:, None] * slope
        along = np.einsum("mde,me->md", gram, u_x) + u_y[:, None] * p
        across = np.einsum("md,md->m", p, u_x) + u_y * t
        t = t + 2 * across + np.einsum("md,md->m", u_x, along) + u_y * across
        p = p + along
        found.append(-predictions(slope, prompts))
    return np.stack(found)


def rate_on_grid(prompts: Prompts, rates: np.ndarray = PUBLISHED_RATES) -> float:
    """The step of the published code: the best on a grid, on the evaluation's own tasks.

    The loss is quadratic in the rate, so that one prediction gives it everywhere.
    """
    count, dimension = prompts.inputs.shape[1] - 1, prompts.inputs.shape[2]
    unit = construction(Config(dimension=dimension, context_length=count), 1.0)
    predicted, wanted = predictions(sensitivity(unit, prompts), prompts), prompts.labels[:, -1]
    losses = rates**2 * np.mean(predicted**2) - 2 * rates * np.mean(predicted * wanted)
    return float(rates[losses.argmin()])


def rate_of(config: Config, test: Test, prompts: Prompts) -> float:
    """The step of gradient descent that a run is compared with."""
    return best_rate(config) if test.gd_rate == "closed form" else rate_on_grid(prompts)
