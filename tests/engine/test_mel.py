"""The log-mel front end against a plain discrete Fourier sum and against itself in pieces."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.mel import LogMel, log_mel, mel_filters


def chirp(n):
    t = np.arange(n) / 16_000
    return (0.4 * np.sin(2 * np.pi * (200 + 900 * t) * t)).astype(np.float32)


@pytest.mark.parametrize(("n_mels", "total"), [(80, 1.9990242), (128, 3.1909857)])
def test_filters_have_the_published_sums(n_mels, total):
    filters = mel_filters(n_mels)
    assert filters.shape == (n_mels, 201)
    assert filters.sum(dtype=np.float64) == pytest.approx(total, abs=1e-6)


def test_one_frame_against_a_fourier_sum():
    samples = chirp(16_000).astype(np.float64)
    n = np.arange(400)
    window = samples[50 * 160 - 200 : 50 * 160 + 200] * (0.5 - 0.5 * np.cos(2 * np.pi * n / 400))
    power = np.abs(np.exp(-2j * np.pi * np.outer(np.arange(201), n) / 400) @ window) ** 2
    exact = np.log10(np.maximum(mel_filters(80) @ power, 1e-10))
    mel = log_mel(samples.astype(np.float32))
    shift = mel[:, 50] * 4 - 4 - exact
    kept = exact > exact.max() - 6
    np.testing.assert_allclose(shift[kept], 0, atol=1e-4)


@pytest.mark.parametrize("n", [0, 1, 159, 160, 199, 200, 201, 399, 400, 401, 15_999, 16_000, 16_001, 480_001])
def test_any_length(n):
    mel = log_mel(chirp(n))
    assert mel.shape == (80, n // 160)
    assert np.isfinite(mel).all()
    assert not mel.size or mel.max() - mel.min() <= 2.0 + 1e-6


def test_silence_is_flat_and_finite():
    mel = log_mel(np.zeros(16_000, np.float32))
    assert (mel == mel[0, 0]).all()
    assert mel[0, 0] == pytest.approx((-10 + 4) / 4)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 3000), min_size=1, max_size=12))
def test_pieces_of_any_size_give_the_same_frames(sizes):
    samples = chirp(sum(sizes))
    mel, at = LogMel(80), 0
    for size in sizes:
        mel.push(samples[at : at + size])
        at += size
        mel.window(0, 20)  # looking must not disturb
    np.testing.assert_allclose(mel.window(0, mel.n_frames), log_mel(samples), atol=1e-5)


def test_window_is_zero_beyond_the_recording():
    mel = LogMel(128)
    mel.push(chirp(16_000))
    window = mel.window(40)
    assert window.shape == (128, 3000)
    np.testing.assert_array_equal(window[:, 60:], 0)
    np.testing.assert_array_equal(window[:, :60], mel.window(0, 100)[:, 40:])


@pytest.mark.parametrize(
    ("samples", "says"),
    [
        (np.zeros((100, 2), np.float32), "not the shape (100, 2); take one channel"),
        (np.zeros((100, 0), np.float32), "not the shape (100, 0); take one channel"),
        (0.5, "not the shape ()"),
    ],
)
def test_what_is_no_mono_sound_is_refused_with_the_cure(samples, says):
    with pytest.raises(ValueError, match="audio must") as error:
        LogMel(80).push(samples)
    assert says in str(error.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_a_broken_sample_does_not_drown_the_rest(bad):
    samples = chirp(16_000)
    broken = samples.copy()
    broken[8_000] = bad
    mel = log_mel(broken)
    assert np.isfinite(mel).all()
    np.testing.assert_allclose(mel[:, :48], log_mel(samples)[:, :48], atol=1.0)
    assert mel[:, :48].std() > 0.1


@pytest.mark.parametrize("kind", [np.float16, np.float64, ">f4"])
def test_every_kind_of_float_is_taken(kind):
    np.testing.assert_allclose(log_mel(chirp(16_000).astype(kind)), log_mel(chirp(16_000)), atol=0.05)
