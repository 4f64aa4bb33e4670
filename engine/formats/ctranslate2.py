"""Reads a CTranslate2 Whisper model, version 6, float32 or float16, without CTranslate2.

Layout, all little-endian: u32 version, string "WhisperSpec", u32 revision, u32 number of variables; each variable is a
string name, u8 rank, u32 dimensions, u8 type, u32 bytes and the raw array; then u32 aliases. A string is a u16 length
that counts a closing NUL. Queries, keys and values of one attention are stacked in one array.
"""

import json
import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import ModelFormatError, ModelUnsupportedError
from engine.tokenizer import ranks_from_gpt2_strings
from engine.weights import Dimensions, Weights

_VERSION = 6
_TYPES: dict[int, Any] = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
_MOST_VARIABLES = 10_000
_HIGHEST_RANK = 4


class _Cursor:
    """Reads a buffer forward and never past its end."""

    def __init__(self, path: Path, data: memoryview) -> None:
        self.path, self._data, self._at = path, data, 0

    def take(self, size: int) -> memoryview:
        if size > len(self._data) - self._at:
            raise ModelFormatError(self.path, f"the file is cut short: it ends within byte {self._at} + {size}")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, code: str) -> int:
        value: int = struct.unpack("<" + code, self.take(struct.calcsize(code)))[0]
        return value

    def string(self) -> str:
        raw = bytes(self.take(self.number("H")))
        try:
            return raw.rstrip(b"\0").decode("ascii")
        except UnicodeDecodeError:
            raise ModelFormatError(self.path, f"a name at byte {self._at} is not text") from None


def read(parts: tuple[Path, ...], vocabulary: Path) -> Weights:
    """Read `model.bin`, given as the files that make it up when joined, and its vocabulary file.

    The arrays are views of the mapped file where there is one part. Raises ModelFormatError where a file is damaged,
    ModelUnsupportedError where it is not a Whisper or is quantised.
    """
    path = parts[0]
    variables = _variables(path, _bytes_of(parts))
    arrays = _openai_names(path, variables)
    dimensions = _dimensions(path, variables, arrays)
    _check_shapes(path, dimensions, arrays)
    return Weights(dimensions, arrays, read_ranks(vocabulary))


def _bytes_of(parts: tuple[Path, ...]) -> memoryview:
    if len(parts) > 1:
        return memoryview(b"".join(part.read_bytes() for part in parts))
    with parts[0].open("rb") as file:
        if not file.seek(0, 2):
            raise ModelFormatError(parts[0], "the file is empty")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _variables(path: Path, data: memoryview) -> dict[str, np.ndarray]:
    cursor = _Cursor(path, data)
    version = cursor.number("I")
    if version != _VERSION:
        raise ModelFormatError(path, f"not a CTranslate2 model of version {_VERSION}: the version is {version}")
    kind = cursor.string()
    if kind != "WhisperSpec":
        raise ModelUnsupportedError(f"{path}: a CTranslate2 model of kind {kind!r}, not a Whisper")
    cursor.number("I")  # revision of the layout within the kind; all known ones agree
    count = cursor.number("I")
    if count > _MOST_VARIABLES:
        raise ModelFormatError(path, f"{count} variables are more than a Whisper has")
    variables: dict[str, np.ndarray] = {}
    for _ in range(count):
        name = cursor.string()
        rank = cursor.number("B")
        if rank > _HIGHEST_RANK:
            raise ModelFormatError(path, f"{name} has {rank} dimensions")
        shape = tuple(cursor.number("I") for _ in range(rank))
        code, size = cursor.number("B"), cursor.number("I")
        if code not in _TYPES:
            raise ModelUnsupportedError(f"{path}: {name} is stored as type {code}, which is not supported")
        kind_of_number = np.dtype(_TYPES[code])
        length = kind_of_number.itemsize
        for extent in shape:
            length *= extent
        if length != size:
            raise ModelFormatError(path, f"{name} of shape {shape} takes {length} bytes, but {size} are stored")
        variables[name] = np.frombuffer(cursor.take(size), kind_of_number).reshape(shape)
    return variables


def _openai_names(path: Path, variables: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The variables under openai-whisper's names, stacked projections taken apart."""
    arrays: dict[str, np.ndarray] = {}

    def take(source: str, target: str, *, bias: bool = True) -> None:
        arrays[f"{target}.weight"] = _float(path, variables, f"{source}/weight")
        if bias:
            arrays[f"{target}.bias"] = _float(path, variables, f"{source}/bias")

    def take_norm(source: str, target: str) -> None:
        arrays[f"{target}.weight"] = _float(path, variables, f"{source}/gamma")
        arrays[f"{target}.bias"] = _float(path, variables, f"{source}/beta")

    def take_stacked(source: str, attention: str, names: tuple[str, ...]) -> None:
        weight, bias = _float(path, variables, f"{source}/weight"), _float(path, variables, f"{source}/bias")
        height = weight.shape[0] // len(names)
        for i, name in enumerate(names):
            arrays[f"{attention}.{name}.weight"] = weight[i * height : (i + 1) * height]
            if name != "key":  # stored as zeros; the network has none
                arrays[f"{attention}.{name}.bias"] = bias[i * height : (i + 1) * height]

    take("encoder/conv1", "encoder.conv1")
    take("encoder/conv2", "encoder.conv2")
    arrays["decoder.token_embedding.weight"] = _float(path, variables, "decoder/embeddings/weight")
    for stack, last in (("encoder", "ln_post"), ("decoder", "ln")):
        source = f"{stack}/position_encodings/encodings"
        arrays[f"{stack}.positional_embedding"] = _float(path, variables, source)
        take_norm(f"{stack}/layer_norm", f"{stack}.{last}")
        for i in range(_n_layers(variables, stack)):
            layer, block = f"{stack}/layer_{i}", f"{stack}.blocks.{i}"
            take_norm(f"{layer}/self_attention/layer_norm", f"{block}.attn_ln")
            take_stacked(f"{layer}/self_attention/linear_0", f"{block}.attn", ("query", "key", "value"))
            take(f"{layer}/self_attention/linear_1", f"{block}.attn.out")
            if stack == "decoder":
                take_norm(f"{layer}/attention/layer_norm", f"{block}.cross_attn_ln")
                take(f"{layer}/attention/linear_0", f"{block}.cross_attn.query")
                take_stacked(f"{layer}/attention/linear_1", f"{block}.cross_attn", ("key", "value"))
                take(f"{layer}/attention/linear_2", f"{block}.cross_attn.out")
            take_norm(f"{layer}/ffn/layer_norm", f"{block}.mlp_ln")
            take(f"{layer}/ffn/linear_0", f"{block}.mlp.0")
            take(f"{layer}/ffn/linear_1", f"{block}.mlp.2")
    return arrays


def _float(path: Path, variables: dict[str, np.ndarray], name: str) -> np.ndarray:
    if name not in variables:
        raise ModelFormatError(path, f"{name} is missing")
    array = variables[name]
    if array.dtype.kind != "f":
        raise ModelUnsupportedError(f"{path}: {name} is quantised ({array.dtype}); use a float16 or float32 model")
    return array


def _n_layers(variables: dict[str, np.ndarray], stack: str) -> int:
    layers = [name for name in variables if name.startswith(f"{stack}/layer_") and name.count("/") > 2]
    return len({name.split("/")[1] for name in layers})


def _dimensions(path: Path, variables: dict[str, np.ndarray], arrays: dict[str, np.ndarray]) -> Dimensions:
    conv, embedding = arrays["encoder.conv1.weight"], arrays["decoder.token_embedding.weight"]
    audio, text = arrays["encoder.positional_embedding"], arrays["decoder.positional_embedding"]
    ranks = (("conv1", conv, 3), ("embeddings", embedding, 2), ("encodings", audio, 2), ("encodings", text, 2))
    for name, array, rank in ranks:
        if array.ndim != rank:
            raise ModelFormatError(path, f"{name} has {array.ndim} dimensions, not {rank}")
    heads = {}
    for stack in ("encoder", "decoder"):
        scalar = variables.get(f"{stack}/num_heads")
        if scalar is None or scalar.size != 1:
            raise ModelFormatError(path, f"{stack}/num_heads is missing")
        heads[stack] = int(scalar.reshape(()))
    try:
        return Dimensions(
            n_mels=conv.shape[1],
            n_audio_ctx=audio.shape[0],
            n_audio_state=conv.shape[0],
            n_audio_head=heads["encoder"],
            n_audio_layer=_n_layers(variables, "encoder"),
            n_vocab=embedding.shape[0],
            n_text_ctx=text.shape[0],
            n_text_state=embedding.shape[1],
            n_text_head=heads["decoder"],
            n_text_layer=_n_layers(variables, "decoder"),
        )
    except ModelUnsupportedError as error:
        raise ModelUnsupportedError(f"{path}: {error}") from None


def _check_shapes(path: Path, dimensions: Dimensions, arrays: dict[str, np.ndarray]) -> None:
    for name, shape in dimensions.shapes().items():
        found = arrays[name].shape if name in arrays else None
        if found != shape:
            raise ModelFormatError(path, f"{name} should have the shape {shape}, but has {found}")


def read_ranks(vocabulary: Path) -> list[bytes]:
    """Byte strings of the text tokens in a vocabulary.json or vocabulary.txt; ModelFormatError if it cannot be read."""
    try:
        text = vocabulary.read_text(encoding="utf-8")
        tokens = json.loads(text) if vocabulary.suffix == ".json" else text.split("\n")
        return ranks_from_gpt2_strings(tokens)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ModelFormatError(vocabulary, f"the vocabulary cannot be read: {error}") from None
