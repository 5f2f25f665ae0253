"""Garg et al., NeurIPS 2022: what can transformers learn in-context? (arXiv 2208.01066)."""
