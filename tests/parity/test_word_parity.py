"""Word times and subtitles against openai-whisper's; `make_word_goldens.py` says how the expected ones were made."""

import json
from functools import cache

import numpy as np
import pytest

import engine
from engine.subtitles import SubtitleLayout
from engine.transcript import Segment, Transcript, Word
from engine.weights import Dimensions
from engine.writers import render

from . import recipes

GOLDENS = json.loads((recipes.GOLDENS / "words.json").read_text("utf-8"))
CASES = [(model, case) for model, cases in GOLDENS["transcripts"].items() for case in cases]
NEAR_S = 0.04
SHARE = 0.99


@cache
def model_of(name):
    return engine.load_model(name)


@cache
def transcript(name, case):
    golden = GOLDENS["transcripts"][name][case]
    options = engine.TranscribeOptions(temperatures=(0.0,), word_timestamps=True, vad=False, **golden["options"])
    return model_of(name).transcribe(clip(golden["clip"]), options)


def clip(name):
    if name == "noise":
        return recipes.uniform(14, 5 * recipes.RATE) * np.float32(0.03)
    return recipes.long_clip() if name == "long" else recipes.speech(name)


def distances(found, expected):
    """How far apart each of two spans' starts and ends are, in seconds."""
    return np.abs(np.array(found) - np.array(expected)).max(axis=1)


@pytest.mark.parametrize(("name", "case"), CASES)
def test_segments(name, case):
    found, expected = transcript(name, case), GOLDENS["transcripts"][name][case]
    assert found.language == expected["language"]
    assert [list(s.tokens) for s in found.segments] == [s["tokens"] for s in expected["segments"]]
    assert [s.seek for s in found.segments] == [s["seek"] for s in expected["segments"]]
    spans = [(s.start, s.end) for s in found.segments]
    assert (distances(spans, [(s["start"], s["end"]) for s in expected["segments"]]) <= NEAR_S + 1e-6).all()


@pytest.mark.parametrize(("name", "case"), CASES)
def test_words(name, case):
    for found, expected in zip(
        transcript(name, case).segments, GOLDENS["transcripts"][name][case]["segments"], strict=True
    ):
        assert [w.word for w in found.words] == [w[0] for w in expected["words"]]
        probabilities = [w.probability for w in found.words]
        assert probabilities == pytest.approx([w[3] for w in expected["words"]], abs=2e-3)


def test_times_of_words():
    apart = []
    for name, case in CASES:
        found = [(w.start, w.end) for s in transcript(name, case).segments for w in s.words]
        expected = [w[1:3] for s in GOLDENS["transcripts"][name][case]["segments"] for w in s["words"]]
        apart += distances(found, expected).tolist()
    assert len(apart) > 400
    assert np.mean(np.array(apart) <= NEAR_S + 1e-6) >= SHARE


def test_noise_is_skipped_only_if_asked_for():
    """The two cases differ, so that the rule is seen at work."""
    spans = [[(s.start, s.end) for s in transcript("tiny.en", case).segments] for case in ("noise", "noise, skipped")]
    assert spans[0] != spans[1]


@pytest.mark.parametrize("name", [name for name in GOLDENS["alignment_heads"] if name != "large-v1"])
def test_alignment_heads(name):
    """Large-v1 has the dimensions of large-v2 and is left out: by them alone, the two cannot be told apart."""
    golden = GOLDENS["alignment_heads"][name]
    layers, heads = golden["text_layers"], golden["text_heads"]
    new = name in ("large-v3", "large-v3-turbo")
    dimensions = Dimensions(
        n_mels=128 if new else 80,
        n_audio_ctx=1500,
        n_audio_state=64 * heads,
        n_audio_head=heads,
        n_audio_layer=32 if new else layers,
        n_vocab=51_864 if name.endswith(".en") else 51_865 + new,
        n_text_ctx=448,
        n_text_state=64 * heads,
        n_text_head=heads,
        n_text_layer=layers,
    )
    assert sorted(map(list, dimensions.default_alignment_heads())) == sorted(golden["pairs"])


def test_subtitles():
    """The writers on openai-whisper's own words."""
    golden = GOLDENS["subtitles"]
    segments = tuple(
        Segment(
            i,
            s["seek"],
            s["start"],
            s["end"],
            "".join(w[0] for w in s["words"]),
            tuple(s["tokens"]),
            *[0.0] * 4,
            tuple(Word(start, end, word, probability) for word, start, end, probability in s["words"]),
        )
        for i, s in enumerate(GOLDENS["transcripts"][golden["model"]][golden["case"]]["segments"])
    )
    said = Transcript("".join(s.text for s in segments), "en", segments, 12.0)
    assert len(golden["files"]) >= 8
    for file in golden["files"]:
        layout = SubtitleLayout(**file["layout"])
        assert {format: render(said, format, layout) for format in ("srt", "vtt")} == {
            format: file[format] for format in ("srt", "vtt")
        }
