"""Shared by the error curves of both models: the drawn sums S_1 with their styles, and the error threshold."""

from icl.drawing.plotting import Style

SUMS = {"S_1=1.3": 1.3, "S_1=1.1": 1.1, "S_1=0.9": 0.9, "S_1=0.7": 0.7, "S_1=0.5": 0.5}
STYLES_OF_SUMS = (
    Style("S_1=1.3", "$S_1=1.3$", "r", "o"),
    Style("S_1=1.1", "$S_1=1.1$", "b", "x"),
    Style("S_1=0.9", "$S_1=0.9$", "m", "+"),
    Style("S_1=0.7", "$S_1=0.7$", "c", "d"),
    Style("S_1=0.5", "$S_1=0.5$", "y", "<"),
)
ENOUGH = 0.05
"""The error below which a context length counts as sufficient (figure 13, theorem 1)."""
