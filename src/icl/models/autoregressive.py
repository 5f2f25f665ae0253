"""One layer of linear attention learns to continue unitary sequences, x_{t+1} = W x_t (Zheng et al., NeurIPS 2024).

    e_t = (0; x_t; x_{t-1}),   y_t = first block of W^PV E_t E_t* W^KQ e_t / (t - 1),
    L = 1/2 sum_{t=2..T-1} E |y_t - x_{t+1}|^2,   gradient descent from W^KQ_32 = a_0 I, W^PV_12 = b_0 I, all else zero

W is diagonal and unitary, new in every sequence. Rotating all phases together changes no law, and of the products of a
block of W^PV with one of W^KQ only (12)(32) turns with the target: in the mean over sequences the other blocks have no
gradient. Seven engines go down this slope: `literal` forms E_t E_t* at every position and differentiates by itself;
`sampled` computes the same from prefix sums; `reduced` keeps of the same sample what the two blocks see; `population`
does so for the law itself, exactly and for finite T; `masked` is `population` with diagonal blocks; and `scalar`
follows a and b alone, which is all that moves under the paper's assumption on x_1. `summed` does the same for the layer
of Sander et al. (ICML 2024), which does not divide by t - 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import lazy
from icl.core.streams import stream
from icl.models.optimisers import Optimiser, Params, sgd
from icl.tasks import linear_dynamics as tasks
from icl.tasks import unitary_statistics as statistics

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = lazy("torch")

SYSTEM = "zheng_ar"
FROZEN = ()
EXACT = ("population", "masked", "scalar", "summed")
SCALAR = ("scalar", "summed")
FULL = ("sampled", "literal")
# Sequences whose prefix sums are held at a time: they stay in the cache.
CHUNK = 100
# Beyond them the engines that hold all pairs of positions, or all products of six coordinates, take too much memory.
LONGEST, WIDEST = 2000, 8


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of the training."""

    engine: str = constant(
        "population", "ours", "what the theorem speaks of; agrees with the published curves to their reading error",
        choices=("population", "scalar", "masked", "reduced", "sampled", "literal", "summed"),
    )  # fmt: skip
    law: str = constant(
        "gaussian", "published", "the talk, pages 42 and 43: x_1 Gaussian, one coordinate (Example 4.1), or all ones",
        letter="D_{x_1}", choices=tuple(tasks.STARTS),
    )  # fmt: skip
    dimension: int = constant(5, "published", "official run script", letter="d", at_least=2, at_most=1000)
    length: int = constant(100, "published", "official run script", letter="T", at_least=3, at_most=1000000)
    scale: float = constant(
        0.5, "published", "the talk, page 42: sigma of the Gaussian, c of Example 4.1; 1 for all ones",
        letter="sigma, c", above=0,
    )  # fmt: skip
    start: str = constant(
        "0.1 0.1", "published", "the talk, page 42: a_0 and b_0, separated by a blank", letter="a_0, b_0"
    )
    rate: float = constant(
        1e-3, "published", "official plot script: 1e-3 (Gaussian), 3e-2 (sparse), 5e-4 (all ones)", letter="eta",
        above=0,
    )  # fmt: skip
    samples: int = constant(
        10000, "published", "official run script; a fixed set, every step sees all of it", letter="m", at_least=1,
        at_most=1000000,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            found = len([float(word) for word in self.start.split()])
        except ValueError:
            found = 0
        if found != 2 or not np.isfinite(self.starts).all():
            raise self.error("start", "two finite numbers, a_0 and b_0, separated by a blank")
        for name, most in (("length", LONGEST), ("dimension", WIDEST)):
            if getattr(self, name) > most and self.engine not in SCALAR:
                raise self.error(name, f"at most {most} for the engine {self.engine}; `scalar` takes more")

    @property
    def starts(self) -> tuple[float, float]:
        """a_0 and b_0."""
        a, b = (float(word) for word in self.start.split())
        return a, b


@dataclass(frozen=True)
class Test(Constants):
    """Constants of the evaluation on fresh sequences; the exact curves need none."""

    sequences: int = constant(
        10000, "published", "official script: as many as in training", letter="m_te", at_least=1, at_most=1000000
    )


def is_random(configs: Sequence[Config]) -> bool:
    """Whether sequences are sampled: in training, or in the evaluation, for which a sweep then has several seeds."""
    return any(config.engine not in EXACT for config in configs) or len({config.seed for config in configs}) > 1


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Assumption 4.1: W^KQ_32 = a_0 I and W^PV_12 = b_0 I, all else zero.

    `scalar` and `summed` hold a and b, (runs,) each, in float64; the other engines for the two blocks A and B, (runs,
    d, d). The full ones hold real and imaginary parts, float32 as in the official code: W^KQ (runs, 2 d, 2 d, 2) over
    the blocks 2 and 3, and W^PV (runs, d, 2 d, 2), the first block's rows. The rest of either matrix meets only zeros.
    """
    a, b = (torch.tensor(value, dtype=torch.float64) for value in zip(*[c.starts for c in configs], strict=True))
    d, runs, engine = configs[0].dimension, len(configs), configs[0].engine
    if engine in SCALAR:
        return {"KQ": a.to(device), "PV": b.to(device)}
    one = torch.eye(d, dtype=torch.float64)
    if engine not in FULL:
        return {"KQ": (a[:, None, None] * one).to(device), "PV": (b[:, None, None] * one).to(device)}
    key_query, projection_value = torch.zeros(runs, 2 * d, 2 * d, 2), torch.zeros(runs, d, 2 * d, 2)
    key_query[:, d:, :d, 0] = a[:, None, None] * one
    projection_value[:, :, :d, 0] = b[:, None, None] * one
    return {"KQ": key_query.to(device), "PV": projection_value.to(device)}


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """Plain gradient descent; an epoch of the paper is one step on all sequences."""
    return sgd([config.rate for config in configs])


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """Nothing: the sequences are the same in every step, and the engines keep what they need of them."""
    return {}


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """L of every run, with the engine's gradient as its derivative: (runs,)."""
    weights = {name: w.detach() for name, w in params.items()}
    losses, gradients = ENGINES[configs[0].engine](weights, configs)
    # What is added is zero, and its derivative is the gradient that the engine found.
    for name, w in params.items():
        losses = losses + ((w - w.detach()) * gradients[name]).reshape(len(w), -1).sum(dim=1)
    return losses


# sequences


@lru_cache(maxsize=32)
def drawn(config: Config, purpose: str = "train", count: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of W, complex (m, d), and first tokens, (m, d), of the run's sequences.

    The address has no constant but the seed: the starts of a seed share their sequences, as in the official code.
    """
    rng, number = stream(SYSTEM, config.seed, purpose), count or config.samples
    w = np.exp(1j * tasks.phases(rng, number, config.dimension))
    return w, tasks.STARTS[config.law](rng, number, config.dimension, config.scale)


def sequences(config: Config, purpose: str = "train", count: int = 0) -> np.ndarray:
    """The run's sequences, or `count` others for another purpose: complex (m, T, d)."""
    return tasks.sequences(*drawn(config, purpose, count), config.length)


def moment(config: Config, *powers: int) -> float:
    """E u_1^r_1 u_2^r_2 ... of the first token."""
    return tasks.moment(config.law, powers, config.dimension, config.scale)


def _data(config: Config) -> Config:
    """The config with everything at its default that the statistics of its sequences do not depend on."""
    law = Config(
        engine=config.engine, law=config.law, dimension=config.dimension, length=config.length, scale=config.scale
    )
    return law if config.engine in EXACT else replace(law, seed=config.seed, samples=config.samples)


# population, masked, reduced and scalar: the two blocks that move


@lru_cache(maxsize=32)
def known(data: Config) -> statistics.Statistics:
    """What A and B see of the law (population, masked) or of the run's sequences (reduced)."""
    if data.engine == "reduced":
        return statistics.empirical(sequences(data).astype(np.complex64))
    return statistics.population(data.law, data.dimension, data.scale, data.length)


def blocks(weights: Params, configs: Sequence[Config]) -> "tuple[Tensor, Params]":
    """L and its gradient in A and B, run by run; runs that agree in all that counts are computed once."""
    found: dict[tuple[object, ...], tuple[float, np.ndarray, np.ndarray]] = {}
    results = []
    for run, config in enumerate(configs):
        a, b = weights["KQ"][run].cpu().numpy(), weights["PV"][run].cpu().numpy()
        data = _data(config)
        same = (data, a.tobytes(), b.tobytes())
        if same not in found:
            # A step that is too large overflows; icl.core.runs.diverged reports it.
            with np.errstate(all="ignore"):
                found[same] = known(data).loss(a, b)
        value, slope_a, slope_b = found[same]
        kept = np.eye(len(a)) if config.engine == "masked" else 1.0
        results.append((value, slope_a * kept, slope_b * kept))
    values, slopes_a, slopes_b = (torch.from_numpy(np.array(part)) for part in zip(*results, strict=True))
    device = weights["KQ"].device
    return values.to(device), {"KQ": slopes_a.to(device), "PV": slopes_b.to(device)}


@lru_cache(maxsize=1024)
def coefficients(config: Config) -> tuple[float, float]:
    """-dL/d(ab) / (d (T - 2)) = kappa - ab lambda under the paper's assumption on x_1: (kappa, lambda).

    With k_1 = E u_j^4, k_2 = E u_j^6, k_3 = sum_{r != j} E u_j^2 u_r^4 (Theorem 4.1), kappa = k_1 and
    lambda = k_2 + k_3 / (T - 2) sum_{t=2..T-1} 1 / (t - 1).
    """
    k_1, k_2, k_3 = moment(config, 4), moment(config, 6), (config.dimension - 1) * moment(config, 2, 4)
    harmonic = (1 / np.arange(1, config.length - 1)).sum()
    return k_1, k_2 + k_3 * float(harmonic) / (config.length - 2)


def limit(config: Config) -> float:
    """ab* = k_1 / (k_2 + k_3 / (T - 2) sum_{t=2..T-1} 1 / (t - 1)), Theorem 4.1."""
    kappa, curvature = coefficients(config)
    return kappa / curvature


def scalar(weights: Params, configs: Sequence[Config]) -> "tuple[Tensor, Params]":
    """L = d/2 (T - 2) [E u_j^2 - 2 ab kappa + (ab)^2 lambda] and, per diagonal entry, its derivatives in a and b."""
    a, b = weights["KQ"], weights["PV"]
    rows = [(*coefficients(c), moment(c, 2)) for c in configs]
    kappa, curvature, power = torch.tensor(rows, dtype=a.dtype, device=a.device).T
    d, terms = torch.tensor([[c.dimension, c.length - 2] for c in configs], dtype=a.dtype, device=a.device).T
    pull = terms * (kappa - a * b * curvature)
    values = d * terms / 2 * (power - 2 * a * b * kappa + (a * b).square() * curvature)
    return values, {"KQ": -b * pull, "PV": -a * pull}


@lru_cache(maxsize=1024)
def summed_coefficients(config: Config) -> tuple[float, float]:
    """-dL/d(ab) / d = kappa - ab lambda for y_T = ab sum of T summands x_i x_{i-1}* x_T, T = 2 ... T_max.

    (kappa, lambda): kappa = k_1 sum T and lambda = sum (k_2 T^2 + k_3 T), with the moments of `coefficients`; for u = 1
    those of Sander et al., Proposition 2, whose T counts summands (a position after a token of zeros has T - 1).
    """
    k_1, k_2, k_3 = moment(config, 4), moment(config, 6), (config.dimension - 1) * moment(config, 2, 4)
    n = np.arange(2.0, config.length + 1)
    return k_1 * float(n.sum()), float((k_2 * n**2 + k_3 * n).sum())


def summed(weights: Params, configs: Sequence[Config]) -> "tuple[Tensor, Params]":
    """The loss of that layer per coordinate and summand, L / (d sum T), and its derivatives in a and b."""
    a, b = weights["KQ"], weights["PV"]
    rows = []
    for config in configs:
        kappa, curvature = summed_coefficients(config)
        pairs = (config.length * (config.length + 1) - 2) / 2
        power = (config.length - 1) * moment(config, 2)
        rows.append((kappa / pairs, curvature / pairs, power / pairs))
    kappa, curvature, power = torch.tensor(rows, dtype=a.dtype, device=a.device).T
    pull = kappa - a * b * curvature
    values = (power - 2 * a * b * kappa + (a * b).square() * curvature) / 2
    return values, {"KQ": -b * pull, "PV": -a * pull}


def flow(config: Config, times: np.ndarray, tolerance: float = 1e-12) -> tuple[np.ndarray, np.ndarray]:
    """a and b along da/dtau = b (T - 2) (kappa - ab lambda), db/dtau = a (T - 2) (same): (times,) each.

    One epoch of gradient descent is tau = rate.
    """
    from scipy.integrate import solve_ivp

    kappa, curvature = coefficients(config)

    def field(_: float, ab: np.ndarray) -> np.ndarray:
        pull = (config.length - 2) * (kappa - ab[0] * ab[1] * curvature)
        return np.array([ab[1] * pull, ab[0] * pull])

    solved = solve_ivp(
        field, (0.0, float(times[-1])), config.starts, method="DOP853", t_eval=times, rtol=tolerance, atol=tolerance
    )
    return solved.y[0], solved.y[1]


# sampled: the official estimator from prefix sums


def sampled(weights: Params, configs: Sequence[Config]) -> "tuple[Tensor, Params]":
    """L over the run's sequences and its gradient in all blocks, real and imaginary parts, without E_t.

    With M_t = sum_{i<t} x_i x_i* and x_{t-1} = W* x_t, every product of tokens is one with M_t: for z_t =
    (x_t; x_{t-1}) and K z_t = (v; v'), the layer's sum is E E* K z_t = (x_1 (x_1* v) + W h; h), h = M_t (W* v + v').
    So a position needs one product with M_t forward and one backward, and matrices that t does not enter.
    """
    key_query, projection_value = (torch.view_as_complex(weights[name]) for name in ("KQ", "PV"))
    totals = [_Totals.zeros(key_query[run], projection_value[run]) for run in range(len(configs))]
    groups: dict[Config, list[int]] = {}
    for run, config in enumerate(configs):
        groups.setdefault(_data(config), []).append(run)
    for data, runs in groups.items():
        w, u = (torch.from_numpy(part).to(key_query.dtype) for part in drawn(data))
        for start in range(0, data.samples, CHUNK):
            part = _Prefix.of(w[start : start + CHUNK], u[start : start + CHUNK], data.length)
            for run in runs:
                totals[run].add(part, key_query[run], projection_value[run])
    return _averaged(totals, configs)


@dataclass
class _Prefix:
    """A chunk of sequences: w, u (c, d); x_t and x_{t+1}, t = 2 ... T - 1, (c, d, T - 2); M_t (c, d, d, T - 2)."""

    w: "Tensor"
    u: "Tensor"
    x: "Tensor"
    wanted: "Tensor"
    sums: "Tensor"
    share: "Tensor"

    @classmethod
    def of(cls, w: "Tensor", u: "Tensor", length: int) -> "_Prefix":
        powers = torch.cumprod(w[..., None].expand(-1, -1, length - 1), dim=-1)
        x = torch.cat([u[..., None], powers * u[..., None]], dim=-1)
        before = x[..., :-2]
        sums = torch.cumsum(before[:, :, None] * before.conj()[:, None], dim=-1)
        share = 1 / torch.arange(1, length - 1, dtype=w.real.dtype, device=w.device)
        return cls(w, u, x[..., 1:-1].contiguous(), x[..., 2:], sums, share)


@dataclass
class _Totals:
    """What one run has summed up over its sequences: L and the gradients."""

    loss: float
    key_query: "Tensor"
    projection_value: "Tensor"

    @classmethod
    def zeros(cls, key_query: "Tensor", projection_value: "Tensor") -> "_Totals":
        return cls(0.0, torch.zeros_like(key_query), torch.zeros_like(projection_value))

    def add(self, part: _Prefix, key_query: "Tensor", projection_value: "Tensor") -> None:
        """Forward and backward through one chunk."""
        d, w, u, x = part.w.shape[1], part.w, part.u, part.x
        k = key_query.reshape(2, d, 2, d)
        k22, k23, k32, k33 = k[0, :, 0], k[0, :, 1], k[1, :, 0], k[1, :, 1]
        p2, p3 = projection_value[:, :d], projection_value[:, d:]
        back = w.conj()[:, None]  # (.) W*, on the right
        seen = k22 + k23 * back  # v = seen x_t
        asked = w.conj()[..., None] * seen + k32 + k33 * back  # W* v + v' = asked x_t
        first = (u.conj()[:, None] @ seen)[:, 0]  # x_1* v = first x_t, (c, d)
        out, own = p2 * w[:, None] + p3, u @ p2.T
        h = (part.sums * (asked @ x)[:, None]).sum(dim=2)  # M_t is Hermitian; (c, d, n)
        alpha = first[:, None] @ x  # (c, 1, n)
        residual = (out @ h + own[..., None] * alpha) * part.share - part.wanted
        self.loss += float(residual.real.square().sum() + residual.imag.square().sum()) / 2
        pull = residual * part.share
        to_h, to_alpha = out.mH @ pull, own.conj()[:, None] @ pull
        to_asked = (part.sums * to_h[:, None]).sum(dim=2) @ x.mH  # (c, d, d)
        to_first = to_alpha @ x.mH  # (c, 1, d)
        to_seen = w[..., None] * to_asked + u[..., None] * to_first
        ahead = w[:, None]
        self.key_query += torch.cat(
            [
                torch.cat([to_seen.sum(0), (to_seen * ahead).sum(0)], dim=1),
                torch.cat([to_asked.sum(0), (to_asked * ahead).sum(0)], dim=1),
            ]
        )
        to_out = pull @ h.mH
        to_own = (pull * alpha.conj()).sum(-1)
        to_p2 = (to_out * back).sum(0) + to_own.T @ u.conj()
        self.projection_value += torch.cat([to_p2, to_out.sum(0)], dim=1)


def _averaged(totals: "list[_Totals]", configs: Sequence[Config]) -> "tuple[Tensor, Params]":
    values = torch.tensor([own.loss / c.samples for own, c in zip(totals, configs, strict=True)], dtype=torch.float64)
    names = {"KQ": "key_query", "PV": "projection_value"}
    return values, {
        key: torch.stack(
            [torch.view_as_real(getattr(own, name) / c.samples) for own, c in zip(totals, configs, strict=True)]
        )
        for key, name in names.items()
    }


# literal: the definition, the oracle of the others


def literal(weights: Params, configs: Sequence[Config]) -> "tuple[Tensor, Params]":
    """L by the definition, position by position, and its gradient by automatic differentiation."""
    values, slopes = [], []
    for run, config in enumerate(configs):
        x = torch.from_numpy(sequences(_data(config)))
        leaves = [weights[name][run].detach().requires_grad_() for name in ("KQ", "PV")]
        key_query, projection_value = (torch.view_as_complex(leaf) for leaf in leaves)
        with torch.enable_grad():
            value = literal_loss(*embedded(key_query, projection_value), x.to(key_query.dtype))
        slopes.append(torch.autograd.grad(value, leaves))
        values.append(value.detach().double())
    key_query, projection_value = (torch.stack(part) for part in zip(*slopes, strict=True))
    return torch.stack(values), {"KQ": key_query, "PV": projection_value}


def embedded(key_query: "Tensor", projection_value: "Tensor") -> "tuple[Tensor, Tensor]":
    """W^KQ and W^PV with their first block, (3 d, 3 d) each, from the parts that tokens (x_t; x_{t-1}) meet."""
    d = len(projection_value)
    return (
        torch.nn.functional.pad(key_query, (d, 0, d, 0)),
        torch.nn.functional.pad(projection_value, (d, 0, 0, 2 * d)),
    )


def literal_loss(key_query: "Tensor", projection_value: "Tensor", x: "Tensor") -> "Tensor":
    """1/2 sum_t E |y_t - x_{t+1}|^2 for whole matrices (3 d, 3 d) over sequences x (m, T, d)."""
    predictions = literal_predictions(key_query, projection_value, x)
    residual = predictions - x[:, 2:]
    return (residual.real.square() + residual.imag.square()).sum() / (2 * len(x))


def literal_predictions(key_query: "Tensor", projection_value: "Tensor", x: "Tensor") -> "Tensor":
    """y_t, t = 2 ... T - 1, each from E_t E_t* / (t - 1) formed anew: (m, T - 2, d)."""
    d = x.shape[2]
    tokens = torch.cat([torch.zeros_like(x), x, torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)], dim=2)
    embedding = tokens.mT  # E, (m, 3 d, T)
    outputs = []
    for t in range(2, x.shape[1]):
        own = embedding[..., :t]
        gram = own @ own.mH / (t - 1)
        outputs.append((projection_value @ gram @ key_query @ own[..., -1:])[:, :d, 0])
    return torch.stack(outputs, dim=1)


Engine = Callable[[Params, Sequence[Config]], "tuple[Tensor, Params]"]
ENGINES: dict[str, Engine] = {
    "population": blocks,
    "masked": blocks,
    "reduced": blocks,
    "scalar": scalar,
    "summed": summed,
    "sampled": sampled,
    "literal": literal,
}


# observables


def moving(weights: Params, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """The real blocks A = W^KQ_32 and B = W^PV_12 of one run's weights, (..., d, d) each, whatever the engine holds."""
    d, a, b = config.dimension, weights["KQ"].double().numpy(), weights["PV"].double().numpy()
    if config.engine in SCALAR:
        return a[..., None, None] * np.eye(d), b[..., None, None] * np.eye(d)
    if config.engine in FULL:
        return a[..., d:, :d, 0], b[..., :d, 0]
    return a, b


def products(weights: Params, config: Config) -> np.ndarray:
    """ab, the mean over i of W^KQ_{d+i,i} W^PV_{i,i}, for one run's weights: (...,)."""
    a, b = moving(weights, config)
    both: np.ndarray = (np.diagonal(a, axis1=-2, axis2=-1) * np.diagonal(b, axis1=-2, axis2=-1)).mean(axis=-1)
    return both


def layer(key_query: np.ndarray, projection_value: np.ndarray, x: np.ndarray) -> np.ndarray:
    """y_t, t = 2 ... T - 1, of the literal layer whose blocks A and B are given: (m, T, d) -> (m, T - 2, d)."""
    d = len(key_query)
    full = np.zeros((2 * d, 2 * d), complex), np.zeros((d, 2 * d), complex)
    full[0][d:, :d], full[1][:, :d] = key_query, projection_value
    parts = embedded(*(torch.from_numpy(part) for part in full))
    return literal_predictions(*parts, torch.from_numpy(x)).numpy()


def last_error(key_query: np.ndarray, projection_value: np.ndarray, config: Config) -> float:
    """E |y_{T-1} - x_T|^2 in the population: twice what the last position adds to the loss."""
    law = config.law, config.dimension, config.scale
    whole, shorter = (statistics.population(*law, config.length - i) for i in (0, 1))
    return 2 * (whole.loss(key_query, projection_value)[0] - shorter.loss(key_query, projection_value)[0])


def predictions(key_query: np.ndarray, projection_value: np.ndarray, x: np.ndarray) -> np.ndarray:
    """y_{T-1} = B sum_{i=2..T-1} x_i x_{i-1}* A x_{T-1} / (T - 2), which predicts x_T: (m, T, d) -> (m, d)."""
    scores = (x[:, :-2].conj() @ (x[:, -2] @ key_query.T)[..., None])[..., 0] / (x.shape[1] - 2)
    return ((scores[:, None] @ x[:, 1:-1])[:, 0]) @ projection_value.T
