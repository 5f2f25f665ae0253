"""Targets that belong to none of the papers.

Training on a fixed sample, as in the official code of Zheng et al. (arXiv 2405.16845), follows exact population descent
to a small error; blocks of weights that have no population gradient hold only sampling noise.
"""
