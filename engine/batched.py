"""A whole recording to text, several windows at a time: faster than one after the other, without their context.

Voice activity proposes the windows; what a window leaves unfinished at its end is decoded anew in a later batch, so no
word is lost where it is cut. Source of the idea: WhisperX (Bain et al. 2023, arXiv 2303.00747), faster-whisper.
Runs on the engine's thread.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.mel import FRAMES_PER_SECOND, WINDOW_FRAMES
from engine.recording import Recording
from engine.segments import WindowTranscriber, never
from engine.speech import is_heard, spoken_spans, windows
from engine.transcribe import clips
from engine.transcript import Segment

_LEAST_REST = 20  # frames: less than 0.2 s at the end of a window holds no word


def transcribe_batched(
    transcriber: WindowTranscriber,
    recording: Recording,
    *,
    previous: Sequence[int] = (),
    on_progress: Callable[[float, float], None] = lambda done_s, total_s: None,
    cancelled: Callable[[], bool] = never,
) -> list[Segment]:
    """The segments of a recording, or of the clips of it that the options name, `batch_size` windows at a time.

    `previous`: tokens that are said to have been said before each window; `on_progress(done_s, total_s)` is called
    after each batch.
    """
    mel = recording.mel
    waiting = deque(_windows(transcriber, recording))
    total = sum(stop - start for start, stop in waiting)
    segments: list[Segment] = []
    if waiting and transcriber.options.prefix:  # it is the beginning of the first window alone
        start, stop = waiting.popleft()
        text = transcriber.transcribe(recording, start, previous, first=True, stop=stop, cancelled=cancelled)
        segments += text.segments
        if stop - text.next_seek >= _LEAST_REST:
            waiting.appendleft((text.next_seek, stop))
    while waiting:
        batch = [waiting.popleft() for _ in range(min(transcriber.options.batch_size, len(waiting)))]
        texts = transcriber.transcribe_together(recording, batch, previous, cancelled=cancelled)
        for (_, stop), text in zip(batch, texts, strict=True):
            segments += text.segments
            if stop - text.next_seek >= _LEAST_REST and _is_heard(recording, text.next_seek, stop):
                waiting.append((text.next_seek, stop))
        left = sum(stop - start for start, stop in waiting)
        on_progress(mel.duration_s * (1 - left / total), mel.duration_s)
    segments.sort(key=lambda segment: segment.start)
    return [replace(segment, id=i) for i, segment in enumerate(segments)]


def _windows(transcriber: WindowTranscriber, recording: Recording) -> list[tuple[int, int]]:
    """First and last frame of each window: where voice activity hears somebody, or everywhere if it does not listen."""
    found = []
    for clip_start, clip_stop in clips(transcriber.options.clip_timestamps, recording.mel.n_frames):
        voice = recording.voice(clip_start, clip_stop)
        if voice is None:
            found += [(at, min(at + WINDOW_FRAMES, clip_stop)) for at in range(clip_start, clip_stop, WINDOW_FRAMES)]
            continue
        spans = spoken_spans(voice, (clip_stop - clip_start) / FRAMES_PER_SECOND)
        for window in windows(spans, voice, WINDOW_FRAMES / FRAMES_PER_SECOND):
            start, stop = (clip_start + round(seconds * FRAMES_PER_SECOND) for seconds in (window.start, window.end))
            found.append((start, min(stop, clip_stop)))
    return [(start, stop) for start, stop in found if stop > start]


def _is_heard(recording: Recording, start: int, stop: int) -> bool:
    voice = recording.voice(start, stop)
    return voice is None or is_heard(voice)
