"""The limit of one linear self-attention layer under query shifts (talk page 26)."""

from functools import partial

import numpy as np

from icl.drawing import own_style
from icl.figure import Axis, Figure, Rows, Runs, Style, Trained, curves, join, rows
from icl.models import estimators
from icl.models import linear_attention_theory as theory
from icl.papers.zhang2024 import evaluation
from icl.papers.zhang2024 import talk_panels as talk
from icl.papers.zhang2024.evaluation import DECK, INFINITE, LONG, SPECTRUM, Statistics, layers
from icl.tasks import linear_regression as tasks

COUNTS = (0, 1, 2, 3, 5, 8, 10, 12, 15, 18, 20, 22, 25, 30, 35, 40)
FEW = (0, 1, 2, 3, 5, 8, 10, 12, 15, 17, 19)
TEST_LENGTHS = (30, 100, 300, 1000, 3000, 10000, 20000)
SAME, SHIFTED, COVARIATES = "same", ("scaled by 0.1", "scaled by 10", "rotated"), "covariates"
RELATIVE, OVER_QUERY = "relative prediction", "error over |x_query|^2"


def measure(runs: Trained, scale: str) -> Rows:
    """Errors on prompts and in closed form, and predictions for orthogonal queries."""
    long = runs["zhang_infinite"]
    parts = [*page_26(runs["zhang_deck"]), *orthogonal(long), *tolerance(long)]
    return join([*parts, evaluation.distances_from_limit(runs)])


def page_26(runs: Runs) -> list[Rows]:
    """Return the talk's panels: queries orthogonal to examples or equal the first, and examples
    from one orthant.
    """

    def in_one_orthant(prompts: tasks.Prompts, source: np.random.Generator) -> tasks.Prompts:
        return tasks.in_orthants(prompts, np.sign(source.standard_normal(prompts.weights.shape)))

    plain, orthants = talk.prompts(runs, "query"), talk.prompts(runs, "query", in_one_orthant)
    few = [talk.errors(runs, orthogonal_to_few(plain, k), [k]) for k in FEW]
    orthogonal = {name: np.hstack([errors[name] for errors in few]) for name in few[0]}
    # A query can repeat an example only if there is one.
    repeated, some = tasks.matching_query(plain), COUNTS[1:]
    matrix, counts = layers(runs)[0][1], np.arange(1, evaluation.TALK_LENGTH + 1)
    d, one = len(matrix), np.eye(len(matrix))
    match = theory.matching_error(np.trace(matrix) / d, d, counts) / d
    orthant = np.append(
        1.0,
        theory.one_step_error(matrix, *theory.orthant_moments(np.ones(d)), one, one, counts) / d,
    )
    return [
        *talk.error_rows(runs, "orthogonal", FEW, orthogonal, {talk.THEORY: np.ones(d)}),
        *talk.error_rows(
            runs, "match", some, talk.errors(runs, repeated, some), {talk.THEORY: match}
        ),
        *talk.error_rows(
            runs, "orthants", COUNTS, talk.errors(runs, orthants, COUNTS), {talk.THEORY: orthant}
        ),
    ]


def orthogonal_to_few(prompts: tasks.Prompts, count: int) -> tasks.Prompts:
    """Return the first examples, and a query orthogonal to them."""
    kept = np.r_[:count, -1]
    cut = tasks.Prompts(prompts.inputs[..., kept, :], prompts.labels[..., kept], prompts.weights)
    return tasks.orthogonal_query(cut) if count else cut


def orthogonal(runs: Runs) -> list[Rows]:
    """Root mean squares of predictions for orthogonal queries over those of the truth, after 1
    ... d - 1 examples.
    """
    parts, count = [], runs.sweep.test.prompts_test
    for config, matrix in layers(runs):
        predict = estimators.preconditioned_gradient_descent([matrix])
        source, sizes, x = (
            evaluation.generator(config, "orthogonal"),
            [],
            range(1, config.dimension),
        )
        for k in x:
            drawn = tasks.gaussian(source, (count,), k, config.dimension)
            drawn = tasks.orthogonal_query(
                tasks.labelled(np.sqrt(config.spectrum()) * drawn.inputs, drawn.weights)
            )
            predicted = predict(drawn.inputs[:, :-1], drawn.labels[:, :-1], drawn.inputs[:, -1])
            sizes.append(np.sqrt(np.mean(predicted**2) / np.mean(drawn.labels[:, -1] ** 2)))
        case = "skewed" if config.eigenvalues else "isotropic"
        name = f"prediction for an orthogonal query over the truth, {case}"
        parts.append(curves(RELATIVE, "prediction", config.seed, x, {case: sizes}))
        parts.append(rows(name, config.seed, np.sqrt(np.mean(np.square(sizes)))))
    return parts


def over_query(drawn: Statistics, matrix: np.ndarray, source: np.random.Generator) -> list[float]:
    """Errors over E |x_query|^2: as in training, for scaled or randomly rotated queries, and for
    doubled covariates.
    """
    turned = source.standard_normal(drawn.query.shape)
    length, of_turned = (
        np.linalg.norm(vectors, axis=-1, keepdims=True) for vectors in (drawn.query, turned)
    )
    queries = (drawn.query, 0.1 * drawn.query, 10 * drawn.query, turned * length / of_turned)
    prompts = [*(drawn._replace(query=query) for query in queries), drawn.scaled(2)]
    return [part.error(matrix) / np.mean(np.sum(part.query**2, axis=-1)) for part in prompts]


def tolerance(runs: Runs) -> list[Rows]:
    """Errors under shifted queries over M, on prompts and in closed form."""
    skewed = layers(runs, eigenvalues=SPECTRUM)
    seeds, errors = evaluation.over_lengths(runs, skewed, TEST_LENGTHS, over_query, "tolerance")
    on_prompts = {
        f"{name}, prompts": errors[..., index]
        for index, name in enumerate((SAME, *SHIFTED, COVARIATES))
    }
    largest = np.sqrt(np.max([on_prompts[f"{name}, prompts"][:, -1:] for name in SHIFTED], axis=0))
    covariance, x = np.diag(SPECTRUM), np.geomspace(30, 20000, 30).round()
    matrix, turned = (
        theory.preconditioner(covariance, INFINITE),
        np.mean(SPECTRUM) * np.eye(len(SPECTRUM)),
    )
    # The factor of the covariance of the examples, and the covariance of the query.
    laws = {SAME: (1, covariance), "rotated": (1, turned), COVARIATES: (4, 4 * covariance)}
    exact = {
        f"{name}, theory": theory.gaussian_error(matrix, factor * covariance, x, query=query)
        / np.trace(query)
        for name, (factor, query) in laws.items()
    }
    return [
        curves(OVER_QUERY, "tolerance", seeds, TEST_LENGTHS, on_prompts),
        curves(OVER_QUERY, "tolerance", None, x, exact),
        rows("largest error over the norm of a shifted query", seeds, largest),
        rows(
            "slope of the error of rotated queries against M",
            seeds,
            evaluation.slopes(TEST_LENGTHS, on_prompts["rotated, prompts"], 300),
        ),
    ]


OF_COVARIANCES = own_style.styles(
    {"skewed": "condition number 20", "isotropic": r"$\Lambda=I$"}, markers=True
)
PREDICTIONS = (
    *(style._replace(marker="") for style in OF_COVARIANCES),
    *(style._replace(label="") for style in OF_COVARIANCES),
)
OF_QUERIES = {
    "covariates": "covariates times 2",
    "rotated": "query rotated",
    "same": "query as in training",
}
TOLERANCE = (
    *talk.theory_and_prompts(OF_QUERIES),
    Style("scaled by 0.1, prompts", "query times 0.1", "k", "x"),
    Style("scaled by 10, prompts", "query times 10", "k", "+"),
)
FEW_EXAMPLES = talk.EXAMPLES._replace(limits=(-1, 19), ticks=range(0, 16, 5))
FOUR_EXAMPLES = talk.EXAMPLES._replace(limits=(0.8, 4.2), ticks=range(1, 5))
PREDICTION = Axis("prediction / truth", (-0.2, 4.2))
LENGTH = Axis("Test length $M$", (25, 25000), log=True)
SQUARE = Axis(r"squared error$\,/\,|x_{query}|^2$", (1e-5, 50), log=True)
PANELS: dict[str, talk.Panel] = {
    "orthogonal": (
        (60, 310, 30, 250),
        "page 26: orthogonal query",
        FEW_EXAMPLES,
        talk.SQUARED_ERROR,
    ),
    "match": (
        (395, 645, 30, 250),
        "page 26: query matches in-context example",
        talk.EXAMPLES,
        talk.SQUARED_ERROR,
    ),
    "orthants": (
        (730, 980, 30, 250),
        "page 26: different orthants",
        talk.EXAMPLES,
        talk.SQUARED_ERROR,
    ),
    "prediction": (
        (60, 400, 330, 560),
        "ours: query orthogonal to the examples, $d=5$",
        FOUR_EXAMPLES,
        PREDICTION,
    ),
    "tolerance": ((490, 980, 330, 560), r"ours: $N=\infty$, condition number 20", LENGTH, SQUARE),
}
SHOWN: dict[str, talk.Shown] = {
    "orthogonal": (talk.ERROR, talk.SERIES, (9, "lower left", (0.02, 0.02))),
    "match": (talk.ERROR, talk.SERIES, None),
    "orthants": (talk.ERROR, talk.SERIES, None),
    "prediction": (RELATIVE, PREDICTIONS, (9, "center right", (0.98, 0.25))),
    "tolerance": (OVER_QUERY, TOLERANCE, talk.LOWER_LEFT),
}


draw = partial(
    talk.draw, size=(1010, 620), panels=PANELS, shown=SHOWN, unfolded={"orthants": (1.5, 30)}
)
FIGURES = (Figure("zhang_query_shift", evaluation.flows(deck=DECK, infinite=LONG), measure, draw),)
