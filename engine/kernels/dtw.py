"""Dynamic time warping: which columns of a cost matrix, in order, each of its rows lies on.

Source: Sakoe and Chiba 1978 (doi 10.1109/TASSP.1978.1163055); the rule for ties is openai-whisper's.
"""

from typing import Any

import numpy as np
from numba import types

from engine.kernels.policy import kernel

_BOTH, _ROW, _COLUMN = np.uint8(0), np.uint8(1), np.uint8(2)
_INFINITY = np.float32(np.inf)


@kernel
def _dtw(cost, steps, total, first):
    """Fill `first` [n] from `cost` [n, m]; `steps` [n, m] and `total` [m + 1] are scratch."""
    n, m = cost.shape
    total[0] = np.float32(0)
    for j in range(1, m + 1):
        total[j] = _INFINITY
    for i in range(n):
        both = total[0]  # `total` has this row up to column j - 1, and the row before it from there on
        total[0] = _INFINITY
        for j in range(m):
            row, column = total[j + 1], total[j]
            if both < row and both < column:
                before, step = both, _BOTH
            elif row < both and row < column:
                before, step = row, _ROW
            else:
                before, step = column, _COLUMN
            steps[i, j] = step
            both = row
            total[j + 1] = cost[i, j] + before
    i, j = n - 1, m - 1
    while i >= 0 and j >= 0:
        first[i] = j
        step = steps[i, j]
        if step != _COLUMN:
            i -= 1
        if step != _ROW:
            j -= 1


def dtw(cost: np.ndarray) -> np.ndarray:
    """First column [n] of each row on the cheapest path through cost [n, m] float32, by dynamic time warping.

    The path goes from the first corner to the last, by steps to the next row, the next column or both. The next row
    is taken only where it is cheaper than both other ways, and so is the diagonal: a tie goes to the next column.
    """
    n, m = cost.shape
    first = np.zeros(n, np.intp)
    _dtw(np.ascontiguousarray(cost), np.empty((n, m), np.uint8), np.empty(m + 1, np.float32), first)
    return first


KERNELS: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    (_dtw, (types.float32[:, ::1], types.uint8[:, ::1], types.float32[::1], types.intp[::1])),
)
