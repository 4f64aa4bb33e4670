"""A packed model as one file, which is mapped and then takes no time to read and no memory of its own.

First 64 bytes: magic, where the header begins, its length and its SHA-256. Then the arrays as they are in memory, each
at a multiple of 64 bytes, and last the header, JSON, which says what they are. It does not matter which parts the model
consists of. Nothing is believed before it is held against the digest and the file's size; what arrays contain is not
looked at, since that would mean to read them all. Any thread.
"""

import hashlib
import json
import mmap
import struct
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from engine.errors import ModelUnsupportedError
from engine.packing import Packed
from engine.weights import Dimensions, Weights

_MAGIC = b"SOTTOVP1"
_START = struct.Struct("<8sQQ32s")
_ALIGNMENT = 64  # a cache line, and the widest vector
_LARGEST_HEADER = 16 << 20
_KINDS = "biuf"  # NumPy's, of arrays: truth values, whole numbers, floats


class DamagedError(Exception):
    """The file is not whole, or none of ours."""


def write(file: BinaryIO, weights: Weights, parts: Iterable[tuple[str, Any]]) -> None:
    """Write the model with these named parts, each as soon as it is there, to a new file.

    A part is an array, a number, or a tuple of parts, named or plain. The file's start is written last, so that an
    unfinished one is never taken for whole. Raises OSError, and whatever making the parts does.
    """
    file.write(bytes(_ALIGNMENT))
    described = {name: _put(file, part) for name, part in parts}
    document = {
        "dimensions": vars(weights.dimensions),
        "alignment_heads": weights.alignment_heads,
        "ranks": [token.decode("latin-1") for token in weights.ranks],
        "parts": described,
    }
    header = json.dumps(document).encode()
    begin = file.tell()
    file.write(header)
    file.seek(0)
    file.write(_START.pack(_MAGIC, begin, len(header), hashlib.sha256(header).digest()))


def read(path: Path, types: Iterable[type]) -> tuple[Packed, mmap.mmap]:
    """The model in a file, and the file's mapping, in which its arrays lie, read-only; they keep it open.

    `types` are the named tuples that may occur. Raises OSError, and DamagedError.
    """
    with path.open("rb") as file:
        try:
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            document = _header(memory)
            constructors = {kind.__name__: kind for kind in types}
            packed = Packed(
                Dimensions(**document["dimensions"]),
                [token.encode("latin-1") for token in document["ranks"]],
                tuple((int(layer), int(head)) for layer, head in document["alignment_heads"]),
                {name: _get(memory, part, constructors) for name, part in document["parts"].items()},
            )
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
            raise DamagedError(str(error)) from None
        except (struct.error, ModelUnsupportedError) as error:
            raise DamagedError(str(error)) from None
    if hasattr(mmap, "MADV_WILLNEED"):
        memory.madvise(mmap.MADV_WILLNEED)  # the disk begins at once, not at the first sentence
    return packed, memory


def _header(memory: mmap.mmap) -> dict[str, Any]:
    magic, begin, length, digest = _START.unpack_from(memory)
    if magic != _MAGIC:
        raise ValueError("it begins otherwise")
    if length > _LARGEST_HEADER or begin + length != len(memory):
        raise ValueError(f"it has {len(memory)} bytes, not {begin + length}")
    header = memory[begin:]
    if hashlib.sha256(header).digest() != digest:
        raise ValueError("its header is not what was written")
    document: dict[str, Any] = json.loads(header)
    return document


def _put(file: BinaryIO, part: Any) -> Any:
    """Append the arrays of a part; returns what the header says of it."""
    if isinstance(part, np.ndarray) and part.dtype.kind in _KINDS:
        file.write(bytes(-file.tell() % _ALIGNMENT))
        described = {"dtype": part.dtype.str, "shape": part.shape, "offset": file.tell()}
        file.write(np.ascontiguousarray(part).data)
        return described
    if isinstance(part, tuple):
        fields = [_put(file, field) for field in part]
        return {"type": type(part).__name__, "fields": fields} if hasattr(part, "_fields") else fields
    if isinstance(part, int | float):
        return part
    raise TypeError(f"{type(part).__name__} is nothing that a network consists of")


def _get(memory: mmap.mmap, described: Any, types: Mapping[str, type]) -> Any:
    """The part that `_put` described so."""
    match described:
        case {"dtype": str(dtype), "shape": [*shape], "offset": int(offset)}:
            if np.dtype(dtype).kind not in _KINDS or any(type(extent) is not int or extent < 0 for extent in shape):
                raise ValueError(f"it holds no array of {dtype} {shape}")
            return np.frombuffer(memory, dtype, prod(shape), offset).reshape(shape)
        case {"type": str(name), "fields": [*fields]}:
            return types[name](*(_get(memory, field, types) for field in fields))
        case [*fields]:
            return tuple(_get(memory, field, types) for field in fields)
        case int() | float():
            return described
    raise ValueError(f"it describes a part as {described!r:.60}")
