"""Samples of every type, rate and shape: each becomes what the same sound at 16 kHz, mono, in float32 is."""

import array
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.audio import read
from engine.errors import CancelledError
from engine.samples import blocks, floats

CLIP = Path(__file__).parents[1] / "data" / "note_shopping.flac"


def tone(n, rate=16_000):
    return 0.5 * np.sin(2 * np.pi * 150 * np.arange(n) / rate)


def heard(audio, rate=16_000):
    return np.concatenate(list(blocks(audio, rate)))


@pytest.mark.parametrize(
    ("kind", "samples", "expected"),
    [
        (np.int8, [-128, 0, 64, 127], [-1, 0, 0.5, 127 / 128]),
        (np.uint8, [0, 128, 192, 255], [-1, 0, 0.5, 127 / 128]),
        (np.int16, [-32768, 0, 16384], [-1, 0, 0.5]),
        (">i2", [-32768, 0, 16384], [-1, 0, 0.5]),
        (np.uint16, [0, 32768, 49152], [-1, 0, 0.5]),
        (np.int32, [-(2**31), 0, 2**30], [-1, 0, 0.5]),
        (np.uint32, [0, 2**31, 3 * 2**30], [-1, 0, 0.5]),
        (np.float16, [-1, 0, 0.5, np.nan], [-1, 0, 0.5, 0]),
        (np.float64, [-1, 0, 0.5, -np.inf], [-1, 0, 0.5, 0]),
        (">f4", [-1.5, 15, np.inf], [-1.5, 15, 0]),
        (np.float64, [1e300, -1e300, 0.5], [16, -16, 0.5]),  # lone faults
    ],
)
def test_full_scale_is_one_whatever_the_type(kind, samples, expected):
    found = floats(np.array(samples, kind))
    assert found.dtype == np.float32
    assert found.tolist() == pytest.approx(expected)
    assert heard(np.array(samples, kind)).tolist() == found.tolist()


@given(st.lists(st.floats(width=32) | st.floats(), max_size=40))
def test_any_float_becomes_a_finite_sample(samples):
    found = floats(np.array(samples))
    assert np.isfinite(found).all()
    assert not np.abs(found).max(initial=0) > 16


@pytest.mark.parametrize("n", [0, 1, 199, 15_999, 16_000, 16_001, 40_000])
def test_sixteen_kilohertz_mono_is_taken_as_it_is(n):
    samples = tone(n).astype(np.float32)
    assert np.array_equal(heard(samples), samples)
    assert [b.size for b in blocks(samples) if b.size > 16_000] == []


def test_lists_and_other_buffers_are_arrays():
    assert heard([0.0, 0.25, -1.0]).tolist() == [0.0, 0.25, -1.0]
    assert heard([]).size == 0
    assert heard(array.array("h", [0, 16384])).tolist() == [0.0, 0.5]
    assert heard(memoryview(np.array([0, 16384], np.int16))).tolist() == [0.0, 0.5]


@pytest.mark.parametrize("rate", [1_000, 8_000, 11_025, 44_100, np.int64(48_000), 192_000.0])
def test_any_rate_follows_the_ideal_sine(rate):
    samples = heard(tone(int(2.5 * rate), rate), rate)
    assert samples.size == pytest.approx(40_000, abs=2)
    ideal = tone(samples.size)[400:-400]
    assert np.abs(samples[400:-400] - ideal).max() < 0.01


@pytest.mark.parametrize("n", [0, 1, 7])
def test_a_few_samples_at_another_rate_are_no_error(n):
    assert heard(np.full(n, 0.5), 44_100).size == pytest.approx(n * 16_000 / 44_100, abs=1)


def test_time_is_the_longer_axis():
    left, right = tone(20_000), np.random.default_rng(1).uniform(-0.4, 0.4, 20_000)
    for stereo in (np.stack([left, right]), np.stack([left, right], 1), np.stack([left, right], 1).tolist()):
        np.testing.assert_allclose(heard(stereo), (left + right) / 2, atol=1e-6)
    np.testing.assert_allclose(heard(left[None]), left, atol=1e-6)
    np.testing.assert_allclose(heard(left[:, None]), left, atol=1e-6)
    assert heard(np.array([[0.5]])).tolist() == [0.5]
    assert heard(np.zeros((0, 2))).size == heard(np.zeros((2, 0))).size == 0


def test_channels_are_mixed_as_those_of_files():
    speech = read(CLIP)
    silent = np.stack([speech, 0 * speech])
    assert np.array_equal(heard(silent), speech)  # not halved
    assert np.array_equal(np.abs(heard(np.stack([speech, -speech], 1))), np.abs(speech))  # not cancelled


def test_paths_and_file_objects_go_by_their_own_rate():
    speech = read(CLIP)
    assert np.array_equal(heard(CLIP, 8_000), speech)
    assert np.array_equal(heard(str(CLIP)), speech)
    assert np.array_equal(heard(io.BytesIO(CLIP.read_bytes())), speech)


@pytest.mark.parametrize(
    ("samples", "says"),
    [
        (np.zeros(9, bool), "8, 16 or 32 bits, not bool"),
        (np.zeros(9, np.complex64), "8, 16 or 32 bits, not complex64"),
        (np.array(["a", "b"]), "8, 16 or 32 bits, not <U1"),
        (np.array([None, 1.0]), "8, 16 or 32 bits, not object"),
        (None, "not object"),
        ([1, -1, 0], "not int64; give it the type that it was recorded in, as int16"),
        (b"RIFF", "not bytes; wrap the bytes of an audio file in io.BytesIO"),
        (bytearray(9), "not bytearray; wrap"),
        ([[0.0, 1.0], [0.0]], "rows are equally long"),
        (np.float32(1), "the shape [n] or [n, channels], not []"),
        (np.zeros((2, 3, 4)), "the shape [n] or [n, channels], not [2, 3, 4]"),
        (np.zeros((2, 2)), "of the shape [2, 2] does not show which axis is time"),
        (np.zeros((300, 400)), "of the shape [300, 400] does not show which axis is time"),
        (tone(16_000) * 32767, "divide it by 32768 if it was 16-bit"),
        (np.full(16_000, 1e300), "audio must lie within [-1, 1]"),
    ],
)
def test_what_is_no_sound_is_refused_in_one_sentence(samples, says):
    with pytest.raises(ValueError, match="audio") as error:
        heard(samples)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "rate", [0, -16_000, 999, 3_072_001, 44_100.5, float("nan"), float("inf"), True, "16000", None]
)
def test_rates_that_are_none_are_refused(rate):
    with pytest.raises(ValueError, match="sample_rate must be a whole number of Hz from 1000 to 3072000, not "):
        blocks(tone(9), rate)


@pytest.mark.parametrize("audio", [np.zeros(16_000 * 60, np.int16), CLIP], ids=["array", "file"])
def test_cancelling_is_asked_for_again_and_again(audio):
    answers = iter([False, False, False, True])
    with pytest.raises(CancelledError):
        list(blocks(audio, cancelled=lambda: next(answers)))
