"""Reads a vocabulary, in whichever of its forms, to the byte strings of the text tokens.

Forms: vocabulary.txt, a token a line, and vocabulary.json, a list of them, of CTranslate2; vocab.json, from token to
id, and tokenizer.json of Hugging Face; OpenAI's own two, which .pt files do not carry and which come with the engine.
"""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.errors import ModelFormatError
from engine.formats.json_files import parse_json, read_bytes
from engine.tokenizer import ranks_from_gpt2_strings

_OPENAI = Path(__file__).resolve().parents[2] / "resources" / "vocabularies"
_LARGEST = 8 << 20
_MOST_TOKENS = 1 << 16
_END = "<|endoftext|>"


def read_ranks(path: Path) -> list[bytes]:
    """Byte strings of the text tokens in a vocabulary file; ModelFormatError if it cannot be read."""
    raw = read_bytes(path, _LARGEST)
    try:
        tokens = _tokens(path, parse_json(path, raw)) if raw[:1] in b"{[" else raw.decode("utf-8").splitlines()
        ranks = ranks_from_gpt2_strings(tokens)
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise ModelFormatError(path, f"the vocabulary cannot be read: {error}") from None
    return check_ranks(path, ranks)


def openai_ranks(*, multilingual: bool) -> list[bytes]:
    """Byte strings of the text tokens of OpenAI's models. Each line is a token in Base64 and its rank.

    The last token of the multilingual ones is empty, and its line begins with the padding of no bytes.
    """
    path = _OPENAI / ("multilingual.tiktoken" if multilingual else "gpt2.tiktoken")
    lines = read_bytes(path, _LARGEST).split(b"\n")
    return check_ranks(path, [base64.b64decode(line.split(b" ")[0]) for line in lines if line])


def check_ranks(path: Path, ranks: list[bytes]) -> list[bytes]:
    """The ranks, if all text can be written and read with them; ModelFormatError if not."""
    if missing := {bytes([byte]) for byte in range(256)}.difference(ranks):
        raise ModelFormatError(path, f"the vocabulary has no token for the byte {min(missing)[0]}")
    if len(set(ranks)) < len(ranks):
        raise ModelFormatError(path, "the vocabulary has the same token twice")
    if b"" in ranks[:-1]:
        raise ModelFormatError(path, f"the vocabulary has no token {ranks.index(b'')}")
    return ranks


def _tokens(path: Path, document: Any) -> Sequence[str]:
    """The tokens in the order of their ids, from any of the JSON forms."""
    if isinstance(document, list):
        return document
    ids, model = document, document.get("model")
    if isinstance(model, dict):  # a tokenizer.json; in a vocab.json, it is a token
        added = {token["content"]: token["id"] for token in document.get("added_tokens", [])}
        ids = {**model.get("vocab", {}), **added}
    elif _END not in ids and (more := path.with_name("added_tokens.json")).is_file():
        ids = {**ids, **parse_json(more, read_bytes(more, _LARGEST))}
    end = ids.get(_END)
    if type(end) is not int or not 0 <= end <= _MOST_TOKENS:
        raise ValueError(f"{_END} has no id from 0 to {_MOST_TOKENS}")
    token_of = {id: token for token, id in ids.items()}
    return [*(token_of.get(id, "") for id in range(end)), _END]
