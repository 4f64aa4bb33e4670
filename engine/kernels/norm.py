"""Layer normalisation over the features of each row."""

from typing import Any

import numpy as np
from numba import types

from engine.kernels.policy import kernel
from engine.kernels.simd import LANES, fma, load, reduce_add, splat, store

_EPSILON = np.float32(1e-5)


@kernel
def _layer_norm(x, gain, bias, y, rows, n_state):
    count = np.float32(n_state)
    for row in range(rows):
        start = row * n_state
        total = splat(np.float32(0))
        for j in range(0, n_state, LANES):
            total = total + load(x, start + j)
        mean = splat(reduce_add(total) / count)
        # A second pass over the row: its deviations lose nothing to a large mean.
        squares = splat(np.float32(0))
        for j in range(0, n_state, LANES):
            deviation = load(x, start + j) - mean
            squares = fma(deviation, deviation, squares)
        scale = splat(np.float32(1) / np.sqrt(reduce_add(squares) / count + _EPSILON))
        for j in range(0, n_state, LANES):
            value = (load(x, start + j) - mean) * scale
            store(y, start + j, fma(value, load(gain, j), load(bias, j)))


def layer_norm(x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """(x - mean) / sqrt(variance + 1e-5) * gain + bias for each row of x [n, n_state], n_state a multiple of 64."""
    y = np.empty(x.shape, np.float32)
    _layer_norm(np.ascontiguousarray(x).reshape(-1), gain, bias, y.reshape(-1), *x.shape)
    return y


_FLAT = types.float32[::1]
_WEIGHTS = types.Array(types.float32, 1, "C", readonly=True)  # which takes arrays that can be written as well
KERNELS: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    (_layer_norm, (_FLAT, _WEIGHTS, _WEIGHTS, _FLAT, types.intp, types.intp)),
)
