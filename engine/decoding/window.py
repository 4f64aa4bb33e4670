"""Decodes a window of audio once, greedily, by beams or by sampling, and tells how sure the model was of it."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.decoding.filters import TokenFilter
from engine.decoding.prompt import Prompt
from engine.decoding.search import Hypothesis, Search, draw, likeliest, softmax
from engine.model import Decoder
from engine.options import TranscribeOptions
from engine.tokenizer import Tokenizer


@dataclass(frozen=True)
class WindowResult:
    """What one window was decoded to; the figures are explained at engine.transcript.Segment."""

    tokens: tuple[int, ...]  # text and timestamps, without a prefix and end-of-text
    text: str
    avg_logprob: float
    no_speech_prob: float
    temperature: float
    compression_ratio: float


def compression_ratio(text: str) -> float:
    """UTF-8 bytes of `text` over bytes of their zlib compression."""
    raw = text.encode()
    return len(raw) / len(zlib.compress(raw))


class WindowDecoder:
    """Decodes the audio that one Decoder holds, as often as needed; its prompt is read once."""

    def __init__(
        self,
        decoder: Decoder,
        tokenizer: Tokenizer,
        options: TranscribeOptions,
        prompt: Prompt,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Read the prompt; `cancelled` is asked before each token, and a true answer raises CancelledError."""
        self._tokenizer, self._options = tokenizer, options
        self._before = prompt.begun[:1]  # the timestamp of a text whose first words are in the prompt
        hidden = decoder.read(prompt.tokens)
        # Whether there is speech at all is asked where the transcript starts, not where its text does.
        at_sot, at_end = decoder.logits(hidden[[prompt.sot_index, -1]])
        self._no_speech_prob = float(softmax(at_sot)[tokenizer.no_speech])
        token_filter = TokenFilter(tokenizer, options, prompt.begun)
        self._search = Search(decoder, at_end, token_filter, tokenizer.eot, cancelled)

    def decode(self, temperature: float, random: np.random.Generator) -> WindowResult:
        """Decode greedily, or by beams, at temperature 0; above, draw `best_of` samples and keep the likeliest."""
        options = self._options
        if temperature > 0:
            found = self._search.draw(temperature, options.best_of, random)
        elif options.beam_size is None:
            found = self._search.draw(0, 1, random)
        else:
            found = self._search.beams(options.beam_size, options.patience)
        best = likeliest(found, options.length_penalty)
        return _result(best, self._tokenizer, self._no_speech_prob, temperature, self._before)


def decode_together(
    decoder: Decoder,
    tokenizer: Tokenizer,
    options: TranscribeOptions,
    prompt: Prompt,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[WindowResult]:
    """Decode all windows of `decoder`, which share `prompt`, greedily and at once: what WindowDecoder gives each."""
    hidden = decoder.read(prompt.tokens)
    n = len(prompt.tokens)
    no_speech = [float(softmax(row)[tokenizer.no_speech]) for row in decoder.logits(hidden[prompt.sot_index :: n])]
    first_logits = decoder.logits(hidden[n - 1 :: n])
    greedy = np.random.default_rng(0)
    found = draw(decoder, first_logits, TokenFilter(tokenizer, options), tokenizer.eot, 0, greedy, cancelled)
    return [_result(text, tokenizer, share, 0.0) for text, share in zip(found, no_speech, strict=True)]


def _result(
    hypothesis: Hypothesis,
    tokenizer: Tokenizer,
    no_speech_prob: float,
    temperature: float,
    before: tuple[int, ...] = (),
) -> WindowResult:
    text = tokenizer.decode(hypothesis.tokens).strip()
    return WindowResult(
        tokens=(*before, *hypothesis.tokens),
        text=text,
        avg_logprob=hypothesis.logprob / (len(hypothesis.tokens) + 1),
        no_speech_prob=no_speech_prob,
        temperature=temperature,
        compression_ratio=compression_ratio(text),
    )
