"""Expected squared errors of the baselines after k examples in d dimensions, for x, w ~ N(0, I_d) (derived by us).

Without noise they are divided by d, the variance of a label. With noise of variance 1 on all labels, including the
query's, they are divided by d + 1.
"""


def least_squares_error(dimension: int, count: int) -> float:
    """Return max(0, 1 - k/d), the part of w outside the span of k examples."""
    return max(0.0, 1 - count / dimension)


def averaging_error(dimension: int, count: int) -> float:
    """Return (d + 1)/k, for k >= 1."""
    return (dimension + 1) / count


def noisy_least_squares_error(dimension: int, count: int) -> float:
    """Return ((d - k) + 1 + k/(d - k - 1))/(d + 1) for k <= d - 2, (1 + d/(k - d - 1))/(d + 1) for k >= d + 2.

    Infinite for k = d - 1, d and d + 1, where the inverse of a Wishart matrix has no mean.
    """
    d, k = dimension, count
    if abs(k - d) <= 1:
        return float("inf")
    return ((d - k) + 1 + k / (d - k - 1) if k < d else 1 + d / (k - d - 1)) / (d + 1)


def noisy_averaging_error(dimension: int, count: int) -> float:
    """Return (d (d + 1)/k + d/k + 1)/(d + 1), for k >= 1."""
    d, k = dimension, count
    return (d * (d + 1) / k + d / k + 1) / (d + 1)
