"""How figures are printed: words to the left, figures to the right."""

from __future__ import annotations

from collections.abc import Sequence

from bench.figures import Spread


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The first column holds words, the others figures."""
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]
    return [
        "  "
        + "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [headings, *rows]
    ]


def shown(of: Spread, digits: int = 0) -> str:
    """median (lowest to highest)"""
    return f"{of.median:,.{digits}f} ({of.low:,.{digits}f} to {of.high:,.{digits}f})"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f}"
