"""The literal linear self-attention layer of Zhang et al. 2024 for one prompt, in numpy."""

import numpy as np


def tokens(inputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """E, (d + 1, rho + 1), of inputs (rho + 1, d) and labels (rho + 1,), the query's slot 0."""
    return np.concatenate([inputs.T, [[*labels[:-1], 0.0]]])


def output(value: np.ndarray, key_query: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """f = E + W^PV E (E' W^KQ E) / rho, (d + 1, rho + 1); attention includes the query."""
    e = tokens
    rho = tokens.shape[-1] - 1
    return e + value @ e @ (e.T @ key_query @ e) / rho
