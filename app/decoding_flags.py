"""The flags about how text is searched for, when it is believed and what it is told: openai-whisper's and more.

Names, spellings and defaults are those of openai-whisper's command line, then faster-whisper's. What values may be is
engine.options' to say; its complaints are passed on under the flags' names. Main thread. The engine is imported only
once the flags are read, so that --help answers at once.
"""

import argparse
import logging
import re
from typing import Any

from app.errors import UsageError
from app.flag_values import count, limit, number, or_none, seconds, several, truth

_log = logging.getLogger(__name__)

_LEAST_INCREMENT = 0.01  # of the temperature: more than a hundred attempts at a window help nobody
_TRUTH = "True|False"
_OPTIONS = (  # of engine.TranscribeOptions, under the flags' own names
    "best_of",
    "beam_size",
    "patience",
    "length_penalty",
    "repetition_penalty",
    "no_repeat_ngram_size",
    "suppress_tokens",
    "suppress_blank",
    "compression_ratio_threshold",
    "logprob_threshold",
    "no_speech_threshold",
    "initial_prompt",
    "carry_initial_prompt",
    "condition_on_previous_text",
    "prefix",
    "hotwords",
    "clip_timestamps",
    "without_timestamps",
    "max_initial_timestamp",
    "vad",
    "batch_size",
)


def describe(command: argparse.ArgumentParser) -> None:
    """Add the flags, in groups."""
    _describe_context(command)
    _describe_search(command)
    _describe_doubt(command)
    _describe_times(command)


def describe_words(command: argparse.ArgumentParser) -> Any:
    """Add the group of those flags that tell the engine which words to expect, and return it."""
    group = command.add_argument_group("what to expect")
    group.add_argument("--initial-prompt", default="", metavar="TEXT", help="text that counts as said before the start")
    group.add_argument("--hotwords", default="", metavar="TEXT", help="names and terms to expect at any time")
    return group


def describe_ignored(command: argparse.ArgumentParser) -> None:
    """Add the group of those flags that are taken and change nothing."""
    add = command.add_argument_group("taken so that scripts for openai-whisper run").add_argument
    add("--device", type=_device, metavar="cpu", help="there is no other")
    add("--fp16", type=truth, metavar=_TRUTH, help="changes nothing")


def _describe_context(command: argparse.ArgumentParser) -> None:
    add = describe_words(command).add_argument
    carry = "repeat the initial prompt before each window of 30 s (default: False)"
    add("--carry-initial-prompt", type=truth, default=False, metavar=_TRUTH, help=carry)
    condition = "let the text so far be the prompt of the next window (default: True)"
    add("--condition-on-previous-text", type=truth, default=True, metavar=_TRUTH, help=condition)
    add("--prefix", default="", metavar="TEXT", help="how the first window's text begins; it is not repeated")


def _describe_search(command: argparse.ArgumentParser) -> None:
    add = command.add_argument_group("how text is searched for").add_argument
    temperature = "0 takes the likeliest text, more draws at random (default: 0)"
    add("--temperature", type=number, default=0.0, metavar="T", help=temperature)
    beams = "texts that are followed at once at temperature 0; None or 1 is quicker (default: 5)"
    add("--beam-size", type=or_none(limit), default=5, metavar="N", help=beams)
    patience = "how many texts must end before the search does, over the beam size (default: 1)"
    add("--patience", type=or_none(number), metavar="X", help=patience)
    best = "texts that are drawn at temperatures above 0 (default: 5)"
    add("--best-of", type=or_none(limit), default=5, metavar="N", help=best)
    length = "0 to 1: how much long texts are made up for their length (default: None, by the mean of their tokens)"
    add("--length-penalty", type=or_none(number), metavar="X", help=length)
    repetition = "above 1: words that came before are less likely (default: 1)"
    add("--repetition-penalty", type=number, default=1.0, metavar="X", help=repetition)
    ngram = "a run of so many tokens comes but once in a window; 0 allows all (default: 0)"
    add("--no-repeat-ngram-size", type=count, default=0, metavar="N", help=ngram)
    batch = "windows decoded at once, greedily: quicker for long files, but none knows the text before it (default: 1)"
    add("--batch-size", type=limit, default=1, metavar="N", help=batch)
    suppress = "numbers of tokens that never come, as 11,13; -1 is brackets, notes and the like (default: -1)"
    add("--suppress-tokens", type=_tokens, default=(-1,), metavar="LIST", help=suppress)
    blank = "let no text begin with a blank or be empty from the start (default: True)"
    add("--suppress-blank", type=truth, default=True, metavar=_TRUTH, help=blank)


def _describe_doubt(command: argparse.ArgumentParser) -> None:
    may = "Each number may be None, which never doubts."
    add = command.add_argument_group("when text is not believed", may).add_argument
    increment = "a window that failed is tried again that much hotter, up to 1 (default: 0.2)"
    add("--temperature-increment-on-fallback", type=or_none(_increment), default=0.2, metavar="T", help=increment)
    compression = "text that compresses better than that goes round in circles: failed (default: 2.4)"
    add("--compression-ratio-threshold", type=or_none(number), default=2.4, metavar="X", help=compression)
    logprob = "text with a lower mean log probability: failed (default: -1.0)"
    add("--logprob-threshold", type=or_none(number), default=-1.0, metavar="X", help=logprob)
    vad = "listen for voices: no text where there are none, and no voice without text (default: True)"
    add("--vad", type=truth, default=True, metavar=_TRUTH, help=vad)
    silence = "likelier silent than that, and of a low probability: it is silence (default: 0.6)"
    add("--no-speech-threshold", type=or_none(number), default=0.6, metavar="P", help=silence)


def _describe_times(command: argparse.ArgumentParser) -> None:
    add = command.add_argument_group("which part, and when").add_argument
    clips = "seconds start,end,start,end,... of what is transcribed; the last end may be left out (default: 0, all)"
    add("--clip-timestamps", type=_clips, default=(0.0,), metavar="LIST", help=clips)
    without = "decode text alone, a segment for each window of 30 s (default: False)"
    add("--without-timestamps", type=truth, default=False, metavar=_TRUTH, help=without)
    initial = "the latest start of a window's first segment, or None (default: 1.0)"
    add("--max-initial-timestamp", type=or_none(seconds), default=1.0, metavar="SECONDS", help=initial)


def decoding_options(choices: argparse.Namespace) -> dict[str, Any]:
    """What was typed as arguments of engine.TranscribeOptions; UsageError where it does not go together.

    Logs a warning for a flag that has no effect.
    """
    if choices.patience is not None and choices.beam_size is None:
        raise UsageError("--patience requires --beam-size")
    if choices.carry_initial_prompt and not choices.initial_prompt:
        _log.warning("--carry-initial-prompt has no effect without --initial-prompt")
    options = {name: getattr(choices, name) for name in _OPTIONS}
    for name, meant in {"best_of": 1, "patience": 1.0}.items():  # by None, as openai-whisper has it
        options[name] = meant if options[name] is None else options[name]
    increment = choices.temperature_increment_on_fallback
    return {"temperatures": _temperatures(choices.temperature, increment), **options}


def as_flags(complaint: str) -> str:
    """What engine.TranscribeOptions complains of, with the flags' names for its own."""
    complaint = complaint.replace("temperatures", "temperature")
    return re.sub(
        rf"\b({'|'.join((*_OPTIONS, 'temperature'))})\b", lambda name: "--" + name[0].replace("_", "-"), complaint
    )


def _temperatures(first: float, increment: float | None) -> tuple[float, ...]:
    """`first` and, with an increment, every step from there up to 1."""
    if increment is None or not 0 <= first <= 1:
        return (first,)
    steps = int((1 + 1e-6 - first) / increment)
    return tuple(round(first + step * increment, 6) for step in range(steps + 1))


def _increment(typed: str) -> float:
    value = number(typed)
    if value < _LEAST_INCREMENT:
        raise argparse.ArgumentTypeError(f"must be {_LEAST_INCREMENT} or more, or None, not {typed!r}")
    return value


def _tokens(typed: str) -> tuple[int, ...]:
    """As -1 or 11,13; an empty text is none."""
    try:
        return tuple(int(part) for part in typed.split(",")) if typed.strip() not in ("", "None") else ()
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be numbers of tokens with commas between, not {typed!r}") from None


def _clips(typed: str) -> tuple[float, ...]:
    """As 0 or 0,5,10; an empty text is the whole."""
    return several(seconds)(typed) if typed.strip() else (0.0,)


def _device(typed: str) -> str:
    if typed != "cpu":
        raise argparse.ArgumentTypeError(f"must be cpu, the only one that is used, not {typed!r}")
    return typed
