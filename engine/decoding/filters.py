"""Which tokens may come next: each filter sets the logits of those that may not to minus infinity.

Source: the suppression and timestamp rules of openai-whisper's decoding.
"""

from collections.abc import Sequence

import numpy as np

from engine.options import TranscribeOptions
from engine.tokenizer import TIMESTAMP_S, Tokenizer

_NEVER = np.float32(-np.inf)


class TokenFilter:
    """The rules for one choice of options; immutable."""

    def __init__(self, tokenizer: Tokenizer, options: TranscribeOptions, begun: Sequence[int] = ()) -> None:
        """Collect the suppressed tokens; `begun`: tokens of the text that the prompt holds already."""
        t = self._tokenizer = tokenizer
        self._begun = tuple(begun)
        self._timestamps = not options.without_timestamps
        self._blank = np.array(t.blank if options.suppress_blank else (), np.intp)
        always = [t.sot, t.translate, t.transcribe, t.sot_lm, t.sot_prev, t.no_speech, t.no_timestamps]
        chosen = [token for token in options.suppress_tokens if token >= 0]
        if -1 in options.suppress_tokens:
            chosen += t.non_speech
        self._always = np.array([*always, *(token for token in chosen if token < t.n_vocab)], np.intp)
        self._repetition_penalty = np.float32(options.repetition_penalty)
        self._ngram = options.no_repeat_ngram_size
        self._last_initial: int | None = None
        if options.max_initial_timestamp is not None:
            self._last_initial = t.timestamp_begin + round(options.max_initial_timestamp / TIMESTAMP_S)

    def apply(self, logits: np.ndarray, sampled: Sequence[int]) -> None:
        """Mask `logits` [n_vocab] in place, given the tokens of this window so far behind those begun with."""
        sampled = (*self._begun, *sampled)
        self._penalise_repetition(logits, sampled)
        if not sampled:
            logits[self._blank] = _NEVER
        logits[self._always] = _NEVER
        if self._timestamps:
            self._apply_timestamp_rules(logits, sampled)

    def _penalise_repetition(self, logits: np.ndarray, sampled: Sequence[int]) -> None:
        """Make text tokens that came before less likely, and forbid those that would repeat an n-gram.

        Source: Keskar et al. 2019 (arXiv 1909.05858) and CTranslate2's decoding options of the same names.
        """
        if self._repetition_penalty != 1:
            seen = [token for token in set(sampled) if token < self._tokenizer.eot]
            scores, penalty = logits[seen], self._repetition_penalty
            logits[seen] = np.where(scores > 0, scores / penalty, scores * penalty)
        n = self._ngram
        if 0 < n <= len(sampled):
            suffix = tuple(sampled[len(sampled) - n + 1 :])
            starts = range(len(sampled) - n + 1)
            logits[[sampled[i + n - 1] for i in starts if tuple(sampled[i : i + n - 1]) == suffix]] = _NEVER

    def _apply_timestamp_rules(self, logits: np.ndarray, sampled: Sequence[int]) -> None:
        begin, eot = self._tokenizer.timestamp_begin, self._tokenizer.eot
        after_timestamp = bool(sampled) and sampled[-1] >= begin
        if after_timestamp:
            # They come in pairs, end and start, but for the first one.
            if len(sampled) < 2 or sampled[-2] >= begin:
                logits[begin:] = _NEVER
            else:
                logits[:eot] = _NEVER
        earlier = [token for token in sampled if token >= begin]
        if earlier:
            # A start may equal the end before it; an end must be later than its start.
            closes = after_timestamp and len(sampled) >= 2 and sampled[-2] < begin
            logits[begin : earlier[-1] + (0 if closes else 1)] = _NEVER
        if not sampled:
            logits[:begin] = _NEVER
            if self._last_initial is not None:
                logits[self._last_initial + 1 :] = _NEVER
        # Some timestamp may be likelier than any one text token though no single one is.
        highest = logits.max()
        if np.isfinite(highest):
            any_timestamp = np.log(np.exp(logits[begin:] - highest).sum(dtype=np.float64) or 1e-300) + highest
            if any_timestamp > logits[:begin].max():
                logits[:begin] = _NEVER
