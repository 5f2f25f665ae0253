"""Zhang, Frei and Bartlett, JMLR 2024: trained transformers learn linear models in-context (arXiv 2306.09927)."""
