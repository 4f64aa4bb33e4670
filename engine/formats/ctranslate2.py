"""Reads a CTranslate2 Whisper model, version 6, in any of its number types, without CTranslate2.

Layout, all little-endian: u32 version, string "WhisperSpec", u32 revision, u32 number of variables; each variable is a
string name, u8 rank, u32 dimensions, u8 type, u32 bytes and the raw array; then u32 number of aliases, each a string
name and the string name of the variable that it stands for. A string is a u16 length that counts a closing NUL.
Queries, keys and values of one attention are stacked in one array. Whole numbers stand for themselves divided by their
scale: one scale a row of int8, one for all of int16.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from engine.errors import ModelFormatError, ModelUnsupportedError
from engine.formats.arrays import FLOATS, assemble, dimensions, stored
from engine.formats.cursor import Cursor, map_file
from engine.formats.json_files import alignment_heads
from engine.formats.vocabulary import read_ranks
from engine.weights import Array, Dimensions, Encoded, Weights

_VERSION = 6
_TYPES = {  # code: name, bytes
    0: ("float32", 4),
    1: ("int8", 1),
    2: ("int16", 2),
    3: ("int32", 4),
    4: ("float16", 2),
    5: ("bfloat16", 2),
}
_MOST_VARIABLES = 10_000
_HIGHEST_RANK = 4
_LONGEST_NAME = 512
_NORMS = {"attn_ln": "self_attention/layer_norm", "cross_attn_ln": "attention/layer_norm", "mlp_ln": "ffn/layer_norm"}
_LAYERS = {  # of a block: the variable, and which of how many parts stacked in it
    "attn.query": ("self_attention/linear_0", 0, 3),
    "attn.key": ("self_attention/linear_0", 1, 3),
    "attn.value": ("self_attention/linear_0", 2, 3),
    "attn.out": ("self_attention/linear_1", 0, 1),
    "cross_attn.query": ("attention/linear_0", 0, 1),
    "cross_attn.key": ("attention/linear_1", 0, 2),
    "cross_attn.value": ("attention/linear_1", 1, 2),
    "cross_attn.out": ("attention/linear_2", 0, 1),
    "mlp.0": ("ffn/linear_0", 0, 1),
    "mlp.2": ("ffn/linear_1", 0, 1),
}


@dataclass(frozen=True)
class _Variable:
    kind: str
    shape: tuple[int, ...]
    data: memoryview

    def part(self, number: int, n_parts: int) -> "_Variable":
        """One of several parts of the same number of rows."""
        n = self.shape[0] // n_parts
        size = len(self.data) // n_parts
        return _Variable(self.kind, (n, *self.shape[1:]), self.data[number * size : (number + 1) * size])


_Variables = dict[str, _Variable]


def read(parts: tuple[Path, ...], vocabulary: Path, config: Path | None = None) -> Weights:
    """Read `model.bin`, given as the files that make it up when joined, its vocabulary and its configuration.

    The arrays are views of the mapped file where there is one part. Raises ModelFormatError where a file is damaged,
    ModelUnsupportedError where it is not a Whisper.
    """
    path = parts[0]
    data = map_file(path) if len(parts) == 1 else memoryview(b"".join(map_file(part) for part in parts))
    variables = _variables(Cursor(path, data))
    shape = _dimensions(path, variables)

    def find(name: str) -> Array:
        source, number, n_parts = _place(name)
        return _array(path, variables, source, number, n_parts)

    heads = alignment_heads(config, shape) if config else ()
    return assemble(path, shape, find, read_ranks(vocabulary), size=len(data), alignment_heads=heads)


def _variables(cursor: Cursor) -> _Variables:
    version = cursor.number("I")
    if version != _VERSION:
        raise ModelFormatError(cursor.path, f"not a CTranslate2 model of version {_VERSION}: the version is {version}")
    kind = _string(cursor)
    if kind != "WhisperSpec":
        raise ModelUnsupportedError(f"{cursor.path}: a CTranslate2 model of kind {kind!r}, not a Whisper")
    cursor.number("I")  # revision of the layout within the kind; all known ones agree
    variables = dict(_variable(cursor) for _ in range(_count(cursor)))
    for _ in range(_count(cursor)):
        alias, target = _string(cursor), _string(cursor)
        for ending in ("", "_scale"):
            if target + ending in variables:
                variables.setdefault(alias + ending, variables[target + ending])
    return variables


def _count(cursor: Cursor) -> int:
    count = cursor.number("I")
    if count > _MOST_VARIABLES:
        raise ModelFormatError(cursor.path, f"{count} variables are more than a Whisper has")
    return count


def _string(cursor: Cursor) -> str:
    length = cursor.number("H")
    if not 1 <= length <= _LONGEST_NAME:
        raise ModelFormatError(cursor.path, f"a name of {length} bytes at byte {cursor.at}")
    text = cursor.text(length - 1)
    cursor.take(1)
    return text


def _variable(cursor: Cursor) -> tuple[str, _Variable]:
    name, rank = _string(cursor), cursor.number("B")
    if rank > _HIGHEST_RANK:
        raise ModelFormatError(cursor.path, f"{name} has {rank} dimensions")
    *extents, code, size = cursor.numbers(f"{rank}IBI")
    if code not in _TYPES:
        raise ModelUnsupportedError(f"{cursor.path}: {name} is stored as type {code}, which is not supported")
    kind, length = _TYPES[code]
    for extent in extents:
        length *= extent
    if length != size or not size:
        raise ModelFormatError(cursor.path, f"{name} of shape {extents} takes {length} bytes, but {size} are stored")
    return name, _Variable(kind, tuple(extents), cursor.take(size))


def _dimensions(path: Path, variables: _Variables) -> Dimensions:
    def shape(name: str, rank: int) -> tuple[int, ...]:
        found = _find(path, variables, name).shape
        if len(found) != rank:
            raise ModelFormatError(path, f"{name} has {len(found)} dimensions, not {rank}")
        return found

    def heads(stack: str) -> int:
        number = _find(path, variables, f"{stack}/num_heads")
        if number.shape not in ((), (1,)):
            raise ModelFormatError(path, f"{stack}/num_heads is not one number")
        return int.from_bytes(number.data, "little", signed=True)

    def layers(stack: str) -> int:
        return len(
            {name.split("/")[1] for name in variables if name.startswith(f"{stack}/layer_") and name.count("/") > 2}
        )

    n_audio_state, n_mels, _ = shape("encoder/conv1/weight", 3)
    n_vocab, n_text_state = shape("decoder/embeddings/weight", 2)
    numbers = {
        "n_mels": n_mels,
        "n_audio_ctx": shape("encoder/position_encodings/encodings", 2)[0],
        "n_audio_state": n_audio_state,
        "n_audio_head": heads("encoder"),
        "n_audio_layer": layers("encoder"),
        "n_vocab": n_vocab,
        "n_text_ctx": shape("decoder/position_encodings/encodings", 2)[0],
        "n_text_state": n_text_state,
        "n_text_head": heads("decoder"),
        "n_text_layer": layers("decoder"),
    }
    return dimensions(path, numbers)


def _place(name: str) -> tuple[str, int, int]:
    """Where openai-whisper's array of this name is: the variable, and which of how many parts stacked in it."""
    stack, rest = name.split(".", 1)
    if rest == "positional_embedding":
        return f"{stack}/position_encodings/encodings", 0, 1
    if rest == "token_embedding.weight":
        return f"{stack}/embeddings/weight", 0, 1
    layer, kind = rest.rsplit(".", 1)
    if layer.startswith("conv"):
        return f"{stack}/{layer}/{kind}", 0, 1
    norm_kind = {"weight": "gamma", "bias": "beta"}[kind]
    if not layer.startswith("blocks."):
        return f"{stack}/layer_norm/{norm_kind}", 0, 1
    _, number, layer = layer.split(".", 2)
    block = f"{stack}/layer_{number}"
    if layer in _NORMS:
        return f"{block}/{_NORMS[layer]}/{norm_kind}", 0, 1
    variable, part, n_parts = _LAYERS[layer]
    return f"{block}/{variable}/{kind}", part, n_parts


def _find(path: Path, variables: _Variables, name: str) -> _Variable:
    if name not in variables:
        raise ModelFormatError(path, f"{name} is missing")
    return variables[name]


def _array(path: Path, variables: _Variables, name: str, number: int, n_parts: int) -> Array:
    """A part of a variable, divided by its scale where it has one."""
    whole = _find(path, variables, name)
    rows = whole.shape[0] if whole.shape else 0
    if not rows or rows % n_parts:
        raise ModelFormatError(path, f"{name} of {rows} rows is not {n_parts} stacked parts")
    part = whole.part(number, n_parts)
    if part.kind in FLOATS:
        return stored(part.data, part.kind, part.shape)
    scale = _scale(path, variables, name, rows if whole.kind == "int8" else 1)
    if len(scale) > 1:
        first = number * part.shape[0]
        scale = scale[first : first + part.shape[0]].reshape(-1, *[1] * (len(part.shape) - 1))
    numbers = np.frombuffer(part.data, np.dtype(part.kind).newbyteorder("<")).reshape(part.shape)
    return Encoded(part.shape, numbers.nbytes, partial(_divide, numbers, scale))


def _scale(path: Path, variables: _Variables, name: str, size: int) -> np.ndarray:
    """What the whole numbers of a variable are to be divided by: float32 [size]."""
    found = _find(path, variables, f"{name}_scale")
    if found.kind not in FLOATS:
        raise ModelFormatError(path, f"{name}_scale is stored as {found.kind}")
    scale = np.array(stored(found.data, found.kind, found.shape), np.float32).reshape(-1)
    if len(scale) != size or not (np.isfinite(scale).all() and scale.min() > 0):
        raise ModelFormatError(path, f"{name}_scale should be {size} positive numbers")
    return scale


def _divide(numbers: np.ndarray, scale: np.ndarray) -> np.ndarray:
    quotient: np.ndarray = np.divide(numbers, scale, dtype=np.float32)
    return quotient
