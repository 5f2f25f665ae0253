"""Matplotlib's bundled typefaces, which a font cache of another release or environment may lack."""

from functools import cache
from pathlib import Path


@cache
def add_own() -> None:
    """Add matplotlib's bundled typefaces that the cached list lacks.

    Without them, formulas lose their italics and a prime is drawn as a 0.
    """
    import matplotlib
    from matplotlib.font_manager import fontManager

    known = {Path(font.fname).name for font in fontManager.ttflist}
    for path in sorted(Path(matplotlib.get_data_path(), "fonts", "ttf").glob("*.ttf")):
        if path.name not in known:
            fontManager.addfont(path)
