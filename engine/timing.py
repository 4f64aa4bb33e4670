"""Word times: each token's place in the audio, by dynamic time warping over the decoder's alignment heads.

Some heads of the decoder's cross-attention look at the audio that the next token stands for. Their attention, averaged,
is a map of tokens by time, and the best path through it that never goes back says when each token begins. A window's
words then have their times mended where the map is known to be vague: at pauses.
Source: openai-whisper's word timestamps. Runs on the engine's thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from engine.mel import FRAMES_PER_SECOND
from engine.model import Decoder
from engine.options import TranscribeOptions
from engine.tokenizer import Tokenizer
from engine.transcript import Segment, Word

FRAMES_PER_POSITION = 2  # the encoder gives half as many positions as it takes frames
POSITIONS_PER_SECOND = FRAMES_PER_SECOND // FRAMES_PER_POSITION
_FILTER_WIDTH = 7  # positions
_SENTENCE_MARKS = ".。!！?？"
_LONGEST_MEDIAN_S = 0.7
_SEGMENT_TOLERANCE_S = 0.5  # how far a word may reach beyond its segment's own timestamps


@dataclass(frozen=True)
class TimedWord:
    """A word as it is aligned: seconds count from the start of the window."""

    word: str
    first_token: int  # index of its first token in the window's text
    start: float
    end: float
    probability: float


def add_words(
    segments: Sequence[Segment],
    decoder: Decoder,
    tokenizer: Tokenizer,
    options: TranscribeOptions,
    *,
    language: str,
    frames: int,
    last_speech: float,
) -> list[Segment]:
    """The segments of one window with their words, and with the times of these.

    `decoder` has the window's audio, of which the first `frames` frames count, and is read anew; `last_speech`: when
    the speech before the window ended, in seconds from the start of the recording.
    """
    texts = [[token for token in segment.tokens if token < tokenizer.eot] for segment in segments]
    text = [token for tokens in texts for token in tokens]
    words = align(decoder, tokenizer, text, language=language, task=options.task, frames=frames)
    median = median_duration(words)
    if median > 0:
        words = clip_at_sentence_marks(words, 2 * median)
    words = merge_punctuation(words, options.prepend_punctuations, options.append_punctuations)
    timed: list[Segment] = []
    first = 0
    for segment, tokens in zip(segments, texts, strict=True):
        last = first + len(tokens)
        own = [word for word in words if first <= word.first_token < last]
        timed.append(fit(segment, own, median, last_speech))
        last_speech = timed[-1].end if own else last_speech
        first = last
    return timed


def speech_end(segments: Sequence[Segment]) -> float:
    """When the last word of one or more segments ends, or the last segment if they have no words."""
    return next((s.words[-1].end for s in reversed(segments) if s.words), segments[-1].end)


def align(
    decoder: Decoder, tokenizer: Tokenizer, text: Sequence[int], *, language: str, task: str, frames: int
) -> list[TimedWord]:
    """The words of the text tokens `text`, without gaps between them, as the window in `decoder` has them.

    The window has sound in its first `frames` frames.
    """
    if not text:
        return []
    start = tokenizer.sot_sequence(language, task)
    decoder.rewind()
    heads = decoder.network.alignment_heads
    hidden, scores = decoder.read_scored([*start, tokenizer.no_timestamps, *text, tokenizer.eot], heads)
    predictors = slice(len(start), -1)  # a token's row attends to what is said next
    positions = max(1, frames // FRAMES_PER_POSITION)
    attention = attention_map(scores[:, :, :positions])[predictors]
    times = decoder.network.ops.dtw(-attention) / POSITIONS_PER_SECOND  # when each token begins, and the last one ends
    logits = decoder.logits(hidden[predictors][:-1])[:, : tokenizer.eot]
    probabilities = _softmax(logits)[np.arange(len(text)), list(text)]
    words: list[TimedWord] = []
    first = 0
    for word, tokens in tokenizer.split_to_word_tokens(text, language):
        last = first + len(tokens)
        probability = float(probabilities[first:last].mean(dtype=np.float64))
        words.append(TimedWord(word, first, float(times[first]), float(times[last]), probability))
        first = last
    return words


def attention_map(scores: np.ndarray) -> np.ndarray:
    """How much each of n tokens stands out at each of m positions [n, m], of scores [heads, n, m] before the softmax.

    What a head gives to a position is measured against what it gives there for the other tokens, and smoothed over
    time; then the heads are averaged.
    """
    total = np.zeros(scores.shape[1:], np.float32)
    for head in scores:
        weights = _softmax(head)
        deviation = weights.std(axis=0)
        deviation[deviation == 0] = 1  # a position that all tokens see alike tells nothing
        total += median_filter((weights - weights.mean(axis=0)) / deviation)
    total /= len(scores)
    return total


def median_filter(rows: np.ndarray) -> np.ndarray:
    """The median of each 7 neighbouring columns of [n, m], mirrored at its ends; 3 and fewer are left alone."""
    reach = _FILTER_WIDTH // 2
    if rows.shape[1] <= reach:
        return rows
    padded = np.pad(rows, ((0, 0), (reach, reach)), mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, _FILTER_WIDTH, axis=1)
    medians: np.ndarray = np.partition(windows, reach, axis=2)[:, :, reach]
    return medians


def median_duration(words: Sequence[TimedWord]) -> float:
    """How long a word of the window takes, in seconds: the median of those that take any time, 0.7 s at most."""
    durations = [word.end - word.start for word in words if word.end != word.start]
    return min(_LONGEST_MEDIAN_S, float(np.median(durations))) if durations else 0.0


def clip_at_sentence_marks(words: Sequence[TimedWord], longest: float) -> list[TimedWord]:
    """Words of which no sentence mark and no word behind one takes more than `longest` seconds: the rest is pause."""
    clipped = list(words[:1])
    for before, word in pairwise(words):
        if word.end - word.start > longest:
            if word.word in _SENTENCE_MARKS:
                word = replace(word, end=word.start + longest)
            elif before.word in _SENTENCE_MARKS:
                word = replace(word, start=word.end - longest)
        clipped.append(word)
    return clipped


def merge_punctuation(words: Sequence[TimedWord], prepended: str, appended: str) -> list[TimedWord]:
    """Words with the punctuation around them as parts of them; a mark's own time is forgotten."""
    rest: list[TimedWord] = []  # from the last one on
    for word in reversed(words):
        if rest and word.word.startswith(" ") and word.word.strip() in prepended:
            rest[-1] = replace(rest[-1], word=word.word + rest[-1].word, first_token=word.first_token)
        else:
            rest.append(word)
    merged: list[TimedWord] = []
    for word in reversed(rest):
        if merged and not merged[-1].word.endswith(" ") and word.word in appended:
            merged[-1] = replace(merged[-1], word=merged[-1].word + word.word)
        else:
            merged.append(word)
    return [word for word in merged if word.word]


def fit(segment: Segment, timed: Sequence[TimedWord], median: float, last_speech: float) -> Segment:
    """The segment with its words, and with its times brought together with theirs.

    `median`: how long a word takes; `last_speech`: when the speech before the segment ended.
    """
    if not timed:
        return segment
    offset = segment.seek / FRAMES_PER_SECOND
    words = [Word(round(offset + t.start, 2), round(offset + t.end, 2), t.word, t.probability) for t in timed]
    words[:2] = _after_pause(words[:2], median, last_speech)
    first = words[0]
    start, end = first.start, segment.end
    # The segment's own timestamps are rough, but right where a word is far outside of them.
    if segment.start < first.end and segment.start - _SEGMENT_TOLERANCE_S > first.start:
        start = segment.start
        words[0] = replace(first, start=max(0.0, min(first.end - median, start)))
    last = words[-1]
    if end > last.start and end + _SEGMENT_TOLERANCE_S < last.end:
        words[-1] = replace(last, end=max(last.start + median, end))
    else:
        end = last.end
    tidy = [replace(w, start=round(w.start, 3), end=round(w.end, 3)) for w in words]
    return replace(segment, start=round(start, 3), end=round(end, 3), words=tuple(tidy))


def _after_pause(words: Sequence[Word], median: float, last_speech: float) -> list[Word]:
    """The first one or two words of a segment, without the pause before them if they have it in them."""
    first, *rest = words
    longest = 2 * median
    long = first.end - first.start > longest or (bool(rest) and rest[0].end - first.start > 2 * longest)
    if first.end - last_speech <= 4 * median or not long:
        return list(words)
    if rest and rest[0].end - rest[0].start > longest:
        boundary = max(rest[0].end / 2, rest[0].end - longest)
        first, rest = replace(first, end=boundary), [replace(rest[0], start=boundary)]
    return [replace(first, start=max(0.0, first.end - longest)), *rest]


def _softmax(rows: np.ndarray) -> np.ndarray:
    """Probabilities of each row [n, m] of scores."""
    e: np.ndarray = np.exp(rows - rows.max(axis=1, keepdims=True))
    e /= e.sum(axis=1, keepdims=True)
    return e
