"""What a library user calls: any form of the same speech gives the same text, languages are told, words are placed."""

import io
from pathlib import Path

import numpy as np
import pytest
import soxr

import engine
from engine.audio import read
from engine.mel import log_mel

DATA = Path(__file__).parents[1] / "data"
SHOPPING, QUESTION = DATA / "note_shopping.flac", DATA / "question_chain.flac"
ONCE = engine.TranscribeOptions(temperatures=(0.0,))
TIMED = engine.TranscribeOptions(temperatures=(0.0,), word_timestamps=True)


@pytest.fixture(scope="module")
def model():
    return engine.load_model("tiny.en")


@pytest.fixture(scope="module")
def base():
    return engine.load_model("base")


@pytest.fixture(scope="module")
def question(model):
    return model.transcribe(read(QUESTION), ONCE)


# --- transcribe -------------------------------------------------------------------------------------------------------

FORMS = {
    "path": lambda speech: (QUESTION, {}),
    "file object": lambda speech: (io.BytesIO(QUESTION.read_bytes()), {}),
    "float64": lambda speech: (speech.astype(np.float64), {}),
    "int16": lambda speech: (np.round(speech * 32768).astype(np.int16), {}),
    "uint8": lambda speech: (np.round(speech * 127 + 128).astype(np.uint8), {}),
    "8 kHz": lambda speech: (soxr.resample(speech, 16_000, 8_000), {"sample_rate": 8_000}),
    "44.1 kHz stereo": lambda speech: (np.stack([soxr.resample(speech, 16_000, 44_100)] * 2), {"sample_rate": 44_100}),
}


def words(text):
    return "".join(c.lower() if c.isalnum() else " " for c in text).split()


@pytest.mark.parametrize("form", FORMS)
def test_the_same_speech_in_any_form_is_the_same_text(model, question, form):
    audio, keywords = FORMS[form](read(QUESTION))
    found = model.transcribe(audio, ONCE, **keywords)
    assert words(found.text) == words(question.text)
    assert words(found.text)[:4] == ["are", "you", "coming", "tonight"]
    assert found.duration_s == pytest.approx(question.duration_s, abs=0.001)


@pytest.mark.parametrize("n", [0, 1, 199, 15_999, 16_000, 16_001, 479_999, 480_000, 480_001])
def test_any_length(model, n):
    samples = np.resize(read(SHOPPING), n) if n else np.zeros(0, np.float32)
    transcript = model.transcribe(samples, ONCE)
    assert transcript.duration_s == n / 16_000
    assert all(0 <= s.start < min(s.end, n / 16_000) for s in transcript.segments)
    assert words(transcript.text).count("basil") == round(n / len(read(SHOPPING)))


def test_broken_samples_cost_only_themselves(model, question):
    broken = read(QUESTION)
    broken[[100, 20_000, 40_000]] = np.nan, np.inf, -np.inf
    assert words(model.transcribe(broken, ONCE).text) == words(question.text)


def test_what_is_no_sound_is_refused(model):
    with pytest.raises(ValueError, match="which axis is time"):
        model.transcribe(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="sample_rate must be"):
        model.transcribe(np.zeros(100), sample_rate=-1)
    with pytest.raises(engine.AudioError, match="file object: not an audio file"):
        model.transcribe(io.BytesIO(b"Dear Sir or Madam, " * 99))


@pytest.mark.parametrize("asked", [0, 1, 700])
def test_a_long_array_is_cancelled_while_it_is_read(model, asked):
    answers = iter([False] * asked + [True])
    with pytest.raises(engine.CancelledError):
        model.transcribe(np.zeros(16_000 * 1000, np.int16), cancel=lambda: next(answers))


# --- languages --------------------------------------------------------------------------------------------------------


def test_languages_are_told_likeliest_first(base):
    chances = base.detect_language(read(DATA / "it_note.flac").astype(np.float64))
    assert next(iter(chances)) == "it"
    assert list(chances.values()) == sorted(chances.values(), reverse=True)
    assert len(chances) == 99
    assert sum(chances.values()) == pytest.approx(1, abs=1e-4)
    few = base.detect_language(io.BytesIO((DATA / "es_email.flac").read_bytes()), ("en", "es", "yue"))
    assert list(few) == ["es", "en"]


def test_an_english_only_model_knows_what_it_hears(model):
    assert model.detect_language(SHOPPING) == {"en": 1.0}
    with pytest.raises(ValueError, match="knows only English"):
        model.transcribe(SHOPPING, engine.TranscribeOptions(languages=("de", "fr")))


def test_languages_that_no_model_has_are_said(base):
    with pytest.raises(ValueError, match="base knows none of the languages yue"):
        base.transcribe(SHOPPING, engine.TranscribeOptions(languages=("yue",)))


# --- features ---------------------------------------------------------------------------------------------------------


def test_a_window_of_any_audio_is_what_the_encoder_takes(model):
    speech = read(SHOPPING)
    mel = model.log_mel(SHOPPING)
    assert (mel.shape, mel.dtype) == ((80, 3000), np.float32)
    np.testing.assert_array_equal(mel[:, len(speech) // 160 :], 0)
    assert model.encode(mel).shape == (1500, 384)
    long = np.resize(speech, 16_000 * 40)
    np.testing.assert_allclose(model.log_mel(long), log_mel(long)[:, :3000], atol=0.01)  # louder later on


# --- align ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clip", [SHOPPING, QUESTION], ids=["shopping", "question"])
def test_a_known_text_has_the_times_that_transcribing_finds(model, clip):
    transcript = model.transcribe(clip, TIMED)
    expected = [word for segment in transcript.segments for word in segment.words]
    found = model.align(read(clip), transcript.text.strip())
    assert [word.word for word in found] == [word.word for word in expected]
    assert [(w.start, w.end) for w in found] == [
        (pytest.approx(w.start, abs=0.04), pytest.approx(w.end, abs=0.04)) for w in expected
    ]
    assert all(0 < word.probability <= 1 for word in found)


def test_a_text_that_the_model_would_not_have_written_is_aligned_too(model):
    expected = [w for s in model.transcribe(QUESTION, TIMED).segments for w in s.words]
    found = model.align(QUESTION, "are you coming  tonight\nif not who's driving and did anyone bring the spare keys")
    assert "".join(w.word for w in found) == (
        " are you coming tonight if not who's driving and did anyone bring the spare keys"
    )
    assert found[-1].start == pytest.approx(expected[-1].start, abs=0.1)
    assert [w.start for w in found] == sorted(w.start for w in found)


def test_other_languages_are_aligned(base):
    text = "Domani mattina devo andare in banca e poi comprare il pane."
    detected = base.align(DATA / "it_note.flac", text)
    assert detected == base.align(DATA / "it_note.flac", text, language="it")
    assert [w.word.strip() for w in detected] == text.split()
    assert detected[-1].end == pytest.approx(3.2, abs=0.4)
    characters = base.align(DATA / "it_note.flac", "我 明天去银行", language="zh")
    assert "".join(w.word for w in characters) == "我 明天去银行"
    assert len(characters) > 3


def test_no_text_has_no_words(model):
    assert model.align(np.zeros(0), " \n") == ()


@pytest.mark.parametrize(
    ("n", "text", "language", "says"),
    [
        (0, "Hello.", None, "there is no audio"),
        (480_160, "Hello.", None, "longer than the 30 s that can be aligned at once"),
        (16_000, "no " * 500, None, "500 tokens, more than the 445 that can be aligned at once"),
        (16_000, "Hallo.", "de", "knows only English"),
    ],
)
def test_what_cannot_be_aligned_is_said(model, n, text, language, says):
    with pytest.raises(ValueError, match=says):
        model.align(np.zeros(n), text, language=language)


def test_thirty_seconds_are_not_too_long(model):
    silence = np.zeros(480_000 - len(read(SHOPPING)))
    words = model.align(np.concatenate([read(SHOPPING), silence]), "Shopping list, two pints of milk.")
    assert len(words) == 6
