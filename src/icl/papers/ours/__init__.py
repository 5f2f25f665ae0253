"""Figures that belong to none of the papers.

Training on a fixed sample, as in the official code of Zheng et al. (arXiv 2405.16845), follows
exact population descent up to a small error; blocks of weights with zero population gradient
contain only sampling noise.
"""
