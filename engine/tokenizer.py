"""Text to tokens and back, on tiktoken, and the ids of the special tokens, all derived from the vocabulary's size.

A model file carries its own vocabulary, so no table of ours can disagree with the weights.
"""

import string
from collections.abc import Iterable, Sequence
from functools import cached_property

import tiktoken

from engine.errors import ModelUnsupportedError
from engine.languages import LANGUAGES

_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"  # GPT-2's pre-tokeniser
_N_TIMESTAMPS = 1501  # 0.00 s to 30.00 s
_TASKS = ("translate", "transcribe")
_SYMBOLS = '"#()*+/:;<=>@[\\]^_`{|}~「」『』'
_COMPOUND_SYMBOLS = "<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪"
UNSPACED_LANGUAGES = ("zh", "ja", "th", "lo", "my", "yue")
TIMESTAMP_S = 0.02  # seconds between neighbouring timestamp tokens


class Tokenizer:
    """The vocabulary of one model; immutable."""

    def __init__(self, ranks: Sequence[bytes], n_vocab: int) -> None:
        """`ranks`: the byte string of every text token in order; `n_vocab`: tokens of the model, special ones included.

        Raises ModelUnsupportedError where the two do not make a Whisper vocabulary.
        """
        self.n_vocab = n_vocab
        self.multilingual = n_vocab >= 51865
        self.eot = len(ranks)
        self.n_languages = n_vocab - self.eot - 2 - len(_TASKS) - 4 - _N_TIMESTAMPS
        if not 1 <= self.n_languages <= len(LANGUAGES):
            raise ModelUnsupportedError(
                f"a vocabulary of {n_vocab} tokens, {len(ranks)} of them text, is not one of Whisper's"
            )
        self.sot = self.eot + 1
        self.translate = self.sot + 1 + self.n_languages
        self.transcribe = self.translate + 1
        self.sot_lm = self.transcribe + 1
        self.sot_prev = self.sot_lm + 1
        self.no_speech = self.sot_prev + 1
        self.no_timestamps = self.no_speech + 1
        self.timestamp_begin = self.no_timestamps + 1
        self.languages = tuple(LANGUAGES)[: self.n_languages]
        self._encoding = tiktoken.Encoding(
            name=f"whisper-{n_vocab}",
            pat_str=_PATTERN,
            mergeable_ranks={token: rank for rank, token in enumerate(ranks)},
            special_tokens={},
        )

    def encode(self, text: str) -> list[int]:
        """Text tokens of `text`; nothing in it is read as a special token."""
        return self._encoding.encode(text, disallowed_special=())

    def decode(self, tokens: Iterable[int]) -> str:
        """Text of the text tokens among `tokens`; bytes that are no UTF-8 become U+FFFD."""
        return self._encoding.decode([t for t in tokens if t < self.eot], errors="replace")

    def split_to_word_tokens(self, tokens: Sequence[int], language: str) -> list[tuple[str, tuple[int, ...]]]:
        """The words of text tokens, each with its tokens; joined, they are the whole text.

        A word begins at a space and at punctuation; in languages that are written without spaces, at each character.
        Source: openai-whisper's rule.
        """
        characters = self._split_between_characters(tokens)
        if language in UNSPACED_LANGUAGES:
            return characters
        words: list[tuple[str, tuple[int, ...]]] = []
        for text, group in characters:
            if not words or text.startswith(" ") or text.strip() in string.punctuation:
                words.append((text, group))
            else:
                words[-1] = (words[-1][0] + text, words[-1][1] + group)
        return words

    def _split_between_characters(self, tokens: Sequence[int]) -> list[tuple[str, tuple[int, ...]]]:
        """The smallest groups of text tokens that cut no character, each with its text."""

        def text(part: bytes) -> str:
            return part.decode(errors="replace")

        pieces = self._encoding.decode_tokens_bytes(list(tokens))
        whole = b"".join(pieces)
        groups: list[tuple[str, tuple[int, ...]]] = []
        first, start, stop = 0, 0, 0  # of the group: its first token, first byte and end
        for i, piece in enumerate(pieces, start=1):
            stop += len(piece)
            if text(whole[:stop]) + text(whole[stop:]) == text(whole):
                groups.append((text(whole[start:stop]), tuple(tokens[first:i])))
                first, start = i, stop
        return groups

    def language_token(self, code: str) -> int:
        """Token of the language with this code; ValueError if the model does not have it."""
        if code not in self.languages:
            raise ValueError(f"this model does not know the language {code!r}")
        return self.sot + 1 + self.languages.index(code)

    def sot_sequence(self, language: str, task: str) -> list[int]:
        """What a decoder's input begins with: start of transcript and, in multilingual models, language and task."""
        if not self.multilingual:
            return [self.sot]
        return [self.sot, self.language_token(language), self.transcribe if task == "transcribe" else self.translate]

    def timestamp(self, token: int) -> float:
        """Seconds from the window's start that a timestamp token stands for."""
        return (token - self.timestamp_begin) * TIMESTAMP_S

    @cached_property
    def blank(self) -> tuple[int, ...]:
        """Tokens that no text may begin with: a lone space and the end."""
        return (*self.encode(" "), self.eot)

    @cached_property
    def non_speech(self) -> tuple[int, ...]:
        """Tokens of symbols that annotate rather than transcribe: brackets, notes, speaker dashes.

        Source: openai-whisper's rule; hyphens and apostrophes stay allowed inside words.
        """
        symbols, notes = [*_SYMBOLS, *_COMPOUND_SYMBOLS.split()], [*"♩♪♫♬♭♮♯"]
        found = {self.encode(" -")[0], self.encode(" '")[0]}
        for symbol in symbols + notes:
            for tokens in (self.encode(symbol), self.encode(" " + symbol)):
                if len(tokens) == 1 or symbol in notes:
                    found.add(tokens[0])
        return tuple(sorted(found))


def ranks_from_gpt2_strings(vocabulary: Sequence[str]) -> list[bytes]:
    """Byte strings of the text tokens of a vocabulary written in GPT-2's printable alphabet, up to end-of-text.

    GPT-2 writes each byte as one printable character: itself where it is one, else the next free one from U+0100 on.
    Raises ValueError where a token holds anything else or end-of-text is missing.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}
    text = vocabulary[: vocabulary.index("<|endoftext|>")]
    try:
        return [bytes(byte_of[character] for character in token) for token in text]
    except KeyError as error:
        raise ValueError(f"character {error} is not in GPT-2's byte alphabet") from None
