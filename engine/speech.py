"""What voice activity says about a stretch of audio: whether anybody is heard, where, and what makes good windows.

Pure rules over the probabilities of engine.voice, one each 32 ms. Measured on the kinds of sound that Whisper makes up
text for (keys, breath, rain, music, hum and the like): no probability above 0.67, and never more than 0.13 s above one
half; on speech down to -47 dBFS or in noise as loud as itself: one above 0.8 at least.
"""

from collections.abc import Sequence

import numpy as np

from engine.transcript import Span
from engine.voice import CHUNK_S

SURE, LIKELY, POSSIBLE = 0.8, 0.5, 0.35
_LEAST_HEARD_S = 0.25  # so much that is likely counts as one sure chunk
_SHORTEST_PAUSE_S = 0.16  # less silence is part of speech
_PAD_S = 0.4  # on both sides of speech: consonants are quieter than what the network takes for a voice


def is_heard(probabilities: np.ndarray) -> bool:
    """Whether somebody speaks somewhere within the chunks of these probabilities [n]."""
    return bool((probabilities >= SURE).any()) or voiced_s(probabilities) >= _LEAST_HEARD_S


def voiced_s(probabilities: np.ndarray) -> float:
    """How many seconds of the chunks of these probabilities [n] are likely speech."""
    return float(np.count_nonzero(probabilities >= LIKELY)) * CHUNK_S


def spoken_spans(probabilities: np.ndarray, duration_s: float) -> list[Span]:
    """Where somebody speaks, generously: padded, in order, without overlap, within 0 and `duration_s`."""
    spans: list[Span] = []
    start: int | None = None
    last = 0  # the last chunk that was possible speech
    pause = round(_SHORTEST_PAUSE_S / CHUNK_S)
    for i, probability in enumerate([*probabilities.tolist(), *[0.0] * (pause + 1)]):
        if start is None:
            if probability >= LIKELY:
                start = last = i
        elif probability >= POSSIBLE:
            last = i
        elif i - last > pause:
            spans = _with(spans, Span(max(0.0, start * CHUNK_S - _PAD_S), (last + 1) * CHUNK_S + _PAD_S))
            start = None
    return [Span(span.start, min(span.end, duration_s)) for span in spans]


def _with(spans: Sequence[Span], new: Span) -> list[Span]:
    """`spans` and a later one, which may run into the last of them."""
    if spans and new.start <= spans[-1].end:
        return [*spans[:-1], Span(spans[-1].start, new.end)]
    return [*spans, new]


def windows(spans: Sequence[Span], probabilities: np.ndarray, longest_s: float) -> list[Span]:
    """As few stretches as hold all spans, each at most `longest_s`: neighbours share one, with the pause between them.

    A span that is longer is cut where speech is least likely, in the last third of what fits.
    """
    found: list[Span] = []
    for span in spans:
        start = span.start
        if found and span.end - found[-1].start <= longest_s:
            start = found.pop().start
        while span.end - start > longest_s:
            cut = _quietest(probabilities, start + longest_s * 2 / 3, start + longest_s)
            found.append(Span(start, cut))
            start = cut
        found.append(Span(start, span.end))
    return found


def _quietest(probabilities: np.ndarray, start_s: float, stop_s: float) -> float:
    """The time within start and stop around which speech is least likely for a tenth of a second or more."""
    first, stop = int(start_s / CHUNK_S), int(stop_s / CHUNK_S)
    smooth = np.convolve(probabilities, np.full(5, 0.2, np.float32), mode="same")[first:stop]
    return (first + int(smooth.argmin()) + 0.5) * CHUNK_S
