"""The autoregressive layer's prediction of the last token, written out: an oracle of the layer and of closed forms."""

import numpy as np


def last_prediction(key_query: np.ndarray, projection_value: np.ndarray, x: np.ndarray) -> np.ndarray:
    """y_{T-1} = B sum_{i=2..T-1} x_i x_{i-1}* A x_{T-1} / (T - 2), which predicts x_T: (m, T, d) -> (m, d)."""
    scores = (x[:, :-2].conj() @ (x[:, -2] @ key_query.T)[..., None])[..., 0] / (x.shape[1] - 2)
    return ((scores[:, None] @ x[:, 1:-1])[:, 0]) @ projection_value.T
