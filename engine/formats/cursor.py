"""Reads a model file's bytes forward and never past their end; every reader stands on it."""

import mmap
import struct
from pathlib import Path

from engine.errors import ModelFormatError


def map_file(path: Path) -> memoryview:
    """The file's bytes, mapped and not read; ModelFormatError where it is empty or cannot be read."""
    try:
        with path.open("rb") as file:
            if not file.seek(0, 2):
                raise ModelFormatError(path, "the file is empty")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise ModelFormatError(path, f"cannot be read: {error.strerror}") from None


class Cursor:
    """A place in the bytes of a file, which moves on with all that is taken. Numbers are little-endian."""

    def __init__(self, path: Path, data: memoryview, at: int = 0) -> None:
        """Begin `at` this byte of `data`; `path` is for the errors, which are ModelFormatError throughout."""
        self.path, self._data, self.at = path, data, at

    @property
    def left(self) -> int:
        """How many bytes there are still."""
        return len(self._data) - self.at

    def take(self, size: int) -> memoryview:
        """The next `size` bytes, not copied."""
        if not 0 <= size <= self.left:
            raise ModelFormatError(self.path, f"the file is cut short: it ends within byte {self.at} + {size}")
        self.at += size
        return self._data[self.at - size : self.at]

    def peek(self, size: int) -> memoryview:
        """Up to `size` of the next bytes; the place stays."""
        return self._data[self.at : self.at + size]

    def numbers(self, codes: str) -> tuple[int, ...]:
        """Whole numbers packed as the `codes` of module struct say, without gaps."""
        return struct.unpack("<" + codes, self.take(struct.calcsize("<" + codes)))

    def number(self, code: str) -> int:
        """One number, as `numbers` gives several."""
        return self.numbers(code)[0]

    def text(self, size: int) -> str:
        """The next `size` bytes as printable UTF-8."""
        raw = self.take(size)
        try:
            text = str(raw, "utf-8")
        except UnicodeDecodeError:
            text = "\0"
        if not text.isprintable():
            raise ModelFormatError(self.path, f"the {size} bytes before byte {self.at} are not text")
        return text
