"""Writes small Whisper models in each format that the engine reads, from the descriptions of the formats alone.

Nothing here is shared with the readers. Arrays come and go under openai-whisper's names.
"""

import base64
import io
import json
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict
from functools import cache
from pathlib import Path

import numpy as np

from engine.weights import Dimensions

# As small as a Whisper can be, with fewer layers in the decoder, as in distilled models: English, and like large-v3.
ENGLISH = Dimensions(
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
MULTILINGUAL = Dimensions(**{**vars(ENGLISH), "n_mels": 128, "n_vocab": 51866, "n_audio_layer": 3, "n_text_layer": 2})


@cache
def arrays_of(dimensions):
    """Random float32 arrays which every float type of 16 bits holds exactly."""
    random = np.random.default_rng(3)
    return {name: random.integers(-127, 128, s).astype(np.float32) / 64 for name, s in dimensions.shapes().items()}


@cache
def tokens_of(dimensions):
    """Byte strings of as many text tokens as the vocabulary has; the last one of a multilingual one is empty."""
    n = 50256 if dimensions.n_vocab == 51864 else 50257
    tokens = [bytes([byte]) for byte in range(256)] + [b" word%d \n\xc3\xa9" % i for i in range(n - 256)]
    return tokens if n == 50256 else [*tokens[:-1], b""]


def printable(token):
    """A token in GPT-2's alphabet, in which each byte is one character that can be seen."""
    shown, hidden = {}, 256
    for byte in range(256):
        if 33 <= byte <= 126 or 161 <= byte <= 172 or 174 <= byte <= 255:
            shown[byte] = chr(byte)
        else:
            shown[byte] = chr(hidden)
            hidden += 1
    return "".join(shown[byte] for byte in token)


@cache
def all_tokens(dimensions):
    """Every token as text, special ones included, in the order of their ids."""
    text = [printable(token) for token in tokens_of(dimensions)]
    return [*text, "<|endoftext|>", *(f"<|{i}|>" for i in range(dimensions.n_vocab - len(text) - 1))]


def number_bytes(array, kind):
    """The array's numbers as float16, float32 or bfloat16."""
    if kind == "bfloat16":
        return (np.ascontiguousarray(array, "<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return array.astype(np.dtype(kind).newbyteorder("<")).tobytes()


# --- CTranslate2 ------------------------------------------------------------------------------------------------------


def ct2_string(text):
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def ct2_variables(arrays, dimensions, kind="float32"):
    """OpenAI's names to CTranslate2's, queries, keys and values stacked, and (type code, shape, bytes) of each."""
    found = {}
    whole, floats = "", kind
    if kind.startswith("int"):
        whole, _, floats = kind.partition("_")
        floats = floats or "float32"

    def put(name, array):
        code = {"float32": 0, "float16": 4, "bfloat16": 5}[floats]
        found[name] = (code, array.shape, number_bytes(array, floats))

    def put_weight(name, array):
        if not whole:
            put(name, array)
        elif whole == "int16":
            scale = np.float32(1024 / np.abs(array).max())
            found[name] = (2, array.shape, np.rint(array * scale).astype("<i2").tobytes())
            found[f"{name}_scale"] = (0, (), scale.tobytes())
        else:
            rows = array.reshape(len(array), -1)
            scale = (127 / np.abs(rows).max(axis=1)).astype(np.float32)
            found[name] = (1, array.shape, np.rint(rows * scale[:, None]).astype("i1").tobytes())
            found[f"{name}_scale"] = (0, scale.shape, scale.astype("<f4").tobytes())

    def linear(target, *names):
        weights = [arrays[f"{name}.weight"] for name in names]
        put_weight(f"{target}/weight", np.concatenate(weights))
        biases = [arrays.get(f"{name}.bias", np.zeros(len(w))) for name, w in zip(names, weights, strict=True)]
        put(f"{target}/bias", np.concatenate(biases))

    def norm(target, name):
        put(f"{target}/gamma", arrays[f"{name}.weight"])
        put(f"{target}/beta", arrays[f"{name}.bias"])

    linear("encoder/conv1", "encoder.conv1")
    linear("encoder/conv2", "encoder.conv2")
    put_weight("decoder/embeddings/weight", arrays["decoder.token_embedding.weight"])
    for stack, last, layers in (
        ("encoder", "ln_post", dimensions.n_audio_layer),
        ("decoder", "ln", dimensions.n_text_layer),
    ):
        found[f"{stack}/num_heads"] = (2, (), struct.pack("<h", dimensions.n_audio_head))
        put(f"{stack}/position_encodings/encodings", arrays[f"{stack}.positional_embedding"])
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


def ct2_bytes(variables, aliases=(), kind="WhisperSpec", version=6):
    out = [struct.pack("<I", version), ct2_string(kind), struct.pack("<II", 3, len(variables))]
    for name, (code, shape, data) in sorted(variables.items()):
        out += [ct2_string(name), struct.pack(f"<B{len(shape)}I", len(shape), *shape)]
        out += [struct.pack("<BI", code, len(data)), data]
    aliases = [("decoder/projection/weight", "decoder/embeddings/weight"), *aliases]
    out += [struct.pack("<I", len(aliases)), *(ct2_string(text) for pair in aliases for text in pair)]
    return b"".join(out)


def write_ctranslate2(directory, dimensions=ENGLISH, kind="float32", arrays=None):
    directory.mkdir(parents=True, exist_ok=True)
    variables = ct2_variables(arrays or arrays_of(dimensions), dimensions, kind)
    (directory / "model.bin").write_bytes(ct2_bytes(variables))
    (directory / "vocabulary.json").write_text(json.dumps(all_tokens(dimensions)), encoding="utf-8")
    (directory / "config.json").write_text(json.dumps({"alignment_heads": [[0, 0]]}))
    return directory


# --- Hugging Face -----------------------------------------------------------------------------------------------------

HUGGING_FACE_BLOCK = {
    "attn.query": "self_attn.q_proj",
    "attn.key": "self_attn.k_proj",
    "attn.value": "self_attn.v_proj",
    "attn.out": "self_attn.out_proj",
    "attn_ln": "self_attn_layer_norm",
    "cross_attn.query": "encoder_attn.q_proj",
    "cross_attn.key": "encoder_attn.k_proj",
    "cross_attn.value": "encoder_attn.v_proj",
    "cross_attn.out": "encoder_attn.out_proj",
    "cross_attn_ln": "encoder_attn_layer_norm",
    "mlp.0": "fc1",
    "mlp.2": "fc2",
    "mlp_ln": "final_layer_norm",
}
HUGGING_FACE_REST = {
    "encoder.conv1": "encoder.conv1",
    "encoder.conv2": "encoder.conv2",
    "encoder.positional_embedding": "encoder.embed_positions.weight",
    "encoder.ln_post": "encoder.layer_norm",
    "decoder.positional_embedding": "decoder.embed_positions.weight",
    "decoder.token_embedding": "decoder.embed_tokens",
    "decoder.ln": "decoder.layer_norm",
}


def hugging_face_arrays(arrays):
    found = {}
    for name, array in arrays.items():
        whole = name.removesuffix(".weight").removesuffix(".bias")
        if ".blocks." in whole:
            stack, _, number, part = whole.split(".", 3)
            theirs = f"{stack}.layers.{number}.{HUGGING_FACE_BLOCK[part]}"
        else:
            theirs = HUGGING_FACE_REST[whole]
        found["model." + theirs + name[len(whole) :]] = array
    return found


def safetensors_bytes(arrays, kind="float32"):
    header, data = {"__metadata__": {"format": "pt"}}, []
    begin = 0
    for name, array in arrays.items():
        data.append(number_bytes(array, kind))
        code = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}[kind]
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [begin, begin + len(data[-1])]}
        begin += len(data[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data)


def hugging_face_config(dimensions):
    return {
        "model_type": "whisper",
        "activation_function": "gelu",
        "num_mel_bins": dimensions.n_mels,
        "max_source_positions": dimensions.n_audio_ctx,
        "d_model": dimensions.n_audio_state,
        "encoder_attention_heads": dimensions.n_audio_head,
        "encoder_layers": dimensions.n_audio_layer,
        "vocab_size": dimensions.n_vocab,
        "max_target_positions": dimensions.n_text_ctx,
        "decoder_attention_heads": dimensions.n_text_head,
        "decoder_layers": dimensions.n_text_layer,
    }


def write_shards(directory, arrays, suffix="", kind="float32", n_shards=2):
    names = list(arrays)
    places = {}
    for i in range(n_shards):
        shard = f"model{suffix}-0000{i + 1}-of-0000{n_shards}.safetensors"
        part = {name: arrays[name] for name in names[i::n_shards]}
        (directory / shard).write_bytes(safetensors_bytes(part, kind))
        places |= dict.fromkeys(part, shard)
    index = f"model.safetensors.index{suffix}.json"
    (directory / index).write_text(json.dumps({"metadata": {}, "weight_map": places}))


def write_hugging_face(directory, dimensions=ENGLISH, kind="float32", arrays=None):
    directory.mkdir(parents=True, exist_ok=True)
    arrays = hugging_face_arrays(arrays or arrays_of(dimensions))
    (directory / "model.safetensors").write_bytes(safetensors_bytes(arrays, kind))
    (directory / "config.json").write_text(json.dumps(hugging_face_config(dimensions)))
    ids = {token: i for i, token in enumerate(all_tokens(dimensions))}
    (directory / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    return directory


# --- ggml -------------------------------------------------------------------------------------------------------------


def ggml_header(dimensions, kind=0, tokens=None):
    """All before the arrays; the vocabulary is that of the dimensions, or `tokens`."""
    vocabulary = _ggml_vocabulary(dimensions) if tokens is None else ggml_vocabulary(tokens)
    d = dimensions
    numbers = (d.n_vocab, d.n_audio_ctx, d.n_audio_state, d.n_audio_head, d.n_audio_layer)
    numbers += (d.n_text_ctx, d.n_text_state, d.n_text_head, d.n_text_layer, d.n_mels, kind)
    filters = np.zeros((d.n_mels, 201), "<f4").tobytes()
    return struct.pack("<I11i2i", 0x67676D6C, *numbers, d.n_mels, 201) + filters + vocabulary


def ggml_vocabulary(tokens):
    return struct.pack("<i", len(tokens)) + b"".join(struct.pack("<I", len(token)) + token for token in tokens)


@cache
def _ggml_vocabulary(dimensions):
    return ggml_vocabulary(tokens_of(dimensions))


def ggml_array(name, shape, kind, data):
    if name in ("encoder.conv1.bias", "encoder.conv2.bias"):
        shape = (*shape, 1)
    head = struct.pack(f"<3i{len(shape)}i", len(shape), len(name), kind, *reversed(shape))
    return head + name.encode() + data


def write_ggml(path, dimensions=ENGLISH, kind="float32", arrays=None):
    """`kind`: float32 or float16, in which as in whisper.cpp's files only matrices and kernels are."""
    out = [ggml_header(dimensions, kind={"float32": 0, "float16": 1}[kind])]
    for name, array in (arrays or arrays_of(dimensions)).items():
        small = array.ndim == 1 or "positional" in name
        code = 0 if small or kind == "float32" else 1
        out.append(ggml_array(name, array.shape, code, number_bytes(array, "float16" if code else "float32")))
    path.write_bytes(b"".join(out))
    return path


# --- OpenAI -----------------------------------------------------------------------------------------------------------


class _Tensor:
    """Pickles as PyTorch's tensors do."""

    def __init__(self, key, array, kind):
        self.key, self.array, self.kind = key, array, kind

    def __reduce__(self):
        strides, step = [], 1
        for extent in reversed(self.array.shape):
            strides.insert(0, step)
            step *= extent
        rebuild = sys.modules["torch._utils"]._rebuild_tensor_v2
        return rebuild, (_Storage(self), 0, self.array.shape, tuple(strides), False, OrderedDict())


class _Storage:
    def __init__(self, tensor):
        self.tensor = tensor


class _Pickler(pickle.Pickler):
    def persistent_id(self, thing):
        if not isinstance(thing, _Storage):
            return None
        tensor = thing.tensor
        name = {"float32": "FloatStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage"}[tensor.kind]
        return "storage", getattr(sys.modules["torch"], name), tensor.key, "cpu", tensor.array.size


def _stand_ins():
    """Modules of the names that PyTorch's pickles hold; Python's pickler wants to see what it names."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in ("FloatStorage", "HalfStorage", "BFloat16Storage"):
        setattr(torch, name, type(name, (), {"__module__": "torch", "__qualname__": name}))

    def _rebuild_tensor_v2(*arguments):
        raise AssertionError("never called")

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    return {"torch": torch, "torch._utils": utils}


def checkpoint_pickle(dimensions, arrays, kind="float32", prefix=""):
    """data.pkl of a checkpoint, by Python's own pickler; array i has its numbers in the file data/i."""
    state = OrderedDict((prefix + name, _Tensor(str(i), a, kind)) for i, (name, a) in enumerate(arrays.items()))
    state._metadata = OrderedDict({"": {"version": 1}})
    modules, out = _stand_ins(), io.BytesIO()
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        _Pickler(out, protocol=2).dump({"dims": vars(dimensions), "model_state_dict": state})
    finally:
        for name, module in before.items():
            sys.modules.pop(name) if module is None else sys.modules.update({name: module})
    return out.getvalue()


def write_zip(path, files, folder="archive", method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(f"{folder}/{name}", data)
    return path


def write_openai(path, dimensions=ENGLISH, kind="float32", arrays=None, prefix=""):
    arrays = arrays or arrays_of(dimensions)
    files = {"data.pkl": checkpoint_pickle(dimensions, arrays, kind, prefix), "byteorder": b"little"}
    files |= {f"data/{i}": number_bytes(array, kind) for i, array in enumerate(arrays.values())}
    return write_zip(path, files | {"version": b"3\n"})


def openai_tokens(dimensions, directory=Path(__file__).parents[2] / "resources" / "vocabularies"):
    """The text tokens of OpenAI's vocabulary for these dimensions."""
    name = "gpt2.tiktoken" if dimensions.n_vocab == 51864 else "multilingual.tiktoken"
    lines = (directory / name).read_text("ascii").split("\n")[:-1]
    tokens = {int(line.split(" ")[1]): base64.b64decode(line.split(" ")[0].replace("=", "") + "==") for line in lines}
    return [tokens[rank] for rank in range(len(tokens))]
