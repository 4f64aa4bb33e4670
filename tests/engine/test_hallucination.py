"""Which segments are dropped as made up in silence, and where decoding goes on, rule by rule."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.audio import read
from engine.hallucination import is_strange, strangeness, without_hallucinations
from engine.segments import _behind_words
from engine.transcript import Segment, Word

DATA = Path(__file__).parent.parent / "data"
FINE, ODD = 0.9, 0.1  # probabilities


def segment(start, *words):
    """A segment of words, each (duration, probability), one after the other from `start` seconds on."""
    placed = []
    for duration, probability in words:
        placed.append(Word(start, start + duration, " word", probability))
        start += duration
    return Segment(0, 0, placed[0].start, start, " word" * len(words), (1,), 0.0, -0.2, 1.2, 0.01, tuple(placed))


def fine(start, seconds=1.0):
    return segment(start, *[(seconds / 4, FINE)] * 4)


def odd(start, seconds=1.0):
    return segment(start, *[(seconds / 4, ODD)] * 4)


def judged(*segments, threshold=1.5, seek=0, frames=3000, total_frames=30_000, last_speech=None):
    last_speech = seek / 100 if last_speech is None else last_speech
    return without_hallucinations(
        segments, threshold, seek=seek, frames=frames, total_frames=total_frames, last_speech=last_speech
    )


@pytest.mark.parametrize(
    ("duration", "probability", "score"),
    [(0.5, 0.9, 0), (0.5, 0.149, 1), (0.033, 0.9, 1.5), (0.0, 0.1, 2.995), (2.5, 0.9, 0.5), (5.0, 0.1, 4)],
)
def test_strange_words(duration, probability, score):
    assert strangeness(Word(3.0, 3.0 + duration, " x", probability)) == pytest.approx(score)


def test_a_segment_is_strange_by_its_first_words():
    assert is_strange(odd(0))
    assert not is_strange(fine(0))
    assert is_strange(segment(0, (0.2, ODD), (0.2, ODD), (0.2, ODD), *[(0.2, FINE)] * 5))
    assert not is_strange(segment(0, (0.2, ODD), (0.2, ODD), *[(0.2, FINE)] * 6))
    assert not is_strange(segment(0, *[(0.2, FINE)] * 8, *[(0.2, ODD)] * 4))
    comma = Word(0.0, 0.0, ",", 0.0)
    assert not is_strange(dataclasses.replace(fine(0), words=(comma, *fine(0).words[:1])))


def test_what_is_fine_stays():
    segments = [fine(0.5), fine(2), fine(20)]
    assert judged(*segments) == (segments, None)
    assert judged(odd(1), fine(2)) == ([odd(1), fine(2)], None)  # no silence behind it


def test_silence_before_a_strange_beginning_is_skipped():
    assert judged(odd(14), fine(15), seek=1000) == ([], 1000 + 400)
    assert judged(odd(11.4), fine(12.4), seek=1000)[1] is None  # 1.4 s are too short


def test_a_strange_segment_in_silence_ends_the_window_there():
    kept, seek = judged(fine(10), odd(14), fine(17), seek=1000)
    assert (kept, seek) == ([fine(10)], 1400)
    # At the window's beginning, at least a second is left behind.
    assert judged(odd(10.2), fine(13), seek=1000) == ([], 1100)


def test_a_strange_segment_between_words_stays():
    assert judged(fine(10), odd(14), fine(15.5), seek=1000)[1] is None
    assert judged(fine(10), fine(12.5), odd(13.9), fine(17), seek=1000)[1] is None


def test_two_strange_segments_count_as_silence_for_each_other():
    assert judged(fine(10), odd(14), odd(15.1), fine(16.2), seek=1000) == ([fine(10)], 1400)


def test_the_recording_ends_where_only_a_little_is_left():
    assert judged(fine(10), odd(37.2), seek=1000, frames=2900, total_frames=3900) == ([fine(10)], 3900)
    assert judged(fine(10), odd(37.2), seek=1000, total_frames=4100)[1] == 3720


def test_decoding_never_stands_still():
    assert judged(odd(10.001), threshold=0.0, seek=1000) == ([], 1001)


def test_where_words_end_the_next_window_begins():
    assert _behind_words([fine(12)], 1000, 3000, None) == 1300
    assert _behind_words([fine(9)], 1000, 3000, None) is None
    assert _behind_words([fine(12)], 1000, 3000, 2.0) == 1300
    assert _behind_words([fine(37.5)], 1000, 2900, 2.0) == 3900  # what is left is too short to be silence


def test_speech_after_long_silence_is_kept_and_silence_gives_nothing():
    model = engine.load_model("tiny.en")
    options = engine.TranscribeOptions(
        temperatures=(0.0,), word_timestamps=True, hallucination_silence_threshold=1.0, condition_on_previous_text=False
    )
    pause = np.zeros(16_000 * 6, np.float32)
    transcript = model.transcribe(np.concatenate([pause, read(DATA / "note_shopping.flac"), pause]), options)
    assert "dozen eggs" in transcript.text
    assert "basil" in transcript.segments[-1].text
    assert transcript.segments[0].start > 5
    assert transcript.segments[-1].end < 13
