"""Multi-head attention, softmax(q k^T / 8) v with heads of 64, that never holds the whole score matrix.

Many queries (the encoder, a prompt) go through register tiles, a few rows of scores at a time. A few queries (one
decode step) read keys and values where they lie in the cache.
"""

from typing import Any

import numba
import numpy as np
from numba import prange, types

from engine.kernels.policy import kernel, parallel_kernel, pool_lock
from engine.kernels.simd import (
    LANES,
    PANEL,
    TILE_ROWS,
    exp,
    fma,
    load,
    make_tile,
    maximum,
    reduce_add,
    reduce_max,
    splat,
    store,
)

HEAD = 64  # features of a head in every Whisper
_SCALE = np.float32(HEAD**-0.5)
_MINUS_INFINITY = np.float32(-np.inf)
_FEW_QUERIES = 4
_WORTH_THREADS = 1 << 20  # multiplications; below, waiting for a busy machine's other core costs more than it saves

_packed_tile = make_tile(TILE_ROWS, packed=True)
_plain_tile = make_tile(TILE_ROWS, packed=False)


@kernel
def _softmax(scores, start, length, padded):
    """Exponentials of scores[start : start + length] less their maximum; zero up to `padded`. Returns 1 / their sum."""
    for j in range(length, padded):
        scores[start + j] = _MINUS_INFINITY
    top = load(scores, start)
    for j in range(LANES, padded, LANES):
        top = maximum(top, load(scores, start + j))
    highest = splat(reduce_max(top))
    total = splat(np.float32(0))
    for j in range(0, padded, LANES):
        e = exp(load(scores, start + j) - highest)
        total = total + e
        store(scores, start + j, e)
    return np.float32(1) / reduce_add(total)


@kernel
def _tile_of_queries(q, first, offset, keys, values, n_keys, padded, y, n_state, causal, scratch, scores):
    """Attention of the head at column `offset` for queries first .. first + TILE_ROWS; keys and values as panels."""
    n_queries = q.shape[0]
    rows = min(TILE_ROWS, n_queries - first)
    for k in range(HEAD):
        for i in range(TILE_ROWS):
            scratch[k * TILE_ROWS + i] = q[first + i, offset + k] * _SCALE if i < rows else np.float32(0)
    sums = TILE_ROWS * HEAD
    # Later queries see more keys: the last row's limit bounds the tile.
    seen = n_keys - n_queries + first + rows if causal else n_keys
    for panel in range(-(-seen // PANEL)):
        _packed_tile(scratch, 0, 0, keys, panel * HEAD * PANEL, scratch, sums, HEAD)
        for i in range(rows):
            for j in range(0, PANEL, LANES):
                store(scores, i * padded + panel * PANEL + j, load(scratch, sums + i * PANEL + j))
    inverse = np.empty(TILE_ROWS, np.float32)
    width = -(-seen // PANEL) * PANEL
    for i in range(rows):
        inverse[i] = _softmax(scores, i * padded, n_keys - n_queries + first + i + 1 if causal else n_keys, width)
    for panel in range(HEAD // PANEL):
        _plain_tile(scores, 0, padded, values, panel * n_keys * PANEL, scratch, sums, seen)
        for i in range(rows):
            weight = splat(inverse[i])
            for j in range(0, PANEL, LANES):
                at = (first + i) * n_state + offset + panel * PANEL + j
                store(y, at, load(scratch, sums + i * PANEL + j) * weight)


@parallel_kernel
def _many_queries(q, k, v, y, n_head, causal, threads):
    n_queries, n_keys, n_state = q.shape[0], k.shape[0], n_head * HEAD
    n_panels = -(-n_keys // PANEL)
    padded = n_panels * PANEL
    keys = np.empty((n_head, n_panels * HEAD * PANEL), np.float32)
    values = np.empty((n_head, HEAD * n_keys), np.float32)
    for head in prange(n_head):
        offset = head * HEAD
        for panel in range(n_panels):
            for j in range(PANEL):
                key = panel * PANEL + j
                for i in range(HEAD):
                    at = (panel * HEAD + i) * PANEL + j
                    keys[head, at] = k[key, offset + i] if key < n_keys else np.float32(0)
        for key in range(n_keys):
            for i in range(HEAD):
                values[head, (i // PANEL * n_keys + key) * PANEL + i % PANEL] = v[key, offset + i]
    n_tiles = -(-n_queries // TILE_ROWS)
    for thread in prange(threads):
        scratch = np.empty(TILE_ROWS * (HEAD + PANEL), np.float32)
        scores = np.zeros(TILE_ROWS * padded, np.float32)
        for work in range(n_head * n_tiles * thread // threads, n_head * n_tiles * (thread + 1) // threads):
            head, first = work // n_tiles, work % n_tiles * TILE_ROWS
            _tile_of_queries(
                q, first, head * HEAD, keys[head], values[head], n_keys, padded, y, n_state, causal, scratch, scores
            )


@kernel
def _one_head(q, query, k, v, n_keys, y, n_state, offset, scores):
    """Attention of one query in the head at column `offset` over the first `n_keys` rows of flat k and v."""
    for key in range(n_keys):
        total = splat(np.float32(0))
        for i in range(0, HEAD, LANES):
            total = fma(load(q, query * n_state + offset + i), load(k, key * n_state + offset + i), total)
        scores[key] = reduce_add(total) * _SCALE
    inverse = _softmax(scores, 0, n_keys, -(-n_keys // LANES) * LANES)
    for i in range(0, HEAD, LANES):
        total = splat(np.float32(0))
        for key in range(n_keys):
            total = fma(splat(scores[key]), load(v, key * n_state + offset + i), total)
        store(y, query * n_state + offset + i, total * splat(inverse))


@kernel
def _few_queries(q, k, v, y, n_queries, n_keys, n_head, causal, first, last):
    scores = np.empty(n_keys + LANES, np.float32)
    for work in range(first, last):
        query = work // n_head
        seen = n_keys - n_queries + query + 1 if causal else n_keys
        _one_head(q, query, k, v, seen, y, n_head * HEAD, work % n_head * HEAD, scores)


@parallel_kernel
def _few_queries_threads(q, k, v, y, n_queries, n_keys, n_head, causal, threads):
    works = n_queries * n_head
    for thread in prange(threads):
        first, last = works * thread // threads, works * (thread + 1) // threads
        _few_queries(q, k, v, y, n_queries, n_keys, n_head, causal, first, last)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, n_head: int, *, causal: bool = False) -> np.ndarray:
    """Attend from q [n, n_head * 64] over k and v [m, n_head * 64], float32; returns [n, n_head * 64].

    With `causal`, the queries are the last n of the m positions and see themselves and what stands before.
    """
    n, m = q.shape[0], k.shape[0]
    y = np.empty((n, n_head * HEAD), np.float32)
    threads = numba.get_num_threads()
    if n > _FEW_QUERIES:
        with pool_lock:
            _many_queries(q, k, v, y.reshape(-1), n_head, causal, threads)
        return y
    flat = [np.ascontiguousarray(a).reshape(-1) for a in (q, k, v)]
    if n * m * n_head * HEAD < _WORTH_THREADS:
        _few_queries(*flat, y.reshape(-1), n, m, n_head, causal, 0, n * n_head)
    else:
        with pool_lock:
            _few_queries_threads(*flat, y.reshape(-1), n, m, n_head, causal, threads)
    return y


_FLAT, _INT = types.float32[::1], types.intp
_ROWS = types.Array(types.float32, 2, "A")  # rows may be slices of wider ones
KERNELS: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    (_many_queries, (_ROWS, _ROWS, _ROWS, _FLAT, _INT, types.boolean, _INT)),
    (_few_queries, (_FLAT, _FLAT, _FLAT, _FLAT, _INT, _INT, _INT, types.boolean, _INT, _INT)),
    (_few_queries_threads, (_FLAT, _FLAT, _FLAT, _FLAT, _INT, _INT, _INT, types.boolean, _INT)),
)
