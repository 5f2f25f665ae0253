"""Li et al., ICLR 2025: training nonlinear transformers for chain-of-thought inference (arXiv 2410.02167)."""
