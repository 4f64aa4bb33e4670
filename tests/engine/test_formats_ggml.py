"""The reader of whisper.cpp's ggml files, in every type; its blocks against those that gguf has decoded.

goldens/ggml_blocks.npz holds random blocks of each type, and their numbers by the package gguf, version 0.19.0.
"""

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.errors import ModelFormatError, ModelUnsupportedError
from engine.formats import read
from engine.formats.ggml_blocks import BLOCKS, dequantise

from .model_writers import (
    ENGLISH,
    MULTILINGUAL,
    arrays_of,
    ggml_array,
    ggml_header,
    number_bytes,
    tokens_of,
    write_ggml,
)

with np.load(Path(__file__).parent / "goldens" / "ggml_blocks.npz") as _goldens:
    GOLDENS = dict(_goldens)
KINDS = {
    "q4_0": (2, 2), "q4_1": (3, 3), "q5_0": (6, 8), "q5_1": (7, 9), "q8_0": (8, 7),
    "q2_K": (10, 10), "q3_K": (11, 11), "q4_K": (12, 12), "q5_K": (13, 13), "q6_K": (14, 14),
}  # type of an array, type of a file  # fmt: skip


def write(path, data):
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("dimensions", [ENGLISH, MULTILINGUAL], ids=["English", "multilingual"])
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_floats_are_read_back(tmp_path, kind, dimensions):
    weights = read(write_ggml(tmp_path / "ggml-any.bin", dimensions, kind))
    assert weights.dimensions == dimensions
    assert weights.arrays.keys() == arrays_of(dimensions).keys()
    for name, array in arrays_of(dimensions).items():
        assert weights.arrays[name].shape == array.shape
        np.testing.assert_array_equal(np.array(weights.arrays[name]), array)
    assert weights.ranks == tokens_of(dimensions)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks(kind):
    raw, values = GOLDENS[f"{kind}/blocks"], GOLDENS[f"{kind}/values"]
    block = BLOCKS[KINDS[kind][0]]
    assert (block.name, block.length) == (kind, values.shape[1])
    n = 10_001  # more than are decoded at once
    blocks = block.view(memoryview(np.resize(raw, (n, raw.shape[1])).tobytes()))
    decoded = dequantise(blocks, block, (n, block.length))
    assert decoded.dtype == np.float32
    np.testing.assert_array_equal(decoded, np.resize(values, (n, block.length)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_quantised_model(tmp_path, kind):
    """Matrices are of blocks, of which each row of 256 has one or eight; what whisper.cpp leaves alone is not."""
    dimensions = replace(ENGLISH, n_audio_state=256, n_audio_head=4, n_text_state=256, n_text_head=4, n_audio_layer=1)
    raw, values = GOLDENS[f"{kind}/blocks"], GOLDENS[f"{kind}/values"]
    out = [ggml_header(dimensions, 2000 + KINDS[kind][1])]
    expected = {}
    for name, shape in dimensions.shapes().items():
        kernel = len(shape) == 3
        if len(shape) == 2 and "positional" not in name:
            n = np.prod(shape) // values.shape[1]
            expected[name] = np.resize(values, (n, values.shape[1])).reshape(shape)
            out.append(ggml_array(name, shape, KINDS[kind][0], np.resize(raw, (n, raw.shape[1])).tobytes()))
        else:
            expected[name] = np.full(shape, len(name), np.float32)
            data = number_bytes(expected[name], "float16" if kernel else "float32")
            out.append(ggml_array(name, shape, int(kernel), data))
    weights = read(write(tmp_path / "model", b"".join(out)))
    for name, array in expected.items():
        assert weights.arrays[name].shape == array.shape
        np.testing.assert_array_equal(np.array(weights.arrays[name], np.float32), array)


def test_the_vocabulary_may_list_more_or_lack_the_empty_token(tmp_path):
    data = write_ggml(tmp_path / "model", MULTILINGUAL).read_bytes()
    rest = data[len(ggml_header(MULTILINGUAL)) :]
    tokens = tokens_of(MULTILINGUAL)
    for listed in (tokens[:-1], [*tokens, b"<|endoftext|>", b"<|startoftranscript|>"]):
        assert read(write(tmp_path / "model", ggml_header(MULTILINGUAL, tokens=listed) + rest)).ranks == tokens


BIAS = "encoder.ln_post.bias"
ONE = ggml_array(BIAS, (64,), 0, bytes(256))


@pytest.mark.parametrize(
    ("arrays", "error", "words"),
    [
        (b"", ModelFormatError, r"encoder\.conv1\.weight is missing"),
        (ONE + ONE, ModelFormatError, f"'{BIAS}' is no array"),
        (ggml_array("x", (64,), 0, bytes(256)), ModelFormatError, "'x' is no array"),
        (ONE[:-1], ModelFormatError, "cut short"),
        (ONE + b"\0", ModelFormatError, "cut short"),
        (bytes(12), ModelFormatError, "no array begins at byte"),
        (ggml_array(BIAS, (0,), 0, b""), ModelFormatError, r"the shape \(0,\)"),
        (ggml_array(BIAS, (-64,), 0, b""), ModelFormatError, "the shape"),
        (ggml_array(BIAS, (2**31 - 1,) * 3, 0, b""), ModelFormatError, "cut short"),
        (ggml_array(BIAS, (33,), 2, bytes(18)), ModelFormatError, "multiple of 32"),
        (ggml_array(BIAS, (64,), 30, bytes(128)), ModelUnsupportedError, "type 30"),
    ],
)
def test_arrays_that_are_wrong_are_named(tmp_path, arrays, error, words):
    with pytest.raises(error, match=words):
        read(write(tmp_path / "model", ggml_header(ENGLISH) + arrays))


@pytest.mark.parametrize(
    ("header", "error", "words"),
    [
        ({"kind": 1002}, ModelUnsupportedError, "version 1 of the blocks, not 2"),
        ({"tokens": [bytes([byte]) for byte in range(9)]}, ModelFormatError, "no token for the byte 9"),
        ({"tokens": [b"x" * 5000]}, ModelFormatError, "a token of 5000 bytes"),
        ({"tokens": [bytes([byte]) for byte in range(256)]}, ModelFormatError, "has 256 tokens of text"),
    ],
)
def test_a_header_that_is_wrong_is_named(tmp_path, header, error, words):
    data = write_ggml(tmp_path / "model").read_bytes()
    with pytest.raises(error, match=words):
        read(write(tmp_path / "model", ggml_header(ENGLISH, **header) + data[len(ggml_header(ENGLISH)) :]))


NUMBERS = ("n_vocab", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer",
           "n_text_ctx", "n_text_state", "n_text_head", "n_text_layer", "n_mels")  # fmt: skip


@pytest.mark.parametrize("index", range(10), ids=NUMBERS)
@pytest.mark.parametrize("number", [-1, 0, 2**31 - 1])
def test_impossible_dimensions_are_refused(tmp_path, index, number):
    data = bytearray(ggml_header(ENGLISH))
    data[4 + 4 * index : 8 + 4 * index] = struct.pack("<i", number)
    with pytest.raises(ModelUnsupportedError, match=f"{number}"):
        read(write(tmp_path / "model", bytes(data)))
