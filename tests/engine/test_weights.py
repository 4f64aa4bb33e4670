"""Which dimensions a Whisper may have, which heads follow the speech, and arrays that NumPy decodes when needed."""

import zlib
from dataclasses import replace

import numpy as np
import pytest

from engine.errors import ModelUnsupportedError
from engine.weights import HEAD, Dimensions, Encoded, Weights

from .model_writers import ENGLISH


def dimensions(width, encoder, decoder, n_vocab):
    heads = width // HEAD
    return Dimensions(80, 1500, width, heads, encoder, n_vocab, 448, width, heads, decoder)


# CRC-32 of openai-whisper's own tables, a byte for each head of each layer, 1 where it follows the speech.
@pytest.mark.parametrize(
    ("shape", "checksum"),
    [
        pytest.param((384, 4, 4, 51864), 655949084, id="tiny.en"),
        pytest.param((384, 4, 4, 51865), 1346207294, id="tiny"),
        pytest.param((512, 6, 6, 51864), 2862314845, id="base.en"),
        pytest.param((512, 6, 6, 51865), 4069915588, id="base"),
        pytest.param((768, 12, 12, 51864), 1402016624, id="small.en"),
        pytest.param((768, 12, 12, 51865), 4266017154, id="small"),
        pytest.param((1024, 24, 24, 51864), 4046561543, id="medium.en"),
        pytest.param((1024, 24, 24, 51865), 303057577, id="medium"),
        pytest.param((1280, 32, 32, 51865), 2401033422, id="large-v2"),
        pytest.param((1280, 32, 32, 51866), 4231660213, id="large-v3"),
        pytest.param((1280, 32, 4, 51866), 3202021508, id="turbo"),
    ],
)
def test_published_alignment_heads(shape, checksum):
    model = dimensions(*shape)
    table = np.zeros((model.n_text_layer, model.n_text_head), np.uint8)
    for layer, head in Weights(model, {}, []).alignment_heads:
        table[layer, head] = 1
    assert zlib.crc32(table.tobytes()) == checksum


@pytest.mark.parametrize(
    ("shape", "layers"),
    [((1280, 32, 2, 51866), [1]), ((128, 2, 1, 51864), [0]), ((128, 2, 5, 51865), [2, 3, 4])],
)
def test_of_other_models_the_upper_half_of_the_decoder(shape, layers):
    model = dimensions(*shape)
    assert model.default_alignment_heads() == tuple((i, j) for i in layers for j in range(model.n_text_head))
    assert Weights(model, {}, [], ((0, 1),)).alignment_heads == ((0, 1),)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_mels": 0}, "n_mels is 0"),
        ({"n_vocab": 51863}, "n_vocab is 51863"),
        ({"n_text_layer": 65}, "n_text_layer is 65"),
        ({"n_audio_ctx": 1501}, "n_audio_ctx is 1501"),
        ({"n_text_head": 2}, "2 heads of 64 do not make 64"),
        ({"n_text_head": 2, "n_text_state": 128}, "encoder and decoder differ in width"),
    ],
)
def test_dimensions_that_are_no_whisper_are_named(change, words):
    with pytest.raises(ModelUnsupportedError, match=words):
        replace(ENGLISH, **change)


def test_an_encoded_array_is_decoded_when_it_is_needed():
    calls = []

    def decode():
        calls.append(1)
        return np.full((2, 3), 0.5, np.float32)

    array = Encoded((2, 3), 1, decode)
    assert array.shape == (2, 3)
    assert not calls
    assert np.array(array, np.float32).dtype == np.float32
    assert np.asarray(array, np.float64).dtype == np.float64
    np.testing.assert_array_equal(np.concatenate([array, np.zeros((1, 3))])[:2], 0.5)
    assert len(calls) == 3
    with pytest.raises(ValueError, match="without a copy"):
        np.array(array, copy=False)
