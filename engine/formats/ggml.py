"""Reads whisper.cpp's ggml-*.bin, one file with weights, plain or quantised, and vocabulary.

Layout, all little-endian: u32 magic; eleven i32, ten dimensions and the type of most arrays; i32 rows, i32 columns and
the f32 of a mel filter bank; i32 number of tokens, each u32 length and bytes, in the order of their ids; then arrays
up to the end, each i32 rank, i32 length of its name, i32 type, i32 extents with the last axis first, name and numbers.
"""

from collections.abc import Iterable
from functools import partial
from math import prod
from pathlib import Path

from engine.errors import ModelFormatError, ModelUnsupportedError
from engine.formats.arrays import assemble, dimensions, size_of, stored
from engine.formats.cursor import Cursor, map_file
from engine.formats.ggml_blocks import BLOCKS, dequantise
from engine.formats.vocabulary import check_ranks
from engine.weights import Array, Dimensions, Encoded, Weights

MAGIC = b"lmgg"  # u32 0x67676d6c
_DIMENSIONS = (
    "n_vocab",
    "n_audio_ctx",
    "n_audio_state",
    "n_audio_head",
    "n_audio_layer",
    "n_text_ctx",
    "n_text_state",
    "n_text_head",
    "n_text_layer",
    "n_mels",
)
_N_BINS = 201  # of the spectrum that the filter bank is for
_FLOATS = {0: "float32", 1: "float16"}
_BLOCK_VERSION = 2  # of the quantised layouts
_LONGEST_TOKEN = 1024
_LONGEST_NAME = 128
_HIGHEST_RANK = 4


def read(path: Path) -> Weights:
    """Read the file; its arrays are views of it, and encoded where they are quantised.

    Raises ModelFormatError where it is damaged, ModelUnsupportedError where it is not a Whisper or is quantised in a
    way that is not known.
    """
    data = map_file(path)
    cursor = Cursor(path, data)
    if bytes(cursor.take(len(MAGIC))) != MAGIC:
        raise ModelFormatError(path, "not a ggml file")
    *numbers, kind = cursor.numbers("11i")
    shape = dimensions(path, dict(zip(_DIMENSIONS, numbers, strict=True)))
    version, kind = divmod(kind, 1000)
    if kind not in _FLOATS and version != _BLOCK_VERSION:
        raise ModelUnsupportedError(f"{path}: quantised in version {version} of the blocks, not {_BLOCK_VERSION}")
    _skip_filters(cursor, shape)
    ranks = _ranks(cursor, shape)
    arrays = dict(_arrays(cursor, shape))

    def find(name: str) -> Array:
        if name not in arrays:
            raise ModelFormatError(path, f"{name} is missing")
        return arrays[name]

    return assemble(path, shape, find, ranks, size=len(data))


def _skip_filters(cursor: Cursor, shape: Dimensions) -> None:
    """The filter bank follows from the number of its rows, and is computed."""
    n_mels, n_bins = cursor.numbers("2i")
    if (n_mels, n_bins) != (shape.n_mels, _N_BINS):
        raise ModelFormatError(
            cursor.path, f"the mel filters are {n_mels} of {n_bins}, not {shape.n_mels} of {_N_BINS}"
        )
    cursor.take(4 * n_mels * n_bins)


def _ranks(cursor: Cursor, shape: Dimensions) -> list[bytes]:
    """The text tokens; some files list special ones too, some leave out the empty one that comes last."""
    count = cursor.number("i")
    if not 0 <= count <= shape.n_vocab:
        raise ModelFormatError(cursor.path, f"a vocabulary of {count} tokens in a model for {shape.n_vocab}")
    tokens = []
    for _ in range(count):
        length = cursor.number("I")
        if length > _LONGEST_TOKEN:
            raise ModelFormatError(cursor.path, f"a token of {length} bytes at byte {cursor.at}")
        tokens.append(bytes(cursor.take(length)))
    if len(tokens) == shape.n_text_tokens - 1:
        tokens.append(b"")
    return check_ranks(cursor.path, tokens[: shape.n_text_tokens])


def _arrays(cursor: Cursor, shape: Dimensions) -> Iterable[tuple[str, Array]]:
    shapes = shape.shapes()
    while cursor.left:
        rank, length, kind = cursor.numbers("3i")
        if not 0 < rank <= _HIGHEST_RANK or not 0 < length <= _LONGEST_NAME:
            raise ModelFormatError(cursor.path, f"no array begins at byte {cursor.at - 12}")
        extents = tuple(reversed(cursor.numbers(f"{rank}i")))
        name = cursor.text(length)
        if name not in shapes:
            raise ModelFormatError(cursor.path, f"{name!r} is no array of such a Whisper")
        del shapes[name]  # and so none comes twice
        if min(extents) < 1:
            raise ModelFormatError(cursor.path, f"{name} has the shape {extents}")
        if name.endswith(".bias"):  # those of the convolutions are stored as one column
            extents = (prod(extents),)
        yield name, _array(cursor, name, kind, extents)


def _array(cursor: Cursor, name: str, kind: int, shape: tuple[int, ...]) -> Array:
    if kind in _FLOATS:
        number = _FLOATS[kind]
        return stored(cursor.take(size_of(number, shape)), number, shape)
    if kind not in BLOCKS:
        raise ModelUnsupportedError(f"{cursor.path}: {name} is quantised as type {kind}, which is not supported")
    block = BLOCKS[kind]
    if shape[-1] % block.length:
        raise ModelFormatError(
            cursor.path, f"the rows of {name} are {shape[-1]} long, not a multiple of {block.length}"
        )
    blocks = block.view(cursor.take(prod(shape) // block.length * block.layout.itemsize))
    return Encoded(shape, blocks.nbytes, partial(dequantise, blocks, block, shape))
