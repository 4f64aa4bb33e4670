"""What can go wrong with the world outside the engine: models, audio files, machines.

A caller's mistake is a ValueError; these are for files and devices, and their text is one sentence built from facts.
"""


class EngineError(Exception):
    """Base of every error that the engine raises about the outside world."""


class ModelNotFoundError(EngineError):
    """No installed model has this name, and no directory has this path."""


class ModelFormatError(EngineError):
    """A model file is damaged, cut short or not what its name says."""

    def __init__(self, path: object, why: str) -> None:
        """`path`: the file; `why`: what was wanted and what was found."""
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


class ModelUnsupportedError(EngineError):
    """The model is sound, but it is not a Whisper or not one that this engine can run."""


class AudioError(EngineError):
    """An audio file is missing, empty, damaged or holds no sound."""


class CancelledError(Exception):
    """The caller asked to stop; not an EngineError, since nothing went wrong."""
