"""Figures and a chart of columns of numbers. Loaded inside the handler: NumPy and Matplotlib take a second and 50 MB."""

import csv
import io
import math
import os
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
from django.conf import settings

from workers.catalog.csv_table import Column

FIGURES = ("mean", "std", "min", "q25", "median", "q75", "max")
MOST_CHARTS = 24  # more could not be read
_ACROSS = 3


def summary(column: Column) -> dict[str, Any]:
    """name, numeric, count, missing; of a numeric column also FIGURES."""
    known: dict[str, Any] = {
        "name": column.name,
        "numeric": column.numeric,
        "count": column.count,
        "missing": column.missing,
    }
    return known | _figures(np.frombuffer(column.values)) if column.numeric else known


def _figures(values: Any) -> dict[str, float | None]:
    """Quantiles by linear interpolation. What is beyond all doubles, a sum of the largest say, is null."""
    with np.errstate(all="ignore"):
        low, q25, median, q75, high = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
        spread = np.std(values, ddof=1) if len(values) > 1 else math.nan
        found = (np.mean(values), spread, low, q25, median, q75, high)
    return {name: float(value) if math.isfinite(value) else None for name, value in zip(FIGURES, found, strict=True)}


def write(columns: Sequence[dict[str, Any]], file: BinaryIO) -> None:
    """One line for each column, as CSV; a text that a spreadsheet would take for a formula is quoted from it by an apostrophe."""
    text = io.TextIOWrapper(file, "utf-8", newline="")
    lines = csv.writer(text)
    lines.writerow(["name", "numeric", "count", "missing", *FIGURES])
    for column in columns:
        name = f"'{column['name']}" if column["name"][:1] in "=+-@\t\r" else column["name"]
        rest = [column.get(figure) for figure in ("numeric", "count", "missing", *FIGURES)]
        lines.writerow([name, *rest])
    text.flush()
    text.detach()


def draw(columns: Sequence[Column], file: BinaryIO) -> None:
    """A histogram of each, as PNG."""
    # What it finds out about the machine's fonts takes seconds; kept, it is found out once. In a container HOME may be read-only.
    os.environ.setdefault("MPLCONFIGDIR", str(settings.WEIGHBRIDGE_DATA_DIR / "matplotlib"))
    from matplotlib.figure import Figure  # without pyplot: no global state, and no display

    shown = columns[:MOST_CHARTS]
    down = math.ceil(len(shown) / _ACROSS)
    figure = Figure(figsize=(4 * _ACROSS, 3 * down), layout="constrained")
    places = figure.subplots(down, _ACROSS, squeeze=False).flat
    for column, place in zip(shown, places, strict=False):  # in this order it takes no place for nothing
        place.hist(_drawable(column), bins=30)
        place.set_title(column.name[:40], parse_math=False)
    for place in list(places):
        place.set_axis_off()
    figure.savefig(file, format="png", dpi=100)


def _drawable(column: Column) -> Any:
    """Bins need a width that is a double."""
    return np.clip(np.frombuffer(column.values), -1e300, 1e300)
