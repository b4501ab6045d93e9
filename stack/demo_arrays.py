"""What the demo convolves: a map of the locations of a TSPLIB problem, and a bell that blurs it to where there are many."""

from __future__ import annotations

import io
from typing import Any

ACROSS, DOWN, CELL = 360, 240, 5.0  # of the map; a cell is so wide in the problem's own units
BELL_CELLS, BELL_WIDTH = 61, 12.0


def map_of_locations(problem: str) -> bytes:
    """A .npy file: how many locations lie in each cell."""
    import numpy as np

    found = np.zeros((DOWN, ACROSS))
    for line in problem.partition("NODE_COORD_SECTION\n")[2].splitlines():
        words = line.split()
        if len(words) == 3:
            found[int(float(words[2]) / CELL), int(float(words[1]) / CELL)] += 1
    return _npy(found)


def bell() -> bytes:
    """A .npy file: Gauss's, with a sum of one."""
    import numpy as np

    off = np.arange(BELL_CELLS) - BELL_CELLS // 2
    slope = np.exp(-0.5 * (off / BELL_WIDTH) ** 2)
    found = np.outer(slope, slope)
    return _npy(found / found.sum())


def _npy(array: Any) -> bytes:
    import numpy as np

    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()
