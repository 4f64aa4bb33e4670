"""`sottovoce live`: the app's own pipeline with a terminal in place of the window. Runs on the main thread."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from app.capture import Source
from app.errors import AppError
from app.events import (
    Cancelled,
    Event,
    Failed,
    Final,
    Listening,
    ModelFailed,
    ModelLoading,
    ModelReady,
    Notice,
    Partial,
)
from app.pipeline import Loader, Pipeline
from app.terminal import LiveLine, complain
from engine import TranscribeOptions, Whisper


class _Interrupt:
    """Somebody pressed Ctrl-C, or asked the process to end."""


def dictate(source: Source, model: str, options: TranscribeOptions, load: Loader, *, events: bool, shown: bool) -> None:
    """Turn what `source` hears into text on stdout until it ends, or Ctrl-C ends it.

    `events`: print each update as a line of JSON, instead of only the text at the end; `shown`: draw the text so
    far on the terminal. Raises AppError where the model or the source fails, after printing the text there is,
    and KeyboardInterrupt when interrupted twice, or before listening.
    """
    queue: SimpleQueue[Event | _Interrupt] = SimpleQueue()
    failures: list[AppError] = []

    def load_or_tell(name_or_path: str, *, on_progress: Callable[[int, int], None]) -> Whisper:
        try:
            return load(name_or_path, on_progress=on_progress)
        except AppError as error:
            failures.append(error)  # the pipeline's event would not say whose fault it is
            raise ValueError(str(error)) from None

    pipeline = Pipeline(queue.put, options, load_or_tell)
    try:
        with _interrupts(lambda: queue.put(_Interrupt())), LiveLine(shown and not events) as line:
            pipeline.load_model(model)
            _follow(queue, pipeline, source, _View(events, line))
    except AppError as error:
        raise failures[0] if failures else error from None
    finally:
        pipeline.close()


class _View:
    """What of a take is shown on the terminal, and printed on stdout."""

    def __init__(self, events: bool, line: LiveLine) -> None:
        """`events`: whether every update is printed, as JSON."""
        self._events = events
        self._line = line
        self._last = Partial(0, 0.0, 0.0, "", "")

    def status(self, text: str) -> None:
        """What is going on."""
        self._line.draw("", text)

    def partial(self, event: Partial) -> None:
        """The text so far."""
        self._last = event
        self._line.draw(event.committed, event.partial)
        if self._events:
            self._print_event(event.audio_s, event.wall_s, event.partial, None)

    def final(self, text: str, audio_s: float | None = None, wall_s: float | None = None) -> None:
        """The whole text; where the times are not known, those of the last update."""
        self._line.draw("")
        if self._events:
            audio_s = self._last.audio_s if audio_s is None else audio_s
            wall_s = self._last.wall_s if wall_s is None else wall_s
            self._print_event(audio_s, wall_s, "", text)
        elif text:
            print(text, flush=True)

    def _print_event(self, audio_s: float, wall_s: float, partial: str, final: str | None) -> None:
        record = {
            "audio_s": round(audio_s, 3),
            "wall_s": round(wall_s, 3),
            "committed": self._last.committed,
            "partial": partial,
            "final": final,
        }
        print(json.dumps(record, ensure_ascii=False), flush=True)


def _follow(queue: "SimpleQueue[Event | _Interrupt]", pipeline: Pipeline, source: Source, view: _View) -> None:
    """Show what happens until the take has ended."""
    listening = stopping = False
    while True:
        match queue.get():
            case _Interrupt():
                if stopping or not listening:
                    raise KeyboardInterrupt
                stopping = True
                view.status("Finishing…")
                pipeline.stop()
            case ModelLoading(model, done, total):
                view.status(f"Loading {model}: step {done} of {total}…")
            case ModelReady():
                pipeline.start(source)
            case ModelFailed(_, message, hint):
                raise AppError(message, hint)
            case Listening(_, name):
                listening = True
                view.status(f"Listening to {name}; Ctrl-C ends…")
            case Partial() as event:
                view.partial(event)
            case Notice(_, message, hint):
                complain(f"{message} {hint}")
            case Final(_, audio_s, wall_s, text):
                return view.final(text, audio_s, wall_s)
            case Failed(_, message, hint, text):
                if text:
                    view.final(text)
                raise AppError(message, hint)
            case Cancelled():
                raise KeyboardInterrupt


@contextmanager
def _interrupts(tell: Callable[[], None]) -> Iterator[None]:
    """Within this, Ctrl-C and a request to end call `tell` instead of breaking in anywhere."""
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: tell()) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
