"""Where nobody speaks there is no text, whatever was promised; where somebody does, however quietly, it stays."""

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.audio import read
from engine.session import Session

DATA = Path(__file__).parent.parent / "data"
RATE = 16_000
PROMISES = [
    {},
    {"initial_prompt": "The meeting with Anna Kowalska about the budget of Sottovoce begins."},
    {"hotwords": "Sottovoce, Kowalska, Thursday"},
]


def sounds():
    """Four seconds each of what rooms sound like, made from formulas."""
    n = 4 * RATE
    random = np.random.default_rng(3)
    time = np.arange(n) / RATE
    white = random.standard_normal(n)
    rumble = np.cumsum(white) / 400
    breath = np.convolve(white, np.ones(8) / 8, mode="same") * np.clip(np.sin(2 * np.pi * 0.35 * time), 0, None) ** 2
    keys = np.convolve(random.random(n) < 6 / RATE, np.exp(-np.arange(400) / 60) * random.standard_normal(400))[:n]
    music = sum(np.sin(2 * np.pi * f * time) * np.exp(-(time % 0.5) * 5) for f in (262, 330, 392, 523))
    hum = sum(np.sin(2 * np.pi * 50 * k * time) / k for k in range(1, 9))
    return {
        "silence": np.zeros(n),
        "hiss": white * 0.03,
        "hum": hum * 0.1,
        "rumble": rumble - rumble.mean(),
        "breath": breath * 0.1,
        "keys": keys * 0.3,
        "music": music * 0.1,
    }


@pytest.fixture(scope="module")
def model():
    return engine.load_model("tiny.en")


@pytest.mark.parametrize("kind", sounds())
def test_no_voice_no_text(model, kind):
    samples = sounds()[kind].astype(np.float32)
    for promise in PROMISES:
        assert model.transcribe(samples, engine.TranscribeOptions(**promise)).text == "", promise


def test_the_model_alone_would_have_made_something_up(model):
    """So the test above is one: with nobody listening for voices, promised words do appear."""
    options = engine.TranscribeOptions(vad=False, temperatures=(0.0,), **PROMISES[1])
    assert any(model.transcribe(samples.astype(np.float32), options).text for samples in sounds().values())


def test_nothing_is_said_live_either(model):
    session = Session(model, engine.TranscribeOptions(**PROMISES[2]))
    for block in np.split(sounds()["hiss"].astype(np.float32), 4):
        session.push(block)
        update = session.step()
        assert update is None or update.committed + update.partial == ""
    assert session.finish().text == ""


@pytest.mark.parametrize("gain_db", [0, -20, -35])
def test_a_quiet_thank_you_survives(model, gain_db):
    samples = read(DATA / "thank_you.flac") * np.float32(10 ** (gain_db / 20))
    assert model.transcribe(samples).text.strip(" .!").lower() == "thank you"


def test_an_intended_repetition_is_kept(model):
    text = model.transcribe(DATA / "no_no_no.flac").text
    assert "".join(c for c in text.lower() if c.isalpha() or c == " ").split() == ["no"] * 5
