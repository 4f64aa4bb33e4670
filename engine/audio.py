"""Audio files as the engine hears them: float32, 16 kHz, one channel, in blocks, so length does not matter.

FFmpeg (inside PyAV) opens and decodes; what to do with several tracks, odd scales and damage is decided here. Called by
whichever thread transcribes a file; there is no state between calls.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeAlias

import av
import numpy as np
from av.container import InputContainer

from engine.downmix import RATES, SAMPLE_RATE, Downmix, Samples
from engine.errors import AudioError, CancelledError
from engine.media import CURE, Media, can_open_again, media_name, open_media

__all__ = ["SAMPLE_RATE", "decode", "duration_s", "read"]

AnyPacket: TypeAlias = "av.Packet[Any]"
Piece = tuple[int, tuple[str, ...], Samples]  # sample rate, a name per channel, [channel, sample]

_DAMAGE = (av.FFmpegError, ValueError, OSError)

_log = logging.getLogger(__name__)

_MAX_GAP_S = 1.0  # longest silence in place of one undecodable packet: its duration may be damaged too
_PROBE_S = 60.0  # how much of a file with several tracks is heard before one is chosen
_INAUDIBLE = 1e-8  # mean power below this (-80 dBFS) is a silent track
_SCALES = (1.0, 2.0**-4, 2.0**-15, 2.0**-31)  # normal, too hot, int16 and int32 values written as float
_NEGLIGIBLE = 1e-20  # smaller floats, squared, are denormal, which makes arithmetic slow
_STATING_DURATION = ("flac", "mov", "matroska", "asf")  # the rest is an estimate


def decode(media: Media, cancelled: Callable[[], bool] = lambda: False) -> Iterator[Samples]:
    """Blocks of about one second, float32 in [-1, 1], 16 kHz mono, of the audio track that carries sound.

    `media`: the path of a file, or a binary file object: one that can seek is read from its start, another from where
    it is, and none is closed. `cancelled` is asked at every packet, and a true answer raises CancelledError. A file
    that is damaged or cut short gives what can be read, with a logged warning. Raises AudioError, at the first block,
    if nothing can be read.
    """
    name = media_name(media)
    with open_media(media) as container:
        stream = _choose_track(media, container, cancelled)
        mono: _FileDownmix | None = None
        for rate, channels, samples in _pieces(_frames(name, container, stream, cancelled)):
            if mono is None or mono.source != (rate, channels):
                if mono is not None:  # some streams change their rate or channels on the way
                    yield mono.finish()
                mono = _FileDownmix(name, rate, channels)
            yield mono.push(samples)
        if mono is not None:
            yield mono.finish()


def read(media: Media) -> Samples:
    """The whole file as one float32 16 kHz mono array, 230 MB an hour; otherwise as `decode`."""
    return np.concatenate(list(decode(media)))


def duration_s(media: Media) -> float | None:
    """Seconds of audio that the file's header promises, None if it does not say; raises AudioError."""
    with open_media(media) as container:
        return _promised_s(container, _best(container))


def _best(container: InputContainer) -> av.AudioStream:
    """FFmpeg's own choice of an audio track: the one marked as default, or the fullest."""
    best = container.streams.best("audio")
    return best if isinstance(best, av.AudioStream) else container.streams.audio[0]


def _promised_s(container: InputContainer, stream: av.AudioStream) -> float | None:
    """How long the header says that this track is."""
    seconds = 0.0
    if stream.duration is not None and stream.time_base is not None:
        seconds = float(stream.duration * stream.time_base)
    elif container.duration is not None:
        seconds = container.duration / av.time_base
    return seconds if seconds > 0 else None


def _choose_track(media: Media, container: InputContainer, cancelled: Callable[[], bool]) -> av.AudioStream:
    """FFmpeg's own choice, or the loudest track where that one is silent; says so when there are several."""
    tracks = container.streams.audio
    chosen = _best(container)
    if len(tracks) == 1:
        return chosen
    power = _track_power(media, cancelled) if can_open_again(media) else {}
    why = ""
    if power.get(chosen.index, 0.0) < _INAUDIBLE < max(power.values(), default=0.0):
        why = f", because track {tracks.index(chosen) + 1} is silent"
        loudest = max(power, key=power.__getitem__)
        chosen = next(track for track in tracks if track.index == loudest)
    number = tracks.index(chosen) + 1
    _log.warning("%s: has %d audio tracks; track %d is used%s.", media_name(media), len(tracks), number, why)
    return chosen


def _track_power(media: Media, cancelled: Callable[[], bool]) -> dict[int, float]:
    """Mean power of the loudest channel over the first minute, by stream index."""
    energy: defaultdict[int, float] = defaultdict(float)
    seconds: defaultdict[int, float] = defaultdict(float)
    with open_media(media) as container, suppress(*_DAMAGE):  # decoding proper meets the same damage and reports it
        for packet in container.demux(*container.streams.audio):
            if cancelled():
                raise CancelledError
            for rate, _, samples in _decoded(packet):
                energy[packet.stream.index] += float(np.square(samples).sum(axis=1).max()) / rate
                seconds[packet.stream.index] += samples.shape[1] / rate
            if max(seconds.values(), default=0.0) > _PROBE_S:
                break
    return {index: energy[index] / seconds[index] for index in energy}


def _frames(
    name: str, container: InputContainer, stream: av.AudioStream, cancelled: Callable[[], bool]
) -> Iterator[Piece]:
    """Every decoded frame; an undecodable packet becomes silence of its length, to keep later times right.

    Raises AudioError at the end if not one sample came out.
    """
    if stream.codec_context is None:
        raise AudioError(f"{name}: its sound is coded in a way that cannot be read; {CURE}.")
    heard_s = gap_s = 0.0
    lost = bad = 0  # undecodable packets: between good ones, and since the last good one
    for packet in _packets(container, stream):
        if cancelled():
            raise CancelledError
        if packet is None:
            lost += 1
            break
        try:
            pieces = list(_decoded(packet))
        except _DAMAGE:
            bad += 1
            if not stream.codec_context.is_open:
                break  # the decoder refuses the header, so it will refuse every packet
            gap_s += min(float((packet.duration or 0) * (packet.time_base or 0)), _MAX_GAP_S)
            continue
        for rate, channels, samples in pieces:
            if gap_s > 0:
                yield rate, channels, np.zeros((len(channels), round(gap_s * rate)), np.float32)
            gap_s, lost, bad = 0.0, lost + bad, 0
            heard_s += samples.shape[1] / rate
            yield rate, channels, samples
    if heard_s == 0:
        raise AudioError(f"{name}: {_why_nothing(stream, lost + bad)}")
    promised_s = _promised_s(container, stream) or 0.0
    if _states_duration(container, stream) and heard_s < min(promised_s - 0.5, 0.98 * promised_s):
        _log.warning("%s: damaged or cut short; %.1f of %.1f seconds were read.", name, heard_s, promised_s)
    elif lost or bad > 1:  # a last packet cut in the middle is common and harmless
        _log.warning("%s: partly damaged; %.1f seconds were read.", name, heard_s)


def _packets(container: InputContainer, stream: av.AudioStream) -> "Iterator[AnyPacket | None]":
    """The track's packets; None, at last, where the file is too damaged to go on."""
    try:
        yield from container.demux(stream)
    except _DAMAGE:
        yield None


def _states_duration(container: InputContainer, stream: av.AudioStream) -> bool:
    """Whether this kind of file says how long the track is, rather than leaving FFmpeg to guess."""
    alone = len(container.streams) == 1
    return container.format.name.startswith(_STATING_DURATION) and (alone or stream.duration is not None)


def _why_nothing(stream: av.AudioStream, bad: int) -> str:
    """Why a file that opened gave no sample."""
    if stream.codec_context.layout.nb_channels == 0:
        return "its header gives no possible number of channels."
    if bad:
        return "the audio in it is damaged and cannot be decoded."
    return "the file has a header but no sound in it."


def _decoded(packet: AnyPacket) -> Iterator[Piece]:
    """The frames of one packet as float32 channels."""
    for frame in packet.decode():
        if isinstance(frame, av.AudioFrame) and frame.samples:
            names = tuple(channel.name for channel in frame.layout.channels)
            yield frame.sample_rate, names, _to_float(frame)


def _to_float(frame: av.AudioFrame) -> Samples:
    """Samples of any FFmpeg format as float32 [channel, sample], full scale being 1."""
    raw = frame.to_ndarray()
    if not frame.format.is_planar:
        raw = raw.reshape(-1, frame.layout.nb_channels).T
    if raw.dtype == np.uint8:
        return (raw.astype(np.float32) - np.float32(128)) / np.float32(128)
    if np.issubdtype(raw.dtype, np.integer):
        return raw.astype(np.float32) * np.float32(2.0 ** (1 - 8 * raw.dtype.itemsize))
    with np.errstate(over="ignore", invalid="ignore"):
        samples = raw.astype(np.float32)
    samples[~np.isfinite(samples) | (np.abs(samples) < _NEGLIGIBLE)] = 0
    return samples


def _pieces(frames: Iterator[Piece]) -> Iterator[Piece]:
    """Frames joined to pieces of at least a second, each of one rate and one set of channels."""
    held: list[Samples] = []
    source: tuple[int, tuple[str, ...]] | None = None
    for rate, names, samples in frames:
        if source is not None and source != (rate, names) and held:
            yield *source, np.concatenate(held, axis=1)
            held = []
        source = rate, names
        held.append(samples)
        if sum(block.shape[1] for block in held) >= rate:
            yield *source, np.concatenate(held, axis=1)
            held = []
    if source is not None and held:
        yield *source, np.concatenate(held, axis=1)


class _FileDownmix:
    """The mix of what a file holds, whatever scale that has; its result lies within [-1, 1]."""

    def __init__(self, name: str, rate: int, channels: tuple[str, ...]) -> None:
        if rate not in RATES:
            raise AudioError(f"{name}: its header gives an impossible sample rate, {rate} Hz; {CURE}.")
        self.source = rate, channels
        self._name = name
        self._scale = 1.0
        self._downmix = Downmix(rate, channels)

    def push(self, samples: Samples) -> Samples:
        """`samples` [channel, sample] at the file's rate -> float32 at 16 kHz."""
        return _clipped(self._downmix.push(self._to_full_scale(samples)))

    def finish(self) -> Samples:
        """What the resampler still holds."""
        return _clipped(self._downmix.finish())

    def _to_full_scale(self, samples: Samples) -> Samples:
        """Turns down, for good, what has another scale; lone samples beyond full scale are clipped."""
        size = np.abs(samples)
        if size.size == 0 or size.max() <= 1:
            return samples * np.float32(self._scale) if self._scale < 1 else samples
        loud = float(np.quantile(size, 0.99))  # not the peak: one damaged sample must not silence the rest
        scale = next((scale for scale in _SCALES if loud * scale <= 1), _SCALES[-1])
        if scale < self._scale:
            self._scale = scale
            _log.warning("%s: samples lie far beyond full scale; turned down by %.0f.", self._name, 1 / scale)
        return _clipped(samples * np.float32(self._scale))


def _clipped(samples: Samples) -> Samples:
    """`samples` within [-1, 1], which a resampled wave overshoots between samples that touch it."""
    inside: Samples = np.clip(samples, -1, 1)
    return inside
