"""Sander et al., ICML 2024: how do transformers perform in-context autoregressive learning? (arXiv 2402.05787)."""
