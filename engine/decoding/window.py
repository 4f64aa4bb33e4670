"""Decodes one window of audio once, greedily or by sampling, and tells how sure the model was of it."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.decoding.filters import TokenFilter
from engine.errors import CancelledError
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
        language: str,
        prompt: Sequence[int] = (),
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Read the prompt and the start-of-transcript sequence.

        `prompt`: tokens of what was said before, of which the last 223 are used; `cancelled` is asked before each
        token, and a true answer raises CancelledError.
        """
        self._decoder, self._tokenizer, self._cancelled = decoder, tokenizer, cancelled
        self._filter = TokenFilter(tokenizer, options)
        self._best_of = options.best_of
        self._context = decoder.network.dimensions.n_text_ctx
        sot_sequence = tokenizer.sot_sequence(language, options.task)
        if options.without_timestamps:
            sot_sequence.append(tokenizer.no_timestamps)
        kept = list(prompt)[-(self._context // 2 - 1) :]
        start = [tokenizer.sot_prev, *kept] if kept else []
        hidden = decoder.read([*start, *sot_sequence])
        self._start = decoder.length
        # Whether there is speech at all is asked where the transcript starts, not where its text does.
        at_sot, at_end = decoder.logits(hidden[[len(start), -1]])
        self._no_speech_prob = float(softmax(at_sot)[tokenizer.no_speech])
        self._first_logits = at_end

    def decode(self, temperature: float, random: np.random.Generator) -> WindowResult:
        """Decode greedily at temperature 0; above, draw `best_of` samples and keep the likeliest."""
        if temperature == 0:
            return self._result(*self._sample(0, random), temperature)
        samples = [self._sample(temperature, random) for _ in range(self._best_of)]
        best = max(samples, key=lambda sample: sample[1] / max(1, len(sample[0])))
        return self._result(*best, temperature)

    def _sample(self, temperature: float, random: np.random.Generator) -> tuple[list[int], float]:
        """Tokens up to end-of-text, and the sum of their log probabilities with end-of-text's own."""
        decoder, eot = self._decoder, self._tokenizer.eot
        decoder.rewind(self._start)
        logits, total = self._first_logits.copy(), 0.0
        sampled: list[int] = []
        while len(sampled) < self._context // 2:
            if self._cancelled():
                raise CancelledError
            self._filter.apply(logits, sampled)
            token = _choose(logits, temperature, random)
            if token is None:  # every token is forbidden: there is nothing left to say
                break
            total += float(logits[token]) - _log_sum_exp(logits)
            if token == eot:
                break
            sampled.append(token)
            if decoder.length >= self._context:
                break
            logits = decoder.logits(decoder.read([token]))[0]
        return sampled, total

    def _result(self, tokens: list[int], total: float, temperature: float) -> WindowResult:
        text = self._tokenizer.decode(tokens).strip()
        return WindowResult(
            tokens=tuple(tokens),
            text=text,
            avg_logprob=total / (len(tokens) + 1),
            no_speech_prob=self._no_speech_prob,
            temperature=temperature,
            compression_ratio=compression_ratio(text),
        )


def _choose(logits: np.ndarray, temperature: float, random: np.random.Generator) -> int | None:
    best = int(logits.argmax())
    if not np.isfinite(logits[best]):
        return None
    if temperature == 0:
        return best
    cumulative = np.cumsum(softmax(logits / np.float32(temperature)), dtype=np.float64)
    return int(np.searchsorted(cumulative, random.random() * cumulative[-1], side="right"))


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of the logits [n]."""
    e: np.ndarray = np.exp(logits - logits.max())
    e /= e.sum()
    return e


def _log_sum_exp(logits: np.ndarray) -> float:
    highest = float(logits.max())
    return highest + float(np.log(np.exp(logits - highest).sum()))
