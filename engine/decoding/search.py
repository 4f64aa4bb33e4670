"""The searches for the tokens of one window: greedy and sampled draws, and beam search, many hypotheses in one pass.

Source: openai-whisper's decoding. Beam search ends hypotheses and ranks them as there; patience is that of Kasai et al.
2022 (arXiv 2204.05424), the length penalty that of Wu et al. 2016 (arXiv 1609.08144).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.decoding.filters import TokenFilter
from engine.errors import CancelledError
from engine.model import Decoder


@dataclass(frozen=True)
class Hypothesis:
    """A text as tokens without end-of-text, and the sum of their log probabilities, with end-of-text's if it came."""

    tokens: tuple[int, ...]
    logprob: float


class Search:
    """Continues one prompt that a decoder has read; every search begins there anew."""

    def __init__(
        self,
        decoder: Decoder,
        first_logits: np.ndarray,
        token_filter: TokenFilter,
        eot: int,
        cancelled: Callable[[], bool],
    ) -> None:
        """`first_logits` [n_vocab]: what may follow the prompt; `cancelled` is asked before each token."""
        self._decoder, self._first_logits, self._filter = decoder, first_logits, token_filter
        self._eot, self._cancelled = eot, cancelled
        self._start = decoder.length
        self._context = decoder.network.dimensions.n_text_ctx
        self._longest = self._context // 2

    def draw(self, temperature: float, count: int, random: np.random.Generator) -> list[Hypothesis]:
        """`count` texts drawn independently at `temperature`; at 0 each token is the likeliest one."""
        done: list[Hypothesis] = []
        live = [Hypothesis((), 0.0)] * count
        logits = self._begin(count)
        while True:
            going: list[int] = []
            for i, (hypothesis, row) in enumerate(zip(live, logits, strict=True)):
                self._filter.apply(row, hypothesis.tokens)
                token = choose(row, temperature, random)
                if token is None:  # every token is forbidden: there is nothing left to say
                    done.append(hypothesis)
                    continue
                logprob = hypothesis.logprob + float(row[token]) - log_sum_exp(row)
                if token == self._eot:
                    done.append(Hypothesis(hypothesis.tokens, logprob))
                    continue
                live[i] = Hypothesis((*hypothesis.tokens, token), logprob)
                going.append(i)
            live = [live[i] for i in going]
            if not live or self._is_full(len(live[0].tokens)):
                return [*done, *live]
            logits = self._advance(going, [hypothesis.tokens[-1] for hypothesis in live])

    def beams(self, size: int, patience: float) -> list[Hypothesis]:
        """The `size` likeliest texts that the beams reach; `size * patience` must end before the search does."""
        done: dict[tuple[int, ...], float] = {}
        wanted = max(1, round(size * patience))
        live = [Hypothesis((), 0.0)]
        logits = self._begin(1)
        while True:
            sources: list[int] = []
            following: list[Hypothesis] = []
            ended: list[Hypothesis] = []
            for source, candidate, token in self._candidates(live, logits, size + 1):
                if token == self._eot:
                    ended.append(candidate)
                elif len(following) < size:
                    sources.append(source)
                    following.append(Hypothesis((*candidate.tokens, token), candidate.logprob))
                if len(following) == size:
                    break
            for hypothesis in ended:  # likeliest first
                if len(done) < wanted:
                    done[hypothesis.tokens] = hypothesis.logprob
            live = following
            if len(done) >= wanted or not live or self._is_full(len(live[0].tokens)):
                break
            logits = self._advance(sources, [hypothesis.tokens[-1] for hypothesis in live])
        finished = [Hypothesis(tokens, logprob) for tokens, logprob in done.items()]
        return [*finished, *live[: max(0, size - len(finished))]]

    def _candidates(
        self, live: Sequence[Hypothesis], logits: np.ndarray, each: int
    ) -> list[tuple[int, Hypothesis, int]]:
        """The `each` likeliest next tokens of every beam, all beams together, likeliest first.

        A candidate's hypothesis has the new token's probability in its sum, but not yet the token.
        """
        found: list[tuple[int, Hypothesis, int]] = []
        for i, (hypothesis, row) in enumerate(zip(live, logits, strict=True)):
            self._filter.apply(row, hypothesis.tokens)
            if not np.isfinite(row.max()):
                continue
            total = log_sum_exp(row)
            for token in np.argpartition(row, -each)[-each:].tolist():
                if np.isfinite(row[token]):
                    logprob = hypothesis.logprob + float(row[token]) - total
                    found.append((i, Hypothesis(hypothesis.tokens, logprob), token))
        return sorted(found, key=lambda candidate: -candidate[1].logprob)

    def _begin(self, count: int) -> np.ndarray:
        self._decoder.rewind(self._start)
        self._decoder.branch(count)
        return np.tile(self._first_logits, (count, 1))

    def _advance(self, sources: Sequence[int], tokens: Sequence[int]) -> np.ndarray:
        """Logits [hypotheses, n_vocab] behind `tokens`, each continuing the hypothesis that it comes from."""
        if self._cancelled():
            raise CancelledError
        self._decoder.keep(sources)
        return self._decoder.logits(self._decoder.step(tokens))

    def _is_full(self, n_tokens: int) -> bool:
        return n_tokens >= self._longest or self._decoder.length >= self._context


def likeliest(hypotheses: Sequence[Hypothesis], length_penalty: float | None) -> Hypothesis:
    """The best by log probability a token; with a penalty p, over ((5 + tokens) / 6) ** p instead of tokens."""

    def score(hypothesis: Hypothesis) -> float:
        length = len(hypothesis.tokens)
        penalty = max(1, length) if length_penalty is None else ((5 + length) / 6) ** length_penalty
        return hypothesis.logprob / penalty

    return max(hypotheses, key=score)


def choose(logits: np.ndarray, temperature: float, random: np.random.Generator) -> int | None:
    """The likeliest token at temperature 0, else a draw from softmax(logits / temperature); None if none may come."""
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


def log_sum_exp(logits: np.ndarray) -> float:
    """Logarithm of the sum of e**logits [n], of which one at least is finite."""
    highest = float(logits.max())
    return highest + float(np.log(np.exp(logits - highest).sum()))
