"""Opens what FFmpeg is to read: the path of a file, or a file object, which need not be on any disk.

Called by whichever thread transcribes. What cannot be audio is refused here, in one sentence, before any decoding.
"""

import os
import stat
from typing import IO

import av
from av.container import InputContainer

from engine.errors import AudioError

Path = str | os.PathLike[str]
Media = Path | IO[bytes]

CURE = "if it plays elsewhere, export it again as WAV, FLAC, MP3 or M4A"


def open_media(media: Media) -> InputContainer:
    """A local file, or a binary file object, that holds at least one audio track; AudioError where it does not.

    File objects that can seek are read from their start, others from where they are; none is closed. ValueError for
    one that gives no bytes.
    """
    name = media_name(media)
    file: str | _Reader | _SeekingReader
    if isinstance(media, str | os.PathLike):
        _refuse_path(media)
        # "file:" and the white list: no name is taken for an address, no playlist reaches the network.
        file, allowed = f"file:{os.fspath(media)}", "file"
    else:
        file, allowed = _reader(media), "none"
        if isinstance(file, _SeekingReader):
            _refuse_beginning(name, file.read(4))
            file.seek(0)
    try:
        container = av.open(file, "r", metadata_errors="replace", options={"protocol_whitelist": allowed})
    except (av.FFmpegError, ValueError, OSError):
        raise AudioError(f"{name}: not an audio file, or too damaged to read; {CURE}.") from None
    if container.streams.audio:
        return container
    # What nothing else recognises by its content comes here as a "picture" by its name.
    picture = container.format.name == "image2" or container.format.name.endswith("_pipe")
    container.close()
    if picture:
        raise AudioError(f"{name}: not an audio file; {CURE}.")
    raise AudioError(f"{name}: has no audio track, so there is nothing to transcribe.")


def media_name(media: Media) -> str:
    """What to call it in a message."""
    if isinstance(media, str | os.PathLike):
        return str(media)
    name = getattr(media, "name", None)
    return name if isinstance(name, str) and name else "file object"


def can_open_again(media: Media) -> bool:
    """Whether it can be opened, and read from its start, more than once."""
    return os.path.isfile(media) if isinstance(media, str | os.PathLike) else _can_seek(media)


def _refuse_path(path: Path) -> None:
    """Raises AudioError for what can be told without decoding."""
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise AudioError(f"{path}: is a directory; name the audio files in it.")
        if not stat.S_ISREG(status.st_mode):
            return
        with open(path, "rb") as file:
            beginning = file.read(4)
    except FileNotFoundError:
        raise AudioError(f"{path}: no such file; check the name.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        reason = getattr(error, "strerror", None) or error
        raise AudioError(f"{path}: cannot be opened: {reason}.") from None
    _refuse_beginning(path, beginning)


def _refuse_beginning(name: Path, beginning: bytes) -> None:
    if not beginning:
        raise AudioError(f"{name}: the file is empty (0 bytes).")
    if beginning == b"RIFX":  # FFmpeg takes its big-endian samples for little-endian ones: full-scale noise
        raise AudioError(f"{name}: big-endian WAV (RIFX) is not supported; {CURE}.")


class _Reader:
    """A file object as FFmpeg reads it, to the end; it has no way to close it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        return bytes(self._file.read(size))[:size]  # never more than FFmpeg has room for


class _SeekingReader:
    """A file object with a place of its own in it, so that several may read it in turns."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._place = 0

    def read(self, size: int) -> bytes:
        self._file.seek(self._place)
        data = bytes(self._file.read(size))[:size]
        self._place += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._file.seek(self._place)
        self._place = self._file.seek(offset, whence)
        return self._place

    def tell(self) -> int:
        return self._place


def _can_seek(file: IO[bytes]) -> bool:
    seekable = getattr(file, "seekable", None)
    return hasattr(file, "seek") and (seekable is None or seekable())


def _reader(file: IO[bytes]) -> _Reader | _SeekingReader:
    try:
        nothing: object = file.read(0)
        seeks = _can_seek(file)
    except (OSError, ValueError):
        raise AudioError(f"{media_name(file)}: is closed, or not open for reading.") from None
    if not isinstance(nothing, bytes):
        raise ValueError(f"{media_name(file)}: gives {type(nothing).__name__}, not bytes; open it in binary mode")
    return _SeekingReader(file) if seeks else _Reader(file)
