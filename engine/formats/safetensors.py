"""Reads the arrays of a safetensors file, without the library of that name.

Layout: u64 length, little-endian, of a header in JSON; the header, an object from each array's name to its `dtype`,
`shape` and `data_offsets`, its first byte and its end within what follows; the arrays, without gap or overlap.
"""

from pathlib import Path
from typing import Any

from engine.errors import ModelFormatError, ModelUnsupportedError
from engine.formats.arrays import size_of, stored
from engine.formats.cursor import Cursor, map_file
from engine.formats.json_files import parse_json
from engine.weights import Array

LARGEST_HEADER = 2 << 20
_KINDS = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}
_HIGHEST_RANK = 4
_LONGEST_NAME = 200


def tensors(path: Path) -> tuple[dict[str, Array], int]:
    """The arrays by name, views of the mapped file, and the file's size.

    Raises ModelFormatError where it is damaged, ModelUnsupportedError where it holds other than floats.
    """
    cursor = Cursor(path, map_file(path))
    length = cursor.number("Q")
    if length > LARGEST_HEADER:
        raise ModelFormatError(path, f"not a safetensors file: its header would be {length} bytes long")
    header = parse_json(path, cursor.take(length))
    if not isinstance(header, dict):
        raise ModelFormatError(path, "the header is not a JSON object")
    header.pop("__metadata__", None)
    entries = sorted((_entry(path, name, entry) for name, entry in header.items()), key=lambda entry: entry[0])
    start, found = cursor.at, {}
    for begin, end, kind, shape, name in entries:
        if begin != cursor.at - start:
            raise ModelFormatError(path, f"the array at byte {start + begin} does not begin where the last one ends")
        found[name] = stored(cursor.take(end - begin), kind, shape)
    return found, cursor.at


def _entry(path: Path, name: str, entry: Any) -> tuple[int, int, str, tuple[int, ...], str]:
    """First byte, end, kind of number, shape and name of an array, each of which is what it should be."""
    shown = name[:_LONGEST_NAME]
    try:
        kind, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    except (TypeError, ValueError, LookupError):
        raise ModelFormatError(path, f"the header does not say what {shown!r} is") from None
    whole = all(type(number) is int and number >= 0 for number in (begin, end, *shape))
    if not whole or 0 in shape or len(shape) > _HIGHEST_RANK:
        raise ModelFormatError(path, f"the header gives {shown!r} an impossible shape or place")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ModelUnsupportedError(f"{path}: {shown!r} is not stored as one of {', '.join(_KINDS)}")
    if size_of(_KINDS[kind], shape) != end - begin:
        raise ModelFormatError(path, f"{shown!r} of shape {shape} does not fill the bytes {begin} to {end}")
    return begin, end, _KINDS[kind], shape, name
