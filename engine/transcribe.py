"""A whole recording to text, window after window, each from where the last complete segment of the one before ended.

Source: openai-whisper's transcribe. Runs on the engine's thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.errors import CancelledError
from engine.mel import FRAMES_PER_SECOND
from engine.recording import Recording
from engine.segments import WindowTranscriber, never
from engine.transcript import Segment


def transcribe(
    transcriber: WindowTranscriber,
    recording: Recording,
    *,
    previous: Sequence[int] = (),
    places: Sequence[tuple[int, int]] | None = None,
    start: int = 0,
    last_speech: float = 0.0,
    on_progress: Callable[[float, float], None] = lambda done_s, total_s: None,
    cancelled: Callable[[], bool] = never,
) -> list[Segment]:
    """The segments of a recording, from frame `start` on.

    `places`: first and last frame of parts to be taken as recordings of their own; else those that the options name.
    `previous`: tokens of what was said before, `last_speech`: when that ended, in seconds; `on_progress(done_s,
    total_s)` is called after each window.
    """
    options, mel = transcriber.options, recording.mel
    segments: list[Segment] = []
    context = list(previous)
    first = start == 0 and places is None
    for clip_start, clip_stop in clips(options.clip_timestamps, mel.n_frames) if places is None else places:
        seek, clip_stop = max(clip_start, start), min(clip_stop, mel.n_frames)
        while seek < clip_stop:
            if cancelled():
                raise CancelledError
            window = transcriber.transcribe(
                recording,
                seek,
                context,
                first=first,
                stop=clip_stop,
                last_speech=last_speech,
                alone=places is not None,
                cancelled=cancelled,
            )
            segments += [replace(s, id=len(segments) + i) for i, s in enumerate(window.segments)]
            if options.condition_on_previous_text and window.sure:
                context += window.tokens
            else:
                context = []
            first = False
            seek, last_speech = window.next_seek, window.last_speech
            on_progress(seek / FRAMES_PER_SECOND if seek < mel.n_frames else mel.duration_s, mel.duration_s)
    return segments


def clips(timestamps: Sequence[float], n_frames: int) -> list[tuple[int, int]]:
    """First and last frame of each clip, given as start, end, start, end ... in seconds; a last end may be left out."""
    frames = [min(n_frames, round(t * FRAMES_PER_SECOND)) for t in timestamps]
    if len(frames) % 2:
        frames.append(n_frames)
    return list(zip(frames[::2], frames[1::2], strict=True))
