"""Channel choice: the voice is found whichever channel carries it, and no sample is changed or lost."""

import numpy as np
import pytest
from numpy.typing import NDArray

from app.channels import ChannelPicker

RATE = 16_000


def silence(seconds: float) -> NDArray[np.float64]:
    return np.zeros(round(seconds * RATE))


def noise(seconds: float, level: float, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(0, level, round(seconds * RATE))


def speech(seconds: float, level: float = 0.2) -> NDArray[np.float64]:
    """Four syllables a second of a voice of 140 Hz, each swelling and dying away, a pause after six."""
    t = np.arange(round(seconds * RATE)) / RATE
    voice = sum(np.sin(2 * np.pi * 140 * k * t) / k for k in range(1, 15))
    syllables = np.sin(np.pi * 4 * t) ** 2 * ((t * 4) % 8 < 6)
    return level * voice * syllables


def pick(*channels: NDArray[np.float64], block: int = 400) -> NDArray[np.float32]:
    """All that comes out when the channels go in block by block."""
    audio = np.stack(channels, axis=1).astype(np.float32)
    picker = ChannelPicker(len(channels), RATE)
    parts = [picker.push(audio[start : start + block]) for start in range(0, len(audio), block)]
    return np.concatenate([*parts, picker.flush()])


def assert_is(picked: NDArray[np.float32], channel: NDArray[np.float64], since_s: float = 0) -> None:
    assert len(picked) == len(channel)
    start = round(since_s * RATE)
    assert np.array_equal(picked[start:], channel[start:].astype(np.float32))


@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize("block", [1, 37, 320, 5000])
def test_every_sample_comes_out_once_whatever_the_blocks(channels: int, block: int) -> None:
    voice = speech(0.5)[: 7999 if block > 1 else 1999]
    assert_is(pick(*[voice] * channels, block=block), voice)


@pytest.mark.parametrize("side", [0, 1])
def test_one_sided_stereo(side: int) -> None:
    voice, hiss = speech(3) + noise(3, 1e-4, 1), noise(3, 1e-4, 2)
    channels = [voice, hiss] if side == 0 else [hiss, voice]
    assert_is(pick(*channels), voice)


def test_the_first_word_is_whole_although_the_decision_needs_part_of_it() -> None:
    voice = np.concatenate([silence(2), speech(2)]) + noise(4, 1e-4, 1)
    assert_is(pick(noise(4, 1e-4, 2), voice), voice, since_s=2)


def test_channels_out_of_phase_do_not_cancel() -> None:
    voice = speech(3)
    assert_is(pick(voice, -voice), voice)


def test_six_channels_with_the_voice_in_the_centre_only() -> None:
    voice = speech(3)
    others = [noise(3, 1e-4, seed) for seed in range(5)]
    assert_is(pick(others[0], others[1], voice, *others[2:]), voice, since_s=0.1)


@pytest.mark.parametrize("delay_ms", [5, 30, 200])
def test_delayed_stereo_stays_with_one_channel(delay_ms: int) -> None:
    voice = speech(8)
    late = np.concatenate([silence(delay_ms / 1000), voice])[: len(voice)]
    picked = pick(late, voice)
    assert any(np.array_equal(picked, channel.astype(np.float32)) for channel in (late, voice))


def test_pauses_between_sentences_do_not_lose_the_channel() -> None:
    voice = np.concatenate([speech(2), silence(3), speech(2), silence(3), speech(2)]) + noise(12, 1e-4, 1)
    assert_is(pick(noise(12, 2e-4, 2), voice), voice, since_s=0.2)


@pytest.mark.parametrize("kind", ["offset", "noise", "hum"])
def test_what_is_loud_but_steady_does_not_win(kind: str) -> None:
    t = np.arange(6 * RATE) / RATE
    loud = {
        "offset": 0.9 + noise(6, 1e-4),
        "noise": noise(6, 0.3),
        "hum": 0.8 * np.sin(2 * np.pi * 50 * t),
    }[kind]
    voice = np.concatenate([silence(1), speech(5, level=0.05)]) + noise(6, 1e-4, 1)
    assert_is(pick(loud, voice), voice, since_s=1)


def test_noise_that_begins_later_does_not_take_over() -> None:
    voice = np.concatenate([speech(4), silence(2), speech(4)]) + noise(10, 1e-4, 1)
    fan = np.concatenate([noise(4.5, 1e-4, 2), noise(5.5, 0.3, 3)])
    assert_is(pick(voice, fan), voice)


def test_a_steady_sound_is_heard_when_no_channel_varies() -> None:
    tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(2 * RATE) / RATE)
    assert_is(pick(noise(2, 1e-4), tone), tone)


def test_a_speaker_who_changes_the_microphone_is_followed() -> None:
    first = np.concatenate([speech(4), silence(6)]) + noise(10, 1e-4, 1)
    second = np.concatenate([silence(4), speech(6)]) + noise(10, 1e-4, 2)
    picked = pick(first, second)
    assert np.array_equal(picked[: 4 * RATE], first[: 4 * RATE].astype(np.float32))
    assert np.array_equal(picked[-2 * RATE :], second[-2 * RATE :].astype(np.float32))
