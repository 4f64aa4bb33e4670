"""What the commands show on a terminal besides their results: progress, a live line, warnings and errors.

All of it goes to stderr; results go to stdout and are not written here. Where stderr is no terminal, only warnings
and errors appear. Used from the main thread; warnings may come from any.
"""

import logging
import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

PROGRAM = "sottovoce"
_DIM, _PLAIN, _CLEAR_LINE = "\x1b[2m", "\x1b[0m", "\r\x1b[K"
_BAR = "{desc} {percentage:3.0f}%|{bar}| {elapsed}, {remaining} left"
_NAME_COLUMNS = 24


def shows_progress(quiet: bool) -> bool:
    """Whether somebody is looking: stderr is a terminal, and they did not ask for quiet."""
    return not quiet and _is_terminal()


def complain(message: str) -> None:
    """Say in one line on stderr what went wrong."""
    if sys.stderr is not None:
        start = _CLEAR_LINE if _is_terminal() else ""
        try:
            print(f"{start}{PROGRAM}: {' '.join(message.split())}", file=sys.stderr, flush=True)
        except OSError:  # nobody can be told, but the work goes on
            discard(sys.stderr)


def discard(stream: TextIO | None) -> None:
    """Let what a stream that cannot be written still holds, and all that follows, go nowhere.

    Without it, Python tries again when it ends, fails with a traceback and exits with 120.
    """
    if stream is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextmanager
def warnings_on_stderr(quiet: bool) -> Iterator[None]:
    """Show what the engine and the app log as warnings, one line each; errors only, if `quiet`."""
    handler = _Complainer(logging.ERROR if quiet else logging.WARNING)
    loggers = [logging.getLogger(name) for name in ("engine", "app")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


@contextmanager
def progress(name: str, shown: bool) -> Iterator[Callable[[float, float | None], None]]:
    """A bar that is gone at the end; call what this gives with the work done and, if known, all the work."""
    if not shown:
        yield lambda done, total: None
        return
    from tqdm import tqdm  # here, so that --help does not wait for it

    label = name if width(name) <= _NAME_COLUMNS else "…" + tail(name, _NAME_COLUMNS - 1)
    with tqdm(desc=label, total=1.0, bar_format=_BAR, leave=False, file=sys.stderr, dynamic_ncols=True) as bar:

        def update(done: float, total: float | None) -> None:
            bar.total = total or None
            bar.n = min(done, total) if total else done
            bar.refresh()

        yield update


class LiveLine:
    """One line at the bottom of the terminal that is drawn again and again; gone at the end of a `with`."""

    def __init__(self, shown: bool) -> None:
        """`shown`: if false, nothing is ever drawn."""
        self._shown = shown

    def __enter__(self) -> "LiveLine":
        """Nothing is drawn yet."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Leave an empty line for what follows."""
        if self._shown:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()

    def draw(self, firm: str, faint: str = "") -> None:
        """Show `firm` and, dimmed behind it, `faint`; of a text too long for the line, its end."""
        if not self._shown:
            return
        whole = " ".join(f"{firm}{faint}".split())
        seen = tail(whole, shutil.get_terminal_size().columns - 1)
        split = max(0, len(seen) - len(" ".join(faint.split())))
        sys.stderr.write(f"{_CLEAR_LINE}{seen[:split]}{_DIM}{seen[split:]}{_PLAIN}")
        sys.stderr.flush()


def width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(map(_columns, text))


def tail(text: str, columns: int) -> str:
    """As much of the end of `text` as fits into so many columns of a terminal."""
    start = len(text)
    while start > 0 and (columns := columns - _columns(text[start - 1])) >= 0:
        start -= 1
    return text[start:]


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


class _Complainer(logging.Handler):
    """Log records as complaints; an error in the program itself comes with its traceback, to be reported."""

    def emit(self, record: logging.LogRecord) -> None:
        complain(record.getMessage())
        if record.exc_info and sys.stderr is not None:
            print(logging.Formatter().formatException(record.exc_info), file=sys.stderr)
