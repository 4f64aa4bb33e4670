"""Live transcription: samples in, text out while the person still speaks. No thread and no clock of its own.

The audio since the last completed window is decoded again and again as it grows. Words on which two decodes in a row
agree are committed and stay; what stands behind them is partial. When the window is full, its complete segments are
settled and the window moves on to where they end. The final text is what transcribing the recording gives.
Source of the agreement rule: Liu et al. 2020 (arXiv 2005.11185), as used by Whisper-Streaming (arXiv 2307.14743).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.coverage import mend
from engine.mel import WINDOW_FRAMES
from engine.options import TranscribeOptions
from engine.segments import WindowText, WindowTranscriber, never
from engine.transcribe import transcribe
from engine.transcript import Transcript
from engine.whisper import Whisper

_LEAST_NEW_FRAMES = 20  # less new audio than 0.2 s is not worth a decode
_FULL_FRAMES = 2800  # 28 s: a longer window could be cut off in the middle of a word before its next decode
_LANGUAGE_FRAMES = 200  # 2 s: less speech than that is often taken for another language


@dataclass(frozen=True)
class Update:
    """The text after `audio_s` seconds: `committed` only ever grows, `partial` behind it may change."""

    audio_s: float
    committed: str
    partial: str


class Session:
    """One utterance or caption stream on one model; its owner pushes, steps and finishes it on one thread."""

    def __init__(
        self, model: Whisper, options: TranscribeOptions | None = None, cancelled: Callable[[], bool] = never
    ) -> None:
        """`cancelled` is asked at every token, and a true answer makes step and finish raise CancelledError."""
        self._model = model
        self._options = options or TranscribeOptions()
        self._cancelled = cancelled
        self._recording = model.new_recording(self._options)
        self._mel = self._recording.mel
        self._language: str | None = None
        self._start = 0  # frame at which the window begins
        self._decoded = 0  # frame up to which it was decoded last
        self._settled: list[WindowText] = []  # windows that are behind us
        self._words: list[str] = []  # committed words of all windows
        self._window_words = 0  # how many of them belong to the current window
        self._hypothesis: list[str] = []  # words of the window as decoded last

    def push(self, samples: np.ndarray) -> None:
        """Append mono samples [n] at 16 kHz as Recording takes them; ValueError where they are no such samples."""
        self._recording.push(samples)

    def step(self) -> Update | None:
        """Decode what has been pushed; None when there is too little new to be worth it."""
        if self._mel.n_frames - self._decoded < _LEAST_NEW_FRAMES:
            return None
        full = self._mel.n_frames - self._start >= _FULL_FRAMES
        transcriber = self._transcriber(self._options if full else _quick(self._options))
        window = transcriber.transcribe(
            self._recording,
            self._start,
            self._previous(),
            first=not self._settled,
            last_speech=self._last_speech(),
            cancelled=self._cancelled,
        )
        self._decoded = self._mel.n_frames if not full else min(self._mel.n_frames, self._start + WINDOW_FRAMES)
        words = _words(window)
        self._commit(words)
        if full:
            self._settle(window)
        return self._update()

    def finish(self) -> Transcript:
        """The transcript of everything pushed; the session is over."""
        transcriber = self._transcriber(self._options)
        rest = transcribe(
            transcriber,
            self._recording,
            previous=self._previous(),
            start=self._start,
            last_speech=self._last_speech(),
            cancelled=self._cancelled,
        )
        before = [segment for window in self._settled for segment in window.segments]
        segments, gaps = mend(transcriber, self._recording, [*before, *rest], self._cancelled)
        text = "".join(segment.text for segment in segments)
        return Transcript(text, self._spoken_language(), tuple(segments), self._mel.duration_s, gaps)

    def _transcriber(self, options: TranscribeOptions) -> WindowTranscriber:
        model = self._model
        return WindowTranscriber(model.network, model.tokenizer, options, self._spoken_language())

    def _spoken_language(self) -> str:
        """Detected anew while there is little audio, then kept."""
        if self._language is not None:
            return self._language
        language = self._model.language_of(self._recording, self._options)
        if self._mel.n_frames >= _LANGUAGE_FRAMES:
            self._language = language
        return language

    def _previous(self) -> list[int]:
        """Tokens of what was said before the window, as the options want them."""
        previous = self._model.initial_tokens(self._options)
        if self._settled and not self._options.condition_on_previous_text:
            return []
        for window in self._settled:
            previous = [*previous, *window.tokens] if window.sure else []
        return previous

    def _last_speech(self) -> float:
        return self._settled[-1].last_speech if self._settled else 0.0

    def _commit(self, words: list[str]) -> None:
        """Commit what the last hypothesis and this one agree on, if they bear out what is committed already."""
        held = self._words[len(self._words) - self._window_words :]
        if _agreement(held, words) == len(held):
            agreed = words[len(held) : _agreement(self._hypothesis, words)]
            self._words += agreed
            self._window_words += len(agreed)
        self._hypothesis = words

    def _settle(self, window: WindowText) -> None:
        """Move the window behind its complete segments, whose words are committed now."""
        settled = _words(window)
        self._words += settled[self._window_words :]
        self._window_words = max(0, self._window_words - len(settled))
        self._hypothesis = []
        self._settled.append(window)
        self._start = window.next_seek
        self._decoded = max(self._start, min(self._decoded, self._start))

    def _update(self) -> Update:
        pending = self._hypothesis[self._window_words :]
        return Update(self._mel.duration_s, "".join(self._words).strip(), "".join(pending).rstrip())


def _quick(options: TranscribeOptions) -> TranscribeOptions:
    """Options for partial text: it is drawn again soon, so it is decoded once and gets no word times."""
    once = options.temperatures[:1]
    return replace(options, temperatures=once, word_timestamps=False, hallucination_silence_threshold=None)


def _words(window: WindowText) -> list[str]:
    """The words of a window's text, each with the space before it."""
    text = "".join(segment.text for segment in window.segments)
    words: list[str] = []
    for character_run in text.split(" "):
        words.append((" " if words or text.startswith(" ") else "") + character_run)
    return [word for word in words if word.strip()]


def _agreement(first: Sequence[str], second: Sequence[str]) -> int:
    """How many words two texts share from their start, whatever their case and punctuation."""
    count = 0
    for a, b in zip(first, second, strict=False):
        if _bare(a) != _bare(b):
            break
        count += 1
    return count


def _bare(word: str) -> str:
    return "".join(c for c in word.casefold() if c.isalnum()) or word.strip()
