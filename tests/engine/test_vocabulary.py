"""Vocabularies in all their forms, sound and wrong; OpenAI's own against that which the embedded model brings."""

import json

import pytest

from engine import catalogue
from engine.errors import ModelFormatError
from engine.formats.vocabulary import openai_ranks, read_ranks

from .model_writers import ENGLISH, MULTILINGUAL, all_tokens, openai_tokens, printable, tokens_of


def ids_of(dimensions):
    return {token: i for i, token in enumerate(all_tokens(dimensions))}


def tokenizer_json(dimensions):
    n = len(tokens_of(dimensions))
    ids = ids_of(dimensions)
    added = [{"id": i, "content": token, "special": True} for token, i in ids.items() if i >= n]
    return {"added_tokens": added, "model": {"type": "BPE", "vocab": {t: i for t, i in ids.items() if i < n}}}


@pytest.mark.parametrize("dimensions", [ENGLISH, MULTILINGUAL], ids=["English", "multilingual"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vocabulary.txt", lambda d: "\n".join(all_tokens(d))),
        ("vocabulary.json", lambda d: json.dumps(all_tokens(d))),
        ("vocab.json", lambda d: json.dumps(ids_of(d))),
        ("tokenizer.json", lambda d: json.dumps(tokenizer_json(d), ensure_ascii=False)),
    ],
)
def test_each_form_gives_the_same_tokens(tmp_path, name, text, dimensions):
    path = tmp_path / name
    path.write_text(text(dimensions), encoding="utf-8")
    assert read_ranks(path) == tokens_of(dimensions)


def test_the_end_of_text_may_be_among_the_added_tokens_only(tmp_path):
    ids = ids_of(ENGLISH)
    end = {"<|endoftext|>": ids.pop("<|endoftext|>")}
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps(ids))
    with pytest.raises(ModelFormatError, match=r"vocab\.json.*<\|endoftext\|>"):
        read_ranks(path)
    (tmp_path / "added_tokens.json").write_text(json.dumps(end))
    assert read_ranks(path) == tokens_of(ENGLISH)


def test_a_token_may_be_called_model(tmp_path):
    """As one is in the English vocabulary; only a tokenizer.json has an object of that name."""
    ids = ids_of(ENGLISH)
    first = printable(tokens_of(ENGLISH)[300])
    ids = {("model" if token == first else token): i for token, i in ids.items()}
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps(ids))
    assert read_ranks(path)[300] == b"model"


def test_the_empty_last_token_may_be_left_out(tmp_path):
    ids = ids_of(MULTILINGUAL)
    del ids[""]
    path = tmp_path / "vocab.json"
    path.write_text(json.dumps(ids))
    assert read_ranks(path) == tokens_of(MULTILINGUAL)


@pytest.mark.parametrize("dimensions", [ENGLISH, MULTILINGUAL], ids=["English", "multilingual"])
def test_openai_vocabularies(dimensions):
    assert openai_ranks(multilingual=dimensions is MULTILINGUAL) == openai_tokens(dimensions)
    if dimensions is ENGLISH:
        assert openai_ranks(multilingual=False) == read_ranks(catalogue.find("tiny.en").vocabulary)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read|not JSON"),
        ("no end of text", "cannot be read"),
        ("a b\n<|endoftext|>", "not in GPT-2's byte alphabet"),
        ("!\n<|endoftext|>", "no token for the byte 0"),
        ('["!", 5, "<|endoftext|>"]', "cannot be read"),
        ('{"model": {}}', "no id"),
        ('{"!": 0, "<|endoftext|>": 1e400}', "no id"),
        ('{"!": 0, "<|endoftext|>": 1000000000}', "no id"),
        ('{"model": {"vocab": 3}, "added_tokens": 7}', "cannot be read"),
        ("[" * 100_000, "not JSON"),
        ("{" * 100_000, "not JSON"),
        ("[" + "[]," * 3_000_000, "larger than"),
        ("\N{LATIN SMALL LETTER E WITH ACUTE}".encode("latin-1"), "cannot be read"),
    ],
)
def test_what_is_no_vocabulary_is_refused(tmp_path, text, words):
    path = tmp_path / "vocabulary"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ModelFormatError, match=words) as caught:
        read_ranks(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("index", "token", "words"),
    [(7, "", "no token 7"), (700, "!", "same token twice"), (33, "zz", "no token for the byte 33")],
)
def test_tokens_with_which_text_cannot_be_written_are_refused(tmp_path, index, token, words):
    tokens = list(all_tokens(ENGLISH))
    if index == 7:  # the byte itself goes elsewhere, so that nothing else is wrong
        tokens[500] = tokens[7]
    tokens[index] = token
    path = tmp_path / "vocabulary.json"
    path.write_text(json.dumps(tokens))
    with pytest.raises(ModelFormatError, match=words):
        read_ranks(path)
