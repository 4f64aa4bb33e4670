"""The recorder: makes 16 kHz mono audio and levels of whatever a source captures, on a thread of its own.

It exists so that capture never waits for anybody: the recorder empties the ring forty times a second, and its
sink must take a block without waiting for the engine. It also notices what a driver does not tell: a device
that has stalled, and one that delivers nothing but zeros. `start` and `stop` may be called from any thread;
every method of the sink is called on the recorder's.
"""

import math
import threading
import time
from typing import Protocol

import numpy as np
import soxr
from numpy.typing import NDArray

from app.capture import Source
from app.channels import ChannelPicker
from app.errors import AppError, CaptureError
from app.ring import Ring
from engine.audio import SAMPLE_RATE

STALL_S = 1.0
FIRST_BLOCK_S = 5.0  # a headset may take seconds to wake, and opening it counts as begun
_TICK_S = 0.025
_ZEROS_LISTENING_S = 1.5  # exact silence is a device waking up, but only for so long
_ZEROS_MUTED_S = 3.0
_LEVEL_SAMPLES = SAMPLE_RATE // 20
_QUIETEST_DBFS = -120.0


class Sink(Protocol):
    """What the recorder reports to; no method may wait or raise. `on_end` always comes, once and last."""

    def on_listening(self) -> None:
        """The device is awake: what is said from now on is heard. Once, if ever."""

    def on_audio(self, samples: NDArray[np.float32]) -> None:
        """The next samples, float32, 16 kHz, mono, shape (n,) with n >= 1."""

    def on_level(self, elapsed_s: float, rms_dbfs: float, peak: float) -> None:
        """How loud the last 50 ms were: a full-scale sine is 0 dBFS with peak 1; -120 dBFS is the least."""

    def on_notice(self, message: str, hint: str) -> None:
        """Something that the speaker should know while recording goes on; each kind once."""

    def on_end(self, problem: AppError | None) -> None:
        """All audio was handed over; `problem` if it ended by itself and too early."""


class Recorder:
    """Records one source into one sink, once."""

    def __init__(
        self, source: Source, sink: Sink, *, stall_s: float = STALL_S, first_block_s: float = FIRST_BLOCK_S
    ) -> None:
        """`stall_s`: how long a live source may deliver nothing; `first_block_s`: the same before its first."""
        self._source = source
        self._sink = sink
        self._stall_s = stall_s
        self._first_block_s = first_block_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def start(self) -> None:
        """Open the source and record; returns at once, and a source that does not open shows in `on_end`."""
        self._thread.start()

    def stop(self) -> None:
        """Ask for the end; returns at once. `on_end` follows all that was captured before this call."""
        self._stop.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end, at most so long; whether `on_end` has returned."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        problem: AppError | None = CaptureError("Recording ended by a fault of the app.", "Please report it.")
        try:
            problem = self._record()
        finally:
            self._sink.on_end(problem)

    def _record(self) -> AppError | None:
        try:
            ring = self._source.start()
        except AppError as problem:
            return problem
        stream = _Stream(ring, self._source, self._sink)
        try:
            stall = self._follow(ring, stream)
        finally:
            self._source.stop()  # the driver hands over what it still holds
        while stream.pump():
            pass
        stream.finish()
        return self._source.problem or stall

    def _follow(self, ring: Ring, stream: "_Stream") -> CaptureError | None:
        """Pump until a stop, the source's own end (None for both) or a stall."""
        waited_s = 0.0
        last = time.monotonic()
        while not self._stop.is_set():
            ended = self._source.finished  # asked before the ring, so nothing written before is left in it
            arrived = stream.pump()
            if ended:
                return None
            # Not the clock's whole difference: a process that was suspended must not blame its microphone.
            now = time.monotonic()
            waited_s = 0.0 if arrived else waited_s + min(now - last, 2 * _TICK_S)
            last = now
            patience_s = self._stall_s if ring.written else self._first_block_s
            if self._source.live and waited_s > patience_s:
                return CaptureError(
                    f"The microphone “{self._source.name}” stopped delivering.",
                    "Connect it again or choose another microphone; what was said before is kept.",
                )
            if arrived < ring.rate:
                self._stop.wait(_TICK_S)
        return None


class _Stream:
    """The way of one recording from ring to sink; used by the recorder's thread only."""

    def __init__(self, ring: Ring, source: Source, sink: Sink) -> None:
        self._ring = ring
        self._source = source
        self._sink = sink
        self._picker = ChannelPicker(ring.channels, ring.rate)
        self._resampler: soxr.ResampleStream | None = None
        if ring.rate != SAMPLE_RATE:
            self._resampler = soxr.ResampleStream(ring.rate, SAMPLE_RATE, 1, dtype="float32", quality="HQ")
        self._zeros = 0  # frames of exact silence since the last sound
        self._listening = False
        self._muted = False
        self._lossy = False
        self._samples = 0
        self._unmeasured = np.empty(0, np.float32)

    def pump(self) -> int:
        """Move a second at most from the ring to the sink; the frames moved."""
        block = self._ring.read(self._ring.rate)
        if len(block):
            self._watch(block)
            self._hand_on(self._picker.push(block), last=False)
        return len(block)

    def finish(self) -> None:
        """Hand on what channel choice and resampler still hold."""
        self._hand_on(self._picker.flush(), last=True)

    def _watch(self, block: NDArray[np.float32]) -> None:
        """Tell when the device is awake, when it is mute, and when audio was lost."""
        self._zeros = 0 if block.any() else self._zeros + len(block)
        if not self._listening and (not self._zeros or self._zeros >= _ZEROS_LISTENING_S * self._ring.rate):
            self._listening = True
            self._sink.on_listening()
        if self._source.live and not self._muted and self._zeros >= _ZEROS_MUTED_S * self._ring.rate:
            self._muted = True
            self._sink.on_notice(
                f"The microphone “{self._source.name}” delivers only silence.",
                "Check that it is not muted, on itself or in the system's sound settings.",
            )
        if not self._lossy and (self._ring.lost or self._ring.overflows):
            self._lossy = True
            self._sink.on_notice("Some audio was lost: the computer was too busy.", "Close programs that keep it busy.")

    def _hand_on(self, samples: NDArray[np.float32], *, last: bool) -> None:
        if self._resampler:
            samples = self._resampler.resample_chunk(samples, last=last)
        if not len(samples):
            return
        self._sink.on_audio(samples)
        self._samples += len(samples)
        pending = np.concatenate([self._unmeasured, samples])
        whole = len(pending) - len(pending) % _LEVEL_SAMPLES
        self._unmeasured = pending[whole:]
        for start in range(0, whole, _LEVEL_SAMPLES):
            elapsed_s = (self._samples - len(pending) + start + _LEVEL_SAMPLES) / SAMPLE_RATE
            self._sink.on_level(elapsed_s, *loudness(pending[start : start + _LEVEL_SAMPLES]))


def loudness(samples: NDArray[np.float32]) -> tuple[float, float]:
    """RMS in dBFS, where a full-scale sine is 0 and -120 the least, and the peak."""
    power = 2 * float(np.mean(np.square(samples, dtype=np.float64)))
    rms_dbfs = max(10 * math.log10(power), _QUIETEST_DBFS) if power > 0 else _QUIETEST_DBFS
    return rms_dbfs, float(np.abs(samples).max())
