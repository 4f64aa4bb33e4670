"""The recurrent part of an LSTM layer, which cannot be done for all steps at once as its products can."""

from typing import Any

import numpy as np
from numba import types

from engine.kernels.policy import inline, kernel
from engine.kernels.simd import LANES, fma, load, splat, store

_ONE = np.float32(1)


@inline
def _sigmoid(x):
    return _ONE / (_ONE + np.exp(-x))


@kernel
def _lstm(inputs, recurrent, hidden, cell, gates, outputs, steps, width):
    block = 4 * LANES  # as many sums as hide the latency of an addition
    for step in range(steps):
        for j in range(0, 4 * width, block):
            start = step * 4 * width + j
            a, b = load(inputs, start), load(inputs, start + LANES)
            c, d = load(inputs, start + 2 * LANES), load(inputs, start + 3 * LANES)
            for k in range(width):
                h, row = splat(hidden[k]), k * 4 * width + j
                a = fma(h, load(recurrent, row), a)
                b = fma(h, load(recurrent, row + LANES), b)
                c = fma(h, load(recurrent, row + 2 * LANES), c)
                d = fma(h, load(recurrent, row + 3 * LANES), d)
            store(gates, j, a)
            store(gates, j + LANES, b)
            store(gates, j + 2 * LANES, c)
            store(gates, j + 3 * LANES, d)
        for i in range(width):
            kept = _sigmoid(gates[width + i]) * cell[i]
            cell[i] = kept + _sigmoid(gates[i]) * np.tanh(gates[2 * width + i])
            hidden[i] = _sigmoid(gates[3 * width + i]) * np.tanh(cell[i])
            outputs[step * width + i] = hidden[i]


def lstm(inputs: np.ndarray, recurrent: np.ndarray, hidden: np.ndarray, cell: np.ndarray) -> np.ndarray:
    """Hidden states [n, width] of an LSTM over n steps, width a multiple of 64; `hidden`, `cell` [width] are kept up.

    `inputs` [n, 4 width]: what the layer's input and its bias give to the input, forget, cell and output gates;
    `recurrent` [width, 4 width]: what the hidden state gives to them.
    """
    steps, width = len(inputs), len(hidden)
    outputs = np.empty((steps, width), np.float32)
    flat = np.ascontiguousarray(inputs).reshape(-1), np.ascontiguousarray(recurrent).reshape(-1)
    _lstm(*flat, hidden, cell, np.empty(4 * width, np.float32), outputs.reshape(-1), steps, width)
    return outputs


_FLAT = types.float32[::1]
KERNELS: tuple[tuple[Any, tuple[Any, ...]], ...] = ((_lstm, (*[_FLAT] * 6, types.intp, types.intp)),)
