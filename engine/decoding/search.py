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

    def draw(self, temperature: float, count: int, random: np.random.Generator) -> list[Hypothesis]:
        """`count` texts drawn independently at `temperature`; at 0 each token is the likeliest one."""
        logits = self._begin(count)
        return draw(self._decoder, logits, self._filter, self._eot, temperature, random, self._cancelled)

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
            if len(done) >= wanted or not live or _is_full(self._decoder, live):
                break
            logits = _advance(self._decoder, sources, [hypothesis.tokens[-1] for hypothesis in live], self._cancelled)
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


def draw(
    decoder: Decoder,
    logits: np.ndarray,
    token_filter: TokenFilter,
    eot: int,
    temperature: float,
    random: np.random.Generator,
    cancelled: Callable[[], bool],
) -> list[Hypothesis]:
    """One text for each hypothesis of `decoder`, in their order, drawn at `temperature`; 0 takes the likeliest tokens.

    `logits` [hypotheses, n_vocab]: what may follow what they have read; `cancelled` is asked before each token.
    """
    texts = [Hypothesis((), 0.0)] * len(logits)
    live = list(range(len(logits)))  # which text each row of the logits belongs to
    while True:
        going: list[int] = []  # rows that go on
        for row, text in enumerate(live):
            hypothesis, scores = texts[text], logits[row]
            token_filter.apply(scores, hypothesis.tokens)
            token = choose(scores, temperature, random)
            if token is None:  # every token is forbidden: there is nothing left to say
                continue
            logprob = hypothesis.logprob + float(scores[token]) - log_sum_exp(scores)
            ended = token == eot
            texts[text] = Hypothesis(hypothesis.tokens if ended else (*hypothesis.tokens, token), logprob)
            if not ended:
                going.append(row)
        live = [live[row] for row in going]
        if not live or _is_full(decoder, [texts[text] for text in live]):
            return texts
        logits = _advance(decoder, going, [texts[text].tokens[-1] for text in live], cancelled)


def _advance(
    decoder: Decoder, sources: Sequence[int], tokens: Sequence[int], cancelled: Callable[[], bool]
) -> np.ndarray:
    """Logits [hypotheses, n_vocab] behind `tokens`, each continuing the hypothesis that it comes from."""
    if cancelled():
        raise CancelledError
    decoder.keep(sources)
    return decoder.logits(decoder.step(tokens))


def _is_full(decoder: Decoder, live: Sequence[Hypothesis]) -> bool:
    """Whether the texts that go on, all of one length, are as long as they may become."""
    context = decoder.network.dimensions.n_text_ctx
    return len(live[0].tokens) >= context // 2 or decoder.length >= context


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
