"""Packed models kept on disk: a second start maps one, and neither opens the model's files nor converts anything.

An entry's name says whose it is: a digest of where the model's files lie, the compute it is packed for, and a digest of
all that decides what is in it. So a changed model, another CPU or other code never meets an old entry. The worst that
can happen to the cache is that a model is read as if there were none. Called by the thread that loads a model.
"""

import hashlib
import importlib.metadata
import logging
import mmap
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from weakref import WeakValueDictionary

import platformdirs

from engine import formats, kernels, packed_file, packing
from engine.catalogue import ModelFiles
from engine.kernels.policy import target_cpu, target_features
from engine.packing import Packed
from engine.weights import Weights

log = logging.getLogger(__name__)

_SUFFIX, _UNFINISHED = ".packed", ".tmp"
_DAY_S = 86_400
_UNUSED_S = 60 * _DAY_S  # after that long without a start, an entry goes
_MOST_BYTES = 8 << 30  # of all entries; the largest model takes 6.6 GB in float32
_SOURCES = ("kernels/*.py", "formats/*.py", "packing.py", "packed_file.py", "tokenizer.py", "weights.py")
_TYPES = (*packing.TYPES, *kernels.LAYERS)

_mapped: WeakValueDictionary[Path, mmap.mmap] = WeakValueDictionary()  # the entries that this process uses


def folder() -> Path:
    """Where entries are, if there are any yet."""
    return platformdirs.user_cache_path("sottovoce", appauthor=False) / "packed"


def load(files: ModelFiles, compute: str) -> Packed:
    """The model in `files` with its parts as the kernels want them for `compute`, from the cache if they are there.

    If not, they are put there, and used from there too. Raises as engine.formats.load does where the model has to be
    read.
    """
    try:
        entry = folder() / _name(files, compute)
    except OSError:  # a file of the model has gone: the reader has the words for it
        return packing.pack(formats.load(files), kernels)
    packed = _open(entry)
    if packed is None:
        packed = _make(entry, formats.load(files))
    with suppress(OSError):
        _tidy(entry)
    return packed


def _make(entry: Path, weights: Weights) -> Packed:
    """Write the entry and open it; where that cannot be, say so once, and pack into memory."""
    why = "it could not be read back"
    try:
        _write(entry, weights)
    except OSError as error:  # on Windows also where another process has made the same entry and uses it
        why = error.strerror or str(error)
    packed = _open(entry)
    if packed is None:
        _warn_once(entry.parent, why)
        packed = packing.pack(weights, kernels)
    return packed


def _write(entry: Path, weights: Weights) -> None:
    """Make the entry beside its place and then move it there, so that nobody ever sees half of one."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.parent.chmod(0o700)
    descriptor, unfinished = tempfile.mkstemp(_UNFINISHED, dir=entry.parent)
    try:
        with open(descriptor, "wb") as file:
            packed_file.write(file, weights, packing.parts_of(weights, kernels))
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, entry)
    finally:
        with suppress(OSError):
            os.unlink(unfinished)


def _open(entry: Path) -> Packed | None:
    """The model in an entry, None if there is none; a damaged one is thrown away."""
    try:
        packed, _mapped[entry] = packed_file.read(entry, _TYPES)
        if time.time() - entry.stat().st_mtime > _DAY_S:
            os.utime(entry)  # by its time of change, `_tidy` sees when it was last used
    except OSError as error:
        log.debug("%s cannot be opened: %s", entry, error)
        return None
    except packed_file.DamagedError as error:
        log.debug("%s is thrown away: %s", entry, error)
        with suppress(OSError):
            entry.unlink()
        return None
    return packed


def _tidy(current: Path) -> None:
    """Remove what `current` replaces, what nobody has used for long, and the least recently used beyond the limit."""
    same_model = current.name.rpartition("-")[0] + "-"
    now, total = time.time(), 0
    found = [(path.stat(), path) for path in current.parent.iterdir() if path.suffix in (_SUFFIX, _UNFINISHED)]
    for status, path in sorted(found, key=lambda each: -each[0].st_mtime):
        unused_s = now - status.st_mtime
        total += status.st_size
        if path == current or path in _mapped:
            continue
        if path.suffix == _UNFINISHED:
            useless = unused_s > _DAY_S  # what a killed process has left
        else:
            useless = path.name.startswith(same_model) or unused_s > _UNUSED_S or total > _MOST_BYTES
        if useless:
            log.debug("%s is removed", path)
            with suppress(OSError):  # another process may use it, which on Windows keeps it there
                path.unlink()
                total -= status.st_size


def _name(files: ModelFiles, compute: str) -> str:
    """The file name of the entry; OSError where a file of the model is missing."""
    places = [path.resolve() for path in files.weights]
    beside = [path.resolve() for path in (files.vocabulary, files.config) if path]
    # A reader may also look at what else stands beside these, such as generation_config.json.
    beside += sorted({path for known in beside for path in known.parent.glob("*.json") if path.is_file()})
    statuses = [(str(path), path.stat()) for path in (*places, *beside)]
    state = [(path, status.st_size, status.st_mtime_ns) for path, status in statuses]
    return f"{_digest(places)}-{compute}-{_digest((files.format, files.sha256, state, _LAYOUT))}{_SUFFIX}"


def _layout() -> str:
    """A digest of all besides the model that decides what is in an entry: our code, and what it looks at."""
    engine = Path(__file__).parent
    sources = sorted(path for pattern in _SOURCES for path in engine.glob(pattern))
    try:  # where the app is one program, it may have no sources
        version = importlib.metadata.version("sottovoce")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    code = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    return _digest((version, code, target_cpu(), sorted(target_features()), sys.byteorder))


def _digest(parts: Iterable[object]) -> str:
    return hashlib.sha256(repr(list(parts)).encode()).hexdigest()[:16]


@cache
def _warn_once(directory: Path, why: str) -> None:
    log.warning("the model cannot be kept ready in %s (%s); it is converted at each start", directory, why)


_LAYOUT = _layout()  # at once, while the sources are those that were imported
