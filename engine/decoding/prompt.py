"""What the decoder reads before it writes: what was said before, where the transcript starts, and how it begins.

Layout: [start-of-previous, hotwords, initial prompt if carried, previous text,] start-of-transcript [, language, task]
[, no-timestamps] [, first timestamp, prefix]. Source: openai-whisper, and faster-whisper for hotwords and prefix; what
precedes the transcript is capped as a whole, so that half of the context is always left for the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.options import TranscribeOptions
from engine.tokenizer import Tokenizer


@dataclass(frozen=True)
class Prompt:
    """Tokens to read, and where among them start-of-transcript stands."""

    tokens: tuple[int, ...]
    sot_index: int
    begun: tuple[int, ...] = ()  # the last of the tokens, where they begin the text itself: a timestamp and the prefix


def build_prompt(
    tokenizer: Tokenizer,
    options: TranscribeOptions,
    language: str,
    previous: Sequence[int] = (),
    *,
    first: bool = False,
    n_text_ctx: int = 448,
) -> Prompt:
    """The prompt of one window; `previous`: tokens of what was said before, `first`: whether nothing was.

    The newest of what was said before is kept where there is too much; hotwords and a carried initial prompt are cut
    at their end.
    """
    room = n_text_ctx // 2 - 1
    prefix = words(tokenizer, options.prefix)[:room] if first else []
    head = words(tokenizer, options.hotwords)[:room] if options.hotwords and not prefix else []
    if options.carry_initial_prompt:
        head += words(tokenizer, options.initial_prompt)[: room - len(head)]
    tail = list(previous)[max(0, len(previous) - (room - len(head))) :] if len(head) < room else []
    before = [tokenizer.sot_prev, *head, *tail] if head or tail else []
    start = tokenizer.sot_sequence(language, options.task)
    if options.without_timestamps:
        start.append(tokenizer.no_timestamps)
    elif prefix:
        prefix = [tokenizer.timestamp_begin, *prefix]
    return Prompt((*before, *start, *prefix), len(before), tuple(prefix))


def words(tokenizer: Tokenizer, text: str) -> list[int]:
    """Tokens of `text` as it stands inside a sentence, with a space before it; none for a blank text."""
    return tokenizer.encode(" " + text.strip()) if text.strip() else []
