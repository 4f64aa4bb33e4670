"""The log-mel spectrogram that Whisper hears, computed for a recording that may still be growing.

Frame i is centred on sample 160 i and looks 200 samples to each side, so frames are computed once, as soon as their
samples are there; only the last two, which reach beyond the end, are computed anew while the recording grows.
Source: Radford et al. 2022 (arXiv 2212.04356), section 2.2; filters by Slaney's Auditory Toolbox formula.
"""

from functools import cache

import numpy as np

from engine.downmix import SAMPLE_RATE
from engine.samples import floats

N_FFT = 400  # samples: 25 ms
HOP = 160  # samples: a frame every 10 ms
FRAMES_PER_SECOND = 100
WINDOW_FRAMES = 3000  # 30 s, what the encoder sees at once
_REACH = N_FFT // 2
_CHUNK_FRAMES = 3000  # bounds the memory of one transform
_PAGE_FRAMES = 3000
_FLOOR = -10.0  # log10 of the smallest power that is told from none
_RANGE = 8.0  # decades below the loudest frame that are kept


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
        self._n_mels = n_mels
        self._pages: list[np.ndarray] = []  # log10 power [_PAGE_FRAMES, n_mels] each; nothing moves as they grow
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
        """Append samples [n] at 16 kHz of any type that engine.samples.floats takes, and as it takes them.

        ValueError where they are no such samples.
        """
        samples = floats(samples)
        if samples.ndim != 1:
            raise ValueError(f"audio must have one dimension, not the shape {samples.shape}; take one channel of it")
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

    def window(
        self, start: int, length: int = WINDOW_FRAMES, stop: int | None = None, *, alone: bool = False
    ) -> np.ndarray:
        """Normalised frames start .. start + length as [n_mels, length] float32, zero from `stop` or the end on.

        The dynamic range is cut at 8 decades below the loudest frame of the whole recording so far, or of these frames
        `alone`, and the result lies in a range of 2.
        """
        stop = min(start + length, self.n_frames if stop is None else min(stop, self.n_frames))
        tail = self._tail()
        log_power = self._log_power(start, stop, tail)
        whole = log_power if alone else tail
        loudest = max(_FLOOR if alone else self._loudest, float(whole.max()) if len(whole) else _FLOOR)
        window = np.zeros((self._n_mels, length), np.float32)
        window[:, : len(log_power)] = ((np.maximum(log_power, loudest - _RANGE) + 4) / 4).T
        return window

    def is_blank(self, start: int, stop: int) -> bool:
        """Whether there is no sound at all in frames start .. stop."""
        return bool((self._log_power(start, stop, self._tail()) <= _FLOOR).all())

    def _log_power(self, start: int, stop: int, tail: np.ndarray) -> np.ndarray:
        """Log10 mel power of frames start .. stop [n, n_mels]; `tail`: those that may still change."""
        frames = self._computed(start, min(stop, self._n_frames))
        if stop > self._n_frames:
            frames.append(tail[max(0, start - self._n_frames) : stop - self._n_frames])
        return np.concatenate([*frames, np.empty((0, self._n_mels), np.float32)])

    def _tail(self) -> np.ndarray:
        """Frames that reach beyond the last sample, with silence there: [n, n_mels]."""
        silence = np.zeros(N_FFT, np.float32)
        samples = np.concatenate([self._pending, silence])
        if self._n_samples <= _REACH:
            samples = _reflected(samples)
        return np.concatenate([*self._columns(samples), np.empty((0, self._n_mels), np.float32)])

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
        self._loudest = max(self._loudest, float(columns.max()))
        while len(columns):
            at = self._n_frames % _PAGE_FRAMES
            if at == 0:
                self._pages.append(np.empty((_PAGE_FRAMES, self._n_mels), np.float32))
            part = columns[: _PAGE_FRAMES - at]
            self._pages[-1][at : at + len(part)] = part
            self._n_frames += len(part)
            columns = columns[len(part) :]

    def _computed(self, start: int, stop: int) -> list[np.ndarray]:
        """Frames start .. stop of those that will not change, page by page."""
        pages = range(start // _PAGE_FRAMES, -(-stop // _PAGE_FRAMES))
        return [self._pages[i][max(0, start - i * _PAGE_FRAMES) : stop - i * _PAGE_FRAMES] for i in pages]


def log_mel(samples: np.ndarray, n_mels: int = 80) -> np.ndarray:
    """Normalised log-mel [n_mels, n // 160] of float32 samples [n] at 16 kHz, as openai-whisper sees it."""
    mel = LogMel(n_mels)
    mel.push(samples)
    return mel.window(0, mel.n_frames)


def _reflected(samples: np.ndarray) -> np.ndarray:
    """`samples` with their first 200 mirrored in front, as a centred transform wants."""
    return np.concatenate([samples[_REACH:0:-1], samples])
