"""One window of a recording, of up to 30 s, to segments: encode, decode, cut where two timestamps meet, time the words.

Source: openai-whisper's transcribe. Runs on the engine's thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.decoding.fallback import decode_with_fallback, has_failed
from engine.decoding.prompt import build_prompt
from engine.decoding.silence import cautious, is_silence
from engine.decoding.window import WindowDecoder, WindowResult, decode_together
from engine.errors import CancelledError
from engine.hallucination import without_hallucinations
from engine.mel import FRAMES_PER_SECOND, WINDOW_FRAMES
from engine.model import Decoder, Network
from engine.options import TranscribeOptions
from engine.recording import Recording
from engine.speech import is_heard
from engine.timing import add_words, speech_end
from engine.tokenizer import TIMESTAMP_S, Tokenizer
from engine.transcript import Segment

_FRAMES_PER_TIMESTAMP = round(TIMESTAMP_S * FRAMES_PER_SECOND)
_UNSURE_TEMPERATURE = 0.5  # text that was drawn at more than this is no prompt


def never() -> bool:
    """The answer of a caller that does not cancel."""
    return False


@dataclass(frozen=True)
class WindowText:
    """The segments of one window and the frame at which the next one starts."""

    segments: tuple[Segment, ...]
    next_seek: int
    tokens: tuple[int, ...]  # of the segments, with timestamps: a prompt for the next window
    sure: bool  # whether they should be one
    last_speech: float  # seconds: when the last speech up to here ended; known only with word times


class WindowTranscriber:
    """Turns windows of a recording into segments; holds no state between them."""

    def __init__(self, network: Network, tokenizer: Tokenizer, options: TranscribeOptions, language: str) -> None:
        """`language`: the code that is spoken, whatever the options leave open."""
        self._network, self._tokenizer, self._language = network, tokenizer, language
        self.options = options

    def transcribe(
        self,
        recording: Recording,
        seek: int,
        previous: Sequence[int] = (),
        *,
        first: bool = False,
        stop: int | None = None,
        last_speech: float = 0.0,
        alone: bool = False,
        cancelled: Callable[[], bool] = never,
    ) -> WindowText:
        """Segments of the window that starts at frame `seek`; their ids start at 0.

        `previous`: tokens of what was said before, `first`: whether this is the first window, `stop`: the frame at
        which it ends at the latest, `last_speech`: that of the window before, `alone`: what it is to LogMel.window.
        Raises CancelledError soon after `cancelled` answers true.
        """
        window = self._window(recording, seek, stop)
        if window.blank:
            return _silence(window, last_speech)
        options = self.options if window.heard else cautious(self.options)
        decoder = Decoder(self._network, self._encode(recording, window, cancelled, alone))
        said_before = previous if window.heard else ()
        prompt = build_prompt(self._tokenizer, options, self._language, said_before, first=first)
        result = decode_with_fallback(WindowDecoder(decoder, self._tokenizer, options, prompt, cancelled), options)
        return self._text(recording, window, decoder, result, last_speech, cancelled)

    def transcribe_together(
        self,
        recording: Recording,
        places: Sequence[tuple[int, int]],
        previous: Sequence[int] = (),
        *,
        cancelled: Callable[[], bool] = never,
    ) -> list[WindowText]:
        """Segments of several windows, each from a frame to another, decoded greedily side by side.

        None has the text of another as its prompt; `previous` is said to have been said before each. A result that does
        not pass is decoded again on its own, as `transcribe` does.
        """
        windows = [self._window(recording, start, stop) for start, stop in places]
        features = [self._encode(recording, window, cancelled) for window in windows]
        prompt = build_prompt(self._tokenizer, self.options, self._language, previous)
        together = Decoder(self._network, *features)
        results = decode_together(together, self._tokenizer, self.options, prompt, cancelled)
        texts = []
        for window, heard, result in zip(windows, features, results, strict=True):
            decoder = Decoder(self._network, heard)
            if has_failed(result, self.options):
                again = WindowDecoder(decoder, self._tokenizer, self.options, prompt, cancelled)
                result = decode_with_fallback(again, self.options, [result])
            texts.append(self._text(recording, window, decoder, result, 0.0, cancelled))
        return texts

    def _window(self, recording: Recording, seek: int, stop: int | None) -> "_Window":
        mel = recording.mel
        stop = min(mel.n_frames if stop is None else min(stop, mel.n_frames), seek + WINDOW_FRAMES)
        voice = recording.voice(seek, stop)
        if voice is None:
            return _Window(seek, stop - seek, heard=True, blank=False)
        return _Window(seek, stop - seek, is_heard(voice), mel.is_blank(seek, stop))

    def _encode(
        self, recording: Recording, window: "_Window", cancelled: Callable[[], bool], alone: bool = False
    ) -> np.ndarray:
        mel = recording.mel.window(window.seek, stop=window.seek + window.frames, alone=alone)
        return self._network.encode(mel, cancelled)

    def _text(
        self,
        recording: Recording,
        window: "_Window",
        decoder: Decoder,
        result: WindowResult,
        last_speech: float,
        cancelled: Callable[[], bool],
    ) -> WindowText:
        """What a window was decoded to, as segments of the recording."""
        seek, frames = window.seek, window.frames
        if is_silence(result, self.options, heard=window.heard):
            return _silence(window, last_speech)
        pieces, advance = _pieces(result.tokens, self._tokenizer.timestamp_begin, frames)
        segments = [_segment(i, seek, piece, self._tokenizer, result) for i, piece in enumerate(pieces)]
        next_seek = seek + advance
        if self.options.word_timestamps:
            if cancelled():
                raise CancelledError
            segments = add_words(
                segments,
                decoder,
                self._tokenizer,
                self.options,
                language=self._language,
                frames=frames,
                last_speech=last_speech,
            )
            threshold = self.options.hallucination_silence_threshold
            if not _ends_alone(result.tokens, self._tokenizer.timestamp_begin):
                next_seek = _behind_words(segments, seek, frames, threshold) or next_seek
            if threshold is not None:
                total_frames = recording.mel.n_frames
                segments, again = without_hallucinations(
                    segments, threshold, seek=seek, frames=frames, total_frames=total_frames, last_speech=last_speech
                )
                next_seek = again or next_seek
            last_speech = speech_end(segments) if segments else last_speech
        kept = [segment for segment in segments if segment.start < segment.end and segment.text.strip()]
        return WindowText(
            tuple(replace(segment, id=i) for i, segment in enumerate(kept)),
            next_seek,
            tuple(token for segment in kept for token in segment.tokens),
            sure=result.temperature <= _UNSURE_TEMPERATURE,
            last_speech=last_speech,
        )


@dataclass(frozen=True)
class _Window:
    """A stretch of the recording that is decoded at once, in frames."""

    seek: int
    frames: int
    heard: bool  # whether voice activity hears somebody, if it listens
    blank: bool  # whether all its samples are zero


def _silence(window: _Window, last_speech: float) -> WindowText:
    return WindowText((), window.seek + window.frames, (), sure=True, last_speech=last_speech)


@dataclass(frozen=True)
class _Piece:
    """Tokens of one segment with its times in frames from the window's start."""

    start_frames: int
    end_frames: int
    tokens: tuple[int, ...]


def _pieces(tokens: Sequence[int], timestamp_begin: int, frames: int) -> tuple[list[_Piece], int]:
    """Cut a window's tokens where two timestamps meet; returns the pieces and how many frames they account for.

    Text behind the last pair is an unfinished segment: it is left for the next window, which starts there, unless the
    window ends with a lone timestamp, which says that nothing is spoken behind it.
    """
    is_timestamp = [token >= timestamp_begin for token in tokens]
    cuts = [i for i in range(1, len(tokens)) if is_timestamp[i - 1] and is_timestamp[i]]
    ends_alone = _ends_alone(tokens, timestamp_begin)

    def frame(token: int) -> int:
        return (token - timestamp_begin) * _FRAMES_PER_TIMESTAMP

    if cuts:
        bounds = [*cuts, len(tokens)] if ends_alone else cuts
        slices = [tuple(tokens[first:last]) for first, last in zip([0, *bounds], bounds, strict=False)]
        pieces = [_Piece(frame(part[0]), frame(part[-1]), part) for part in slices]
        return pieces, frames if ends_alone else frame(tokens[cuts[-1] - 1])
    stamps = [token for token in tokens if token > timestamp_begin]
    end = frame(stamps[-1]) if stamps else frames
    return [_Piece(0, end, tuple(tokens))], frames


def _ends_alone(tokens: Sequence[int], timestamp_begin: int) -> bool:
    """Whether the last of a window's tokens is a timestamp and the one before it is not."""
    return [token >= timestamp_begin for token in tokens[-2:]] == [False, True]


def _behind_words(segments: Sequence[Segment], seek: int, frames: int, threshold: float | None) -> int | None:
    """The frame at which the last word of the window at `seek` ends, None where that is not behind its start.

    What lies behind it is left for the next window, unless `threshold` says that it is too short to be silence.
    """
    end = speech_end(segments)
    behind = round(end * FRAMES_PER_SECOND)
    if behind <= seek:
        return None
    if threshold is not None and (seek + WINDOW_FRAMES) / FRAMES_PER_SECOND - end <= threshold:
        return seek + frames
    return behind


def _segment(number: int, seek: int, piece: _Piece, tokenizer: Tokenizer, result: WindowResult) -> Segment:
    return Segment(
        id=number,
        seek=seek,
        start=(seek + piece.start_frames) / FRAMES_PER_SECOND,
        end=(seek + piece.end_frames) / FRAMES_PER_SECOND,
        text=tokenizer.decode(piece.tokens),
        tokens=piece.tokens,
        temperature=result.temperature,
        avg_logprob=result.avg_logprob,
        compression_ratio=result.compression_ratio,
        no_speech_prob=result.no_speech_prob,
    )
