"""From bytes to arrays, and from a model's arrays to its `Weights`: the last step of every reader."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path

import numpy as np

from engine.errors import ModelFormatError, ModelUnsupportedError
from engine.weights import Array, Dimensions, Encoded, Weights

FLOATS = {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8}  # bytes of a number


def stored(data: memoryview, kind: str, shape: tuple[int, ...]) -> Array:
    """A view of `data` as numbers of a `kind` in FLOATS; the caller has seen to it that it has their size."""
    if kind != "bfloat16":
        return np.frombuffer(data, np.dtype(kind).newbyteorder("<")).reshape(shape)
    halves = np.frombuffer(data, "<u2").reshape(shape)
    return Encoded(shape, halves.nbytes, partial(from_bfloat16, halves))


def from_bfloat16(halves: np.ndarray) -> np.ndarray:
    """The float32 of which these uint16 are the upper halves."""
    return (halves.astype(np.uint32) << 16).view(np.float32)


def size_of(kind: str, shape: tuple[int, ...]) -> int:
    """Bytes that an array of this `kind` in FLOATS and shape takes."""
    return FLOATS[kind] * prod(shape)


def dimensions(path: Path, numbers: Mapping[str, object]) -> Dimensions:
    """The dimensions that a file states; raises ModelFormatError, and ModelUnsupportedError naming the file."""
    whole: dict[str, int] = {}
    for name, number in numbers.items():
        if type(number) is not int:
            raise ModelFormatError(path, f"{name} should be a whole number, but is of type {type(number).__name__}")
        whole[name] = number
    try:
        return Dimensions(**whole)
    except ModelUnsupportedError as error:
        raise ModelUnsupportedError(f"{path}: {error}") from None


def assemble(
    path: Path,
    shape: Dimensions,
    find: Callable[[str], Array],
    ranks: Sequence[bytes],
    *,
    size: int,
    alignment_heads: tuple[tuple[int, int], ...] = (),
) -> Weights:
    """The weights, each array as `find` gives it under openai-whisper's name, once all fit together.

    `size`: bytes of all the files. Raises ModelFormatError.
    """
    if len(ranks) != shape.n_text_tokens:
        why = f"the vocabulary has {len(ranks)} tokens of text, but the weights are made for {shape.n_text_tokens}"
        raise ModelFormatError(path, why)
    arrays = {name: find(name) for name in shape.shapes()}
    for name, wanted in shape.shapes().items():
        if arrays[name].shape != wanted:
            raise ModelFormatError(path, f"{name} should have the shape {wanted}, but has {arrays[name].shape}")
    # A few bytes must not pass for many arrays; only vectors, which are small, may well be the same.
    if sum(array.nbytes for array in arrays.values() if len(array.shape) > 1) > size:
        raise ModelFormatError(path, "its arrays overlap: together they are larger than the file")
    return Weights(shape, arrays, ranks, alignment_heads)
