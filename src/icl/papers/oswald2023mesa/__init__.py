"""von Oswald et al., 2023: uncovering mesa-optimisation algorithms in transformers (arXiv 2309.05858)."""
