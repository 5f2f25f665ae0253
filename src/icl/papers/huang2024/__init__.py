"""Huang, Cheng and Liang, ICML 2024: in-context convergence of transformers (arXiv 2310.05249)."""
