"""Decodes one window of audio once, greedily, by beams or by sampling, and tells how sure the model was of it."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.decoding.filters import TokenFilter
from engine.decoding.prompt import Prompt
from engine.decoding.search import Hypothesis, Search, likeliest, softmax
from engine.model import Decoder
from engine.options import TranscribeOptions
from engine.tokenizer import Tokenizer


@dataclass(frozen=True)
class WindowResult:
    """What one window was decoded to; the figures are explained at engine.transcript.Segment."""

    tokens: tuple[int, ...]  # text and timestamps, without end-of-text
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
        hidden = decoder.read(prompt.tokens)
        # Whether there is speech at all is asked where the transcript starts, not where its text does.
        at_sot, at_end = decoder.logits(hidden[[prompt.sot_index, -1]])
        self._no_speech_prob = float(softmax(at_sot)[tokenizer.no_speech])
        self._search = Search(decoder, at_end, TokenFilter(tokenizer, options), tokenizer.eot, cancelled)

    def decode(self, temperature: float, random: np.random.Generator) -> WindowResult:
        """Decode greedily, or by beams, at temperature 0; above, draw `best_of` samples and keep the likeliest."""
        options = self._options
        if temperature > 0:
            found = self._search.draw(temperature, options.best_of, random)
        elif options.beam_size is None:
            found = self._search.draw(0, 1, random)
        else:
            found = self._search.beams(options.beam_size, options.patience)
        return self._result(likeliest(found, options.length_penalty), temperature)

    def _result(self, hypothesis: Hypothesis, temperature: float) -> WindowResult:
        text = self._tokenizer.decode(hypothesis.tokens).strip()
        return WindowResult(
            tokens=hypothesis.tokens,
            text=text,
            avg_logprob=hypothesis.logprob / (len(hypothesis.tokens) + 1),
            no_speech_prob=self._no_speech_prob,
            temperature=temperature,
            compression_ratio=compression_ratio(text),
        )
