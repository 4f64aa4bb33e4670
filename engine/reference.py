"""Every op of the network in plain NumPy float32: slow, obvious, the specification and the oracle of engine.kernels."""

import math
from typing import NamedTuple

import numpy as np

HEAD = 64  # features of a head in every Whisper
_erf = np.vectorize(math.erf, otypes=[np.float32])


class Linear(NamedTuple):
    """A linear layer: weight [n_out, n_in], bias [n_out]."""

    weight: np.ndarray
    bias: np.ndarray


def pack(weight: np.ndarray, bias: np.ndarray | None = None) -> Linear:
    """Prepare a layer from its weight [n_out, n_in] and bias [n_out] in any float type."""
    if bias is None:
        bias = np.zeros(weight.shape[0])
    return Linear(weight.astype(np.float32), bias.astype(np.float32))


def linear(x: np.ndarray, layer: Linear, *, gelu: bool = False, residual: np.ndarray | None = None) -> np.ndarray:
    """x W^T + b, through GELU if asked, plus `residual` [n, n_out]; x is [n, n_in] float32."""
    y: np.ndarray = x @ layer.weight.T + layer.bias
    if gelu:
        y = np.float32(0.5) * y * (1 + _erf(y * np.float32(math.sqrt(0.5))))
    return y if residual is None else y + residual


def layer_norm(x: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """(x - mean) / sqrt(variance + 1e-5) * gain + bias for each row of x [n, n_state]."""
    mean = x.mean(axis=1, keepdims=True)
    variance = x.var(axis=1, keepdims=True)
    y: np.ndarray = (x - mean) / np.sqrt(variance + np.float32(1e-5)) * gain + bias
    return y


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, n_head: int, *, causal: bool = False) -> np.ndarray:
    """Attend from q [n, n_head * 64] over k and v [m, n_head * 64], float32; returns [n, n_head * 64].

    With `causal`, the queries are the last n of the m positions and see themselves and what stands before.
    """
    n, m = q.shape[0], k.shape[0]
    q, k, v = (a.reshape(-1, n_head, HEAD).transpose(1, 0, 2) for a in (q, k, v))  # [n_head, n or m, 64]
    scores = q @ k.transpose(0, 2, 1) * np.float32(HEAD**-0.5)  # [n_head, n, m]
    if causal:
        scores = np.where(np.tri(n, m, m - n, dtype=bool), scores, np.float32(-np.inf))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.ascontiguousarray((weights @ v).transpose(1, 0, 2).reshape(n, n_head * HEAD))


def lstm(inputs: np.ndarray, recurrent: np.ndarray, hidden: np.ndarray, cell: np.ndarray) -> np.ndarray:
    """Hidden states [n, width] of an LSTM over n steps; `hidden` and `cell` [width] are kept up.

    `inputs` [n, 4 width]: what the layer's input and its bias give to the input, forget, cell and output gates;
    `recurrent` [width, 4 width]: what the hidden state gives to them.
    """

    def sigmoid(x: np.ndarray) -> np.ndarray:
        y: np.ndarray = 1 / (1 + np.exp(-x))
        return y

    outputs = np.empty((len(inputs), len(hidden)), np.float32)
    for step, given in enumerate(inputs):
        enter, keep, new, leave = np.split(given + hidden @ recurrent, 4)
        cell[:] = sigmoid(keep) * cell + sigmoid(enter) * np.tanh(new)
        hidden[:] = sigmoid(leave) * np.tanh(cell)
        outputs[step] = hidden
    return outputs


def dtw(cost: np.ndarray) -> np.ndarray:
    """First column [n] of each row on the cheapest path through cost [n, m] float32, by dynamic time warping.

    The path goes from the first corner to the last, by steps to the next row, the next column or both. The next row
    is taken only where it is cheaper than both other ways, and so is the diagonal: a tie goes to the next column.
    """
    n, m = cost.shape
    total = np.full((n + 1, m + 1), np.inf, np.float32)  # of the cheapest path that ends at row i - 1, column j - 1
    total[0, 0] = 0
    steps = np.zeros((n, m, 2), np.intp)  # by how many rows and columns that path came there
    for i in range(n):
        for j in range(m):
            both, row, column = total[i, j], total[i, j + 1], total[i + 1, j]
            if both < row and both < column:
                before, steps[i, j] = both, (1, 1)
            elif row < both and row < column:
                before, steps[i, j] = row, (1, 0)
            else:
                before, steps[i, j] = column, (0, 1)
            total[i + 1, j + 1] = cost[i, j] + before
    first = np.zeros(n, np.intp)
    i, j = n - 1, m - 1
    while i >= 0 and j >= 0:
        first[i] = j
        i, j = i - steps[i, j, 0], j - steps[i, j, 1]
    return first
