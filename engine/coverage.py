"""Whether the text accounts for what is spoken: voice activity and decoded segments are held against each other.

Where somebody seems to speak and there are no words, or hardly any, that stretch is decoded again on its own, whatever
windows it fell into before; what stays without words is told. Runs on the engine's thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from engine.mel import FRAMES_PER_SECOND
from engine.recording import Recording
from engine.segments import WindowTranscriber, never
from engine.speech import LIKELY, voiced_s
from engine.transcribe import clips, transcribe
from engine.transcript import Segment, Span
from engine.voice import CHUNK_S

_LEAST_GAP_S = 1.0  # of likely speech: less may be a cough or a laugh
_BRIDGED_S = 1.0  # a pause within a gap
_SLACK_S = 0.5  # by which a segment's times may be off
_JUDGED_S = 2.0  # of likely speech, before few words are too few
_LEAST_BYTES = 2.5  # of text a second of speech: slow digits have 3.8, ordinary speech has 17


def mend(
    transcriber: WindowTranscriber,
    recording: Recording,
    segments: Sequence[Segment],
    cancelled: Callable[[], bool] = never,
) -> tuple[list[Segment], tuple[Span, ...]]:
    """The segments of a recording with what was missing, as far as it can be found; and the gaps that are left."""
    mended = list(segments)
    for gap in _gaps(transcriber, recording, mended):
        scanty = [s for s in mended if gap.start < (s.start + s.end) / 2 < gap.end]
        others = [s for s in mended if s not in scanty]
        room = _room(gap, others, recording.mel.duration_s)
        place = round(room.start * FRAMES_PER_SECOND), round(room.end * FRAMES_PER_SECOND)
        found = transcribe(transcriber, recording, places=[place], cancelled=cancelled)
        found = [replace(s, end=min(s.end, room.end)) for s in found if s.start < room.end]
        if _bytes(found) > _bytes(scanty):
            mended = sorted([*others, *found], key=lambda segment: segment.start)
    mended = [replace(segment, id=i) for i, segment in enumerate(mended)]
    return mended, tuple(_gaps(transcriber, recording, mended))


def _room(gap: Span, others: Sequence[Segment], duration_s: float) -> Span:
    """The gap and a little on both sides, as far as the other segments leave it."""
    before = [s.end for s in others if s.end <= gap.start + _SLACK_S]
    behind = [s.start for s in others if s.start >= gap.end - _SLACK_S]
    return Span(max(0.0, gap.start - _SLACK_S, *before), min(gap.end + _SLACK_S, duration_s, *behind))


def _gaps(transcriber: WindowTranscriber, recording: Recording, segments: Sequence[Segment]) -> list[Span]:
    """The gaps within the clips that the options name; none if nobody listens."""
    voice = recording.voice()
    if voice is None:
        return []
    wanted = np.zeros(len(voice), bool)
    for first, last in clips(transcriber.options.clip_timestamps, recording.mel.n_frames):
        wanted[_chunks(first / FRAMES_PER_SECOND, last / FRAMES_PER_SECOND)] = True
    return gaps(np.where(wanted, voice, 0), segments)


def gaps(voice: np.ndarray, segments: Sequence[Segment]) -> list[Span]:
    """Where somebody seems to speak for a second or more without words enough for it, in order.

    `voice`: the probability of speech in each chunk of 32 ms [n] of the recording.
    """
    spoken = voice >= LIKELY
    for segment in segments:
        within = voiced_s(voice[_chunks(segment.start, segment.end)])
        if within < _JUDGED_S or _bytes([segment]) >= _LEAST_BYTES * within:
            spoken[_chunks(segment.start - _SLACK_S, segment.end + _SLACK_S)] = False
    places = np.flatnonzero(spoken)
    runs = np.split(places, np.flatnonzero(np.diff(places) * CHUNK_S > _BRIDGED_S) + 1)
    long = [run for run in runs if len(run) * CHUNK_S >= _LEAST_GAP_S]
    return [Span(float(run[0] * CHUNK_S), float((run[-1] + 1) * CHUNK_S)) for run in long]


def _chunks(start_s: float, end_s: float) -> slice:
    return slice(max(0, round(start_s / CHUNK_S)), max(0, round(end_s / CHUNK_S)))


def _bytes(segments: Sequence[Segment]) -> int:
    """How much text there is; in bytes, of which languages with fewer letters have more to each."""
    return sum(len(segment.text.strip().encode()) for segment in segments)
