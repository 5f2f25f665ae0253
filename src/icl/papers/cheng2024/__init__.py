"""Cheng, Chen and Sra, ICML 2024: transformers implement functional gradient descent (arXiv 2312.06528)."""
