"""Text that the model made up in silence: told by words that nobody says so, with silence around them.

A word counts as strange where it is improbable, very short or very long. Needs word times.
Source: openai-whisper's hallucination_silence_threshold.
"""

from collections.abc import Sequence

from engine.mel import FRAMES_PER_SECOND, WINDOW_FRAMES
from engine.options import APPEND_PUNCTUATIONS, PREPEND_PUNCTUATIONS
from engine.transcript import Segment, Word

_PUNCTUATION = PREPEND_PUNCTUATIONS + APPEND_PUNCTUATIONS
_JUDGED_WORDS = 8  # of a segment, from its start
_EDGE_S = 2.0  # what lies so near to an end of the window counts as next to silence
_LEAST_ADVANCE_S = 1.0  # when a segment is dropped


def without_hallucinations(
    segments: Sequence[Segment], threshold: float, *, seek: int, frames: int, total_frames: int, last_speech: float
) -> tuple[list[Segment], int | None]:
    """Those segments of a window that may stay, and the frame to go on from if that is not all of them.

    `threshold`: seconds of silence that make strange words suspect. The window starts at frame `seek` and has sound in
    `frames` frames, of `total_frames` in the recording; `last_speech`: when the speech before it ended, in seconds.
    """
    start, stop = seek / FRAMES_PER_SECOND, (seek + frames) / FRAMES_PER_SECOND
    last_possible = (seek + WINDOW_FRAMES) / FRAMES_PER_SECOND
    spoken = [i for i, segment in enumerate(segments) if segment.words]
    if spoken and is_strange(segments[spoken[0]]):
        gap = segments[spoken[0]].start - start
        if gap > threshold:  # decoded again without the silence, it may come out right
            return [], seek + max(1, round(gap * FRAMES_PER_SECOND))
    for i, following in zip(spoken, [*spoken[1:], None], strict=True):
        segment = segments[i]
        if is_strange(segment):
            silent_before = (
                segment.start - last_speech > threshold or segment.start < threshold or segment.start - start < _EDGE_S
            )
            next_start = stop if following is None else segments[following].words[0].start
            silent_behind = (
                next_start - segment.end > threshold
                or (following is not None and is_strange(segments[following]))
                or last_possible - segment.end < _EDGE_S
            )
            if silent_before and silent_behind:
                rest_s = total_frames / FRAMES_PER_SECOND - segment.end
                resume_s = max(start + _LEAST_ADVANCE_S, segment.start)
                return list(segments[:i]), total_frames if rest_s < threshold else round(resume_s * FRAMES_PER_SECOND)
        last_speech = segment.end
    return list(segments), None


def is_strange(segment: Segment) -> bool:
    """Whether a segment that has words begins with some that are hard to believe."""
    words = [word for word in segment.words if word.word not in _PUNCTUATION][:_JUDGED_WORDS]
    score = sum(map(strangeness, words))
    return score >= 3 or score + 0.01 >= len(words)


def strangeness(word: Word) -> float:
    """How hard a word is to believe: 0 where it is not, 1 and more where it hardly can be."""
    duration = word.end - word.start
    score = 1.0 if word.probability < 0.15 else 0.0
    score += max(0.0, 0.133 - duration) * 15  # seconds
    return score + max(0.0, duration - 2.0)
