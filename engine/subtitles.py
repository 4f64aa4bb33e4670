"""Words into subtitles: which ones stand together, on which lines, and when each subtitle is shown. Pure.

Source: openai-whisper's subtitle writer, whose options these are.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from engine.transcript import Segment, Word

_LONG_PAUSE_S = 3.0  # ends a subtitle that may run on over segments


@dataclass(frozen=True)
class SubtitleLayout:
    """How the words of a transcript are spread over subtitles; anything but the default needs word times.

    Segments stay apart, unless both a width and a count are given: then text runs on up to a long pause.
    """

    highlight_words: bool = False  # underline each word while it is said
    max_line_width: int | None = None  # characters
    max_line_count: int | None = None  # lines of a subtitle, where there is a width to make them
    max_words_per_line: int | None = None  # words of a subtitle, where segments stay apart

    def __post_init__(self) -> None:
        """Raises ValueError for a limit below 1."""
        for limit in (self.max_line_width, self.max_line_count, self.max_words_per_line):
            if limit is not None and limit < 1:
                raise ValueError(f"a limit of subtitles must be 1 or more, not {limit}")


@dataclass(frozen=True)
class Cue:
    """What is shown from `start` to `end`, in milliseconds: words with the spaces and newlines before them."""

    start: int
    end: int
    words: tuple[str, ...]
    highlighted: int | None = None  # index of the word that is being said


def cues(segments: Sequence[Segment], layout: SubtitleLayout) -> Iterator[Cue]:
    """The cues of a transcript: each ends after it starts, and none starts before the one ahead of it.

    A segment without words is shown as a whole.
    """
    earliest = 0
    for words in _subtitles(segments, layout):
        texts = tuple(word.word for word in words)
        start = max(earliest, _milliseconds(words[0].start))
        if not layout.highlight_words:
            yield Cue(start, max(start + 1, _milliseconds(words[-1].end)), texts)
            earliest = start
            continue
        for i, word in enumerate(words):
            said = max(start, _milliseconds(word.start))
            if said > start:
                yield Cue(start, said, texts)
            start = max(said + 1, _milliseconds(word.end))
            yield Cue(said, start, texts, i)
        earliest = start


def _subtitles(segments: Sequence[Segment], layout: SubtitleLayout) -> Iterator[list[Word]]:
    """The words that are shown together; one begins with a newline where its line does."""
    runs_on = layout.max_line_width is not None and layout.max_line_count is not None
    subtitle: list[Word] = []
    lines, length = 1, 0  # of the subtitle, and of its last line
    for group in _groups(segments, layout.max_words_per_line):
        for i, word in enumerate(group):
            pause = runs_on and bool(subtitle) and word.start - subtitle[-1].start > _LONG_PAUSE_S
            breaks = i == 0 and bool(subtitle) and not runs_on
            fits = layout.max_line_width is None or length + len(word.word) <= layout.max_line_width
            if subtitle and fits and not pause and not breaks:
                length += len(word.word)
                subtitle.append(word)
                continue
            text = word.word.strip()
            full = layout.max_line_count is not None and (pause or lines >= layout.max_line_count)
            if subtitle and (full or breaks):
                yield subtitle
                subtitle, lines = [], 1
            elif subtitle:
                lines += 1
            length = len(text)
            subtitle.append(replace(word, word=f"\n{text}" if subtitle else text))
    if subtitle:
        yield subtitle


def _groups(segments: Sequence[Segment], size: int | None) -> Iterator[list[Word]]:
    """The words of each segment, `size` at a time, none blank and each on one line."""
    for segment in segments:
        whole = Word(segment.start, segment.end, segment.text, 1.0)
        spaced = [replace(word, word=re.sub(r"\s+", " ", word.word)) for word in segment.words or (whole,)]
        words = [word for word in spaced if word.word.strip()]
        step = size or len(words) or 1
        for first in range(0, len(words), step):
            yield words[first : first + step]


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
