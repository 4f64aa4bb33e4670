"""The rules for the next token, each on a case worked out by hand."""

import numpy as np
import pytest

from engine import catalogue
from engine.decoding.filters import TokenFilter
from engine.formats.ctranslate2 import read_ranks
from engine.options import TranscribeOptions
from engine.tokenizer import Tokenizer

HELLO = 18435


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(read_ranks(catalogue.find("tiny.en").vocabulary), 51864)


def allowed(tokenizer, sampled, likely=HELLO, **options):
    """Tokens that may follow `sampled` when `likely` is by far the likeliest."""
    logits = np.zeros(tokenizer.n_vocab, np.float32)
    logits[likely] = 50
    TokenFilter(tokenizer, TranscribeOptions(**options)).apply(logits, sampled)
    return set(np.flatnonzero(np.isfinite(logits)).tolist())


def languages(tokenizer):
    """Their tokens, which openai-whisper does not forbid and no model ever chooses."""
    return set(range(tokenizer.sot + 1, tokenizer.sot + 1 + tokenizer.n_languages))


def test_first_token_is_an_early_timestamp(tokenizer):
    begin = tokenizer.timestamp_begin
    assert allowed(tokenizer, []) == set(range(begin, begin + 51))
    assert allowed(tokenizer, [], max_initial_timestamp=None) == set(range(begin, begin + 1501))


def test_text_follows_the_first_timestamp(tokenizer):
    may = allowed(tokenizer, [tokenizer.timestamp_begin])
    assert max(may - languages(tokenizer)) <= tokenizer.eot
    assert HELLO in may
    assert not may & set(tokenizer.non_speech)


def test_an_end_is_followed_by_a_start_not_earlier_or_the_end_of_text(tokenizer):
    begin, eot = tokenizer.timestamp_begin, tokenizer.eot
    sampled = [begin, HELLO, begin + 40]
    assert allowed(tokenizer, sampled, likely=eot) - languages(tokenizer) == {eot, *range(begin + 40, begin + 1501)}


def test_a_prefix_counts_as_said(tokenizer):
    begin = tokenizer.timestamp_begin
    logits = np.zeros(tokenizer.n_vocab, np.float32)
    logits[HELLO] = 50
    TokenFilter(tokenizer, TranscribeOptions(), begun=[begin, HELLO]).apply(logits, [])
    may = set(np.flatnonzero(np.isfinite(logits)).tolist())
    assert {HELLO, tokenizer.eot, begin + 1, begin + 1500} <= may
    assert begin not in may


def test_a_segment_is_never_empty(tokenizer):
    begin = tokenizer.timestamp_begin
    sampled = [begin, HELLO, begin + 40, begin + 40, HELLO]
    may = allowed(tokenizer, sampled)
    assert {t for t in may if t >= begin} == set(range(begin + 41, begin + 1501))


def test_many_fair_timestamps_outweigh_one_good_word(tokenizer):
    begin = tokenizer.timestamp_begin
    logits = np.full(tokenizer.n_vocab, -30, np.float32)
    logits[HELLO] = 2.0
    logits[begin + 100 : begin + 200] = 0.0  # together e**4.6 against e**2
    TokenFilter(tokenizer, TranscribeOptions()).apply(logits, [begin, HELLO])
    assert not np.isfinite(logits[:begin]).any()


def test_without_timestamps(tokenizer):
    may = allowed(tokenizer, [], without_timestamps=True)
    assert not may & {*tokenizer.blank, *tokenizer.non_speech, tokenizer.sot, tokenizer.no_speech}
    assert tokenizer.eot in allowed(tokenizer, [HELLO], without_timestamps=True)
    assert set(tokenizer.non_speech) - {tokenizer.eot} <= allowed(
        tokenizer, [HELLO], without_timestamps=True, suppress_tokens=()
    )
