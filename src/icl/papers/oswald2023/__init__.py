"""von Oswald et al., ICML 2023: transformers learn in-context by gradient descent (arXiv 2212.07677)."""
