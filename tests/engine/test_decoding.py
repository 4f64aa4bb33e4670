"""Prompts, searches and the judgement of results, on small cases worked out by hand and on the embedded model."""

from pathlib import Path

import numpy as np
import pytest

import engine
from engine import catalogue
from engine.decoding.fallback import decode_with_fallback
from engine.decoding.filters import TokenFilter
from engine.decoding.prompt import build_prompt
from engine.decoding.search import Hypothesis, choose, likeliest
from engine.decoding.window import WindowResult, compression_ratio
from engine.formats.ctranslate2 import read_ranks
from engine.options import TranscribeOptions
from engine.tokenizer import Tokenizer

ROOT = Path(__file__).parent.parent.parent
SAMPLE = ROOT / "resources" / "sample.flac"


@pytest.fixture(scope="module")
def english():
    return Tokenizer(read_ranks(catalogue.find("tiny.en").vocabulary), 51864)


@pytest.fixture(scope="module")
def multilingual():
    return Tokenizer(read_ranks(catalogue.find("base").vocabulary), 51865)


@pytest.fixture(scope="module")
def model():
    return engine.load_model("tiny.en")


def test_prompt_of_a_first_window_is_the_start_alone(english, multilingual):
    assert build_prompt(english, TranscribeOptions(), "en").tokens == (english.sot,)
    german = build_prompt(multilingual, TranscribeOptions(task="translate", without_timestamps=True), "de")
    assert german.tokens == (50258, 50261, 50358, 50363)
    assert german.sot_index == 0


def test_what_was_said_before_is_capped_at_its_newest_half_context(english):
    prompt = build_prompt(english, TranscribeOptions(), "en", range(1000))
    assert prompt.tokens == (english.sot_prev, *range(1000 - 223, 1000), english.sot)
    assert prompt.tokens[prompt.sot_index] == english.sot


def test_hotwords_and_a_carried_prompt_come_first_and_share_the_cap(english):
    options = TranscribeOptions(hotwords="Sottovoce", initial_prompt="Hello.", carry_initial_prompt=True)
    prompt = build_prompt(english, options, "en", range(1000))
    head = [*english.encode(" Sottovoce"), *english.encode(" Hello.")]
    assert list(prompt.tokens[1 : 1 + len(head)]) == head
    assert len(prompt.tokens) == 1 + 223 + 1
    assert prompt.tokens[-2] == 999
    long = build_prompt(english, TranscribeOptions(hotwords="word " * 500), "en", range(1000))
    assert len(long.tokens) == 1 + 223 + 1


def test_a_prefix_begins_the_first_window_only_and_replaces_hotwords(english):
    options = TranscribeOptions(prefix="Hello", hotwords="Sottovoce")
    hello = english.encode(" Hello")
    assert build_prompt(english, options, "en", first=True).tokens == (english.sot, english.timestamp_begin, *hello)
    later = build_prompt(english, options, "en").tokens
    assert later == (english.sot_prev, *english.encode(" Sottovoce"), english.sot)


def test_ranking_by_length():
    short, long = Hypothesis((1,), -1.0), Hypothesis((1, 2, 3, 4), -2.0)
    assert likeliest([short, long], None) is long  # -1 and -0.5 a token
    assert likeliest([short, long], 0.0) is short  # -1 and -2 in all
    assert likeliest([short, long], 1.0) is short  # -1 / 1 and -2 / 1.5
    assert likeliest([Hypothesis((), -3.0), short], None) is short


def test_drawing_follows_the_distribution():
    logits = np.log(np.array([0.7, 0.2, 0.1, 0.0], np.float32) + 1e-30)
    random = np.random.default_rng(1)
    drawn = np.bincount([choose(logits, 1.0, random) for _ in range(4000)], minlength=4) / 4000
    np.testing.assert_allclose(drawn, [0.7, 0.2, 0.1, 0.0], atol=0.03)
    assert choose(logits, 0, random) == 0
    assert choose(np.full(3, -np.inf, np.float32), 0.5, random) is None


def test_repetition_penalty_and_ngrams(english):
    logits = np.zeros(english.n_vocab, np.float32)
    logits[[100, 200]] = 4, -4
    options = TranscribeOptions(without_timestamps=True, repetition_penalty=2.0)
    TokenFilter(english, options).apply(logits, [100, 200])
    assert (logits[100], logits[200], logits[300]) == (2, -8, 0)
    logits = np.zeros(english.n_vocab, np.float32)
    TokenFilter(english, TranscribeOptions(without_timestamps=True, no_repeat_ngram_size=3)).apply(
        logits, [100, 200, 300, 100, 200]
    )
    assert np.flatnonzero(np.isneginf(logits)).tolist().count(300) == 1
    assert np.isfinite(logits[[100, 200, 400]]).all()


@pytest.mark.parametrize(
    ("results", "kept"),
    [
        ([(0.0, "fine", -0.3, 0.1)], 0.0),
        ([(0.0, "no " * 200, -0.1, 0.1), (0.2, "better", -0.5, 0.1)], 0.2),  # the first goes round in circles
        ([(0.0, "unsure", -1.5, 0.1), (0.2, "sure", -0.9, 0.1)], 0.2),
        ([(0.0, "you", -1.5, 0.9)], 0.0),  # silence needs no second try
        # All fail: the likeliest of those that do not repeat themselves.
        ([(0.0, "no " * 200, -0.1, 0.1), (0.2, "a", -1.9, 0.1), (0.4, "b", -1.2, 0.1)], 0.4),
    ],
)
def test_fallback(results, kept):
    class Window:
        """Answers as a window would at each temperature."""

        def decode(self, temperature, random):
            _, text, avg_logprob, no_speech_prob = next(r for r in results if r[0] == temperature)
            return WindowResult((), text, avg_logprob, no_speech_prob, temperature, compression_ratio(text))

    options = TranscribeOptions(temperatures=tuple(r[0] for r in results))
    assert decode_with_fallback(Window(), options).temperature == kept


def test_a_beam_of_one_is_greedy_and_wider_beams_are_no_less_likely(model):
    greedy, one, five = (
        model.transcribe(SAMPLE, TranscribeOptions(beam_size=size, temperatures=(0,))) for size in (None, 1, 5)
    )
    assert [s.tokens for s in one.segments] == [s.tokens for s in greedy.segments]
    assert five.segments[0].avg_logprob >= greedy.segments[0].avg_logprob - 1e-4
    assert "translations are almost done" in five.text


def test_samples_are_the_same_each_time(model):
    options = TranscribeOptions(temperatures=(0.6,), best_of=3)
    first, second = (model.transcribe(SAMPLE, options) for _ in range(2))
    assert first == second
    assert first.segments[0].temperature == 0.6


def test_clips(model):
    options = TranscribeOptions(clip_timestamps=(2.8, 4.8), temperatures=(0,))
    transcript = model.transcribe(SAMPLE, options)
    assert "installer is finished" in transcript.text.lower()
    assert "Monday" not in transcript.text
    assert all(s.start >= 2.8 for s in transcript.segments)
    with pytest.raises(ValueError, match="clip_timestamps"):
        TranscribeOptions(clip_timestamps=(3.0, 1.0))


def test_allowed_languages():
    base = engine.load_model("base")
    options = TranscribeOptions(languages=("de", "fr"))
    transcript = base.transcribe(ROOT / "tests" / "data" / "es_email.flac", options)
    assert transcript.language in ("de", "fr")
