"""Sottovoce's engine: Whisper in NumPy and Numba, usable without the app.

import engine
model = engine.load_model("tiny.en")
print(model.transcribe("speech.flac").text)
"""

from engine.errors import (
    AudioError,
    CancelledError,
    EngineError,
    ModelFormatError,
    ModelNotFoundError,
    ModelUnsupportedError,
)
from engine.options import TranscribeOptions
from engine.session import Session, Update
from engine.transcript import Segment, Transcript, Word
from engine.whisper import Whisper, load_model

__all__ = [
    "AudioError",
    "CancelledError",
    "EngineError",
    "ModelFormatError",
    "ModelNotFoundError",
    "ModelUnsupportedError",
    "Segment",
    "Session",
    "TranscribeOptions",
    "Transcript",
    "Update",
    "Whisper",
    "Word",
    "load_model",
]
