"""What may stand behind a flag: small parsers from the text that was typed, as argparse wants them. Main thread."""

import argparse
import math
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def text(typed: str) -> str:
    """Any text but a blank one."""
    if not typed.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return typed


def truth(typed: str) -> bool:
    """True or False, in any case."""
    answers = {"true": True, "false": False}
    if typed.lower() not in answers:
        raise argparse.ArgumentTypeError(f"must be True or False, not {typed!r}")
    return answers[typed.lower()]


def limit(typed: str) -> int:
    """A whole number from 1 up."""
    if not typed.strip().isdecimal() or int(typed) < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {typed!r}")
    return int(typed)


def count(typed: str) -> int:
    """A whole number from 0 up."""
    if not typed.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"must be 0 or more, not {typed!r}")
    return int(typed)


def number(typed: str) -> float:
    """Any number, infinite ones too."""
    try:
        value = float(typed)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise argparse.ArgumentTypeError(f"must be a number, not {typed!r}")
    return value


def seconds(typed: str) -> float:
    """A finite number from 0 up."""
    try:
        value = number(typed)
    except argparse.ArgumentTypeError:
        value = math.inf
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds from 0 up, not {typed!r}")
    return value


def or_none(parse: Callable[[str], T]) -> Callable[[str], T | None]:
    """What `parse` takes, and None, as openai-whisper spells the absence of a value."""
    return lambda typed: None if typed == "None" else parse(typed)


def several(parse: Callable[[str], T]) -> Callable[[str], tuple[T, ...]]:
    """A list of what `parse` takes, with commas between."""
    return lambda typed: tuple(parse(part.strip()) for part in typed.split(","))
