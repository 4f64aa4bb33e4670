"""Which channel of a microphone carries the voice: arithmetic on blocks, called by the recorder's thread.

It exists because averaging the channels destroys speech (channels out of phase cancel, a silent one halves, a
humming one drowns) and because interfaces put the voice on any of their inputs. A channel is judged by energy
that comes and goes, as speech does: steady noise, hum and a constant offset never count, however loud.
"""

from collections import deque

import numpy as np
from numpy.typing import NDArray

_FRAMES_PER_S = 50
_PARTS = 4  # of a frame, each freed of its mean: an offset carries no energy then, slow hum little
_MARGIN = 4.0  # 6 dB: over the floor to count as active, and over another channel to count as better
_FLOOR_FRAMES = 25  # 0.5 s: speech falls far below its peaks within that time, noise does not
_WINDOW_FRAMES = 50  # 1 s: over which activity is compared
_DECIDE_FRAMES = 5  # 0.1 s of activity make the first decision
_SWITCH_FRAMES = 60  # 1.2 s of activity in which another channel leads overturn it
_HOLD_FRAMES = 20  # 0.4 s are held back before the first decision, so that the first word is not lost to it


class ChannelPicker:
    """Turns blocks of several channels into the samples of one of them, unchanged.

    Every sample that goes in comes out once, by the next `flush` at the latest. Until some channel was active
    the loudest is taken and 0.4 s are held back, so that the decision still covers the start of the first
    word; after that only the part of a 20 ms frame waits. `channel` is the one chosen now.
    """

    def __init__(self, channels: int, rate: int) -> None:
        """`rate` in samples per second, 200 at least."""
        self.channel = 0
        self._channels = channels
        self._part = rate // (_FRAMES_PER_S * _PARTS)
        self._rest = np.empty((0, channels), np.float32)
        self._held: deque[NDArray[np.float32]] = deque()
        self._energies = np.zeros((_FLOOR_FRAMES, channels))
        self._activity = np.zeros((_WINDOW_FRAMES, channels))
        self._count = 0
        self._decided = False
        self._lead = 0

    def push(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        """Add a block of shape (n, channels) and take the samples, shape (m,), that are settled by now."""
        if self._channels == 1:
            return block[:, 0]
        audio = np.concatenate([self._rest, block])
        size = self._part * _PARTS
        whole = len(audio) - len(audio) % size
        self._rest = audio[whole:]
        settled = []
        for start in range(0, whole, size):
            frame = audio[start : start + size]
            self._judge(frame)
            self._held.append(frame)
            while len(self._held) > (0 if self._decided else _HOLD_FRAMES):
                settled.append(self._held.popleft()[:, self.channel])
        return np.concatenate(settled) if settled else np.empty(0, np.float32)

    def flush(self) -> NDArray[np.float32]:
        """Take everything that is still held back, shape (m,)."""
        left = np.concatenate([block[:, self.channel] for block in (*self._held, self._rest)])
        self._held.clear()
        self._rest = self._rest[:0]
        return left

    def _judge(self, frame: NDArray[np.float32]) -> None:
        energy = frame.reshape(_PARTS, self._part, self._channels).var(axis=1).mean(axis=0)
        self._energies[self._count % _FLOOR_FRAMES] = energy
        # Exact zeros are a device that has not begun, or a gate that is shut: they tell nothing of its noise.
        floor = np.where(self._energies > 0, self._energies, np.inf).min(axis=0)
        active = energy > _MARGIN * floor
        self._activity[self._count % _WINDOW_FRAMES] = np.where(active, energy, 0)
        self._count += 1
        total = self._activity.sum(axis=0)
        best = int(total.argmax())
        if self._decided:
            self._reconsider(best, total, bool(active[best]))
        elif np.count_nonzero(self._activity[:, best]) >= _DECIDE_FRAMES:
            self._decided = True
            self.channel = best
        else:
            loudness = self._energies.sum(axis=0)
            loudest = int(loudness.argmax())
            if loudness[loudest] > _MARGIN * loudness[self.channel]:
                self.channel = loudest

    def _reconsider(self, best: int, total: NDArray[np.float64], active: bool) -> None:
        # A second of silence empties the totals, so no lead outlives the sentence that it was made in.
        if total[best] <= _MARGIN * total[self.channel]:
            self._lead = 0
            return
        self._lead += active
        if self._lead >= _SWITCH_FRAMES:
            self.channel = best
            self._lead = 0
