"""Finds out by its content what kind of model a path leads to, and which files make it up.

It reads no more than the first bytes and a list of shards, so that a wrong path is told at once. Any thread.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.errors import ModelFormatError, ModelUnsupportedError
from engine.formats import ggml, zipped
from engine.formats.json_files import read_config
from engine.formats.safetensors import LARGEST_HEADER

Format = Literal["Hugging Face", "CTranslate2", "ggml", "OpenAI"]

_WEIGHTS = (  # of Hugging Face: files, and lists of files; which of them a model has in full, counts from the top
    "model.safetensors",
    "model.safetensors.index.json",
    "model.fp16.safetensors",
    "model.safetensors.index.fp16.json",
    "model.fp32.safetensors",
    "model.safetensors.index.fp32.json",
)
_VOCABULARIES: dict[Format, tuple[str, ...]] = {
    "Hugging Face": ("vocab.json", "tokenizer.json"),
    "CTranslate2": ("vocabulary.json", "vocabulary.txt", "tokenizer.json"),
}
_UNSUPPORTED = {
    b"GGUF": "a GGUF file; of whisper.cpp's models, those named ggml-*.bin can be opened",
    b"\x80\x02\x8a\x0al\xfc\x9cF": "a PyTorch file from before 2020; save it anew with PyTorch",
}
_N_FIRST_BYTES = 64
_MOST_SHARDS = 100


@dataclass(frozen=True, kw_only=True)
class Files:
    """The files of one model; `weights` are its shards, or the parts of one file that are to be joined."""

    format: Format
    weights: tuple[Path, ...]
    vocabulary: Path | None = None  # None where it is within the weights, or known
    config: Path | None = None


def recognise(path: str | os.PathLike[str]) -> Files:
    """The files of the model in a directory, or that a file belongs to.

    Raises ModelFormatError where it is no model or lacks a file, ModelUnsupportedError where it is one of another kind.
    """
    path = Path(path)
    if not path.is_dir():
        return _recognise_file(path)
    if weights := next(_sets(path), None):
        return _with_neighbours("Hugging Face", path, weights)
    if (path / "model.bin").is_file():
        return _recognise_file(path / "model.bin")
    if (path / "pytorch_model.bin").is_file():
        why = "it has its weights only as pytorch_model.bin; save it anew with transformers, as safetensors"
        raise ModelUnsupportedError(f"{path}: {why}")
    wanted = "model.safetensors or model.bin; a ggml or .pt model is given as the file itself"
    raise ModelFormatError(path, f"not the directory of a model: it lacks {wanted}")


def _recognise_file(path: Path) -> Files:
    first = _first_bytes(path)
    for magic, what in _UNSUPPORTED.items():
        if first.startswith(magic):
            raise ModelUnsupportedError(f"{path}: {what}")
    if first.startswith(ggml.MAGIC):
        return Files(format="ggml", weights=(path,))
    if first.startswith(zipped.MAGIC):
        return Files(format="OpenAI", weights=(path,))
    if len(first) > 8 and struct.unpack("<Q", first[:8])[0] <= LARGEST_HEADER and first[8:9] == b"{":
        weights = next((weights for weights in _sets(path.parent) if path in weights), (path,))
        return _with_neighbours("Hugging Face", path.parent, weights)
    if first[1:4] == b"\0\0\0" and b"Spec\0" in first:
        return _with_neighbours("CTranslate2", path.parent, (path,))
    kinds = "safetensors, CTranslate2's model.bin, ggml or OpenAI's .pt"
    raise ModelFormatError(path, f"not a model: by its first bytes, it is none of {kinds}")


def _first_bytes(path: Path) -> bytes:
    try:
        if not path.is_file():  # opening a pipe would wait for its other end
            raise ModelFormatError(path, "there is no such file")
        with path.open("rb") as file:
            first = file.read(_N_FIRST_BYTES)
    except OSError as error:
        raise ModelFormatError(path, f"cannot be read: {error.strerror}") from None
    if not first:
        raise ModelFormatError(path, "the file is empty")
    return first


def _sets(directory: Path) -> Iterator[tuple[Path, ...]]:
    """The sets of weights in a directory of Hugging Face's that are complete, the preferred one first.

    Where none is, raises ModelFormatError that names a file that is missing; where there is not even a list, nothing.
    """
    missing: list[Path] = []
    complete = 0
    for name in _WEIGHTS:
        if not (path := directory / name).is_file():
            continue
        weights = _shards(path) if path.suffix == ".json" else (path,)
        absent = [shard for shard in weights if not shard.is_file()]
        missing += absent
        if not absent:
            complete += 1
            yield weights
    if missing and not complete:
        raise ModelFormatError(missing[0], "this part of the model is missing")


def _shards(index: Path) -> tuple[Path, ...]:
    """The files, beside the list of them, that the weights are spread over."""
    places = read_config(index).get("weight_map")
    named = list(places.values()) if isinstance(places, dict) else []
    names = sorted({name for name in named if isinstance(name, str) and name == Path(name).name})
    if not 1 <= len(names) <= _MOST_SHARDS or not all(name in names for name in named):
        raise ModelFormatError(index, f"weight_map should name 1 to {_MOST_SHARDS} files of this directory")
    return tuple(index.with_name(name) for name in names)


def _with_neighbours(format: Format, directory: Path, weights: tuple[Path, ...]) -> Files:
    """The weights with what stands beside them; without a configuration, CTranslate2's can be read all the same."""
    names = _VOCABULARIES[format]
    vocabulary = next((path for name in names if (path := directory / name).is_file()), None)
    config: Path | None = directory / "config.json"
    if config is not None and not config.is_file():
        config = None
    if vocabulary is None:
        raise ModelFormatError(directory, f"its vocabulary is missing: {' or '.join(names)}")
    if config is None and format == "Hugging Face":
        raise ModelFormatError(directory, "its config.json is missing")
    return Files(format=format, weights=weights, vocabulary=vocabulary, config=config)
