"""Which microphones this machine has, and the one door to PortAudio, which is a single thing per process.

It exists because PortAudio lists ALSA's aliases but not PulseAudio's sources, freezes its list when it
starts, may not be used by two threads at once, and may not be installed at all: `sounddevice` is therefore
imported at the first use, under a lock. May be called from any thread but PortAudio's own.
"""

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from app.errors import CaptureError

_log = logging.getLogger(__name__)

_MAX_CHANNELS = 8
# What ALSA's door calls the channels of a stream of 2, 4, 5, 6 or 8: the first so many of these.
_POSITIONS = (
    *("front-left", "front-right", "rear-left", "rear-right"),
    *("front-center", "lfe", "side-left", "side-right"),
)
_DEFAULT = "default"  # ALSA's name for it; claims dozens of channels, whatever the microphone behind it has
_PULSE = "pulse"  # ALSA's name for its door to PulseAudio, and our prefix for the names of its sources
_PULSE_SOURCE = "PULSE_SOURCE"  # the variable that tells this door which source to open
_CARD = re.compile(r" \(hw:\d+,\d+\)$")  # ALSA's number of a card
_LOCK_TIMEOUT_S = 5.0
_PACTL_TIMEOUT_S = 2.0
_CHECK_SOUND = "Check that sound works in other programs."
_CONNECT = "Connect one, or switch it on in the system's sound settings."

# PortAudio keeps one state per process, so its guard does too. `_open_streams` changes under the lock only.
_lock = threading.Lock()
_open_streams = 0


@dataclass(frozen=True)
class MicrophoneInfo:
    """A microphone to choose from: `name` is what settings keep, `label` what people read."""

    name: str
    label: str
    default: bool


@dataclass(frozen=True)
class Device:
    """How to open a microphone: PortAudio's index, its own rate and channels, variables to set meanwhile."""

    index: int
    label: str
    rate: int
    channels: int
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PulseSource:
    """A source of PulseAudio; `channels` to open it with; a monitor hears what the computer plays."""

    name: str
    label: str
    rate: int
    channels: int
    monitor: bool
    default: bool


@contextmanager
def portaudio() -> Iterator[Any]:
    """Hold PortAudio for this thread and give the `sounddevice` module.

    CaptureError when the library is missing, does not start, or another thread is stuck inside it.
    """
    if not _lock.acquire(timeout=_LOCK_TIMEOUT_S):
        raise CaptureError("The sound system does not answer.", "Wait a moment, or restart the app.")
    try:
        sd = _sounddevice()
        try:
            yield sd
        except sd.PortAudioError as error:
            raise CaptureError(f"The sound system failed: {error}.", _CHECK_SOUND) from error
    finally:
        _lock.release()


def count_stream(change: int) -> None:
    """Note that a stream was opened (+1) or closed (-1); only within `portaudio()`."""
    global _open_streams
    _open_streams += change


def refresh() -> bool:
    """Let PortAudio look again for devices; False, and nothing done, while a stream is open.

    May take a second or more, so not for the window's thread. CaptureError when PortAudio does not answer.
    """
    with portaudio() as sd:
        return refresh_within(sd)


def refresh_within(sd: Any) -> bool:
    """As `refresh`, for a caller that already holds `portaudio()`."""
    if _open_streams:
        return False
    # PortAudio has no other way to see a device that came later than itself, and sounddevice no public one.
    sd._terminate()
    _initialize(sd)
    return True


def microphones() -> tuple[MicrophoneInfo, ...]:
    """The microphones that PortAudio knew at its last `refresh`, the default one marked.

    May wait for a device that is just being opened, so not for the window's thread. CaptureError when PortAudio
    is missing or does not answer.
    """
    with portaudio() as sd:
        return tuple(info for info, _ in _list(sd))


def find(sd: Any, name: str | None) -> Device:
    """How to open the microphone of this name (or label), None being the default; only within `portaudio()`.

    CaptureError when it is not among those that PortAudio knows.
    """
    listed = _list(sd)
    for info, device in listed:
        if name in (info.name, info.label):
            return device
        if name in (None, _DEFAULT) and info.default:
            return _unpinned(device)
    if name in (None, _DEFAULT) or not listed:
        raise CaptureError("No microphone was found.", _CONNECT)
    raise CaptureError(f"The microphone “{name}” is not there.", "Connect it, or choose another microphone.")


def _unpinned(device: Device) -> Device:
    """The device without its source: the sound server may then move the stream along with its default."""
    return replace(device, environment={k: v for k, v in device.environment.items() if k != _PULSE_SOURCE})


@contextmanager
def opening(environment: Mapping[str, str]) -> Iterator[None]:
    """Set these variables and send what C libraries print on stderr to the log, while a device is opened."""
    before = {key: os.environ.get(key) for key in environment}
    os.environ.update(environment)
    try:
        with _stderr_to_log():
            yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def _sounddevice() -> Any:
    try:
        import sounddevice as sd  # starts PortAudio
    except OSError as error:
        cure = "sudo apt install libportaudio2" if sys.platform == "linux" else "pip install sounddevice"
        raise CaptureError(
            "PortAudio, the library that reads microphones, is missing.", f"Install it with: {cure}"
        ) from error
    except Exception as error:
        if type(error).__name__ != "PortAudioError":  # the module is not there to name it by
            raise
        raise _not_started(error) from error
    if not sd._initialized:
        _initialize(sd)
    return sd


def _initialize(sd: Any) -> None:
    try:
        sd._initialize()
    except sd.PortAudioError as error:
        raise _not_started(error) from error


def _not_started(error: Exception) -> CaptureError:
    return CaptureError(f"The sound system did not start: {error}.", _CHECK_SOUND)


def _list(sd: Any) -> list[tuple[MicrophoneInfo, Device]]:
    door = next((device["index"] for device in sd.query_devices() if device["name"] == _PULSE), None)
    if door is not None and (sources := _pulse_sources()) is not None:
        return [_from_source(door, source) for source in sources]
    return choose_inputs(sd.query_devices(), sd.query_hostapis())


def choose_inputs(
    listed: Sequence[Mapping[str, Any]], apis: Sequence[Mapping[str, Any]]
) -> list[tuple[MicrophoneInfo, Device]]:
    """The microphones among the devices and host APIs that `sounddevice` lists, each of them once."""
    # Windows shows each microphone once for each of its sound systems; only WASAPI tells their whole names.
    usable = [api for api in apis if api["default_input_device"] >= 0]
    chosen = min(usable, key=lambda api: api["name"] != "Windows WASAPI", default=None)
    if chosen is None:
        return []
    default = chosen["default_input_device"]
    kept = [listed[index] for index in chosen["devices"] if listed[index]["max_input_channels"] > 0]
    if chosen["name"] == "ALSA":  # the rest are aliases and converters of these
        kept = [device for device in kept if device["index"] == default or _CARD.search(device["name"])]
    return [_from_portaudio(device, _stable_name(device, kept), default) for device in kept]


def _stable_name(device: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> str:
    """The name without the card's number, which changes from boot to boot, if that tells the devices apart."""
    short = _CARD.sub("", device["name"])
    twins = sum(_CARD.sub("", other["name"]) == short for other in others)
    return short if twins == 1 else str(device["name"])


def _from_portaudio(device: Mapping[str, Any], name: str, default: int) -> tuple[MicrophoneInfo, Device]:
    label = "System default" if name == _DEFAULT else name
    channels = min(device["max_input_channels"], 2 if name == _DEFAULT else _MAX_CHANNELS)
    info = MicrophoneInfo(name, label, device["index"] == default)
    return info, Device(device["index"], label, round(device["default_samplerate"]), channels)


def _from_source(door: int, source: PulseSource) -> tuple[MicrophoneInfo, Device]:
    environment = {_PULSE_SOURCE: source.name, "PULSE_PROP_OVERRIDE": "application.name=Sottovoce"}
    info = MicrophoneInfo(f"{_PULSE}:{source.name}", source.label, source.default)
    return info, Device(door, source.label, source.rate, source.channels, environment)


def _pulse_sources() -> list[PulseSource] | None:
    listing = _pactl("list", "sources")
    default = _pactl("get-default-source")
    if listing is None or default is None:
        return None
    return parse_sources(listing, default.strip())


def parse_sources(listing: str, default: str) -> list[PulseSource]:
    """PulseAudio's sources as `pactl list sources` prints them, those that hear what the computer plays last."""
    parts = re.split(r"^Source #\d+\n", listing, flags=re.MULTILINE)
    sources = [source for part in parts if (source := _parse_source(part, default))]
    sources.sort(key=lambda source: source.monitor)
    if all(source.monitor for source in sources):  # then the server's default is no microphone either
        sources = [replace(source, default=False) for source in sources]
    return sources


def _parse_source(text: str, default: str) -> PulseSource | None:
    # The plain listing and not the JSON one: pactl 16 writes "(null)" there for every name that is not ASCII.
    fields: dict[str, str] = dict(re.findall(r"^\t([A-Z][A-Za-z ]+): (.*)$", text, re.MULTILINE))
    rate = re.search(r"(\d+)Hz", fields.get("Sample Specification", ""))
    if "Name" not in fields or rate is None:
        return None
    channels = _channels_to_open(fields.get("Channel Map", "mono").split(","))
    name = fields["Name"]
    monitor = fields.get("Monitor of Sink", "n/a") != "n/a"
    label = fields.get("Description", name)
    return PulseSource(name, label, int(rate[1]), channels, monitor, name == default)


def _channels_to_open(positions: Sequence[str]) -> int:
    """The fewest channels through which each of a source's own arrives unmixed.

    The server mixes by position, and a source whose channels have none (aux0, aux1) would come out as silence
    on two channels or more; on one it arrives at least, averaged.
    """
    return next((n for n in (2, 4, 5, 6, 8) if set(positions) <= set(_POSITIONS[:n])), 1)


def _pactl(*words: str) -> str | None:
    """What pactl prints; None when it is missing, fails or does not end."""
    path = shutil.which("pactl")
    if path is None:
        return None
    environment = os.environ | {"LC_ALL": "C.UTF-8"}  # untranslated
    try:
        done = subprocess.run(
            [path, *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=_PACTL_TIMEOUT_S, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        _log.info("pactl %s: %s", " ".join(words), error)
        return None
    return done.stdout.decode("utf-8", "replace")


@contextmanager
def _stderr_to_log() -> Iterator[None]:
    try:
        saved = os.dup(2)
    except OSError:  # a program without a console has no stderr
        yield
        return
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            kept.seek(0)
            if text := kept.read().decode("utf-8", "replace").strip():
                _log.debug("while opening a microphone: %s", text)
