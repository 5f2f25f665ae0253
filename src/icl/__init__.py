"""icl: regenerates figures of theory papers on in-context learning and tests their claims."""

__version__ = "0.1.0"
