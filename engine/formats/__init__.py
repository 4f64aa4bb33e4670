"""Model files of every kind to the same `Weights`: one reader a format, which is told by content and not by name.

No reader believes a number in a file before it has held it against the file's size and a Whisper's limits.
"""

import os

from engine.formats import ctranslate2, ggml, huggingface, openai
from engine.formats.files import Files, recognise
from engine.weights import Weights

__all__ = ["Files", "load", "read", "recognise"]


def read(path: str | os.PathLike[str]) -> Weights:
    """The model in a directory or file: Hugging Face's, CTranslate2's, whisper.cpp's or OpenAI's.

    Raises ModelFormatError where it is damaged, incomplete or no model, ModelUnsupportedError where it is one that
    cannot be run.
    """
    return load(recognise(path))


def load(files: Files) -> Weights:
    """The model that these files make up; raises as `read` does."""
    match files:
        case Files(format="Hugging Face", weights=weights, vocabulary=vocabulary, config=config) if (
            vocabulary and config
        ):
            return huggingface.read(weights, vocabulary, config)
        case Files(format="CTranslate2", weights=weights, vocabulary=vocabulary, config=config) if vocabulary:
            return ctranslate2.read(weights, vocabulary, config)
        case Files(format="ggml", weights=(path,)):
            return ggml.read(path)
        case Files(format="OpenAI", weights=(path,)):
            return openai.read(path)
    raise ValueError(f"these files are not complete: {files}")
