"""Where audio comes from: a microphone, or a file played as if it were one.

Both are a Source: they fill a Ring from a thread of their own (PortAudio's callback, or a player thread)
until they are stopped or end. The recorder's thread starts and stops them. No driver call can hang the
caller: all of them run on a thread that is waited for only so long, and `stop` never calls PortAudio's own
stop, which waits for ever for a device that has stalled.
"""

import logging
import threading
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from app import devices
from app.devices import MicrophoneInfo, microphones, refresh
from app.errors import AppError, CaptureError
from app.ring import Ring
from engine.audio import SAMPLE_RATE, decode
from engine.errors import AudioError

__all__ = ["FilePlayback", "Microphone", "MicrophoneInfo", "Source", "microphones", "refresh"]

_log = logging.getLogger(__name__)

_RING_S = 10  # the recorder empties the ring 40 times a second; this is for a machine that is swamped
_BLOCKS_PER_S = 50
_POLL_S = 0.005
_LATENCY_S = 0.04
_OTHER_RATES = (48_000, 44_100, SAMPLE_RATE)
_OPEN_TIMEOUT_S = 8.0  # a Bluetooth headset takes two or three seconds to change its profile
_DRAIN_QUIET_S = 0.25  # no block for so long: the driver holds nothing that it will ever deliver
_DRAIN_S = 1.5
_CLOSE_TIMEOUT_S = 0.5


class Source(Protocol):
    """Something that fills a ring with audio, once."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def live(self) -> bool:
        """Whether it hears the world: a source that does can be muted or stall, a file cannot."""

    @property
    def finished(self) -> bool:
        """Nothing more will be written to the ring, whether by a stop, an end or a failure."""

    @property
    def problem(self) -> AppError | None:
        """Why it ended by itself before its end, if it did."""

    def start(self) -> Ring:
        """Begin to fill a ring and give it; AppError when that is not possible."""

    def stop(self) -> None:
        """Let what was captured until now arrive in the ring, then release the device; in bounded time."""


class Microphone:
    """A Source that records from an input device through PortAudio, at the device's own rate and channels."""

    live = True

    def __init__(self, device: str | None = None) -> None:
        """`device`: the name or label of one of `microphones()`; None: the system's default."""
        self._wanted = device
        self._ring: Ring | None = None
        self._opened = threading.Event()  # or failed to
        self._release = threading.Event()
        self._thread = threading.Thread(target=self._drive, name="microphone", daemon=True)
        self.name = device or "System default"  # changed to the device's label before _opened is set
        # Changed by PortAudio's thread only (but for _problem while opening, when there is none yet): plain
        # references, stored atomically, and _problem before `finished`.
        self._problem: AppError | None = None
        self.finished = False
        self._captured_until = 0.0  # PortAudio's time of the newest sample in the ring
        self._newest = 0.0  # time.monotonic() of the newest block

    @property
    def problem(self) -> AppError | None:
        """Why the device ended by itself, or None."""
        return self._problem

    def start(self) -> Ring:
        """Open the device and record; CaptureError when there is none or it refuses or does not answer."""
        self._thread.start()
        if not self._opened.wait(_OPEN_TIMEOUT_S):
            self._release.set()  # should it open after all, it is closed at once
            raise CaptureError(f"The microphone “{self.name}” does not answer.", "Connect it again.")
        if self._problem:
            raise self._problem
        assert self._ring is not None
        return self._ring

    def stop(self) -> None:
        """Wait until everything said before this call is in the ring, then close the device; 2 s at most."""
        self._release.set()
        if self._thread.ident is None:
            return
        self._thread.join(_DRAIN_S + _CLOSE_TIMEOUT_S)
        if self._thread.is_alive():
            _log.warning("the driver of the microphone %s does not return from closing it", self.name)

    def _drive(self) -> None:
        """All driver calls of this microphone, on a thread that nobody has to wait for."""
        try:
            with devices.portaudio() as sd:
                stream = self._open(sd)
                devices.count_stream(+1)
        except CaptureError as error:
            self._problem = error
            self.finished = True
            return
        finally:
            self._opened.set()
        self._release.wait()
        try:
            self._drain(stream)
        finally:
            self._close(stream)
            self.finished = True

    def _open(self, sd: Any) -> Any:
        try:
            return self._open_listed(sd)
        except CaptureError:
            # The list may be older than the device, if that was plugged in since.
            if not devices.refresh_within(sd):
                raise
            return self._open_listed(sd)

    def _open_listed(self, sd: Any) -> Any:
        device = devices.find(sd, self._wanted)
        self.name = device.label
        refusal: Exception | None = None
        # A driver may refuse the rate or the number of channels that it claims: try what it may like better.
        for rate in dict.fromkeys((device.rate, *_OTHER_RATES)):
            for channels in dict.fromkeys((device.channels, min(2, device.channels), 1)):
                try:
                    with devices.opening(device.environment):
                        return self._start_stream(sd, device.index, rate, channels)
                except (sd.PortAudioError, ValueError) as error:
                    refusal = refusal or error
        why = str(refusal).removeprefix("Error opening InputStream: ")
        raise CaptureError(
            f"The microphone “{self.name}” cannot be opened: {why}.",
            "Close other programs that use it, or choose another microphone.",
        ) from refusal

    def _start_stream(self, sd: Any, index: int, rate: int, channels: int) -> Any:
        stream = sd.InputStream(
            device=index,
            samplerate=rate,
            channels=channels,
            dtype="float32",
            blocksize=rate // _BLOCKS_PER_S,
            latency=_LATENCY_S,
            callback=self._on_block,
            finished_callback=self._on_finished,
        )
        self._ring = Ring(rate * _RING_S, channels, rate)
        try:
            stream.start()
        except sd.PortAudioError:
            stream.close()
            raise
        return stream

    def _drain(self, stream: Any) -> None:
        """Wait until a block captured after this call has arrived, or none comes any more."""
        called = time.monotonic()
        until = stream.time
        while not self.finished and self._captured_until < until:
            now = time.monotonic()
            if now - called > _DRAIN_S or now - max(called, self._newest) > _DRAIN_QUIET_S:
                return
            time.sleep(_POLL_S)

    def _close(self, stream: Any) -> None:
        stream.abort()
        try:
            with devices.portaudio():
                stream.close()
                devices.count_stream(-1)
        except CaptureError as error:
            _log.warning("the microphone %s is not closed: %s", self.name, error)

    def _on_block(self, block: NDArray[np.float32], frames: int, clock: Any, status: Any) -> None:
        """PortAudio's callback: copies and counts, nothing else."""
        ring = self._ring
        assert ring is not None
        ring.overflows += status.input_overflow
        ring.write(block)
        # Drivers that do not know when they captured a block say 0; it was then one latency ago.
        captured = clock.inputBufferAdcTime or clock.currentTime - _LATENCY_S
        self._captured_until = captured + frames / ring.rate
        self._newest = time.monotonic()

    def _on_finished(self) -> None:
        """PortAudio's callback: the stream is over, because we closed it or because the device is gone."""
        if not self._opened.is_set():  # an attempt that did not start
            return
        if not self._release.is_set():
            self._problem = CaptureError(
                f"The microphone “{self.name}” was disconnected.", "Connect it again, or choose another microphone."
            )
        self.finished = True


class FilePlayback:
    """A Source that plays an audio file, at its own speed or as fast as it is read; drops nothing."""

    live = False

    def __init__(self, path: Path, realtime: bool = True) -> None:
        """`path`: any file that `engine.audio.decode` reads; `realtime`: at the speed at which it was spoken."""
        self.name = path.name
        self._path = path
        self._realtime = realtime
        self._ring = Ring(_RING_S * SAMPLE_RATE, 1, SAMPLE_RATE)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._play, name="file playback", daemon=True)
        # Changed by the player thread only, `problem` before `finished`.
        self.problem: AppError | None = None
        self.finished = False

    def start(self) -> Ring:
        """Begin to play; a file that cannot be read shows as `problem`."""
        self._thread.start()
        return self._ring

    def stop(self) -> None:
        """Play no further; returns in bounded time."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_TIMEOUT_S)

    def _play(self) -> None:
        size = SAMPLE_RATE // _BLOCKS_PER_S
        began: float | None = None
        try:
            for decoded in decode(self._path):
                began = began or time.monotonic()  # opening the file is not playing it
                for start in range(0, len(decoded), size):
                    self._hand_over(decoded[start : start + size], began)
                    if self._stopped.is_set():
                        return
        except AudioError as error:
            self.problem = CaptureError(str(error))
        finally:
            self.finished = True

    def _hand_over(self, block: NDArray[np.float32], began: float) -> None:
        """Write a block once its last sample is due and there is room, unless stopped meanwhile."""
        if self._realtime:
            due = began + (self._ring.written + len(block)) / SAMPLE_RATE
            if self._stopped.wait(max(0.0, due - time.monotonic())):
                return
        while self._ring.room < len(block):
            if self._stopped.wait(_POLL_S):
                return
        self._ring.write(block.reshape(-1, 1))
