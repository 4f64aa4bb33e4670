"""Several windows side by side: each gets what it would get alone, and the whole is whole and in order."""

from pathlib import Path

import numpy as np
import pytest

import engine
from engine.audio import read
from engine.decoding.prompt import build_prompt
from engine.decoding.window import WindowDecoder, decode_together
from engine.model import Decoder

DATA = Path(__file__).parent.parent / "data"
CLIPS = [read(DATA / name) for name in ("note_shopping.flac", "question_chain.flac")]
PAUSE = np.zeros(32_000, np.float32)
SPOKEN = ["shopping", "list", "pints", "milk", "dozen", "eggs", "coming", "tonight", "driving"]
TIMES, PERIOD_S = 3, 30  # the text of a window that said it twice would be taken for a loop


@pytest.fixture(scope="module")
def model():
    return engine.load_model("tiny.en")


@pytest.fixture(scope="module")
def recording():
    """Both clips with a pause between, and again every 30 s."""
    once = np.concatenate([CLIPS[0], PAUSE, CLIPS[1]])
    return np.tile(np.pad(once, (0, PERIOD_S * 16_000 - len(once))), TIMES)


def words(text):
    return "".join(c.lower() if c.isalnum() else " " for c in text).split()


def test_windows_side_by_side_have_the_tokens_that_each_has_alone(model):
    options = engine.TranscribeOptions()
    prompt = build_prompt(model.tokenizer, options, "en")
    features = [model.encode(model.log_mel(clip)) for clip in CLIPS]
    together = decode_together(Decoder(model.network, *features), model.tokenizer, options, prompt)
    for heard, found in zip(features, together, strict=True):
        window = WindowDecoder(Decoder(model.network, heard), model.tokenizer, options, prompt)
        alone = window.decode(0, np.random.default_rng(0))
        assert found.tokens == alone.tokens
        assert found.avg_logprob == pytest.approx(alone.avg_logprob, abs=1e-4)
        assert found.no_speech_prob == pytest.approx(alone.no_speech_prob, abs=1e-4)


@pytest.mark.parametrize("batch_size", [2, 16])
def test_all_is_there_and_in_order(model, recording, batch_size):
    progress = []
    transcript = model.transcribe(
        recording,
        engine.TranscribeOptions(batch_size=batch_size),
        on_progress=lambda done, total: progress.append((done, total)),
    )
    found = words(transcript.text)
    assert {word: found.count(word) for word in SPOKEN} == dict.fromkeys(SPOKEN, TIMES)
    starts = [s.start for s in transcript.segments]
    assert starts == sorted(starts)
    assert [s.id for s in transcript.segments] == list(range(len(starts)))
    assert transcript.gaps == ()
    assert [done for done, _ in progress] == sorted(done for done, _ in progress)
    assert progress[-1] == pytest.approx((len(recording) / 16_000,) * 2)


def test_word_times_and_clips(model, recording):
    start, stop = PERIOD_S, PERIOD_S + 12.0  # the second time
    options = engine.TranscribeOptions(batch_size=4, word_timestamps=True, clip_timestamps=(start, stop))
    timed = [word for s in model.transcribe(recording, options).segments for word in s.words]
    assert words("".join(word.word for word in timed))[:2] == SPOKEN[:2]
    assert all(start - 0.1 <= word.start <= word.end <= stop + 0.1 for word in timed)


def test_cancelling_ends_it(model, recording):
    asked = iter(range(200))
    with pytest.raises(engine.CancelledError):
        model.transcribe(recording, engine.TranscribeOptions(batch_size=4), cancel=lambda: next(asked) >= 150)
