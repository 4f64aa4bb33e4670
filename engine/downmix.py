"""From the channels and the rate that audio comes with to one channel at 16 kHz, piece by piece.

Files and arrays go through the same mix. Called by whichever thread transcribes.
"""

from collections.abc import Sequence

import numpy as np
import soxr
from numpy.typing import NDArray

SAMPLE_RATE = 16_000
RATES = range(1_000, 3_072_001)  # Hz; beyond this somebody is wrong, and a resampler for it would be huge

Samples = NDArray[np.float32]

_SILENT_CHANNEL = 1e-6  # a channel 60 dB below the loudest one does not count
_CANCELS = 0.1  # a mix with less than a tenth of the power of unrelated channels has cancelled


class Downmix:
    """The mix of one source: what has to be continuous between its pieces. One owner."""

    def __init__(self, rate: int, names: Sequence[str]) -> None:
        """`rate`: of the source, one of RATES; `names`: FFmpeg's name of each channel, as FL, FR or FC."""
        self._ramp = rate // 100  # 10 ms
        self._nominal = nominal_weights(names)
        self._weights: NDArray[np.float64] | None = None
        self._heard = np.zeros(len(names))  # loudest mean power of a piece, per channel
        self._resampler: soxr.ResampleStream | None = None
        if rate != SAMPLE_RATE:
            self._resampler = soxr.ResampleStream(rate, SAMPLE_RATE, 1, dtype="float32", quality="HQ")

    def push(self, samples: Samples) -> Samples:
        """`samples` [channel, n] at the source's rate -> float32 at 16 kHz, as far as it is known."""
        mono = self._mix(samples)
        return self._resampled(mono) if self._resampler is not None else mono

    def finish(self) -> Samples:
        """What the resampler still holds."""
        if self._resampler is None:
            return np.zeros(0, np.float32)
        return self._resampled(np.zeros(0, np.float32), last=True)

    def _resampled(self, mono: Samples, last: bool = False) -> Samples:
        assert self._resampler is not None
        out: Samples = self._resampler.resample_chunk(mono, last=last)
        return out

    def _mix(self, samples: Samples) -> Samples:
        """One channel out of several, with a 10 ms ramp where the weights change."""
        if samples.shape[0] == 1:
            return np.ascontiguousarray(samples[0])
        covariance = (samples @ samples.T).astype(np.float64) / max(samples.shape[1], 1)
        self._heard = np.maximum(self._heard, covariance.diagonal())
        weights = mix_weights(self._nominal, self._heard, covariance)
        mono = weights.astype(np.float32) @ samples
        if self._weights is not None and not np.array_equal(weights, self._weights):
            ramp = min(self._ramp, mono.size)
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
