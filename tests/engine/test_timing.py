"""Word times step by step against hand-made expectations, and on real speech whose words stand at known places."""

import dataclasses
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine
from engine import kernels, reference, timing
from engine.audio import read
from engine.catalogue import find
from engine.formats import ctranslate2
from engine.formats.vocabulary import read_ranks
from engine.mel import LogMel
from engine.model import Decoder
from engine.tokenizer import Tokenizer
from engine.transcript import Segment, Word

DATA = Path(__file__).parent.parent / "data"
TIMED = engine.TranscribeOptions(temperatures=(0.0,), word_timestamps=True)


@pytest.fixture(scope="module")
def model():
    return engine.load_model("tiny.en")


@pytest.fixture(scope="module")
def multilingual():
    return Tokenizer(read_ranks(find("base").vocabulary), 51865)


# --- dynamic time warping ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ops", [kernels, reference])
@pytest.mark.parametrize(
    ("cost", "first"),
    [
        ([[0, 9, 9], [9, 0, 9], [9, 9, 0]], [0, 1, 2]),
        ([[0, 0, 9, 9], [9, 9, 0, 0]], [0, 2]),
        ([[5.0]], [0]),
        ([[1, 1, 1, 1]], [0]),
        ([[1], [1], [1]], [0, 0, 0]),  # more rows than columns: they share one
        # All ways cost the same: column by column back to the first, then up.
        ([[0, 0, 0], [0, 0, 0]], [0, 0]),
        # Diagonal and row are equally cheap and the column is dearer: it is taken all the same.
        ([[0, 0], [7, 0]], [0, 0]),
    ],
)
def test_paths_written_out_by_hand(ops, cost, first):
    assert ops.dtw(np.array(cost, np.float32)).tolist() == first


@pytest.mark.parametrize("ops", [kernels, reference])
def test_a_planted_path_is_found(ops):
    random = np.random.default_rng(5)
    first = np.concatenate([[0], np.sort(random.choice(np.arange(1, 80), 29, replace=False))])
    cost = random.uniform(0.5, 1, (30, 80)).astype(np.float32)
    for row, (start, stop) in enumerate(zip(first, [*first[1:], 80], strict=True)):
        cost[row, start:stop] = 0
    assert ops.dtw(cost).tolist() == first.tolist()


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=60, deadline=None)
def test_kernel_and_reference_take_the_same_path(n, m, seed, many_ties):
    random = np.random.default_rng(seed)
    cost = random.integers(0, 3, (n, m)) if many_ties else random.standard_normal((n, m))
    cost = cost.astype(np.float32)
    found = kernels.dtw(cost)
    assert found.tolist() == reference.dtw(cost).tolist()
    assert found[0] == 0
    assert (np.diff(found) >= 0).all()


def test_not_a_number_ends_nowhere_bad():
    for ops in (kernels, reference):
        assert ops.dtw(np.full((3, 4), np.nan, np.float32)).tolist() == [0, 0, 0]


def test_the_kernel_takes_rows_of_a_wider_array():
    wide = np.random.default_rng(1).standard_normal((6, 20)).astype(np.float32)
    assert kernels.dtw(wide[1:5, ::2]).tolist() == reference.dtw(wide[1:5, ::2].copy()).tolist()


# --- the map of tokens by time ----------------------------------------------------------------------------------------


def test_median_filter():
    row = np.array([[3, 0, 9, 1, 7, 2, 8, 5]], np.float32)
    mirrored = [1, 9, 0, 3, 0, 9, 1, 7, 2, 8, 5, 8, 2, 7]
    expected = [sorted(mirrored[i : i + 7])[3] for i in range(8)]
    assert timing.median_filter(row).tolist() == [expected]
    assert timing.median_filter(row[:, :3]).tolist() == [[3, 0, 9]]
    assert timing.median_filter(row[:, :4]).shape == (1, 4)


def test_attention_map_averages_what_stands_out_in_each_head():
    random = np.random.default_rng(3)
    scores = random.standard_normal((2, 5, 40)).astype(np.float32)
    maps = []
    for head in scores.astype(np.float64):
        shares = np.exp(head) / np.exp(head).sum(axis=1, keepdims=True)
        standing_out = (shares - shares.mean(axis=0)) / shares.std(axis=0)
        wide = np.pad(standing_out, ((0, 0), (3, 3)), "reflect")
        maps.append(np.median([wide[:, i : i + 40] for i in range(7)], axis=0))
    np.testing.assert_allclose(timing.attention_map(scores), np.mean(maps, axis=0), atol=1e-5)


def test_a_single_position_tells_nothing_and_is_no_error():
    assert timing.attention_map(np.ones((2, 5, 1), np.float32)).tolist() == [[0]] * 5


def test_scores_are_those_that_attention_uses(model):
    """The read hidden states are the same, and the softmax of the scores, over the values, is the attention itself."""
    features = np.random.default_rng(2).standard_normal((30, 384)).astype(np.float32)
    tokens = [model.tokenizer.sot, *model.tokenizer.encode(" One, two.")]
    plain, scored = (Decoder(model.network, features) for _ in range(2))
    heads = [(layer, head) for layer in range(4) for head in range(6)]
    hidden, scores = scored.read_scored(tokens, heads)
    np.testing.assert_allclose(hidden, plain.read(tokens), atol=1e-5)
    assert scores.shape == (24, len(tokens), 30)
    # The first layer's queries follow from the tokens alone, so they can be computed again from the weights.
    block, cross = model.network.decoder_blocks[0]
    x = model.network.embedding[tokens] + model.network.text_positions[: len(tokens)]
    q, k, v = np.split(model.network.ops.linear(model.network.norm(x, block.attn_ln), block.qkv), 3, axis=1)
    x = model.network.ops.linear(reference.attention(q, k, v, 6, causal=True), block.out, residual=x)
    q = model.network.ops.linear(model.network.norm(x, cross.ln), cross.query)
    k = model.network.ops.linear(features, cross.key)
    expected = [q[:, at : at + 64] @ k[:, at : at + 64].T / 8 for at in range(0, 384, 64)]
    np.testing.assert_allclose(scores[:6], expected, atol=1e-4)


# --- words ------------------------------------------------------------------------------------------------------------


def words_in(tokenizer, text, language="en"):
    return [word for word, _ in tokenizer.split_to_word_tokens(tokenizer.encode(text), language)]


def test_words_begin_at_spaces_and_punctuation(multilingual):
    words = words_in(multilingual, " Don't stop, Anna-Lena! ...and 3.5 (ok)")
    assert words == [" Don't", " stop", ",", " Anna", "-Lena", "!", " ...and", " 3", ".5", " (ok", ")"]
    assert words_in(multilingual, " 🙂 naïve") == [" 🙂", " naïve"]
    assert words_in(multilingual, "") == []


def test_languages_without_spaces_are_cut_at_each_token_that_ends_a_character(multilingual):
    assert words_in(multilingual, "你好，世界🙂。", "zh") == ["你好", "，", "世界", "🙂", "。"]
    assert words_in(multilingual, "你好，世界。", "ko") == ["你好，世界。"]


def test_bytes_that_are_no_character_stand_for_themselves(multilingual):
    tokens = [8404, 871, 287, 6, 246, 526, 3210, 20378]  # 246 is the last byte of some character, alone
    pieces = multilingual.split_to_word_tokens(tokens, "zh")
    assert [text for text, _ in pieces] == [" elle", " est", " l", "'", "\ufffd", "é", "rit", "oire"]
    assert multilingual.split_to_word_tokens(tokens, "fr")[-1] == ("'\ufffdéritoire", (6, 246, 526, 3210, 20378))


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_words_lose_nothing(multilingual, data):
    tokens = data.draw(st.lists(st.integers(0, 50256), max_size=12))
    for language in ("en", "ja"):
        words = multilingual.split_to_word_tokens(tokens, language)
        assert [token for _, group in words for token in group] == tokens
        assert "".join(word for word, _ in words) == multilingual.decode(tokens)


def timed(*words):
    """Words of 0.2 s each, one after the other, or as (word, start, end)."""
    found = []
    for i, word in enumerate(words):
        text, start, end = word if isinstance(word, tuple) else (word, 0.2 * i, 0.2 * (i + 1))
        found.append(timing.TimedWord(text, i, start, end, 0.9))
    return found


@pytest.mark.parametrize(
    ("words", "merged"),
    [
        ([" Hello", ",", " world", "!"], [" Hello,", " world!"]),
        ([" he", " said", ":", ' "', "yes", '"', "."], [" he", " said:", ' "yes".']),
        ([" [", "a", "]", " b"], [" [a]", " b"]),
        ([" ¿", "Qué", "?"], [" ¿Qué?"]),
        ([" -", " x"], [" - x"]),  # a dash belongs to what follows, with all that is between
        ([" one", " ...", " two"], [" one", " ...", " two"]),  # three dots are no mark
        (["。"], ["。"]),
        ([" a", " ("], [" a", " ("]),
        (["", " a"], [" a"]),
    ],
)
def test_punctuation_joins_its_word(words, merged):
    options = engine.TranscribeOptions()
    found = timing.merge_punctuation(timed(*words), options.prepend_punctuations, options.append_punctuations)
    assert [word.word for word in found] == merged


def test_a_merged_word_keeps_its_own_time_and_its_first_mark_s_place():
    (found,) = timing.merge_punctuation(timed(' "', "yes", '"', "."), '"', '".')
    assert (found.word, found.first_token, found.start, found.end) == (' "yes".', 0, 0.2, 0.4)


def test_median_duration():
    assert timing.median_duration(timed((" a", 0, 0.2), (" b", 1, 1), (" c", 1, 1.4))) == pytest.approx(0.3)
    assert timing.median_duration(timed((" a", 0, 5), (" b", 5, 9))) == 0.7
    assert timing.median_duration(timed((" a", 1, 1))) == 0
    assert timing.median_duration([]) == 0


def test_pauses_at_sentence_marks_are_cut_off():
    words = timed((" a", 0, 0.3), (".", 0.3, 3), (" B", 3, 6), (" c", 6, 9), ("!", 9, 9.1))
    found = [(w.start, w.end) for w in timing.clip_at_sentence_marks(words, 0.5)]
    assert found == [(0, 0.3), (0.3, 0.8), (5.5, 6), (6, 9), (9, 9.1)]


# --- words and their segment ------------------------------------------------------------------------------------------


def segment(start, end, seek=0):
    return Segment(0, seek, start, end, " text", (1,), 0.0, -0.2, 1.2, 0.01)


def times(fitted):
    return fitted.start, fitted.end, [(w.start, w.end) for w in fitted.words]


@pytest.mark.parametrize(
    ("bounds", "words", "last_speech", "expected"),
    [
        # The segment takes the times of its words where these are near.
        ((1.0, 2.0), [(1.2, 1.4), (1.4, 2.3)], 1.0, (1.2, 2.3, [(1.2, 1.4), (1.4, 2.3)])),
        # Words that reach more than half a second beyond it are cut to it.
        ((2.0, 3.0), [(1.4, 2.2), (2.2, 3.0)], 1.4, (2.0, 3.0, [(1.9, 2.2), (2.2, 3.0)])),
        ((1.0, 2.0), [(1.0, 1.3), (1.3, 2.6)], 1.0, (1.0, 2.0, [(1.0, 1.3), (1.3, 2.0)])),
        # Not where the segment's own times are outside of the word.
        ((4.0, 5.0), [(1.0, 1.3), (1.3, 1.6)], 1.0, (1.0, 1.6, [(1.0, 1.3), (1.3, 1.6)])),
        # After a pause, the first word is no longer than twice the median, 0.6 s.
        ((1.0, 5.0), [(1.0, 4.0), (4.0, 4.5)], 1.0, (3.4, 4.5, [(3.4, 4.0), (4.0, 4.5)])),
        # The pause is in the second word: it ends the first one too late.
        ((1.0, 5.0), [(1.0, 1.3), (1.3, 5.0)], 0.0, (3.8, 5.0, [(3.8, 4.4), (4.4, 5.0)])),
        # No pause since the last speech: long words are left alone.
        ((4.0, 5.0), [(4.0, 4.9)], 4.0, (4.0, 4.9, [(4.0, 4.9)])),
    ],
)
def test_a_segment_and_its_words_agree(bounds, words, last_speech, expected):
    found = timing.fit(segment(*bounds), timed(*((" x", *w) for w in words)), 0.3, last_speech)
    start, end, spans = times(found)
    assert (start, end) == pytest.approx(expected[:2])
    assert [t for span in spans for t in span] == pytest.approx([t for span in expected[2] for t in span])


def test_times_count_from_the_window_s_seek_and_have_no_rounding_noise():
    found = timing.fit(segment(10.1, 10.5, seek=1003), timed((" x", 0.1, 0.46)), 0.2, 10.0)
    assert times(found) == (10.13, 10.49, [(10.13, 10.49)])


def test_a_segment_without_words_stays_as_it_is():
    assert timing.fit(segment(1.0, 2.0), [], 0.3, 0.0) == segment(1.0, 2.0)


def test_speech_ends_with_the_last_word():
    spoken = dataclasses.replace(segment(0.0, 5.0), words=(Word(0.0, 1.5, " x", 0.9),))
    assert timing.speech_end([spoken, segment(5.0, 6.0)]) == 1.5
    assert timing.speech_end([segment(5.0, 6.0)]) == 6.0


# --- real speech ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shopping(model):
    return model.transcribe(DATA / "note_shopping.flac", TIMED)


def test_words_are_the_text(shopping):
    for found in shopping.segments:
        assert "".join(word.word for word in found.words) == found.text
        assert (found.start, found.end) == (found.words[0].start, found.words[-1].end)
        assert all(0 < word.probability <= 1 for word in found.words)
    words = [word for found in shopping.segments for word in found.words]
    assert [word.word for word in words][:3] == [" Shopping", " list,", " two"]
    assert all(word.start <= word.end for word in words)
    assert all(before.end <= word.start for before, word in pairwise(words))


def test_words_follow_the_sound(model, shopping):
    """What is said half a second later is heard half a second later, in silence that is cut off from the first word."""
    samples = read(DATA / "note_shopping.flac")
    later = model.transcribe(np.concatenate([np.zeros(8000, np.float32), samples]), TIMED)
    ours, theirs = ([w for s in t.segments for w in s.words] for t in (shopping, later))
    assert [w.word for w in ours] == [w.word for w in theirs]
    moved = np.array([(b.start - a.start, b.end - a.end) for a, b in zip(ours, theirs, strict=True)])
    assert np.abs(np.median(moved) - 0.5) < 0.03
    assert (np.abs(moved[1:] - 0.5) <= 0.1).mean() > 0.9


def test_a_pause_is_no_part_of_the_mark_before_it(model):
    parts = [read(DATA / "note_shopping.flac"), np.zeros(40_000, np.float32), read(DATA / "question_chain.flac")]
    transcript = model.transcribe(np.concatenate(parts), dataclasses.replace(TIMED, append_punctuations=""))
    words = [word for s in transcript.segments for word in s.words]
    mark = next(i for i, word in enumerate(words) if word.word == ".")
    assert words[mark - 1].word == " basil"
    assert words[mark + 1].start - words[mark - 1].end > 2
    assert words[mark].end - words[mark].start < 1


def test_kernels_and_reference_give_the_same_times(model):
    mel = LogMel(80)
    mel.push(read(DATA / "question_chain.flac"))
    features = model.encode(mel.window(0))
    files = find("tiny.en")
    plain = engine.Whisper("plain", ctranslate2.read(files.weights, files.vocabulary), reference)
    text = model.tokenizer.encode(" Are you coming tonight? If not, who is driving, and did anyone bring the keys?")
    ours, theirs = (
        timing.align(Decoder(m.network, features), m.tokenizer, text, language="en", task="transcribe", frames=500)
        for m in (model, plain)
    )
    assert [(w.word, w.start, w.end) for w in ours] == [(w.word, w.start, w.end) for w in theirs]
    assert [w.probability for w in ours] == pytest.approx([w.probability for w in theirs], abs=1e-4)


def test_without_timestamp_tokens_words_have_times_too(model, shopping):
    options = dataclasses.replace(TIMED, without_timestamps=True)
    (found,) = model.transcribe(DATA / "note_shopping.flac", options).segments
    assert len(found.words) == sum(len(s.words) for s in shopping.segments)
    assert found.end == pytest.approx(shopping.segments[-1].end, abs=0.2)


def test_no_words_unless_asked_for(model):
    transcript = model.transcribe(DATA / "question_chain.flac", engine.TranscribeOptions(temperatures=(0.0,)))
    assert transcript.segments
    assert not any(s.words for s in transcript.segments)


def test_a_session_has_them_in_its_final_text(model, shopping):
    session = engine.Session(model, TIMED)
    session.push(read(DATA / "note_shopping.flac"))
    session.step()
    assert session.finish().segments == shopping.segments


@pytest.mark.parametrize("n", [0, 1, 160, 320, 1600])
def test_almost_nothing_is_no_error(model, n):
    transcript = model.transcribe(np.full(n, 0.1, np.float32), TIMED)
    assert all(s.start < s.end for s in transcript.segments)


# --- options ----------------------------------------------------------------------------------------------------------


def test_what_needs_word_times_says_so():
    with pytest.raises(ValueError, match="word_timestamps"):
        engine.TranscribeOptions(hallucination_silence_threshold=2.0)
    with pytest.raises(ValueError, match="0 or more"):
        dataclasses.replace(TIMED, hallucination_silence_threshold=float("nan"))
