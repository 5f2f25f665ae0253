"""icl: the figures of the theory papers on in-context learning, regenerated and judged."""

__version__ = "0.1.0"
