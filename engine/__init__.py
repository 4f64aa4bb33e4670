"""Sottovoce's engine: Whisper in NumPy and Numba, usable without the app.

import engine
model = engine.load_model("tiny.en")
print(model.transcribe("speech.flac").text)
print(model.transcribe(samples, engine.TranscribeOptions(beam_size=5), sample_rate=44_100).segments)
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
from engine.samples import Audio
from engine.session import Session, Update
from engine.transcript import Segment, Transcript, Word
from engine.whisper import Whisper, load_model

__all__ = [
    "Audio",
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
