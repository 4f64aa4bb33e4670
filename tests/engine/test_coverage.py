"""Speech without text is found, decoded again, and told where it stays without."""

from pathlib import Path

import numpy as np
import pytest

import engine
from engine import coverage
from engine.audio import read
from engine.coverage import gaps
from engine.transcript import Segment, Span
from engine.voice import CHUNK_S

DATA = Path(__file__).parent.parent / "data"


def segment(start, end, text):
    return Segment(0, 0, start, end, text, (), 0.0, -0.2, 1.0, 0.0)


def spoken(total_s, *stretches):
    voice = np.zeros(round(total_s / CHUNK_S), np.float32)
    for start, end in stretches:
        voice[round(start / CHUNK_S) : round(end / CHUNK_S)] = 0.9
    return voice


def test_speech_without_a_segment_is_a_gap():
    voice = spoken(20, (1, 4), (10, 13), (14.5, 15))
    assert gaps(voice, [segment(1, 4, " A short sentence.")]) == [
        Span(pytest.approx(10, abs=CHUNK_S), pytest.approx(13, abs=CHUNK_S))
    ]


def test_a_cough_and_what_a_segment_nearly_reaches_are_none():
    voice = spoken(20, (1, 4), (8, 8.9))
    assert gaps(voice, [segment(1.4, 3.6, " A short sentence.")]) == []


def test_a_word_for_ten_seconds_of_speech_is_a_gap_and_slow_digits_are_not():
    voice = spoken(20, (1, 11))
    assert len(gaps(voice, [segment(1, 11, " you")])) == 1
    assert gaps(voice, [segment(1, 11, " 1001 90210 01803, 1001 90210 01803")]) == []


@pytest.fixture(scope="module")
def model():
    return engine.load_model("tiny.en")


def test_what_a_window_lost_is_decoded_again(model, monkeypatch):
    samples = np.concatenate([read(DATA / "question_chain.flac"), np.zeros(16_000, np.float32)])
    both = np.concatenate([samples, samples])
    whole = model.transcribe(both)
    assert whole.gaps == ()
    late = [s for s in whole.segments if s.start > len(samples) / 16_000 - 1]
    assert 0 < len(late) < len(whole.segments)

    transcribe = engine.whisper.transcribe
    monkeypatch.setattr(engine.whisper, "transcribe", lambda *a, **k: [s for s in transcribe(*a, **k) if s not in late])
    mended = model.transcribe(both)
    assert mended.gaps == ()
    assert mended.text.lower().count("spare keys") == 2
    assert [s.id for s in mended.segments] == list(range(len(mended.segments)))

    monkeypatch.setattr(coverage, "transcribe", lambda *a, **k: [])
    (gap,) = model.transcribe(both).gaps
    assert late[0].start - 1 < gap.start < gap.end <= len(both) / 16_000
    assert model.transcribe(both, engine.TranscribeOptions(vad=False)).gaps == ()
