"""The reader of Hugging Face's directories: one file and several, every float type, which is preferred, errors."""

import json
import struct

import numpy as np
import pytest

from engine.errors import ModelFormatError, ModelUnsupportedError
from engine.formats import read

from .model_writers import (
    ENGLISH,
    MULTILINGUAL,
    arrays_of,
    hugging_face_arrays,
    hugging_face_config,
    safetensors_bytes,
    tokens_of,
    write_hugging_face,
    write_shards,
)


def assert_reads_back(path, dimensions, arrays=None):
    weights, arrays = read(path), arrays or arrays_of(dimensions)
    assert weights.dimensions == dimensions
    assert weights.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert weights.arrays[name].shape == array.shape
        np.testing.assert_array_equal(np.array(weights.arrays[name], np.float32), array)
    assert weights.ranks == tokens_of(dimensions)


@pytest.fixture
def directory(tmp_path):
    return write_hugging_face(tmp_path / "model")


@pytest.mark.parametrize("dimensions", [ENGLISH, MULTILINGUAL], ids=["English", "multilingual"])
@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_a_directory_is_read_back(tmp_path, kind, dimensions):
    assert_reads_back(write_hugging_face(tmp_path, dimensions, kind), dimensions)


def test_the_weights_file_stands_for_its_directory(directory):
    assert_reads_back(directory / "model.safetensors", ENGLISH)


def test_tied_and_unprefixed_arrays(directory):
    """Models saved without their head have no prefix; those saved with it may have the embedding twice."""
    arrays = {name.removeprefix("model."): array for name, array in hugging_face_arrays(arrays_of(ENGLISH)).items()}
    arrays["proj_out.weight"] = arrays["decoder.embed_tokens.weight"]
    (directory / "model.safetensors").write_bytes(safetensors_bytes(arrays))
    assert_reads_back(directory, ENGLISH)


def other_arrays():
    return {name: array + 1 for name, array in arrays_of(ENGLISH).items()}


def test_shards(directory):
    (directory / "model.safetensors").unlink()
    write_shards(directory, hugging_face_arrays(arrays_of(ENGLISH)), n_shards=3)
    assert_reads_back(directory, ENGLISH)
    assert_reads_back(directory / "model-00002-of-00003.safetensors", ENGLISH)
    (directory / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(ModelFormatError, match=r"model-00002-of-00003\.safetensors: this part of the model is missing"):
        read(directory)


def test_of_several_sets_one_that_is_complete_is_read(directory):
    write_shards(directory, hugging_face_arrays(other_arrays()), ".fp32")
    assert_reads_back(directory, ENGLISH)  # the unmarked one
    (directory / "model.safetensors").unlink()
    assert_reads_back(directory, ENGLISH, other_arrays())
    write_shards(directory, hugging_face_arrays(arrays_of(ENGLISH)), ".fp16", "float16")
    assert_reads_back(directory, ENGLISH)
    (directory / "model.fp16-00001-of-00002.safetensors").unlink()
    assert_reads_back(directory, ENGLISH, other_arrays())


@pytest.mark.parametrize(
    ("heads", "expected"),
    [([[1, 0]], ((1, 0),)), ([[0, 0], [1, 0]], ((0, 0), (1, 0))), ([[31, 19]], ((1, 0),)), (None, ((1, 0),))],
)
def test_alignment_heads(tmp_path, heads, expected):
    write_hugging_face(tmp_path, MULTILINGUAL)
    (tmp_path / "generation_config.json").write_text(json.dumps({} if heads is None else {"alignment_heads": heads}))
    assert read(tmp_path).alignment_heads == expected


@pytest.mark.parametrize("heads", [7, [7], [[0]], [["a", "b"]], "ab", [[0, 1e999]], {"a": 1}])
def test_alignment_heads_that_are_none_are_refused(directory, heads):
    (directory / "generation_config.json").write_text(json.dumps({"alignment_heads": heads}))
    with pytest.raises(ModelFormatError, match=r"generation_config\.json: alignment_heads should be"):
        read(directory)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"model_type": "wav2vec2"}, ModelUnsupportedError, "model_type is 'wav2vec2'; of a Whisper it is 'whisper'"),
        ({"activation_function": "relu"}, ModelUnsupportedError, "activation_function is 'relu'"),
        ({"scale_embedding": True}, ModelUnsupportedError, "scale_embedding is True"),
        ({"d_model": 65}, ModelUnsupportedError, "1 heads of 64 do not make 65"),
        ({"encoder_layers": 10**30}, ModelUnsupportedError, "n_audio_layer is 1000"),
        ({"encoder_layers": "2"}, ModelFormatError, "n_audio_layer should be a whole number"),
        ({"encoder_layers": [[]]}, ModelFormatError, "of type list"),
        ({"encoder_layers": 3}, ModelFormatError, r"model\.encoder\.layers\.2.* is missing"),
        ({"vocab_size": 51865}, ModelFormatError, "50256 tokens of text, but the weights are made for 50257"),
    ],
)
def test_a_configuration_that_does_not_fit_is_named(directory, change, error, words):
    (directory / "config.json").write_text(json.dumps(hugging_face_config(ENGLISH) | change))
    with pytest.raises(error, match=words):
        read(directory)


@pytest.mark.parametrize("text", ["", "[]", "{", "{" * 10**5, '{"a":' * 10**5, "\0", "{}" + " " * (1 << 20)])
def test_a_configuration_that_is_none_is_named(directory, text):
    (directory / "config.json").write_text(text)
    with pytest.raises((ModelFormatError, ModelUnsupportedError), match=r"config\.json: "):
        read(directory)


def with_header(change):
    """A file whose header is changed by `change`, which gets it as a dict and gives one, or text."""
    data = safetensors_bytes(hugging_face_arrays(arrays_of(ENGLISH)), "float16")
    (length,) = struct.unpack("<Q", data[:8])
    changed = change(json.loads(data[8 : 8 + length]))
    text = changed if isinstance(changed, bytes) else json.dumps(changed).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


FIRST = "model.encoder.conv1.weight"


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda h: {**h, FIRST: {**h[FIRST], "dtype": "I8"}}, ModelUnsupportedError, "not stored as one of BF16"),
        (lambda h: {**h, FIRST: {**h[FIRST], "dtype": [[]]}}, ModelUnsupportedError, "not stored as one of BF16"),
        (lambda h: {**h, FIRST: {**h[FIRST], "dtype": "F32"}}, ModelFormatError, "does not fill the bytes 0 to"),
        (
            lambda h: {**h, FIRST: {**h[FIRST], "shape": [64, 240]}},
            ModelFormatError,
            r"should have the shape \(64, 80, 3\)",
        ),
        (lambda h: {**h, FIRST: {**h[FIRST], "shape": [-64, -240, 1]}}, ModelFormatError, "impossible shape"),
        (lambda h: {**h, FIRST: {**h[FIRST], "shape": [2**62, 2**62]}}, ModelFormatError, "does not fill"),
        (lambda h: {**h, FIRST: {**h[FIRST], "shape": [1.5]}}, ModelFormatError, "impossible shape"),
        (lambda h: {**h, FIRST: {**h[FIRST], "shape": 5}}, ModelFormatError, "does not say what"),
        (lambda h: {**h, FIRST: {**h[FIRST], "data_offsets": [0]}}, ModelFormatError, "does not say what"),
        (lambda h: {**h, FIRST: None}, ModelFormatError, "does not say what"),
        (
            lambda h: {k: v for k, v in h.items() if k != FIRST},
            ModelFormatError,
            "does not begin where the last one ends",
        ),
        # Two arrays in the same bytes: a small file could so become a huge model.
        (lambda h: {**h, "again": h[FIRST]}, ModelFormatError, "does not begin where the last one ends"),
        (lambda h: [h], ModelFormatError, "header is not a JSON object"),
        (lambda h: b"{" * 10**6, ModelFormatError, "not JSON"),
        (lambda h: b'{"a":' * 10**5, ModelFormatError, "not JSON"),
        (lambda h: b'{"__metadata__": ' + b"9" * 10_000 + b"}", ModelFormatError, "not JSON"),
        (lambda h: b"{" + b" " * (2 << 20), ModelFormatError, "not a model|header would be"),
    ],
)
def test_a_header_that_is_wrong_is_named(directory, change, error, words):
    (directory / "model.safetensors").write_bytes(with_header(change))
    with pytest.raises(error, match=words):
        read(directory)


@pytest.mark.parametrize("places", [None, {}, {"a": 5}, {"a": []}, {"a": "../model.safetensors"}, {"a": "/x"}, ["a"]])
def test_a_list_of_shards_names_files_beside_it(directory, places):
    (directory / "model.safetensors").unlink()
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    with pytest.raises(ModelFormatError, match=r"model\.safetensors\.index\.json: weight_map should name"):
        read(directory)


@pytest.mark.parametrize("missing", ["config.json", "vocab.json"])
def test_what_is_missing_is_named(directory, missing):
    (directory / missing).unlink()
    with pytest.raises(ModelFormatError, match=f"is missing.*{missing}|{missing} is missing"):
        read(directory)
