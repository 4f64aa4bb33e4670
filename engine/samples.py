"""Audio in any form to what the engine hears: float32 blocks, 16 kHz, one channel.

A path, a file object, or an array of any type of numbers, rate and channels. Arrays go through the same mix and
resampler as files; what no array of sound can be is refused here. Called by whichever thread transcribes.
"""

import os
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from engine.audio import decode
from engine.downmix import RATES, SAMPLE_RATE, Downmix, Samples
from engine.errors import CancelledError

Audio = str | os.PathLike[str] | IO[bytes] | ArrayLike

_BLOCK_S = 1  # short enough to be cancelled between two
_MOST_CHANNELS = 64
_LARGEST = 16.0  # full scale is 1: what lies beyond this is a fault, or not scaled at all
_GLITCH = 160  # samples: so many of a block may be such a fault
_WANTED = "audio must be floats within [-1, 1] or integers of 8, 16 or 32 bits"


def blocks(
    audio: Audio, sample_rate: float = SAMPLE_RATE, cancelled: Callable[[], bool] = lambda: False
) -> Iterator[Samples]:
    """Blocks of about one second, float32 [n], 16 kHz, of all that `audio` holds.

    `audio`: the path of a file or a binary file object, for which see engine.audio.decode; or samples [n],
    [n, channels] or [channels, n], where n is the greater, as an array or as anything that NumPy makes one of, of the
    types that `floats` takes. `sample_rate`: of an array, in Hz from 1,000 to 3,072,000; files know their own.
    `cancelled` is asked at every block and every packet of a file, and a true answer raises CancelledError. Raises
    AudioError for a file that cannot be read, and ValueError for an array or a rate that is none of sound.
    """
    if isinstance(audio, str | os.PathLike) or _is_file(audio):
        return decode(audio, cancelled)
    return _array_blocks(_channels(audio), _checked_rate(sample_rate), cancelled)


def floats(samples: ArrayLike) -> Samples:
    """`samples` of any shape as finite float32, full scale being 1; ValueError where they are not audio.

    Floats of any size are taken as they are; NaN and infinity count as silence. Integers of 8, 16 and 32 bits are
    divided by their own full scale, the unsigned ones after their middle is moved to 0. Lone floats far beyond full
    scale, which would drown the rest, are clipped; where they are many, the whole is refused.
    """
    array = _array(samples)
    kind = array.dtype
    if kind.kind in "iu":
        full_scale = np.float64(2.0 ** (8 * kind.itemsize - 1))
        middle = full_scale if kind.kind == "u" else np.float64(0)
        return ((array - middle) / full_scale).astype(np.float32)
    finite = np.nan_to_num(array, nan=0, posinf=0, neginf=0)
    size = np.abs(finite)
    if np.count_nonzero(size > _LARGEST) > max(_GLITCH, finite.size // 100):
        loudest = size.max()
        raise ValueError(f"audio must lie within [-1, 1], not reach {loudest:.5g}; divide it by 32768 if it was 16-bit")
    clipped: Samples = np.clip(finite, -_LARGEST, _LARGEST).astype(np.float32)
    return clipped


def _is_file(audio: Audio) -> TypeGuard[IO[bytes]]:
    return hasattr(audio, "read")


def _array(samples: Any) -> np.ndarray[Any, Any]:
    """`samples` as an array of a type that `floats` takes."""
    if isinstance(samples, bytes | bytearray):
        raise ValueError(f"{_WANTED}, not {type(samples).__name__}; wrap the bytes of an audio file in io.BytesIO")
    try:
        array = np.asarray(samples)
    except ValueError:
        raise ValueError("audio must be an array whose rows are equally long") from None
    kind = array.dtype
    if kind.kind not in "fiu":
        raise ValueError(f"{_WANTED}, not {kind}")
    if kind.kind != "f" and kind.itemsize > 4:
        raise ValueError(f"{_WANTED}, not {kind}; give it the type that it was recorded in, as int16")
    return array


def _channels(samples: Any) -> np.ndarray[Any, Any]:
    """`samples` as [channel, n]."""
    array = _array(samples)
    if array.ndim == 1:
        return array[None]
    if array.ndim != 2:
        raise ValueError(f"audio must have the shape [n] or [n, channels], not {list(array.shape)}")
    if array.size == 0:
        return array.reshape(1, 0)
    channels, n = sorted(array.shape)
    if channels == n > 1 or channels > _MOST_CHANNELS:
        raise ValueError(f"audio of the shape {list(array.shape)} does not show which axis is time; give [n] samples")
    return array if array.shape == (channels, n) else array.T


def _checked_rate(rate: float) -> int:
    number = isinstance(rate, int | float | np.integer | np.floating)
    if not number or not RATES[0] <= rate <= RATES[-1] or rate % 1:
        raise ValueError(f"sample_rate must be a whole number of Hz from {RATES[0]} to {RATES[-1]}, not {rate!r}")
    return int(rate)


def _array_blocks(array: np.ndarray[Any, Any], rate: int, cancelled: Callable[[], bool]) -> Iterator[Samples]:
    """Mono blocks at 16 kHz of samples [channel, n] at `rate`."""
    downmix = Downmix(rate, ["?"] * len(array))
    size = _BLOCK_S * rate
    for start in range(0, array.shape[1], size):
        if cancelled():
            raise CancelledError
        yield downmix.push(floats(array[:, start : start + size]))
    yield downmix.finish()
