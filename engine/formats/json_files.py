"""Reads the JSON files that stand beside weights, of bounded size, and the alignment heads among them."""

import json
from pathlib import Path
from typing import Any

from engine.errors import ModelFormatError
from engine.weights import Dimensions

LARGEST_CONFIG = 1 << 20


def parse_json(path: Path, raw: bytes | memoryview) -> Any:
    """What JSON in UTF-8 says; ModelFormatError where it is none, or is nested without end."""
    try:
        return json.loads(bytes(raw))
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(path, f"not JSON that can be read: {error}") from None


def read_bytes(path: Path, largest: int) -> bytes:
    """All of a file of up to `largest` bytes; ModelFormatError where it is larger or cannot be read."""
    try:
        with path.open("rb") as file:
            raw = file.read(largest + 1)
    except OSError as error:
        raise ModelFormatError(path, f"cannot be read: {error.strerror}") from None
    if len(raw) > largest:
        raise ModelFormatError(path, f"larger than {largest} bytes, which no such file should be")
    return raw


def read_config(path: Path) -> dict[str, Any]:
    """The object in a configuration file; ModelFormatError where it holds none."""
    config = parse_json(path, read_bytes(path, LARGEST_CONFIG))
    if not isinstance(config, dict):
        raise ModelFormatError(path, "not a JSON object")
    return config


def alignment_heads(path: Path, shape: Dimensions) -> tuple[tuple[int, int], ...]:
    """The pairs of layer and head that a configuration file lists; none where it does not, or lists another model's.

    Distilled models often come with the list of the model that taught them. Raises ModelFormatError where it is no
    list of pairs.
    """
    listed = read_config(path).get("alignment_heads") or []
    try:
        heads = tuple((int(layer), int(head)) for layer, head in listed)
    except (TypeError, ValueError, OverflowError):
        raise ModelFormatError(path, "alignment_heads should be a list of pairs of layer and head") from None
    fits = all(0 <= layer < shape.n_text_layer and 0 <= head < shape.n_text_head for layer, head in heads)
    return tuple(dict.fromkeys(heads)) if fits else ()
