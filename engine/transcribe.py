"""Long recordings: windows of up to 30 s, each from where the last complete segment of the one before ended.

Source: openai-whisper's transcribe.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.decoding.fallback import decode_with_fallback, is_silence
from engine.decoding.prompt import build_prompt
from engine.decoding.window import WindowDecoder, WindowResult
from engine.errors import CancelledError
from engine.hallucination import without_hallucinations
from engine.mel import FRAMES_PER_SECOND, WINDOW_FRAMES, LogMel
from engine.model import Decoder, Network
from engine.options import TranscribeOptions
from engine.timing import add_words, speech_end
from engine.tokenizer import TIMESTAMP_S, Tokenizer
from engine.transcript import Segment, Transcript

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
        mel: LogMel,
        seek: int,
        previous: Sequence[int] = (),
        *,
        first: bool = False,
        stop: int | None = None,
        last_speech: float = 0.0,
        cancelled: Callable[[], bool] = never,
    ) -> WindowText:
        """Segments of the window that starts at frame `seek`; their ids start at 0.

        `previous`: tokens of what was said before, `first`: whether this is the first window, `stop`: the frame at
        which it ends at the latest, `last_speech`: that of the window before. Raises CancelledError soon after
        `cancelled` answers true.
        """
        stop = mel.n_frames if stop is None else min(stop, mel.n_frames)
        frames = min(WINDOW_FRAMES, stop - seek)
        features = self._network.encode(mel.window(seek, stop=stop), cancelled)
        decoder = Decoder(self._network, features)
        prompt = build_prompt(self._tokenizer, self.options, self._language, previous, first=first)
        window = WindowDecoder(decoder, self._tokenizer, self.options, prompt, cancelled)
        result = decode_with_fallback(window, self.options)
        if is_silence(result, self.options):
            return WindowText((), seek + frames, (), sure=True, last_speech=last_speech)
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
                segments, again = without_hallucinations(
                    segments, threshold, seek=seek, frames=frames, total_frames=mel.n_frames, last_speech=last_speech
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


def transcribe(
    transcriber: WindowTranscriber,
    mel: LogMel,
    *,
    language: str,
    previous: Sequence[int] = (),
    start: int = 0,
    last_speech: float = 0.0,
    on_progress: Callable[[float, float], None] = lambda done_s, total_s: None,
    cancelled: Callable[[], bool] = never,
) -> Transcript:
    """Transcribe the recording in `mel`, or the clips of it that the options name, from frame `start` on.

    `previous`: tokens of what was said before, `last_speech`: when that ended, in seconds; `on_progress(done_s,
    total_s)` is called after each window.
    """
    options = transcriber.options
    segments: list[Segment] = []
    context = list(previous)
    total_s = mel.duration_s
    first = start == 0
    for clip_start, clip_stop in _clips(options.clip_timestamps, mel.n_frames):
        seek = max(clip_start, start)
        while seek < clip_stop:
            window = transcriber.transcribe(
                mel, seek, context, first=first, stop=clip_stop, last_speech=last_speech, cancelled=cancelled
            )
            segments += [replace(s, id=len(segments) + i) for i, s in enumerate(window.segments)]
            if options.condition_on_previous_text and window.sure:
                context += window.tokens
            else:
                context = []
            first = False
            seek, last_speech = window.next_seek, window.last_speech
            on_progress(seek / FRAMES_PER_SECOND if seek < mel.n_frames else total_s, total_s)
    return Transcript("".join(s.text for s in segments), language, tuple(segments), total_s)


def _clips(timestamps: Sequence[float], n_frames: int) -> list[tuple[int, int]]:
    """First and last frame of each clip, given as start, end, start, end ... in seconds; a last end may be left out."""
    frames = [min(n_frames, round(t * FRAMES_PER_SECOND)) for t in timestamps]
    if len(frames) % 2:
        frames.append(n_frames)
    return list(zip(frames[::2], frames[1::2], strict=True))
