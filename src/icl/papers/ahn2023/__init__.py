"""Ahn et al., NeurIPS 2023: transformers learn to implement preconditioned gradient descent (arXiv 2306.00297)."""
