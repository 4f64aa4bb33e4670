"""Live text: committed words never change, and the final text is that of the whole recording."""

import itertools
from pathlib import Path

import numpy as np
import pytest

import engine
from engine.audio import read
from engine.session import _agreement

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture(scope="module")
def model():
    return engine.load_model("tiny.en")


def play(session, samples, step):
    updates = []
    for at in range(0, len(samples), step):
        session.push(samples[at : at + step])
        update = session.step()
        if update is not None:
            updates.append(update)
    return updates


@pytest.mark.parametrize("step", [8000, 16_777])
def test_words_appear_while_speaking_and_stay(model, step):
    samples = read(DATA / "note_shopping.flac")
    session = engine.Session(model)
    updates = play(session, samples, step)
    assert updates[0].audio_s <= 1.1
    for earlier, later in itertools.pairwise(updates):
        assert later.committed.startswith(earlier.committed)
        assert later.audio_s > earlier.audio_s
    assert "milk" in updates[-1].committed
    assert session.finish().text == model.transcribe(samples).text


def test_too_little_new_audio_is_not_decoded(model):
    session = engine.Session(model)
    assert session.step() is None
    session.push(read(DATA / "note_shopping.flac")[:16_000])
    assert session.step() is not None
    assert session.step() is None


def test_a_session_longer_than_one_window_keeps_every_sentence(model):
    names = ["data/note_shopping.flac", "../resources/sample.flac", "data/question_chain.flac"]
    samples = np.concatenate([read(DATA.parent / name) for name in names * 2])
    session = engine.Session(model, engine.TranscribeOptions(temperatures=(0,)))
    updates = play(session, samples, 64_000)
    for earlier, later in itertools.pairwise(updates):
        assert later.committed.startswith(earlier.committed)
    shown = (updates[-1].committed + updates[-1].partial).lower()
    final = session.finish()
    for text in (shown, final.text.lower()):
        assert [text.count(word) for word in ("basil", "translations", "tonight")] == [2, 2, 2]
    assert [s.id for s in final.segments] == list(range(len(final.segments)))
    assert [s.start for s in final.segments] == sorted(s.start for s in final.segments)


def test_nothing_said_is_no_text_and_no_error(model):
    assert engine.Session(model).finish().text == ""


def test_agreement_ignores_case_and_punctuation():
    assert _agreement([" Hello,", " team."], [" hello", " team", " quick"]) == 2
    assert _agreement([" a", " b"], [" a", " c"]) == 1
    assert _agreement([" —"], [" -"]) == 0
