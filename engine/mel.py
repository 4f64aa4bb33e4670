"""The log-mel spectrogram that Whisper hears, computed for a recording that may still be growing.

Frame i is centred on sample 160 i and looks 200 samples to each side, so frames are computed once, as soon as their
samples are there; only the last two, which reach beyond the end, are computed anew while the recording grows.
Source: Radford et al. 2022 (arXiv 2212.04356), section 2.2; filters by Slaney's Auditory Toolbox formula.
"""

from functools import cache

import numpy as np

from engine.audio import SAMPLE_RATE

N_FFT = 400  # samples: 25 ms
HOP = 160  # samples: a frame every 10 ms
FRAMES_PER_SECOND = 100
WINDOW_FRAMES = 3000  # 30 s, what the encoder sees at once
_REACH = N_FFT // 2
_CHUNK_FRAMES = 3000  # bounds the memory of one transform
_FLOOR = -10.0  # log10 of the smallest power that is told from none
_RANGE = 8.0  # decades below the loudest frame that are kept
_LARGEST = 16.0  # full scale is 1: what lies beyond this is a fault, or not scaled at all
_GLITCH = 160  # samples: so many of a push may be such a fault


@cache
def mel_filters(n_mels: int) -> np.ndarray:
    """Triangular filters [n_mels, 201], float32, on Slaney's mel scale from 0 to 8000 Hz, each of unit area."""
    linear_hz, linear_mel, log_step = 1000.0, 15.0, np.log(6.4) / 27  # linear below 1 kHz, logarithmic above

    def to_hz(mel: np.ndarray) -> np.ndarray:
        above = linear_hz * np.exp(log_step * (mel - linear_mel))
        hz: np.ndarray = np.where(mel < linear_mel, mel * linear_hz / linear_mel, above)
        return hz

    top = linear_mel + np.log(8000 / linear_hz) / log_step
    edges = to_hz(np.linspace(0, top, n_mels + 2))
    bins = np.arange(N_FFT // 2 + 1) * SAMPLE_RATE / N_FFT
    rising = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    triangles = np.maximum(0, np.minimum(rising, falling))
    filters: np.ndarray = triangles * (2 / (edges[2:] - edges[:-2]))[:, None]
    return filters.astype(np.float32)


@cache
def _hann() -> np.ndarray:
    window: np.ndarray = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(N_FFT) / N_FFT)
    return window.astype(np.float32)


class LogMel:
    """Log-mel frames of samples pushed so far; one owner, no thread of its own."""

    def __init__(self, n_mels: int) -> None:
        """`n_mels`: 80, or 128 for large-v3 and turbo."""
        self._filters = np.ascontiguousarray(mel_filters(n_mels).T)  # [201, n_mels]
        self._frames = np.empty((WINDOW_FRAMES, n_mels), np.float32)  # log10 power; grows by doubling
        self._n_frames = 0
        self._pending = np.empty(0, np.float32)  # samples from the left edge of the next frame on
        self._n_samples = 0
        self._loudest = _FLOOR

    @property
    def n_samples(self) -> int:
        """Samples pushed so far."""
        return self._n_samples

    @property
    def duration_s(self) -> float:
        """Seconds pushed so far."""
        return self._n_samples / SAMPLE_RATE

    @property
    def n_frames(self) -> int:
        """Frames that the samples so far fill: one for each whole 160 samples."""
        return self._n_samples // HOP

    def push(self, samples: np.ndarray) -> None:
        """Append samples [n] at 16 kHz of any float type within [-1, 1]; NaN and infinity count as silence.

        ValueError where they are no such samples.
        """
        samples = _checked(samples)
        started = self._n_samples > _REACH
        self._n_samples += len(samples)
        self._pending = np.concatenate([self._pending, samples])
        if self._n_samples <= _REACH:
            return
        if not started:
            self._pending = _reflected(self._pending)
        for columns in self._columns(self._pending):
            self._append(columns)
        first_needed = self._n_frames * HOP - _REACH
        self._pending = self._pending[len(self._pending) - (self._n_samples - first_needed) :].copy()

    def window(self, start: int, length: int = WINDOW_FRAMES, stop: int | None = None) -> np.ndarray:
        """Normalised frames start .. start + length as [n_mels, length] float32, zero from `stop` or the end on.

        The dynamic range is cut at 8 decades below the loudest frame of the whole recording so far, and the result
        lies in a range of 2.
        """
        tail = self._tail()
        stop = min(start + length, self.n_frames if stop is None else min(stop, self.n_frames))
        frames = [self._frames[start : min(stop, self._n_frames)]]
        if stop > self._n_frames:
            frames.append(tail[max(0, start - self._n_frames) : stop - self._n_frames])
        log_power = np.concatenate(frames)
        loudest = max(self._loudest, float(tail.max()) if len(tail) else _FLOOR)
        window = np.zeros((log_power.shape[1], length), np.float32)
        window[:, : len(log_power)] = ((np.maximum(log_power, loudest - _RANGE) + 4) / 4).T
        return window

    def _tail(self) -> np.ndarray:
        """Frames that reach beyond the last sample, with silence there: [n, n_mels]."""
        silence = np.zeros(N_FFT, np.float32)
        samples = np.concatenate([self._pending, silence])
        if self._n_samples <= _REACH:
            samples = _reflected(samples)
        return np.concatenate(list(self._columns(samples)) or [self._frames[:0]])

    def _columns(self, samples: np.ndarray) -> list[np.ndarray]:
        """Log10 mel power of every whole frame in `samples`, in chunks of [n, n_mels]."""
        if len(samples) < N_FFT:
            return []
        windows = np.lib.stride_tricks.sliding_window_view(samples, N_FFT)[::HOP]
        chunks = []
        for first in range(0, len(windows), _CHUNK_FRAMES):
            spectrum = np.fft.rfft(windows[first : first + _CHUNK_FRAMES] * _hann())
            power = spectrum.real**2 + spectrum.imag**2
            chunks.append(np.log10(np.maximum(power @ self._filters, 10.0**_FLOOR)))
        return chunks

    def _append(self, columns: np.ndarray) -> None:
        end = self._n_frames + len(columns)
        if end > len(self._frames):
            grown = np.empty((max(end, 2 * len(self._frames)), columns.shape[1]), np.float32)
            grown[: self._n_frames] = self._frames[: self._n_frames]
            self._frames = grown
        self._frames[self._n_frames : end] = columns
        self._n_frames = end
        self._loudest = max(self._loudest, float(columns.max()))


def log_mel(samples: np.ndarray, n_mels: int = 80) -> np.ndarray:
    """Normalised log-mel [n_mels, n // 160] of float32 samples [n] at 16 kHz, as openai-whisper sees it."""
    mel = LogMel(n_mels)
    mel.push(samples)
    return mel.window(0, mel.n_frames)


def _checked(samples: np.ndarray) -> np.ndarray:
    """The samples as finite float32 [n]; lone ones far beyond full scale, which would drown the rest, are clipped."""
    samples = np.asarray(samples)
    if samples.ndim != 1:
        raise ValueError(f"audio must have one dimension, not the shape {samples.shape}; take one channel of it")
    kind = samples.dtype
    if kind.kind == "i":
        raise ValueError(f"audio must be floats within [-1, 1], not {kind}; divide it by {-np.iinfo(kind).min}")
    if kind.kind != "f":
        raise ValueError(f"audio must be floats within [-1, 1], not {kind}")
    samples = np.nan_to_num(samples, nan=0, posinf=0, neginf=0)
    if np.count_nonzero(np.abs(samples) > _LARGEST) > max(_GLITCH, len(samples) // 100):
        loudest = np.abs(samples).max()
        raise ValueError(f"audio must lie within [-1, 1], not reach {loudest:.5g}; divide it by 32768 if it was 16-bit")
    clipped: np.ndarray = np.clip(samples, -_LARGEST, _LARGEST).astype(np.float32, copy=False)
    return clipped


def _reflected(samples: np.ndarray) -> np.ndarray:
    """`samples` with their first 200 mirrored in front, as a centred transform wants."""
    return np.concatenate([samples[_REACH:0:-1], samples])
