"""What follows from probabilities of speech: rules, on made-up ones; and the network itself on speech and on none."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from engine import kernels, speech, voice
from engine.audio import read
from engine.transcript import Span
from engine.voice import CHUNK_S, VoiceActivity, VoiceNetwork

DATA = Path(__file__).parent.parent / "data"
PROBABILITIES = arrays.arrays(np.float32, st.integers(0, 400), elements=st.floats(0, 1, width=32))


def probabilities(*stretches):
    """Of stretches given as (chunks, probability)."""
    return np.concatenate([np.full(n, p, np.float32) for n, p in stretches])


def listen(samples):
    kernels.warm_up()
    activity = VoiceActivity(VoiceNetwork())
    activity.push(samples)
    return activity.probabilities()


def test_one_sure_chunk_or_a_quarter_second_of_likely_ones_is_a_voice():
    assert speech.is_heard(probabilities((50, 0.1), (1, 0.81)))
    assert speech.is_heard(probabilities((50, 0.1), (8, 0.6)))
    assert not speech.is_heard(probabilities((50, 0.1), (7, 0.6), (40, 0.4)))
    assert not speech.is_heard(np.empty(0, np.float32))


def test_spans_are_padded_joined_over_short_pauses_and_kept_within_the_recording():
    found = speech.spoken_spans(probabilities((40, 0.0), (10, 0.9), (3, 0.2), (10, 0.6), (100, 0.0), (5, 0.9)), 5.4)
    assert found == [
        Span(pytest.approx(40 * CHUNK_S - 0.4), pytest.approx(63 * CHUNK_S + 0.4)),
        Span(pytest.approx(163 * CHUNK_S - 0.4), 5.4),
    ]


@given(PROBABILITIES, st.floats(2, 6))
def test_windows_hold_every_likely_chunk_in_order_and_none_is_too_long(p, longest):
    total = len(p) * CHUNK_S
    found = speech.windows(speech.spoken_spans(p, total), p, longest)
    ends = [time for window in found for time in (window.start, window.end)]
    assert ends == sorted(ends)
    assert all(window.end - window.start <= longest + CHUNK_S for window in found)
    for i in np.flatnonzero(p >= speech.LIKELY):
        middle = (i + 0.5) * CHUNK_S
        assert any(window.start <= middle <= window.end for window in found)


@given(PROBABILITIES)
def test_the_rules_take_any_probabilities(p):
    assert speech.voiced_s(p) <= len(p) * CHUNK_S + 1e-9
    assert not speech.is_heard(p) or (p >= speech.LIKELY).any()


@pytest.mark.parametrize("gain_db", [0, -30, -50])
def test_quiet_speech_is_heard(gain_db):
    assert speech.is_heard(listen(read(DATA / "question_chain.flac") * np.float32(10 ** (gain_db / 20))))


def test_noise_hum_clicks_and_silence_are_not():
    random = np.random.default_rng(1)
    n = 5 * 16_000
    time = np.arange(n) / 16_000
    hum = sum(np.sin(2 * np.pi * 50 * k * time) / k for k in range(1, 8)) * 0.1
    clicks = np.where(np.arange(n) % 2_900 < 30, random.standard_normal(n), 0) * 0.3
    for sound in (np.zeros(n), random.standard_normal(n) * 0.05, hum, clicks):
        assert not speech.is_heard(listen(sound.astype(np.float32)))


def test_pieces_of_any_size_give_what_the_whole_gives():
    samples = read(DATA / "question_chain.flac")
    whole = listen(samples)
    activity = VoiceActivity(VoiceNetwork())
    for piece in np.split(samples, [1, 500, 513, 514, 3_000, 20_000]):
        activity.push(piece)
    np.testing.assert_allclose(activity.probabilities(), whole, atol=1e-5)


def test_without_its_weights_it_is_off_and_says_so(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(voice, "_WEIGHTS", tmp_path / "none.safetensors")
    assert voice.load_voice_network() is None
    (tmp_path / "none.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{}")
    assert voice.load_voice_network() is None
    assert caplog.text.count("voice activity is off") == 2
