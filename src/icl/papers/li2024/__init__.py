"""Li et al., ICML 2024: how nonlinear transformers learn and generalise in in-context learning (arXiv 2402.15607)."""
