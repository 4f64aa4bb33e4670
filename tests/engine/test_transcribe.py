"""Windows into segments, recordings into transcripts, with the embedded model on real speech."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import engine
from engine import reference, segments
from engine.audio import read
from engine.catalogue import find
from engine.formats import ctranslate2
from engine.mel import LogMel
from engine.model import Decoder
from engine.whisper import Whisper

DATA = Path(__file__).parent.parent / "data"
BEGIN = 50363
ONCE = engine.TranscribeOptions(temperatures=(0,))


@pytest.fixture(scope="module")
def model():
    return engine.load_model("tiny.en")


def stamp(seconds):
    return BEGIN + round(seconds * 50)


def words(text):
    return "".join(c.lower() if c.isalnum() else " " for c in text).split()


@pytest.mark.parametrize(
    ("tokens", "expected", "advance"),
    [
        # Two whole segments and the start of a third: the third is left for the next window.
        (
            [stamp(0), 1, 2, stamp(1), stamp(1), 3, stamp(4), stamp(4.5), 4, 5],
            [(0, 100, (1, 2)), (100, 400, (3,))],
            400,
        ),
        # A lone timestamp at the end: nothing follows, the whole window is done.
        ([stamp(0), 1, stamp(1), stamp(1.5), 2, stamp(2)], [(0, 100, (1,)), (150, 200, (2,))], 3000),
        # One segment that was closed, one that was not, and no timestamp at all.
        ([stamp(0), 1, stamp(2)], [(0, 200, (1,))], 3000),
        ([stamp(0), 1], [(0, 3000, (1,))], 3000),
        ([1, 2], [(0, 3000, (1, 2))], 3000),
    ],
)
def test_pieces(tokens, expected, advance):
    pieces, moved = segments._pieces(tokens, BEGIN, 3000)
    found = [(p.start_frames, p.end_frames, tuple(t for t in p.tokens if t < BEGIN)) for p in pieces]
    assert (found, moved) == (expected, advance)


def test_speech_becomes_its_words(model):
    transcript = model.transcribe(DATA / "note_shopping.flac")
    assert words(transcript.text) == words(
        "Shopping list: two pints of milk, a dozen eggs, brown bread, olive oil, and some fresh basil."
    )
    assert transcript.language == "en"
    first, last = transcript.segments[0], transcript.segments[-1]
    assert 0 <= first.start < 1
    assert 4 < last.end <= transcript.duration_s + 0.5
    assert first.temperature == 0
    assert -0.7 < first.avg_logprob < 0
    assert first.no_speech_prob < 0.3


def test_kernels_and_reference_give_the_same_tokens(model):
    samples = read(DATA / "question_chain.flac")
    files = find("tiny.en")
    plain = Whisper("plain", ctranslate2.read(files.weights, files.vocabulary), reference)
    ours, theirs = model.transcribe(samples), plain.transcribe(samples)
    assert [s.tokens for s in ours.segments] == [s.tokens for s in theirs.segments]
    assert ours.segments[0].avg_logprob == pytest.approx(theirs.segments[0].avg_logprob, abs=1e-3)


def test_a_long_recording_is_whole_and_in_order(model):
    clips = [read(DATA / name) for name in ("note_shopping.flac", "question_chain.flac")]
    clips.insert(1, read(DATA.parent.parent / "resources" / "sample.flac"))
    pause = np.zeros(16_000, np.float32)
    samples = np.concatenate([part for clip in clips * 2 for part in (clip, pause)])
    seen = []
    transcript = model.transcribe(samples, ONCE, on_progress=lambda done_s, total_s: seen.append((done_s, total_s)))
    found = words(transcript.text)
    assert [found.count(word) for word in ("basil", "translations", "keys")] == [2, 2, 2]
    starts = [s.start for s in transcript.segments]
    assert starts == sorted(starts)
    assert [s.id for s in transcript.segments] == list(range(len(starts)))
    assert all(s.start < s.end for s in transcript.segments)
    assert seen[-1][0] == seen[-1][1] == pytest.approx(len(samples) / 16_000, abs=0.02)


def test_step_by_step_decoding_equals_one_pass(model):
    mel = LogMel(80)
    mel.push(read(DATA / "question_chain.flac"))
    features = model.encode(mel.window(0))
    tokens = [model.tokenizer.sot, *model.tokenizer.encode(" Are you coming tonight? If not, who is driving?")]
    whole, steps = Decoder(model.network, features), Decoder(model.network, features)
    expected = whole.read(tokens)
    found = np.concatenate([steps.read([token]) for token in tokens])
    np.testing.assert_allclose(found, expected, atol=1e-3)
    steps.rewind(4)
    np.testing.assert_allclose(steps.read(tokens[4:]), expected[4:], atol=1e-3)
    with pytest.raises(ValueError, match="context of 448"):
        steps.read([1] * 448)


@pytest.mark.parametrize("n", [0, 1, 199, 1600])
def test_almost_nothing_is_no_error(model, n):
    transcript = model.transcribe(np.zeros(n, np.float32), ONCE)
    assert transcript.duration_s == pytest.approx(n / 16_000, abs=0.01)


def test_cancelling_ends_it(model):
    with pytest.raises(engine.CancelledError):
        model.transcribe(DATA / "question_chain.flac", cancel=lambda: True)


def test_what_the_model_cannot_do_is_said(model):
    german = engine.TranscribeOptions(language="de")
    with pytest.raises(ValueError, match="only English"):
        model.transcribe(DATA / "question_chain.flac", german)
    with pytest.raises(ValueError, match="klingon"):
        dataclasses.replace(german, language="klingon")
    with pytest.raises(ValueError, match="threads"):
        engine.load_model("tiny.en", threads=0)


def test_other_languages_and_translation():
    base = engine.load_model("base")
    spanish = read(DATA / "es_email.flac")
    transcript = base.transcribe(spanish)
    assert transcript.language == "es"
    assert "reunión" in transcript.text.lower()
    english = base.transcribe(spanish, engine.TranscribeOptions(language="es", task="translate"))
    assert "meeting" in english.text.lower()
    chances = base.detect_language(DATA / "it_note.flac")
    assert next(iter(chances)) == "it"
    assert sum(chances.values()) == pytest.approx(1, abs=1e-4)
