"""What the person chose, kept in one small JSON file.

It exists so that a choice survives the app and a damaged file never costs more than that one file. Loading
never fails: it falls back and says why. Saving replaces the file as a whole and keeps the one before it. The
Qt thread calls both; the file is a few hundred bytes.
"""

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from app.errors import SettingsError


@dataclass(frozen=True)
class Settings:
    """Every choice; `help` says what it does, `choices` bounds it where it is bounded."""

    microphone: str = field(default="", metadata={"help": "The microphone's name; empty: the system's."})
    model: str = field(default="tiny.en", metadata={"help": "The speech model's name, or its directory."})
    theme: str = field(
        default="system",
        metadata={"help": "Light, dark, or as the system has it.", "choices": ("system", "light", "dark")},
    )
    captions: bool = field(default=False, metadata={"help": "Show the words over all windows as you speak."})


@dataclass(frozen=True)
class Loaded:
    """The settings to use, and one sentence for each thing in the file that could not be used."""

    settings: Settings
    problems: tuple[str, ...]


def default_path() -> Path:
    """Where this person's settings file is, whether it exists or not."""
    return user_config_path("sottovoce", appauthor=False) / "settings.json"


def load(path: Path) -> Loaded:
    """Read the settings; a damaged file is set aside and the backup, or else the defaults, are used."""
    try:
        return _checked(_read(path), path)
    except FileNotFoundError:
        return Loaded(Settings(), ())
    except OSError as error:
        return Loaded(Settings(), (f"The settings in {path} cannot be read: {error.strerror}.",))
    except ValueError as error:
        problem = f"The settings in {path} are damaged ({error})"
    aside = _set_aside(path)
    problem += f" and were set aside as {aside.name}" if aside else ""
    try:
        restored = _checked(_read(_backup(path)), path)
    except (OSError, ValueError):
        return Loaded(Settings(), (f"{problem}; the defaults are used.",))
    return Loaded(restored.settings, (f"{problem}; the ones before are used.", *restored.problems))


def save(settings: Settings, path: Path) -> None:
    """Replace the file, keeping the last one as a backup and every key that this version does not know.

    Raises SettingsError when the place cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            before = _read(path)
            _replace(_backup(path), path.read_bytes())
        except (FileNotFoundError, ValueError):
            before = {}
        text = json.dumps({**before, **asdict(settings)}, indent=2, ensure_ascii=False) + "\n"
        _replace(path, text.encode("utf-8", "backslashreplace"))  # a name that is no UTF-8, as JSON escapes it
    except OSError as error:
        raise SettingsError(
            f"The settings cannot be written to {path}: {error.strerror}.",
            "Make the folder writable; until then the choices last until you quit.",
        ) from error


def _read(path: Path) -> dict[str, Any]:
    """Read one JSON object; raises OSError, or ValueError with the reason."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}: {error.msg}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(values, dict):
        raise ValueError("not a JSON object")
    return values


def _checked(values: dict[str, Any], path: Path) -> Loaded:
    """Take each value that is of the right kind; name each one that is not."""
    taken: dict[str, Any] = {}
    problems = []
    for setting in fields(Settings):
        if setting.name not in values:
            continue
        value = values[setting.name]
        choices = setting.metadata.get("choices")
        if type(value) is type(setting.default) and (choices is None or value in choices):
            taken[setting.name] = value
        else:
            allowed = choices or ((True, False) if setting.type is bool else ())
            wanted = " or ".join(map(json.dumps, allowed)) or "text"
            found, used = json.dumps(value), json.dumps(setting.default)
            problems.append(f"In {path}, {setting.name} must be {wanted}, not {found:.60}; {used} is used.")
    return Loaded(Settings(**taken), tuple(problems))


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def _set_aside(path: Path) -> Path | None:
    """Move a damaged file out of the way without overwriting an earlier one; None when it cannot be moved."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    try:
        path.rename(aside)
    except OSError:
        return None
    return aside


def _replace(path: Path, content: bytes) -> None:
    """Write beside the file and rename over it, so that a crash leaves the old or the new one whole."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with fresh.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
