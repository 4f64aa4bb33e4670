"""Reads the .pt files of openai-whisper, which PyTorch has written, without PyTorch.

Layout: a ZIP archive whose files are stored as they are, under a folder of any name: `data.pkl`, a pickle of
`{"dims": …, "model_state_dict": …}`, and `data/KEY`, the numbers of the arrays that the pickle describes. A vocabulary
is not among them; it is one of OpenAI's two.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from engine.errors import ModelFormatError, ModelUnsupportedError
from engine.formats import pickled
from engine.formats.arrays import assemble, dimensions, size_of, stored
from engine.formats.cursor import map_file
from engine.formats.vocabulary import openai_ranks
from engine.formats.zipped import files_in
from engine.weights import Array, Dimensions, Weights

_PICKLE = "data.pkl"
_KINDS = {
    "torch.HalfStorage": "float16",
    "torch.FloatStorage": "float32",
    "torch.DoubleStorage": "float64",
    "torch.BFloat16Storage": "bfloat16",
}
_HIGHEST_RANK = 4
_PREFIXES = ("", "model.", "module.")  # the latter two where a network was saved inside another


@dataclass(frozen=True)
class _Storage:
    """The numbers that arrays are cut from."""

    kind: str
    data: memoryview


def read(path: Path) -> Weights:
    """Read the file; its arrays are views of it.

    Raises ModelFormatError where it is damaged, holds something else or would run code, and ModelUnsupportedError where
    it is not a Whisper.
    """
    data = map_file(path)
    checkpoint = _checkpoint(path, files_in(path, data))
    numbers, state = (
        checkpoint.get(name) if isinstance(checkpoint, dict) else None for name in ("dims", "model_state_dict")
    )
    if not isinstance(numbers, dict) or not isinstance(state, dict):
        raise ModelFormatError(path, "not a model of openai-whisper: it lacks dims or model_state_dict")
    names = [field.name for field in fields(Dimensions)]
    if missing := [name for name in names if name not in numbers]:
        raise ModelFormatError(path, f"dims lacks {missing[0]}")
    shape = dimensions(path, {name: numbers[name] for name in names})

    def find(name: str) -> Array:
        for prefix in _PREFIXES:
            if isinstance(array := state.get(prefix + name), Array):
                return array
        raise ModelFormatError(path, f"{name} is missing")

    ranks = openai_ranks(multilingual=shape.multilingual)
    return assemble(path, shape, find, ranks, size=len(data))


def _checkpoint(path: Path, files: Mapping[str, memoryview]) -> Any:
    """What the pickle among the files describes, its arrays cut from the others."""
    pickles = [name for name in files if name == _PICKLE or name.endswith(f"/{_PICKLE}")]
    if len(pickles) != 1:
        raise ModelFormatError(path, f"not a PyTorch file: it has {len(pickles)} files {_PICKLE}")
    folder = pickles[0].removesuffix(_PICKLE)
    if bytes(files.get(f"{folder}byteorder", b"little")[:10]).strip() != b"little":
        raise ModelUnsupportedError(f"{path}: its numbers are not little-endian")
    calls: dict[str, pickled.Make] = {
        "collections.OrderedDict": _dictionary,
        "torch._utils._rebuild_tensor_v2": partial(_array, path),
        "torch._utils._rebuild_parameter": _parameter,
    }
    storage = partial(_storage, path, files, f"{folder}data/")
    return pickled.load(path, files[pickles[0]], calls, frozenset(_KINDS), storage)


def _storage(path: Path, files: Mapping[str, memoryview], folder: str, *reference: Any) -> _Storage:
    """The storage that ("storage", class, key, device, count) refers to."""
    match reference:
        case ("storage", pickled.Name(kind), str(key), _, _) if kind in _KINDS and folder + key in files:
            return _Storage(_KINDS[kind], files[folder + key])
    raise ModelFormatError(path, "its pickle refers to numbers that the file does not hold")


def _array(path: Path, storage: Any, start: Any, shape: Any, strides: Any, *_: Any) -> Array:
    """An array cut from its storage, given its first number, its shape and the steps along its axes, in numbers."""
    sound = isinstance(storage, _Storage) and isinstance(shape, tuple) and isinstance(strides, tuple)
    if not sound or len(shape) > _HIGHEST_RANK or len(shape) != len(strides):
        raise ModelFormatError(path, "its pickle describes an impossible array")
    if any(type(number) is not int or number < 0 for number in (start, *shape, *strides)) or 0 in shape:
        raise ModelFormatError(path, "its pickle describes an array of impossible shape")
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if stride != step and extent != 1:
            raise ModelUnsupportedError(f"{path}: an array of shape {shape} does not lie in one piece; save it anew")
        step *= extent
    size, begin = size_of(storage.kind, shape), start * size_of(storage.kind, ())
    if begin + size > len(storage.data):
        raise ModelFormatError(path, f"the file is cut short: an array of shape {shape} is larger than its numbers")
    return stored(storage.data[begin : begin + size], storage.kind, shape)


def _dictionary() -> dict[str, Any]:
    return {}


def _parameter(array: Any, *_: Any) -> Any:
    return array
