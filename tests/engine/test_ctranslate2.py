"""The CTranslate2 reader on a small model written here, whole, cut and with bytes changed."""

import struct
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ModelFormatError, ModelUnsupportedError
from engine.formats.ctranslate2 import read
from engine.weights import Dimensions

SMALL = Dimensions(
    n_mels=80,
    n_audio_ctx=1500,
    n_audio_state=64,
    n_audio_head=1,
    n_audio_layer=2,
    n_vocab=51864,
    n_text_ctx=448,
    n_text_state=64,
    n_text_head=1,
    n_text_layer=1,
)
CODES = {"float32": 0, "int8": 1, "int16": 2, "float16": 4}


def packed(text):
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def variables(arrays):
    """OpenAI's names to CTranslate2's, queries, keys and values stacked."""
    found = {"encoder/num_heads": np.int16(1), "decoder/num_heads": np.int16(1)}

    def linear(target, *names):
        weights = [arrays[f"{name}.weight"] for name in names]
        found[f"{target}/weight"] = np.concatenate(weights)
        biases = [
            arrays.get(f"{name}.bias", np.zeros(len(w), np.float16)) for name, w in zip(names, weights, strict=True)
        ]
        found[f"{target}/bias"] = np.concatenate(biases)

    def norm(target, name):
        found[f"{target}/gamma"], found[f"{target}/beta"] = arrays[f"{name}.weight"], arrays[f"{name}.bias"]

    linear("encoder/conv1", "encoder.conv1")
    linear("encoder/conv2", "encoder.conv2")
    found["decoder/embeddings/weight"] = arrays["decoder.token_embedding.weight"]
    for stack, last, layers in (("encoder", "ln_post", 2), ("decoder", "ln", 1)):
        found[f"{stack}/position_encodings/encodings"] = arrays[f"{stack}.positional_embedding"]
        norm(f"{stack}/layer_norm", f"{stack}.{last}")
        for i in range(layers):
            to, of = f"{stack}/layer_{i}", f"{stack}.blocks.{i}"
            norm(f"{to}/self_attention/layer_norm", f"{of}.attn_ln")
            linear(f"{to}/self_attention/linear_0", *(f"{of}.attn.{part}" for part in ("query", "key", "value")))
            linear(f"{to}/self_attention/linear_1", f"{of}.attn.out")
            if stack == "decoder":
                norm(f"{to}/attention/layer_norm", f"{of}.cross_attn_ln")
                linear(f"{to}/attention/linear_0", f"{of}.cross_attn.query")
                linear(f"{to}/attention/linear_1", f"{of}.cross_attn.key", f"{of}.cross_attn.value")
                linear(f"{to}/attention/linear_2", f"{of}.cross_attn.out")
            norm(f"{to}/ffn/layer_norm", f"{of}.mlp_ln")
            linear(f"{to}/ffn/linear_0", f"{of}.mlp.0")
            linear(f"{to}/ffn/linear_1", f"{of}.mlp.2")
    return found


def model_bytes(found, kind="WhisperSpec", version=6):
    out = [struct.pack("<I", version), packed(kind), struct.pack("<II", 3, len(found))]
    for name, array in sorted(found.items()):
        array = np.asarray(array)
        out += [packed(name), struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)]
        out += [struct.pack("<BI", CODES[array.dtype.name], array.nbytes), array.tobytes()]
    out += [struct.pack("<I", 1), packed("decoder/projection/weight"), packed("decoder/embeddings/weight")]
    return b"".join(out)


@cache
def small_arrays():
    random = np.random.default_rng(3)
    return {name: random.standard_normal(shape).astype(np.float16) for name, shape in SMALL.shapes().items()}


@pytest.fixture
def arrays():
    return small_arrays()


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "vocabulary.txt"
    path.write_text("!\nĠĠ\n<|endoftext|>\n<|startoftranscript|>\n", encoding="utf-8")
    return path


@pytest.fixture
def model(tmp_path, arrays, vocabulary):
    """Writes the model, changed by `change`, and reads it."""

    def write_and_read(data, n_parts=1):
        size = -(-len(data) // n_parts)
        parts = []
        for i in range(n_parts):
            parts.append(tmp_path / f"model.bin.part{i}")
            parts[-1].write_bytes(data[i * size : (i + 1) * size])
        return read(tuple(parts), vocabulary)

    return write_and_read


@pytest.mark.parametrize("n_parts", [1, 2])
@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_a_sound_model_is_read_back(model, arrays, n_parts, kind):
    weights = model(model_bytes({k: v.astype(kind) if v.ndim else v for k, v in variables(arrays).items()}), n_parts)
    assert weights.dimensions == SMALL
    assert weights.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(weights.arrays[name], array)
    assert weights.ranks == [b"!", b"  "]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda v: v.pop("encoder/conv2/weight"), ModelFormatError, "encoder/conv2/weight is missing"),
        (lambda v: v.pop("decoder/num_heads"), ModelFormatError, "decoder/num_heads is missing"),
        (lambda v: v.update({"encoder/num_heads": np.int16(7)}), ModelUnsupportedError, "7 heads of 64"),
        (lambda v: v.update({"encoder/conv1/bias": np.zeros(5, np.float16)}), ModelFormatError, "encoder.conv1.bias"),
        (lambda v: v.update({"encoder/conv1/weight": np.zeros((64, 80), np.float16)}), ModelFormatError, "conv1"),
        (lambda v: v.update({"encoder/conv1/weight": np.zeros(9, np.int8)}), ModelUnsupportedError, "quantised"),
        (
            lambda v: v.update({"decoder/embeddings/weight": np.zeros((100, 64), np.float16)}),
            ModelUnsupportedError,
            "n_vocab is 100",
        ),
    ],
)
def test_what_is_wrong_is_named(model, arrays, change, error, words):
    found = variables(arrays)
    change(found)
    with pytest.raises(error, match=words):
        model(model_bytes(found))


def test_other_files_are_refused(model, arrays, vocabulary, tmp_path):
    found = variables(arrays)
    with pytest.raises(ModelUnsupportedError, match="TransformerSpec"):
        model(model_bytes(found, kind="TransformerSpec"))
    with pytest.raises(ModelFormatError, match="version is 5"):
        model(model_bytes(found, version=5))
    with pytest.raises(ModelFormatError, match="empty"):
        model(b"")
    with pytest.raises(ModelFormatError, match="cut short"):
        model(b"\6")
    data = model_bytes(found)
    (tmp_path / "model.bin").write_bytes(data)
    for text in ("no end of text", "a b\n<|endoftext|>"):
        wrong = tmp_path / "vocabulary.txt"
        wrong.write_text(text)
        with pytest.raises(ModelFormatError, match=r"vocabulary\.txt"):
            read((tmp_path / "model.bin",), wrong)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damage_is_an_error_of_ours_or_harmless(tmp_path_factory, vocabulary, data):
    """Bytes of the description, not of the weights, are changed; the file is cut anywhere."""
    arrays = small_arrays()
    whole = bytearray(model_bytes(variables(arrays)))
    names = [whole.find(packed(name)) for name in sorted(variables(arrays))]
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.sampled_from([0, *names])) + data.draw(st.integers(0, 40))
        whole[at] = data.draw(st.integers(0, 255))
    length = data.draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))))
    path = tmp_path_factory.mktemp("damaged") / "model.bin"
    path.write_bytes(bytes(whole[:length]))
    try:
        found = read((path,), vocabulary).dimensions
    except (ModelFormatError, ModelUnsupportedError) as error:
        found = str(error).split(":")[0]
    path.unlink()
    assert found in (SMALL, str(path))
