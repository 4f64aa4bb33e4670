"""Finds the files inside a ZIP archive as views of it, for archives that compress nothing, as PyTorch's do.

The standard library's reader takes what an archive says of itself on trust; here each size is held against the file's
before it is used. Archives beyond 4 GB (ZIP64) are read too.
"""

from pathlib import Path

from engine.errors import ModelFormatError, ModelUnsupportedError
from engine.formats.cursor import Cursor

MAGIC = b"PK\3\4"  # of an archive that begins with a file
_END, _END_64, _LOCATOR_64, _ENTRY, _FILE = b"PK\5\6", b"PK\6\6", b"PK\6\7", b"PK\1\2", MAGIC
_END_SIZE, _LOCATOR_SIZE, _LONGEST_COMMENT = 22, 20, 0xFFFF
_MOST_FILES = 10_000
_FULL_16, _FULL_32 = 0xFFFF, 0xFFFFFFFF  # stand for: see the 64-bit field
_EXTRA_64 = 1
_ENCRYPTED = 1


def files_in(path: Path, data: memoryview) -> dict[str, memoryview]:
    """The files in the archive `data` by name; ModelFormatError, and ModelUnsupportedError where one is compressed."""
    count, place = _directory(path, data)
    if count > _MOST_FILES:
        raise ModelFormatError(path, f"an archive of {count} files is no model")
    directory = Cursor(path, data, min(place, len(data)))
    files: dict[str, memoryview] = {}
    for _ in range(count):
        name, place, size = _entry(directory)
        files[name] = _contents(Cursor(path, data, min(place, len(data))), size)
    if sum(map(len, files.values())) > len(data):
        raise ModelFormatError(path, "the files in the archive overlap")
    return files


def _directory(path: Path, data: memoryview) -> tuple[int, int]:
    """How many files there are, and where their list begins."""
    tail = bytes(data[-_END_SIZE - _LONGEST_COMMENT :])
    found = tail.rfind(_END)
    if found < 0:
        raise ModelFormatError(path, "the file is cut short: it lacks the end of a ZIP archive")
    end = len(data) - len(tail) + found
    cursor = Cursor(path, data, end + 8)
    _, count, _, place = cursor.numbers("HHII")
    if count != _FULL_16 and place != _FULL_32:
        return count, place
    cursor = Cursor(path, data, max(0, end - _LOCATOR_SIZE))
    _expect(cursor, _LOCATOR_64)
    _, place = cursor.numbers("IQ")
    cursor = Cursor(path, data, min(place, len(data)))
    _expect(cursor, _END_64)
    cursor.take(28)
    count, _, place = cursor.numbers("QQQ")
    return count, place


def _expect(cursor: Cursor, magic: bytes) -> None:
    if bytes(cursor.take(4)) != magic:
        raise ModelFormatError(cursor.path, f"the ZIP archive is damaged at byte {cursor.at - 4}")


def _entry(directory: Cursor) -> tuple[str, int, int]:
    """Name, place and size of a file, from the directory."""
    _expect(directory, _ENTRY)
    _, _, flags, method, _, _, _, packed, size, *lengths = directory.numbers("6H3I3H")
    _, _, _, place = directory.numbers("HHII")
    name_length, extra_length, comment_length = lengths
    name = directory.text(name_length)
    extra = Cursor(directory.path, directory.take(extra_length))
    directory.take(comment_length)
    if method or flags & _ENCRYPTED:
        raise ModelUnsupportedError(f"{directory.path}: {name} is compressed in it; PyTorch stores files as they are")
    while extra.left >= 4:
        kind, length = extra.numbers("HH")
        field = Cursor(directory.path, extra.take(length))
        if kind == _EXTRA_64:
            size, packed, place = (field.number("Q") if n == _FULL_32 else n for n in (size, packed, place))
    if packed != size:
        raise ModelFormatError(directory.path, f"{name} has two sizes, {packed} and {size}")
    return name, place, size


def _contents(cursor: Cursor, size: int) -> memoryview:
    """The bytes of a file whose own header begins here; it repeats the name, and may hold another extra field."""
    _expect(cursor, _FILE)
    cursor.take(22)
    cursor.take(sum(cursor.numbers("HH")))
    return cursor.take(size)
