"""The hand-over of audio from whoever captures it to the recorder: one fixed buffer, one writer, one reader.

It exists because a PortAudio callback may neither wait nor allocate: it must find room, copy and return.
Audio that finds no room is counted, never written over something unread. The writer is a source's thread
(PortAudio's callback or a file's player), the reader is the recorder's thread; no other thread may call
`write` or `read`.
"""

import numpy as np
from numpy.typing import NDArray


class Ring:
    """A lock-free buffer of float32 frames between two threads; a frame is one sample of every channel.

    `rate` is in frames per second; `written`, `lost` and `overflows` only ever grow, and any thread may read
    them.
    """

    # Why this is safe without a lock: every variable below has exactly one thread that changes it, and
    # storing a new int in an attribute is atomic. Each side may see the other's counter late; late only means
    # that the writer sees less room, or the reader less audio, than there is.

    def __init__(self, frames: int, channels: int, rate: int) -> None:
        """Allocate room for `frames` frames; ValueError unless all three are at least 1."""
        if min(frames, channels, rate) < 1:
            raise ValueError(f"frames, channels, rate must be 1 or more: {frames}, {channels}, {rate}")
        self.channels = channels
        self.rate = rate
        self._capacity = frames
        # full, not zeros: touches every page now, so that the callback never waits for the kernel to supply
        # one.
        self._buffer = np.full((frames, channels), 0.0, np.float32)
        self.written = 0  # changed by the writer, after the copy: what it counts can be read
        self.lost = 0  # changed by the writer: frames that came while the ring was full
        self.overflows = 0  # changed by the writer: times the driver said that it had dropped audio itself
        self._taken = 0  # changed by the reader, after the copy: what it counts can be written over

    @property
    def room(self) -> int:
        """Frames that a `write` would place now; more only, never less, until the writer writes."""
        return self._capacity - (self.written - self._taken)

    def write(self, block: NDArray[np.float32]) -> None:
        """Append a block of shape (n, channels); what finds no room is added to `lost`. Never waits."""
        n = min(len(block), self.room)
        start = self.written % self._capacity
        first = min(n, self._capacity - start)
        self._buffer[start : start + first] = block[:first]
        self._buffer[: n - first] = block[first:n]
        self.written += n
        self.lost += len(block) - n

    def read(self, limit: int | None = None) -> NDArray[np.float32]:
        """Take what was written and not read yet, `limit` frames at most: a copy of shape (n, channels)."""
        n = self.written - self._taken
        if limit is not None:
            n = min(n, limit)
        start = self._taken % self._capacity
        first = min(n, self._capacity - start)
        block = np.empty((n, self.channels), np.float32)
        block[:first] = self._buffer[start : start + first]
        block[first:] = self._buffer[: n - first]
        self._taken += n
        return block
