"""What all formats have in common: told by content, the same model from each, and harmless when damaged."""

import os
import shutil
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import catalogue
from engine.errors import ModelFormatError, ModelUnsupportedError
from engine.formats import load, read, recognise

from .model_writers import ENGLISH, arrays_of, write_ctranslate2, write_ggml, write_hugging_face, write_openai

WRITERS = {
    "CTranslate2": lambda path, *args, **kwargs: write_ctranslate2(path, *args, **kwargs) / "model.bin",
    "Hugging Face": lambda path, *args, **kwargs: write_hugging_face(path, *args, **kwargs) / "model.safetensors",
    "ggml": lambda path, *args, **kwargs: write_ggml(path, *args, **kwargs),
    "OpenAI": lambda path, *args, **kwargs: write_openai(path, *args, **kwargs),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The file with the weights of one model in each format, by the format's name."""
    directory = tmp_path_factory.mktemp("models")
    return {name: write(directory / f"a{i}", ENGLISH, "float16") for i, (name, write) in enumerate(WRITERS.items())}


# --- which format it is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITERS)
def test_the_format_is_told_by_the_content(models, tmp_path, name):
    path = models[name]
    assert recognise(path).format == name
    assert recognise(str(path)).weights == (path,)
    if name in ("ggml", "OpenAI"):  # which need no neighbours
        other = tmp_path / "model.safetensors"
        shutil.copy(path, other)
        assert recognise(other).format == name
    else:
        assert recognise(path.parent) == recognise(path)


def test_safetensors_come_before_the_model_bin_of_the_same_directory(models, tmp_path):
    for name in ("CTranslate2", "Hugging Face"):
        shutil.copytree(models[name].parent, tmp_path, dirs_exist_ok=True)
    assert recognise(tmp_path).format == "Hugging Face"
    (tmp_path / "model.safetensors").unlink()
    assert recognise(tmp_path).format == "CTranslate2"


@pytest.mark.parametrize(
    ("first", "error", "words"),
    [
        (b"", ModelFormatError, "the file is empty"),
        (b"\0", ModelFormatError, "not a model"),
        (b"fLaC" + bytes(100), ModelFormatError, "not a model"),
        (b"\xff" * 100, ModelFormatError, "not a model"),
        (struct.pack("<Q", 1 << 40) + b"{" * 50, ModelFormatError, "not a model"),
        (b"GGUF\3\0\0\0", ModelUnsupportedError, r"a GGUF file; of whisper\.cpp's models, those named ggml"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", ModelUnsupportedError, "PyTorch file from before 2020"),
    ],
)
def test_a_file_that_is_no_model_is_named(tmp_path, first, error, words):
    path = tmp_path / "model.bin"
    path.write_bytes(first)
    for given_path in (path, tmp_path):
        with pytest.raises(error, match=words) as caught:
            read(given_path)
        assert str(caught.value).startswith(f"{path}: ")


def test_a_directory_that_is_no_model_says_what_it_lacks(tmp_path):
    with pytest.raises(
        ModelFormatError, match=r"lacks model\.safetensors or model\.bin; a ggml or \.pt model is given as"
    ):
        read(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK\3\4")
    with pytest.raises(ModelUnsupportedError, match="save it anew with transformers, as safetensors"):
        read(tmp_path)


def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFormatError, match="no such file"):
        read(tmp_path / "pipe")
    with pytest.raises(ModelFormatError, match="no such file"):
        read(tmp_path / "nowhere")


# --- the same weights from each ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITERS)
def test_the_embedded_model_is_the_same_in_each_format(tmp_path, name):
    """English tiny, written in float16 with nothing but its own arrays, is what it was, to the last bit."""
    known = catalogue.find("tiny.en")
    expected = load(known)
    arrays = {name: np.asarray(array) for name, array in expected.arrays.items()}
    path = WRITERS[name](tmp_path / "model", expected.dimensions, "float16", arrays)
    for vocabulary in path.parent.glob("vocab*.json"):  # the real one
        vocabulary.unlink()
        shutil.copy(known.vocabulary.with_name("tokenizer.json"), path.parent)
    if name == "ggml":
        with_vocabulary(path, expected.ranks)
    tracemalloc.start()
    try:
        weights = read(path)
        assert tracemalloc.get_traced_memory()[1] < 40 << 20  # the file is mapped: its 76 MB are not in memory
    finally:
        tracemalloc.stop()
    assert weights.dimensions == expected.dimensions
    assert weights.ranks == expected.ranks
    assert weights.arrays.keys() == arrays.keys()
    for key, array in arrays.items():
        np.testing.assert_array_equal(weights.arrays[key], array)
    if name in ("ggml", "OpenAI"):  # which carry none
        assert weights.alignment_heads == expected.alignment_heads


def with_vocabulary(path, tokens):
    """Puts a vocabulary in the place of another one in a ggml file."""
    data = path.read_bytes()
    start = 4 + 11 * 4 + 2 * 4 + 80 * 201 * 4
    (count,) = struct.unpack("<i", data[start : start + 4])
    end = start + 4
    for _ in range(count):
        end += 4 + struct.unpack("<I", data[end : end + 4])[0]
    written = struct.pack("<i", len(tokens)) + b"".join(struct.pack("<I", len(token)) + token for token in tokens)
    path.write_bytes(data[:start] + written + data[end:])


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITERS)
def test_damage_is_an_error_of_ours_or_harmless(models, tmp_path, name):
    """Bytes are changed where a file describes itself, most of all, and anywhere; the file is cut anywhere."""
    whole = models[name].read_bytes()
    directory = shutil.copytree(models[name].parent, tmp_path / "damaged")
    path = directory / models[name].name
    described = {"CTranslate2": 400, "Hugging Face": 9000, "ggml": 1_400_000, "OpenAI": 30_000}[name]
    near = st.integers(0, min(described, len(whole)) - 1)
    far = st.integers(len(whole) - 8000, len(whole) - 1)
    anywhere = st.integers(0, len(whole) - 1)

    @settings(max_examples=25, deadline=None)
    @given(
        changes=st.lists(st.tuples(near | far | anywhere, st.integers(0, 255)), max_size=4),
        length=st.just(len(whole)) | near | anywhere,
    )
    def damage(changes, length):
        data = bytearray(whole)
        for at, byte in changes:
            data[at] = byte
        path.write_bytes(memoryview(data)[:length])
        shapes, message = None, ""
        tracemalloc.start()
        try:
            shapes = {key: array.shape for key, array in read(path).arrays.items()}
        except (ModelFormatError, ModelUnsupportedError) as error:
            message = str(error)
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert shapes == ENGLISH.shapes() or message.startswith(f"{directory}")
        assert message.isprintable()
        assert peak < 64 << 20

    damage()


def test_no_file_beside_the_weights_can_do_harm_by_its_size(tmp_path):
    path = write_hugging_face(tmp_path / "model")
    for name in ("config.json", "vocab.json", "generation_config.json"):
        before = (path / name).read_bytes() if (path / name).exists() else b"{}"
        with (path / name).open("wb") as file:
            file.truncate(1 << 40)  # a terabyte of nothing, which takes no room
        tracemalloc.start()
        try:
            with pytest.raises(ModelFormatError, match=f"{name}: larger than"):
                read(path)
            assert tracemalloc.get_traced_memory()[1] < 64 << 20
        finally:
            tracemalloc.stop()
        (path / name).write_bytes(before)
    assert read(path).arrays.keys() == arrays_of(ENGLISH).keys()
