"""Predictions and losses of a trained layer, also repeated, compared with one step of gradient
descent.
"""

from typing import NamedTuple

import numpy as np

from icl.core.runs import Runs
from icl.core.streams import stream
from icl.papers.oswald2023 import closed_forms
from icl.papers.oswald2023.linear_attention import MATRICES, NAME, Config, Evaluation
from icl.tasks import linear_regression as tasks
from icl.tasks.linear_regression import Prompts


class Layer(NamedTuple):
    """The products on which the predicted labels depend: W_Q W_K', (D, D), and the last column
    of W_V W_P, (D,).
    """

    key_query: np.ndarray
    value: np.ndarray


def trained_layer(trained: Runs, run: int, point: int = -1) -> Layer:
    """Return the layer of one run at a snapshot, in float64."""
    q, k, v, p = (trained.weights[name][run, point].double().numpy() for name in MATRICES)
    return Layer(q @ k.T, v @ p[:, -1])


def construction(config: Config, step_size: float) -> Layer:
    """Return the layer that does one step of gradient descent on (1/2N) sum (<w, x_i> - y_i)^2 from
    any w.

    It has W_Q W_K' = diag(I, 0) and W_V W_P = -(step_size / N) e_y e_y' (von Oswald et al. 2023,
    Proposition 1).
    """
    key_query, value = np.eye(config.dimension + 1), np.zeros(config.dimension + 1)
    key_query[-1, -1], value[-1] = 0, -step_size / config.context_length
    return Layer(key_query, value)


def interpolated(trained: Layer, constructed: Layer) -> Layer:
    """Return the mean of both layers, after the trained one's free scale, the mean diagonal of the
    x block of its W_Q W_K', has moved to the values.
    """
    scale = np.diag(trained.key_query)[:-1].mean()
    key_query = (trained.key_query / scale + constructed.key_query) / 2
    return Layer(key_query, (trained.value * scale + constructed.value) / 2)


def layers_by_series(trained: Runs, run: int) -> dict[str, Layer]:
    """Return the best step of gradient descent, the layer at the end of training, and their
    mean, by series.
    """
    config = trained.sweep.configs[run]
    constructed = construction(config, closed_forms.best_step_size(config))
    layer = trained_layer(trained, run)
    return {
        "GD": constructed,
        "Interpolated": interpolated(layer, constructed),
        "Trained TF": layer,
    }


def evaluation_prompts(config: Config, test: Evaluation, to_enlarge: bool = False) -> Prompts:
    """Return the tasks on which a run is evaluated, or those for the evaluation on larger
    inputs, not yet enlarged.
    """
    purpose, count = ("larger", test.larger_tasks) if to_enlarge else ("evaluate", test.tasks)
    generator = stream(NAME, 0 if test.shared_tasks else config.seed, purpose)
    return tasks.uniform(
        generator, (count,), config.context_length, config.dimension, config.half_width
    )


def sensitivity(layer: Layer, prompts: Prompts) -> np.ndarray:
    """Return the derivative of y_hat in x_q, -A G b, which is also the layer's implicit weight
    vector, (tasks, d).
    """
    x, y = prompts.inputs[:, :-1], prompts.labels[:, :-1]
    on_values = np.einsum("mnd,d->mn", x, layer.value[:-1]) + y * layer.value[-1]
    moved = np.column_stack(
        [np.einsum("mn,mnd->md", on_values, x), np.einsum("mn,mn->m", on_values, y)]
    )
    return -moved @ layer.key_query[:-1].T


def predictions(sensitivities: np.ndarray, prompts: Prompts) -> np.ndarray:
    """y_hat, the derivatives of `sensitivity` applied to the queries, (tasks,)."""
    return np.einsum("md,md->m", sensitivities, prompts.inputs[:, -1])


def repeated(layer: Layer, prompts: Prompts, layers: int, damping: float) -> np.ndarray:
    """Return the predictions after 1 ... `layers` applications of the layer to all tokens, (layers,
    tasks).

    Only the labels move, by `damping` times the update: token e becomes e + damping (e W_Q W_K' G
    b) e_y. Of G = sum_i e_i e_i' only the last row changes, and for the query only the derivative
    of its label in x_q is needed.
    """
    x, p = (
        prompts.inputs[:, :-1],
        np.einsum("mn,mnd->md", prompts.labels[:, :-1], prompts.inputs[:, :-1]),
    )
    gram, t = np.swapaxes(x, 1, 2) @ x, np.sum(prompts.labels[:, :-1] ** 2, axis=1)
    b_x, b_y, slope, predicted = layer.value[:-1], layer.value[-1], np.zeros_like(p), []
    fixed = gram @ b_x
    for _ in range(layers):
        moved = np.column_stack([fixed + b_y * p, p @ b_x + b_y * t])
        u = damping * moved @ layer.key_query.T
        u_x, u_y = u[:, :-1], u[:, -1]
        slope = slope + u_x + u_y[:, None] * slope
        along = np.einsum("mde,me->md", gram, u_x) + u_y[:, None] * p
        across = np.einsum("md,md->m", p, u_x) + u_y * t
        t = t + 2 * across + np.einsum("md,md->m", u_x, along) + u_y * across
        p = p + along
        predicted.append(-predictions(slope, prompts))
    return np.stack(predicted)


def task_loss(
    predicted: np.ndarray, prompts: Prompts, scale: float = 1.0, clip: float = np.inf
) -> float:
    """Half the mean squared error on the query, with all inputs multiplied by `scale` and outputs
    clipped at +-clip.

    y_hat is cubic in the tokens, whose labels grow with the inputs, so it is scale^3 times that of
    the original tasks.
    """
    return float(
        np.mean((np.clip(scale**3 * predicted, -clip, clip) - scale * prompts.labels[:, -1]) ** 2)
        / 2
    )


def layer_loss(layer: Layer, config: Config) -> float:
    """Return the loss over all tasks by the closed form."""
    return float(closed_forms.population_loss(layer.key_query[:-1], layer.value, config))


def final_losses(trained: Runs) -> np.ndarray:
    """Return the losses over all tasks at the end of training, (runs,)."""
    configs = enumerate(trained.sweep.configs)
    return np.array([layer_loss(trained_layer(trained, run), config) for run, config in configs])


def preconditioner_errors(layer: Layer, config: Config) -> tuple[float, float]:
    """Return the largest errors of B relative to its optimum -(s / (N q)) I, on and off the
    diagonal.
    """
    optimum = -closed_forms.best_step_size(config) / config.context_length
    error = abs(
        closed_forms.preconditioner(layer.key_query[:-1], layer.value) / optimum
        - np.eye(config.dimension)
    )
    diagonal = np.diag(error)
    return float(diagonal.max()), float((error - np.diag(diagonal)).max())


def distances(layer: Layer, gd: np.ndarray, prompts: Prompts) -> dict[str, float]:
    """Return the losses of a layer and of gradient descent ("GD") and their published distances,
    averaged over tasks.

    gd : the derivatives in the query of gradient descent's predictions, (tasks, d)
    """
    slopes = sensitivity(layer, prompts)
    by_layer, by_gd = predictions(slopes, prompts), predictions(gd, prompts)
    lengths = np.linalg.norm(slopes, axis=1) * np.linalg.norm(gd, axis=1)
    return {
        "loss": task_loss(by_layer, prompts),
        "GD": task_loss(by_gd, prompts),
        "Preds diff": float(np.mean(abs(by_layer - by_gd))),
        "Model diff": float(np.mean(np.linalg.norm(slopes - gd, axis=1))),
        "Model cos": float(np.mean(np.sum(slopes * gd, axis=1) / lengths)),
    }
