"""The CTranslate2 reader on small models written here, in every number type, whole and with something wrong."""

import struct

import numpy as np
import pytest

from engine.errors import ModelFormatError, ModelUnsupportedError
from engine.formats.ctranslate2 import read

from .model_writers import ENGLISH, MULTILINGUAL, all_tokens, arrays_of, ct2_bytes, ct2_variables, tokens_of


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.txt"
    path.write_text("\n".join(all_tokens(ENGLISH)) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def model(tmp_path, vocabulary):
    """Writes model.bin, in parts, and reads it."""

    def write_and_read(data, n_parts=1, config=None):
        size = -(-len(data) // n_parts)
        parts = []
        for i in range(n_parts):
            parts.append(tmp_path / f"model.bin.part{i}")
            parts[-1].write_bytes(data[i * size : (i + 1) * size])
        return read(tuple(parts), vocabulary, config)

    return write_and_read


@pytest.mark.parametrize(
    ("kind", "n_parts"), [("float32", 1), ("float16", 1), ("float16", 2), ("bfloat16", 1), ("bfloat16", 2)]
)
def test_floats_are_read_back(model, kind, n_parts):
    arrays = arrays_of(ENGLISH)
    weights = model(ct2_bytes(ct2_variables(arrays, ENGLISH, kind)), n_parts)
    assert weights.dimensions == ENGLISH
    assert weights.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert weights.arrays[name].shape == array.shape
        np.testing.assert_array_equal(np.array(weights.arrays[name], np.float32), array)
    assert weights.ranks == tokens_of(ENGLISH)


@pytest.mark.parametrize("kind", ["int8", "int8_float16", "int8_bfloat16", "int16"])
def test_whole_numbers_are_divided_by_their_scale(model, kind):
    """Each row is larger than the one before. Rounding moves a number by half a step: the largest over 127, or 1024."""
    arrays = {}
    for name, array in arrays_of(ENGLISH).items():
        rows = np.linspace(1, 4, len(array), dtype=np.float32).reshape(-1, *[1] * (array.ndim - 1))
        arrays[name] = array if is_plain(name, array) else array * rows
    weights = model(ct2_bytes(ct2_variables(arrays, ENGLISH, kind)))
    for name, array in arrays.items():
        found = np.array(weights.arrays[name], np.float32)
        assert found.shape == weights.arrays[name].shape == array.shape
        if is_plain(name, array):
            np.testing.assert_array_equal(found, array)
        elif kind == "int16":
            assert np.abs(found - array).max() <= 0.5 * 8 / 1024
        else:
            largest = np.abs(array).max(axis=tuple(range(1, array.ndim)), keepdims=True)
            assert (np.abs(found - array) <= 0.5001 * largest / 127).all()


def is_plain(name, array):
    """Whether CTranslate2 never quantises it."""
    return array.ndim == 1 or "positional" in name


def test_a_multilingual_model(tmp_path):
    vocabulary = tmp_path / "vocabulary.txt"
    vocabulary.write_text("\n".join(all_tokens(MULTILINGUAL)), encoding="utf-8")
    (tmp_path / "model.bin").write_bytes(ct2_bytes(ct2_variables(arrays_of(MULTILINGUAL), MULTILINGUAL, "float16")))
    weights = read((tmp_path / "model.bin",), vocabulary)
    assert weights.dimensions == MULTILINGUAL
    assert weights.ranks[-2:] == [tokens_of(MULTILINGUAL)[-2], b""]
    assert weights.alignment_heads == ((1, 0),)


def test_equal_arrays_may_be_stored_once(model):
    variables = ct2_variables(arrays_of(ENGLISH), ENGLISH, "int8_float16")
    same, other = "encoder/layer_0/ffn/linear_0", "encoder/layer_1/ffn/linear_0"
    for ending in ("weight", "weight_scale", "bias"):
        del variables[f"{other}/{ending}"]
    aliases = [(f"{other}/{ending}", f"{same}/{ending}") for ending in ("weight", "bias")]  # the scale goes along
    arrays = model(ct2_bytes(variables, aliases)).arrays
    for ending in ("weight", "bias"):
        first, second = (np.array(arrays[f"encoder.blocks.{i}.mlp.0.{ending}"]) for i in (0, 1))
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        ([[0, 0]], ((0, 0),)),
        ([[0, 0], [3, 5]], ((0, 0),)),  # the list of a larger model: the default is taken
        ([], ((0, 0),)),
        (None, ((0, 0),)),
    ],
)
def test_alignment_heads(model, tmp_path, heads, expected):
    config = tmp_path / "config.json"
    config.write_text("{}" if heads is None else f'{{"alignment_heads": {heads}}}')
    data = ct2_bytes(ct2_variables(arrays_of(ENGLISH), ENGLISH, "float16"))
    assert model(data, config=config).alignment_heads == expected


def zeros(*shape, code=4):
    return code, shape, bytes({1: 1, 4: 2}[code] * int(np.prod(shape)))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda v: v.pop("encoder/conv2/weight"), ModelFormatError, "encoder/conv2/weight is missing"),
        (lambda v: v.pop("decoder/num_heads"), ModelFormatError, "decoder/num_heads is missing"),
        (lambda v: v.update({"encoder/num_heads": (2, (), b"\7\0")}), ModelUnsupportedError, "7 heads of 64"),
        (lambda v: v.update({"encoder/num_heads": zeros(1000)}), ModelFormatError, "num_heads is not one number"),
        (
            lambda v: v.update({"encoder/conv1/bias": zeros(5)}),
            ModelFormatError,
            r"encoder.conv1.bias.*\(64,\).*\(5,\)",
        ),
        (lambda v: v.update({"encoder/conv1/weight": zeros(64, 80)}), ModelFormatError, "conv1.* 2 dimensions, not 3"),
        (
            lambda v: v.update({"encoder/conv1/weight": zeros(64, 80, 3, code=1)}),
            ModelFormatError,
            "weight_scale is missing",
        ),
        (
            lambda v: v.update({"encoder/layer_0/self_attention/linear_0/weight": zeros(193, 64)}),
            ModelFormatError,
            "193 rows",
        ),
        (lambda v: v.update({"decoder/embeddings/weight": zeros(100, 64)}), ModelUnsupportedError, "n_vocab is 100"),
        (lambda v: v.update({"encoder/conv1/bias": (9, (64,), bytes(64))}), ModelUnsupportedError, "stored as type 9"),
        (lambda v: v.update({"encoder/conv1/bias": (4, (64,), b"\0")}), ModelFormatError, "takes 128 bytes, but 1 are"),
    ],
)
def test_what_is_wrong_is_named(model, change, error, words):
    variables = ct2_variables(arrays_of(ENGLISH), ENGLISH, "float16")
    change(variables)
    with pytest.raises(error, match=words):
        model(ct2_bytes(variables))


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_a_scale_that_nothing_can_be_divided_by_is_refused(model, scale):
    variables = ct2_variables(arrays_of(ENGLISH), ENGLISH, "int8_float16")
    variables["encoder/conv1/weight_scale"] = (0, (64,), struct.pack("<64f", *[1.0] * 63, scale))
    with pytest.raises(ModelFormatError, match="conv1/weight_scale should be 64 positive numbers"):
        model(ct2_bytes(variables))


def test_other_files_are_refused(model):
    variables = ct2_variables(arrays_of(ENGLISH), ENGLISH, "float16")
    with pytest.raises(ModelUnsupportedError, match="TransformerSpec"):
        model(ct2_bytes(variables, kind="TransformerSpec"))
    with pytest.raises(ModelFormatError, match="version is 5"):
        model(ct2_bytes(variables, version=5))
    with pytest.raises(ModelFormatError, match="empty"):
        model(b"")
    with pytest.raises(ModelFormatError, match="cut short"):
        model(b"\6")
