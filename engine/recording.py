"""A recording as the engine hears it while it grows: its log-mel frames, and how likely somebody speaks. One owner."""

import numpy as np

from engine.mel import FRAMES_PER_SECOND, WINDOW_FRAMES, LogMel
from engine.samples import floats
from engine.speech import is_heard
from engine.voice import CHUNK_S, VoiceActivity, VoiceNetwork


class Recording:
    """What has been pushed so far; no thread of its own."""

    def __init__(self, n_mels: int, voice: VoiceNetwork | None = None) -> None:
        """`n_mels`: 80 or 128; without `voice`, nobody listens for speech."""
        self.mel = LogMel(n_mels)
        self._voice = VoiceActivity(voice) if voice is not None else None

    def push(self, samples: np.ndarray) -> None:
        """Append mono samples [n] at 16 kHz as LogMel takes them; ValueError where they are no such samples."""
        self.mel.push(samples)
        if self._voice is not None:
            self._voice.push(floats(samples))

    def voice(self, start: int = 0, stop: int | None = None) -> np.ndarray | None:
        """The probability of speech in each chunk of 32 ms of frames start .. stop [n]; None if nobody listens."""
        if self._voice is None:
            return None
        chunks_per_frame = 1 / (FRAMES_PER_SECOND * CHUNK_S)
        last = None if stop is None else int(stop * chunks_per_frame) + 1
        return self._voice.probabilities()[int(start * chunks_per_frame) : last]

    def first_heard(self) -> int:
        """The frame at which the first window in which somebody is heard begins; 0 if none does, or nobody listens."""
        starts = range(0, self.mel.n_frames, WINDOW_FRAMES)
        found = ((start, self.voice(start, start + WINDOW_FRAMES)) for start in starts)
        return next((start for start, voice in found if voice is not None and is_heard(voice)), 0)
