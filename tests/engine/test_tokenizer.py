"""Both vocabularies against ids printed by openai-whisper's own tokenizer."""

import pytest

from engine import catalogue
from engine.errors import ModelUnsupportedError
from engine.formats.ctranslate2 import read_ranks
from engine.languages import LANGUAGES, language_code
from engine.tokenizer import Tokenizer


def tokenizer_of(name, n_vocab):
    return Tokenizer(read_ranks(catalogue.find(name).vocabulary), n_vocab)


@pytest.fixture(scope="module")
def english():
    return tokenizer_of("tiny.en", 51864)


@pytest.fixture(scope="module")
def multilingual():
    return tokenizer_of("base", 51865)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" Hello world.", [2425, 1002, 13]),
        (" it's 2024, naïve façade", [309, 311, 45237, 11, 1667, 15487, 303, 2050, 1138, 762]),
        (" こんにちは世界", [14384, 3225, 35752, 24486]),
        (" 🙂", [7385, 247, 224]),
        ("  a", [220, 257]),
        ("\n\n x", [198, 198, 2031]),
        (" — “ok”", [3466, 1059, 250, 453, 913, 251]),
    ],
)
def test_multilingual(multilingual, text, expected):
    assert multilingual.encode(text) == expected
    assert multilingual.decode(expected) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" Hello world.", [18435, 995, 13]),
        (" it's 2024, naïve façade", [340, 338, 48609, 11, 41492, 24685, 16175, 671]),
        ("\n\n x", [628, 2124]),
        ("ABC123", [24694, 10163]),
        (" ", [220]),
    ],
)
def test_english(english, text, expected):
    assert english.encode(text) == expected
    assert english.decode(expected) == text


def test_special_tokens_of_each_size(english, multilingual):
    e, m, v3 = english, multilingual, tokenizer_of("base", 51866)
    assert (e.eot, e.sot, e.no_speech, e.no_timestamps, e.timestamp_begin) == (50256, 50257, 50361, 50362, 50363)
    assert (m.eot, m.sot, m.no_speech, m.no_timestamps, m.timestamp_begin) == (50257, 50258, 50362, 50363, 50364)
    assert (v3.eot, v3.transcribe, v3.no_speech, v3.timestamp_begin) == (50257, 50360, 50363, 50365)
    assert e.sot_sequence("en", "transcribe") == [50257]
    assert m.sot_sequence("en", "transcribe") == [50258, 50259, 50359]
    assert m.sot_sequence("de", "translate") == [50258, 50261, 50358]
    assert v3.sot_sequence("yue", "transcribe") == [50258, 50358, 50360]
    with pytest.raises(ValueError, match="yue"):
        m.language_token("yue")


def test_suppressed_symbols(english, multilingual):
    assert len(english.non_speech) == 84
    assert english.non_speech[-3:] == (40549, 47282, 49146)
    assert len(multilingual.non_speech) == 82
    assert multilingual.non_speech[-3:] == (47425, 49870, 50254)
    assert multilingual.blank == (220, 50257)


def test_special_text_is_only_text(multilingual):
    assert multilingual.eot not in multilingual.encode("<|endoftext|>")
    assert multilingual.decode([2425, multilingual.eot, multilingual.timestamp_begin]) == " Hello"
    assert multilingual.decode([247]) == "\ufffd"


def test_timestamps(multilingual):
    assert multilingual.timestamp(multilingual.timestamp_begin + 1500) == pytest.approx(30.0)


def test_a_vocabulary_of_another_model_is_refused(multilingual):
    with pytest.raises(ModelUnsupportedError, match="51000"):
        tokenizer_of("base", 51000)


def test_language_names():
    assert len(LANGUAGES) == 100
    assert list(LANGUAGES)[:4] == ["en", "zh", "de", "es"]
    assert list(LANGUAGES)[-1] == "yue"
    assert language_code(" German ") == "de"
    assert language_code("castilian") == "es"
    assert language_code("haitian creole") == "ht"
    with pytest.raises(ValueError, match="klingon"):
        language_code("klingon")
