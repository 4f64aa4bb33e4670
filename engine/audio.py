"""Audio files as the engine hears them: float32, 16 kHz, one channel, in blocks, so length does not matter.

FFmpeg (inside PyAV) opens and decodes; what to do with several tracks, several channels, odd scales and
damage is decided here. Called by whichever thread transcribes a file; there is no state between calls.
"""

import logging
import os
import stat
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import av
import numpy as np
import soxr
from av.container import InputContainer
from numpy.typing import NDArray

from engine.errors import AudioError

SAMPLE_RATE = 16_000

Samples = NDArray[np.float32]
Path = str | os.PathLike[str]
AnyPacket: TypeAlias = "av.Packet[Any]"
Piece = tuple[int, tuple[str, ...], Samples]  # sample rate, a name per channel, [channel, sample]

_DAMAGE = (av.FFmpegError, ValueError, OSError)

_log = logging.getLogger(__name__)

_RATES = range(1_000, 3_072_001)  # Hz; beyond this a header lies, and a resampler for it would be huge
_MAX_GAP_S = 1.0  # longest silence in place of one undecodable packet: its duration may be damaged too
_PROBE_S = 60.0  # how much of a file with several tracks is heard before one is chosen
_INAUDIBLE = 1e-8  # mean power below this (-80 dBFS) is a silent track
_SILENT_CHANNEL = 1e-6  # a channel 60 dB below the loudest one does not count
_CANCELS = 0.1  # a mix with less than a tenth of the power of unrelated channels has cancelled
_SCALES = (1.0, 2.0**-4, 2.0**-15, 2.0**-31)  # normal, too hot, int16 and int32 values written as float
_NEGLIGIBLE = 1e-20  # smaller floats, squared, are denormal, which makes arithmetic slow
_STATING_DURATION = ("flac", "mov", "matroska", "asf")  # the rest is an estimate
_CURE = "if it plays elsewhere, export it again as WAV, FLAC, MP3 or M4A"


def decode(path: Path) -> Iterator[Samples]:
    """Blocks of about one second, float32 in [-1, 1], 16 kHz mono, of the audio track that carries sound.

    A file that is damaged or cut short gives what can be read, with a logged warning. Raises AudioError, at
    the first block, if nothing can be read.
    """
    with _open(path) as container:
        stream = _choose_track(path, container)
        downmix: _Downmix | None = None
        for rate, names, samples in _pieces(_frames(path, container, stream)):
            if downmix is None or downmix.source != (rate, names):
                if downmix is not None:  # some streams change their rate or channels on the way
                    yield downmix.finish()
                downmix = _Downmix(path, rate, names)
            yield downmix.push(samples)
        if downmix is not None:
            yield downmix.finish()


def read(path: Path) -> Samples:
    """The whole file as one float32 16 kHz mono array, 230 MB an hour; otherwise as `decode`."""
    return np.concatenate(list(decode(path)))


def duration_s(path: Path) -> float | None:
    """Seconds of audio that the file's header promises, None if it does not say; raises AudioError."""
    with _open(path) as container:
        return _promised_s(container, _best(container))


def _open(path: Path) -> InputContainer:
    """Opens a local file that holds at least one audio track."""
    _refuse_early(path)
    try:
        # "file:" and the white list: no name is taken for an address, no playlist reaches the network.
        options = {"protocol_whitelist": "file"}
        container = av.open(f"file:{os.fspath(path)}", metadata_errors="replace", options=options)
    except (av.FFmpegError, ValueError, OSError):
        raise AudioError(f"{path}: not an audio file, or too damaged to read; {_CURE}.") from None
    if container.streams.audio:
        return container
    # What nothing else recognises by its content comes here as a "picture" by its name.
    picture = container.format.name == "image2" or container.format.name.endswith("_pipe")
    container.close()
    if picture:
        raise AudioError(f"{path}: not an audio file; {_CURE}.")
    raise AudioError(f"{path}: has no audio track, so there is nothing to transcribe.")


def _refuse_early(path: Path) -> None:
    """Raises AudioError for what can be told without decoding."""
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise AudioError(f"{path}: is a directory; name the audio files in it.")
        if not stat.S_ISREG(status.st_mode):
            return
        with open(path, "rb") as file:
            magic = file.read(4)
    except FileNotFoundError:
        raise AudioError(f"{path}: no such file; check the name.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        reason = getattr(error, "strerror", None) or error
        raise AudioError(f"{path}: cannot be opened: {reason}.") from None
    if not magic:
        raise AudioError(f"{path}: the file is empty (0 bytes).")
    if magic == b"RIFX":  # FFmpeg takes its big-endian samples for little-endian ones: full-scale noise
        raise AudioError(f"{path}: big-endian WAV (RIFX) is not supported; {_CURE}.")


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


def _choose_track(path: Path, container: InputContainer) -> av.AudioStream:
    """FFmpeg's own choice, or the loudest track where that one is silent; says so when there are several."""
    tracks = container.streams.audio
    chosen = _best(container)
    if len(tracks) == 1:
        return chosen
    power = _track_power(path)
    why = ""
    if power.get(chosen.index, 0.0) < _INAUDIBLE < max(power.values(), default=0.0):
        why = f", because track {tracks.index(chosen) + 1} is silent"
        loudest = max(power, key=power.__getitem__)
        chosen = next(track for track in tracks if track.index == loudest)
    number = tracks.index(chosen) + 1
    _log.warning("%s: has %d audio tracks; track %d is used%s.", path, len(tracks), number, why)
    return chosen


def _track_power(path: Path) -> dict[int, float]:
    """Mean power of the loudest channel over the first minute, by stream index."""
    energy: defaultdict[int, float] = defaultdict(float)
    seconds: defaultdict[int, float] = defaultdict(float)
    with _open(path) as container, suppress(*_DAMAGE):  # decoding proper meets the same damage and reports it
        for packet in container.demux(*container.streams.audio):
            for rate, _, samples in _decoded(packet):
                energy[packet.stream.index] += float(np.square(samples).sum(axis=1).max()) / rate
                seconds[packet.stream.index] += samples.shape[1] / rate
            if max(seconds.values(), default=0.0) > _PROBE_S:
                break
    return {index: energy[index] / seconds[index] for index in energy}


def _frames(path: Path, container: InputContainer, stream: av.AudioStream) -> Iterator[Piece]:
    """Every decoded frame; an undecodable packet becomes silence of its length, to keep later times right.

    Raises AudioError at the end if not one sample came out.
    """
    if stream.codec_context is None:
        raise AudioError(f"{path}: its sound is coded in a way that cannot be read; {_CURE}.")
    heard_s = gap_s = 0.0
    lost = bad = 0  # undecodable packets: between good ones, and since the last good one
    for packet in _packets(container, stream):
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
        for rate, names, samples in pieces:
            if gap_s > 0:
                yield rate, names, np.zeros((len(names), round(gap_s * rate)), np.float32)
            gap_s, lost, bad = 0.0, lost + bad, 0
            heard_s += samples.shape[1] / rate
            yield rate, names, samples
    if heard_s == 0:
        raise AudioError(f"{path}: {_why_nothing(stream, lost + bad)}")
    promised_s = _promised_s(container, stream) or 0.0
    if _states_duration(container, stream) and heard_s < min(promised_s - 0.5, 0.98 * promised_s):
        _log.warning("%s: damaged or cut short; %.1f of %.1f seconds were read.", path, heard_s, promised_s)
    elif lost or bad > 1:  # a last packet cut in the middle is common and harmless
        _log.warning("%s: partly damaged; %.1f seconds were read.", path, heard_s)


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


class _Downmix:
    """From a file's channels and rate to 16 kHz mono, with what has to be continuous between pieces."""

    def __init__(self, path: Path, rate: int, names: tuple[str, ...]) -> None:
        if rate not in _RATES:
            raise AudioError(f"{path}: its header gives an impossible sample rate, {rate} Hz; {_CURE}.")
        self.source = rate, names
        self._path = path
        self._scale = 1.0
        self._nominal = nominal_weights(names)
        self._weights: NDArray[np.float64] | None = None
        self._heard = np.zeros(len(names))  # loudest mean power of a piece, per channel
        self._resampler: soxr.ResampleStream | None = None
        if rate != SAMPLE_RATE:
            self._resampler = soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32", quality="HQ")

    def push(self, samples: Samples) -> Samples:
        """`samples` [channel, sample] at the file's rate -> float32 at 16 kHz."""
        mono = self._mix(self._to_full_scale(samples))
        return self._resampled(mono) if self._resampler is not None else mono

    def finish(self) -> Samples:
        """What the resampler still holds."""
        if self._resampler is None:
            return np.zeros(0, np.float32)
        return self._resampled(np.zeros(0, np.float32), last=True)

    def _resampled(self, mono: Samples, last: bool = False) -> Samples:
        assert self._resampler is not None
        out: Samples = self._resampler.resample_chunk(mono, last=last)
        return np.clip(out, -1, 1, out=out)  # a band-limited wave overshoots between clipped samples

    def _to_full_scale(self, samples: Samples) -> Samples:
        """Turns down, for good, what has another scale; lone samples beyond full scale are clipped."""
        size = np.abs(samples)
        if size.size == 0 or size.max() <= 1:
            return samples * np.float32(self._scale) if self._scale < 1 else samples
        loud = float(np.quantile(size, 0.99))  # not the peak: one damaged sample must not silence the rest
        scale = next((scale for scale in _SCALES if loud * scale <= 1), _SCALES[-1])
        if scale < self._scale:
            self._scale = scale
            _log.warning("%s: samples lie far beyond full scale; turned down by %.0f.", self._path, 1 / scale)
        scaled: Samples = np.clip(samples * np.float32(self._scale), -1, 1)
        return scaled

    def _mix(self, samples: Samples) -> Samples:
        """One channel out of several, with a 10 ms ramp where the weights change."""
        if samples.shape[0] == 1:
            return np.ascontiguousarray(samples[0])
        covariance = (samples @ samples.T).astype(np.float64) / max(samples.shape[1], 1)
        self._heard = np.maximum(self._heard, covariance.diagonal())
        weights = mix_weights(self._nominal, self._heard, covariance)
        mono = weights.astype(np.float32) @ samples
        if self._weights is not None and not np.array_equal(weights, self._weights):
            ramp = min(self.source[0] // 100, mono.size)
            before = (self._weights - weights).astype(np.float32) @ samples[:, :ramp]
            mono[:ramp] += before * np.linspace(1, 0, ramp, dtype=np.float32)
        self._weights = weights
        return mono


def nominal_weights(names: Sequence[str]) -> NDArray[np.float64]:
    """How much each loudspeaker position counts in a mono mix, summing to 1.

    The factors are the usual ones (ITU-R BS.775): the centre, where films have their dialogue, counts most,
    the subwoofer not at all. Stereo and unnamed channels give the plain mean.
    """
    factors = {"FC": 1.0, "LFE": 0.0, "LFE2": 0.0}
    weights: NDArray[np.float64] = np.array([factors.get(name, 0.5**0.5) for name in names])
    if weights.sum() == 0:
        weights[:] = 1
    weights /= weights.sum()
    return weights


def mix_weights(
    nominal: NDArray[np.float64], heard: NDArray[np.float64], covariance: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The weights, summing to 1, that make one channel of several without losing the speech.

    Channels that have been silent so far (60 dB below the loudest) are left out of the mix. Where the mix
    would cancel, as with a channel wired the wrong way round, the loudest channel is taken alone.

    nominal: weight of each channel where all is well; heard: loudest mean power so far; covariance:
    [channel, channel] of the present piece, its diagonal the mean powers.
    """
    loudest = np.zeros_like(nominal)
    loudest[heard.argmax()] = 1
    weights = np.where(heard >= heard.max() * _SILENT_CHANNEL, nominal, 0)
    if weights.sum() == 0:
        return loudest
    weights = weights / weights.sum()
    unrelated = weights**2 @ covariance.diagonal()  # power of the mix if no channel resembled another
    return loudest if weights @ covariance @ weights < _CANCELS * unrelated else weights
