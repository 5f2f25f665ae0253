"""Tables in Markdown."""

from collections.abc import Iterable, Sequence

from tabulate import DataRow, TableFormat, tabulate

# Cells have no padding, which would change every line of a file when one cell grows.
_FORMAT = TableFormat(
    lineabove=None,
    linebelowheader=lambda widths, alignments: "|" + "---|" * len(widths),
    linebetweenrows=None,
    linebelow=None,
    headerrow=DataRow("| ", " | ", " |"),
    datarow=DataRow("| ", " | ", " |"),
    padding=0,
    with_header_hide=None,
)


def cell(text: object) -> str:
    """A text escaped for a cell of a Markdown table."""
    return str(text).replace("|", "\\|").replace("\n", " ")


def markdown(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table of texts, with bars and line breaks escaped."""
    cells = [[cell(text) for text in row] for row in rows]
    return tabulate(cells, headers=headers, tablefmt=_FORMAT, stralign=None, disable_numparse=True)
