"""The flags of `sottovoce transcribe` about word times and subtitles: openai-whisper's, with its defaults and rules.

Main thread. The engine is imported only once the flags are read, so that --help answers at once.
"""

import argparse
import logging
from typing import TYPE_CHECKING, Any

from app.errors import UsageError
from app.flag_values import limit, or_none, seconds, truth

if TYPE_CHECKING:
    from engine.subtitles import SubtitleLayout

_log = logging.getLogger(__name__)

_OF_SUBTITLES = ("highlight_words", "max_line_width", "max_line_count", "max_words_per_line")
_NEED_WORDS = (*_OF_SUBTITLES, "hallucination_silence_threshold")


def describe(command: argparse.ArgumentParser) -> None:
    """Add the flags to a command."""
    add = command.add_argument_group("word times and subtitles").add_argument
    needs = "needs --word-timestamps True"
    words = "find out when each word is said; json has it, and srt and vtt take their times from it (default: False)"
    add("--word-timestamps", type=truth, default=False, metavar="True|False", help=words)
    add("--prepend-punctuations", metavar="MARKS", help="marks that belong to the word behind them, as ¿ does")
    add("--append-punctuations", metavar="MARKS", help="marks that belong to the word before them, as ! does")
    highlight = f"underline each word while it is said, in srt and vtt; {needs} (default: False)"
    add("--highlight-words", type=truth, default=False, metavar="True|False", help=highlight)
    add("--max-line-width", type=or_none(limit), metavar="N", help=f"characters of a line in srt and vtt; {needs}")
    count = f"lines of a subtitle, which then runs on over segments; {needs} and --max-line-width"
    add("--max-line-count", type=or_none(limit), metavar="N", help=count)
    add("--max-words-per-line", type=or_none(limit), metavar="N", help=f"words of a subtitle within a segment; {needs}")
    threshold = f"drop words that look made up where so many seconds around them are silent; {needs}"
    add("--hallucination-silence-threshold", type=or_none(seconds), metavar="SECONDS", help=threshold)


def word_options(choices: argparse.Namespace) -> dict[str, Any]:
    """What was typed as arguments of engine.TranscribeOptions; UsageError where it does not go together.

    Logs a warning for a flag that has no effect.
    """
    if not choices.word_timestamps:
        for name in _NEED_WORDS:
            if getattr(choices, name) not in (None, False):
                raise UsageError(f"--{name.replace('_', '-')} requires --word-timestamps True")
    if choices.max_line_count is not None and choices.max_line_width is None:
        _log.warning("--max-line-count has no effect without --max-line-width")
    if None not in (choices.max_words_per_line, choices.max_line_width, choices.max_line_count):
        _log.warning("--max-words-per-line has no effect with --max-line-width and --max-line-count")
    if choices.word_timestamps and choices.task == "translate":
        _log.warning("word times of a translation may be far off")
    names = ("word_timestamps", "prepend_punctuations", "append_punctuations", "hallucination_silence_threshold")
    return {name: getattr(choices, name) for name in names if getattr(choices, name) is not None}


def subtitle_layout(choices: argparse.Namespace) -> "SubtitleLayout":
    """How subtitles are to look."""
    from engine.subtitles import SubtitleLayout

    return SubtitleLayout(**{name: getattr(choices, name) for name in _OF_SUBTITLES})
