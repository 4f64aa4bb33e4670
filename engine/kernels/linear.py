"""Linear layers: x W^T + b with GELU or a residual fused behind, in float32.

The weights are packed once into panels of PANEL output features, [panel][n_in][PANEL], so that the inner loop reads
them in one stream. Rows of x are packed in blocks that stay in the second-level cache while the panels pass by.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import prange, types

from engine.kernels.policy import kernel, parallel_kernel, pool_lock
from engine.kernels.simd import LANES, PANEL, TILE_ROWS, gelu, load, make_tile, store

_BLOCK_TILES = 8  # row tiles that are packed together: 96 rows of 1280 floats are 480 KiB
_WORTH_THREADS = 1 << 20  # multiplications; below, waiting for a busy machine's other core costs more than it saves

_tile = make_tile(TILE_ROWS, packed=True)
_single_row = make_tile(1, packed=False)


class Linear(NamedTuple):
    """A linear layer, packed."""

    panels: np.ndarray  # [n_panels * n_in * PANEL], zero beyond n_out
    bias: np.ndarray  # [n_panels * PANEL], zero beyond n_out and where the layer has none
    n_in: int
    n_out: int


LAYERS = (Linear,)  # every form that `pack` can give


def pack(weight: np.ndarray, bias: np.ndarray | None = None) -> Linear:
    """Prepare a layer from its weight [n_out, n_in] and bias [n_out] in any float type."""
    n_out, n_in = weight.shape
    n_panels = -(-n_out // PANEL)
    panels = np.zeros((n_panels, n_in, PANEL), np.float32)
    full = n_out // PANEL
    panels[:full] = weight[: full * PANEL].reshape(full, PANEL, n_in).transpose(0, 2, 1)
    if full < n_panels:
        panels[full, :, : n_out - full * PANEL] = weight[full * PANEL :].T
    padded = np.zeros(n_panels * PANEL, np.float32)
    if bias is not None:
        padded[:n_out] = bias
    return Linear(panels.ravel(), padded, n_in, n_out)


@kernel
def _finish(scratch, sums, bias, panel, residual, y, row, n_out, rows, activate):
    """Move a tile's sums to y[row : row + rows], adding bias, GELU and residual."""
    column = panel * PANEL
    whole = column + PANEL <= n_out
    for i in range(rows):
        start = (row + i) * n_out + column
        for j in range(0, PANEL, LANES):
            value = load(scratch, sums + i * PANEL + j) + load(bias, column + j)
            if activate:
                value = gelu(value)
            if whole:
                if residual.size:
                    value = value + load(residual, start + j)
                store(y, start + j, value)
            else:
                store(scratch, sums + i * PANEL + j, value)
        if not whole:
            for j in range(n_out - column):
                y[start + j] = scratch[sums + i * PANEL + j] + (residual[start + j] if residual.size else np.float32(0))


@kernel
def _product(x, panels, bias, residual, y, n_in, n_out, activate, rows, columns):
    """Rows rows[0]..rows[1] and panels columns[0]..columns[1] of the product, on this thread."""
    n_panel = n_in * PANEL
    scratch = np.empty(TILE_ROWS * PANEL, np.float32)
    if rows[1] - rows[0] == 1:
        for panel in range(columns[0], columns[1]):
            _single_row(x, rows[0] * n_in, 0, panels, panel * n_panel, scratch, 0, n_in)
            _finish(scratch, 0, bias, panel, residual, y, rows[0], n_out, 1, activate)
        return
    packed = np.empty(_BLOCK_TILES * TILE_ROWS * n_in, np.float32)
    step = _BLOCK_TILES * TILE_ROWS
    for block in range(rows[0], rows[1], step):
        block_rows = min(step, rows[1] - block)
        n_tiles = -(-block_rows // TILE_ROWS)
        for i in range(n_tiles * TILE_ROWS):
            at = i // TILE_ROWS * TILE_ROWS * n_in + i % TILE_ROWS
            if i < block_rows:
                for k in range(n_in):
                    packed[at + k * TILE_ROWS] = x[(block + i) * n_in + k]
            else:
                for k in range(n_in):
                    packed[at + k * TILE_ROWS] = np.float32(0)
        for panel in range(columns[0], columns[1]):
            for t in range(n_tiles):
                _tile(packed, t * TILE_ROWS * n_in, 0, panels, panel * n_panel, scratch, 0, n_in)
                valid = min(TILE_ROWS, block_rows - t * TILE_ROWS)
                _finish(scratch, 0, bias, panel, residual, y, block + t * TILE_ROWS, n_out, valid, activate)


@parallel_kernel
def _product_threads(x, panels, bias, residual, y, n_in, n_out, activate, n_rows, threads):
    """The whole product: many rows are shared out by rows, few by columns."""
    n_panels = bias.size // PANEL
    by_rows = n_rows >= threads * TILE_ROWS * 2
    n_tiles = -(-n_rows // TILE_ROWS)
    for thread in prange(threads):
        if by_rows:
            first, last = n_tiles * thread // threads, n_tiles * (thread + 1) // threads
            rows = (first * TILE_ROWS, min(last * TILE_ROWS, n_rows))
            columns = (0, n_panels)
        else:
            rows = (0, n_rows)
            columns = (n_panels * thread // threads, n_panels * (thread + 1) // threads)
        if rows[0] < rows[1] and columns[0] < columns[1]:
            _product(x, panels, bias, residual, y, n_in, n_out, activate, rows, columns)


_NO_RESIDUAL = np.empty(0, np.float32)


def linear(x: np.ndarray, layer: Linear, *, gelu: bool = False, residual: np.ndarray | None = None) -> np.ndarray:
    """x W^T + b, through GELU if asked, plus `residual` [n, n_out]; x is [n, n_in] float32."""
    rows = x.shape[0]
    y = np.empty((rows, layer.n_out), np.float32)
    if not rows:
        return y
    flat = np.ascontiguousarray(x).reshape(-1)
    added = _NO_RESIDUAL if residual is None else np.ascontiguousarray(residual).reshape(-1)
    shared = (flat, layer.panels, layer.bias, added, y.reshape(-1), layer.n_in, layer.n_out, gelu)
    if rows * layer.n_in * layer.n_out < _WORTH_THREADS:
        _product(*shared, (0, rows), (0, layer.bias.size // PANEL))
    else:
        with pool_lock:
            _product_threads(*shared, rows, numba.get_num_threads())
    return y


_FLAT = types.float32[::1]
_WEIGHTS = types.Array(types.float32, 1, "C", readonly=True)  # which takes arrays that can be written as well
_INT = types.intp
_PAIR = types.UniTuple(_INT, 2)
_COMMON = (_FLAT, _WEIGHTS, _WEIGHTS, _FLAT, _FLAT, _INT, _INT, types.boolean)
KERNELS: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    (_product, (*_COMMON, _PAIR, _PAIR)),
    (_product_threads, (*_COMMON, _INT, _INT)),
)
