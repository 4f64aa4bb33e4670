"""ggml's blocks of quantised numbers, and how each kind becomes float32.

A block is a run of 32 or 256 neighbours of a row with scales of its own: `d` and `m`, or `d` and `dmin`, each times a
few bits for every 16 or 32 of them. The bits of the numbers are spread over planes, as the layouts below say.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_BLOCKS_AT_ONCE = 8192  # so that what is on the way takes a few megabytes


@dataclass(frozen=True)
class Block:
    """A kind of block: `length` numbers in the bytes of `layout`; `decode` makes blocks [n] to float32 [n, length]."""

    name: str
    length: int
    layout: np.dtype[np.void]
    decode: Callable[[np.ndarray], Floats]

    def view(self, data: memoryview) -> np.ndarray:
        """Blocks [n] in the bytes of `data`, not copied."""
        return np.frombuffer(data, self.layout)


def dequantise(blocks: np.ndarray, block: Block, shape: tuple[int, ...]) -> Floats:
    """The float32 numbers of an array of this shape, given its blocks [n]."""
    numbers = np.empty((len(blocks), block.length), np.float32)
    with np.errstate(invalid="ignore", over="ignore"):  # damaged scales may be infinite
        for start in range(0, len(blocks), _BLOCKS_AT_ONCE):
            part = slice(start, start + _BLOCKS_AT_ONCE)
            numbers[part] = block.decode(blocks[part])
    return numbers.reshape(shape)


def _fields(packed: np.ndarray, width: int) -> np.ndarray:
    """The fields of `width` bits of bytes [..., n], as planes from the lowest field up: [..., 8 / width, n]."""
    shifts = np.arange(0, 8, width, dtype=np.uint8)[:, None]
    return (packed[..., None, :] >> shifts) & np.uint8((1 << width) - 1)


def _runs(planes: np.ndarray, n_runs: int) -> Floats:
    """Float32 [n, n_runs, length of a run] of the numbers of each of n blocks."""
    return planes.reshape(len(planes), n_runs, -1).astype(np.float32)


def _scale(blocks: np.ndarray, name: str) -> Floats:
    """A half-precision field as float32 [n, 1]."""
    return blocks[name].astype(np.float32)[:, None]


def _q4_0(blocks: np.ndarray) -> Floats:
    return (_runs(_fields(blocks["qs"], 4), 1)[:, 0] - 8) * _scale(blocks, "d")


def _q4_1(blocks: np.ndarray) -> Floats:
    return _runs(_fields(blocks["qs"], 4), 1)[:, 0] * _scale(blocks, "d") + _scale(blocks, "m")


def _q5(blocks: np.ndarray) -> Floats:
    """Numbers 0 to 31 [n, 32]: nibbles, and their fifth bits apart."""
    fifth = np.unpackbits(blocks["qh"], axis=1, bitorder="little")
    return _runs(_fields(blocks["qs"], 4).reshape(-1, 32) | fifth << 4, 1)[:, 0]


def _q5_0(blocks: np.ndarray) -> Floats:
    return (_q5(blocks) - 16) * _scale(blocks, "d")


def _q5_1(blocks: np.ndarray) -> Floats:
    return _q5(blocks) * _scale(blocks, "d") + _scale(blocks, "m")


def _q8_0(blocks: np.ndarray) -> Floats:
    return blocks["qs"].astype(np.float32) * _scale(blocks, "d")


def _q2_k(blocks: np.ndarray) -> Floats:
    numbers = _runs(_fields(blocks["qs"].reshape(-1, 2, 32), 2), 16)
    scales, minima = blocks["scales"] & 15, blocks["scales"] >> 4
    return _scaled(numbers, _scale(blocks, "d") * scales, _scale(blocks, "dmin") * minima)


def _q3_k(blocks: np.ndarray) -> Floats:
    low = _fields(blocks["qs"].reshape(-1, 2, 32), 2).reshape(-1, 256)
    high = _fields(blocks["hmask"], 1).reshape(-1, 256)
    numbers = _runs(low | high << 2, 16) - 4
    packed = blocks["scales"]
    scales = _fields(packed[:, :8], 4).reshape(-1, 16) | _fields(packed[:, 8:], 2).reshape(-1, 16) << 4
    return _scaled(numbers, _scale(blocks, "d") * (scales.astype(np.float32) - 32))


def _q4_k(blocks: np.ndarray) -> Floats:
    return _scaled(_runs(_fields(blocks["qs"].reshape(-1, 4, 32), 4), 8), *_scales_and_minima(blocks))


def _q5_k(blocks: np.ndarray) -> Floats:
    low = _fields(blocks["qs"].reshape(-1, 4, 32), 4).reshape(-1, 256)
    fifth = _fields(blocks["qh"], 1).reshape(-1, 256)
    return _scaled(_runs(low | fifth << 4, 8), *_scales_and_minima(blocks))


def _q6_k(blocks: np.ndarray) -> Floats:
    low = _fields(blocks["ql"].reshape(-1, 2, 64), 4).reshape(-1, 256)
    high = _fields(blocks["qh"].reshape(-1, 2, 32), 2).reshape(-1, 256)
    numbers = _runs(low | high << 4, 16) - 32
    return _scaled(numbers, _scale(blocks, "d") * blocks["scales"])


def _scales_and_minima(blocks: np.ndarray) -> tuple[Floats, Floats]:
    """Of each 32 numbers, float32 [n, 8]: 6 bits, for the first four together, for the others 4 bits and 2 apart."""
    first, second, third = np.split(blocks["scales"], 3, axis=1)
    scales = np.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=1)
    minima = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=1)
    return _scale(blocks, "d") * scales, _scale(blocks, "dmin") * minima


def _scaled(numbers: Floats, scales: Floats, minima: Floats | None = None) -> Floats:
    """Numbers [n, runs, length] times the scale, less the minimum, of each run [n, runs]: [n, 256]."""
    numbers *= scales[..., None]
    if minima is not None:
        numbers -= minima[..., None]
    return numbers.reshape(len(numbers), -1)


def _block(name: str, length: int, decode: Callable[[np.ndarray], Floats], *fields: str) -> Block:
    """`fields`: each "name type" or "name type count", in the order of the bytes."""
    layout = [(name, kind, *map(int, count)) for name, kind, *count in (field.split() for field in fields)]
    return Block(name, length, np.dtype(layout), decode)


BLOCKS = {  # by ggml's number of the type
    2: _block("q4_0", 32, _q4_0, "d <f2", "qs u1 16"),
    3: _block("q4_1", 32, _q4_1, "d <f2", "m <f2", "qs u1 16"),
    6: _block("q5_0", 32, _q5_0, "d <f2", "qh u1 4", "qs u1 16"),
    7: _block("q5_1", 32, _q5_1, "d <f2", "m <f2", "qh u1 4", "qs u1 16"),
    8: _block("q8_0", 32, _q8_0, "d <f2", "qs i1 32"),
    10: _block("q2_K", 256, _q2_k, "scales u1 16", "qs u1 64", "d <f2", "dmin <f2"),
    11: _block("q3_K", 256, _q3_k, "hmask u1 32", "qs u1 64", "scales u1 12", "d <f2"),
    12: _block("q4_K", 256, _q4_k, "d <f2", "dmin <f2", "scales u1 12", "qs u1 128"),
    13: _block("q5_K", 256, _q5_k, "d <f2", "dmin <f2", "scales u1 12", "qh u1 32", "qs u1 128"),
    14: _block("q6_K", 256, _q6_k, "ql u1 128", "qh u1 64", "scales i1 16", "d <f2"),
}
