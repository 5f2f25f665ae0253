"""Zheng et al., 2024: on mesa-optimisation in autoregressively trained transformers (arXiv 2405.16845)."""
