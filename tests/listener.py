"""A sink that keeps what a recorder reports, for the tests of app and end2end."""

import threading

import numpy as np
from numpy.typing import NDArray

from app.errors import AppError


class Listener:
    """Keeps audio and levels; `events` holds the rest in order, as (name, ...) tuples."""

    def __init__(self) -> None:
        self.blocks: list[NDArray[np.float32]] = []
        self.levels: list[tuple[float, float, float]] = []
        self.events: list[tuple[object, ...]] = []
        self.listening = threading.Event()
        self.noticed = threading.Event()
        self.ended = threading.Event()

    @property
    def audio(self) -> NDArray[np.float32]:
        return np.concatenate([np.empty(0, np.float32), *self.blocks])

    @property
    def problem(self) -> AppError | None:
        assert self.events[-1][0] == "end"
        problem = self.events[-1][1]
        assert problem is None or isinstance(problem, AppError)
        return problem

    def on_listening(self) -> None:
        self.events.append(("listening",))
        self.listening.set()

    def on_audio(self, samples: NDArray[np.float32]) -> None:
        assert samples.dtype == np.float32
        assert samples.ndim == 1
        assert len(samples)
        self.blocks.append(samples)

    def on_level(self, elapsed_s: float, rms_dbfs: float, peak: float) -> None:
        self.levels.append((elapsed_s, rms_dbfs, peak))

    def on_notice(self, message: str, hint: str) -> None:
        self.events.append(("notice", message, hint))
        self.noticed.set()

    def on_end(self, problem: AppError | None) -> None:
        self.events.append(("end", problem))
        self.ended.set()
