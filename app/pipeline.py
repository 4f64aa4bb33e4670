"""From a source to text: the one pipeline behind the window, the captions and the command line. Free of Qt.

It owns the engine's thread, the only one that touches the model, and starts a recorder for every take. Both report
through `emit`, on their own threads. The recorder never waits for the engine: audio queues up while a model loads or an
earlier take is finished, and is caught up with then. Whoever owns the pipeline calls its methods, which return at once.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from queue import Empty, SimpleQueue
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.capture import Source
from app.errors import AppError
from app.events import (
    Cancelled,
    Ended,
    Event,
    Failed,
    Final,
    Level,
    Listening,
    ModelFailed,
    ModelLoading,
    ModelReady,
    Notice,
    Partial,
)
from app.recorder import Recorder
from engine import CancelledError, EngineError, Session, TranscribeOptions, Transcript, Whisper, load_model

log = logging.getLogger(__name__)


class Loader(Protocol):
    """Loads a model by name, as engine.load_model does."""

    def __call__(self, name_or_path: str, *, on_progress: Callable[[int, int], None]) -> Whisper:
        """Raises EngineError or ValueError; `on_progress(done, total)` counts the steps."""


@dataclass(frozen=True)
class _End:
    """Comes behind the last audio of a take; `problem` if that came too early."""

    problem: AppError | None


class _Take:
    """One recording on its way to text: the recorder's sink on one side, the engine's source on the other."""

    def __init__(self, session: int, source: Source, emit: Callable[[Event], None]) -> None:
        self.session = session
        self._emit = emit
        self._source = source
        self._began = time.monotonic()
        self._audio: SimpleQueue[NDArray[np.float32] | _End] = SimpleQueue()
        self._cancelled = threading.Event()
        self.done = threading.Event()  # its outcome was emitted
        self.recorder = Recorder(source, self)

    @property
    def wall_s(self) -> float:
        """Seconds since the take began."""
        return time.monotonic() - self._began

    def cancel(self) -> None:
        """Give up the text; what was queued is dropped."""
        self._cancelled.set()
        self.recorder.stop()

    def cancelled(self) -> bool:
        """Whether the text is no longer wanted."""
        return self._cancelled.is_set()

    def on_listening(self) -> None:
        """The recorder: the source delivers sound."""
        self._emit(Listening(self.session, self._source.name))

    def on_audio(self, samples: NDArray[np.float32]) -> None:
        """The recorder: the next samples."""
        self._audio.put(samples)

    def on_level(self, elapsed_s: float, rms_dbfs: float, peak: float) -> None:
        """The recorder: how loud the last 50 ms were."""
        self._emit(Level(self.session, elapsed_s, rms_dbfs, peak))

    def on_notice(self, message: str, hint: str) -> None:
        """The recorder: something the speaker should know."""
        self._emit(Notice(self.session, message, hint))

    def on_end(self, problem: AppError | None) -> None:
        """The recorder: nothing follows."""
        self._emit(Ended(self.session))
        self._audio.put(_End(problem))

    def wait_for_audio(self) -> tuple[list[NDArray[np.float32]], _End | None]:
        """All blocks that are queued, at least one unless the end is reached."""
        blocks: list[NDArray[np.float32]] = []
        try:
            item = self._audio.get()
            while True:
                if isinstance(item, _End):
                    return blocks, item
                blocks.append(item)
                item = self._audio.get_nowait()
        except Empty:
            return blocks, None


class Pipeline:
    """Takes in, events out: `load_model`, then `start` and `stop` or `cancel` as often as wanted, `close` at last."""

    def __init__(
        self,
        emit: Callable[[Event], None],
        options: TranscribeOptions | None = None,
        load: Loader = load_model,
    ) -> None:
        """`emit` is called from the recorder's and the engine's thread and must not wait."""
        self._emit = emit
        self._options = options or TranscribeOptions()
        self._load = load
        self._numbers = count(1)
        self._takes: list[_Take] = []  # changed by the owner only
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._model: Whisper | None = None  # the engine thread's alone, as is the next
        self._waiting: list[_Take] = []  # recorded without a model
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def load_model(self, name: str) -> None:
        """Load a model and use it for the takes that start from now on."""
        self._work.put(lambda: self._load_model(name))

    def start(self, source: Source) -> int:
        """Begin a take; returns its session number. It records at once, whatever the engine is doing."""
        take = _Take(next(self._numbers), source, self._emit)
        self._takes = [*(t for t in self._takes if not t.done.is_set()), take]
        take.recorder.start()
        self._work.put(lambda: self._transcribe(take))
        return take.session

    def stop(self) -> None:
        """End the recording; the rest of its text follows as Final."""
        for take in self._takes:
            take.recorder.stop()

    def cancel(self) -> None:
        """End the newest take without a text; Cancelled follows."""
        if self._takes:
            self._takes[-1].cancel()

    def close(self, timeout_s: float = 2.0) -> bool:
        """Give up everything and end the threads; whether they ended within the time."""
        for take in self._takes:
            take.cancel()
        self._work.put(None)
        deadline = time.monotonic() + timeout_s
        for take in self._takes:
            take.recorder.join(max(0.0, deadline - time.monotonic()))
        self._thread.join(max(0.0, deadline - time.monotonic()))
        return not self._thread.is_alive()

    def _run(self) -> None:
        while work := self._work.get():
            work()

    def _load_model(self, name: str) -> None:
        def report(done: int, total: int) -> None:
            self._emit(ModelLoading(name, done, total))

        try:
            self._model = self._load(name, on_progress=report)
        except (EngineError, ValueError) as error:
            self._emit(ModelFailed(name, str(error), "Choose another model."))
            return
        except Exception:  # a wall: the thread must live on for the next model
            log.exception("loading the model %s failed", name)
            self._emit(ModelFailed(name, f"The model {name} could not be loaded.", "Choose another; the log says why."))
            return
        self._emit(ModelReady(name))
        waiting, self._waiting = self._waiting, []
        for take in waiting:
            self._transcribe(take)

    def _transcribe(self, take: _Take) -> None:
        if self._model is None:
            self._waiting.append(take)
            hint = "What you say is kept and becomes text once a model is chosen."
            self._emit(Notice(take.session, "There is no model to transcribe with.", hint))
            return
        text = ""  # the best there is if the rest fails
        try:
            session = Session(self._model, self._options, take.cancelled)
            end: _End | None = None
            while end is None:
                blocks, end = take.wait_for_audio()
                if take.cancelled():
                    raise CancelledError
                for block in blocks:
                    session.push(block)
                update = None if end else session.step()
                if update is not None:
                    text = update.committed + update.partial
                    self._emit(Partial(take.session, update.audio_s, take.wall_s, update.committed, update.partial))
            self._emit(_outcome(take, session.finish(), end.problem))
        except CancelledError:
            self._emit(Cancelled(take.session))
        except (EngineError, ValueError) as error:
            self._emit(Failed(take.session, str(error), "Choose another model or language.", text))
        except Exception:  # a wall: the thread must live on for the next take
            log.exception("transcribing failed")
            message, hint = "Transcribing failed by an error in the app.", "Please report it; the log says more."
            self._emit(Failed(take.session, message, hint, text))
        finally:
            take.recorder.stop()  # a take that failed must not go on recording for nobody
            take.done.set()


def _outcome(take: _Take, transcript: Transcript, problem: AppError | None) -> Final | Failed:
    text = transcript.text.strip()
    if problem is not None:
        return Failed(take.session, problem.message, problem.hint, text)
    return Final(take.session, transcript.duration_s, take.wall_s, text, transcript.language)
