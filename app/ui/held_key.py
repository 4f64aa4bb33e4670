"""One key that is held: its true press and its true release.

It exists because X11 repeats a held key as releases and presses, and Qt recognises only most of them as repeats.
A release followed by a press at once is a repeat, so a release counts after a moment. Qt thread.
"""

import time

from PySide6.QtCore import QObject, QTimer, Signal, Slot
from PySide6.QtGui import QKeyEvent

FOLD_MS = 40  # nobody lets go and presses again faster than this; repeats do it within 2 ms


class HeldKey(QObject):
    """Whether a key, or one of several, is down.

    Signals: went_down(float) and went_up(float) with the time.monotonic() of the event itself.
    """

    went_down = Signal(float)
    went_up = Signal(float)

    def __init__(self, parent: QObject) -> None:
        """Starts up."""
        super().__init__(parent)
        self._down = False
        self._released_at: float | None = None
        self._settling = QTimer(self)
        self._settling.setSingleShot(True)
        self._settling.setInterval(FOLD_MS)
        self._settling.timeout.connect(self.let_go)

    @property
    def down(self) -> bool:
        """Whether it is held."""
        return self._down

    def press(self, event: QKeyEvent) -> None:
        """The key went down, or repeats."""
        if self._settling.isActive():
            self._settling.stop()
            self._released_at = None
        elif not self._down and not event.isAutoRepeat():
            self._down = True
            self.went_down.emit(time.monotonic())

    def release(self, event: QKeyEvent) -> None:
        """The key came up, or repeats."""
        if self._down and not event.isAutoRepeat():
            self._released_at = time.monotonic()
            self._settling.start()

    @Slot()
    def let_go(self) -> None:
        """Count as released, whatever the keyboard does."""
        if not self._down:
            return
        at_s = self._released_at or time.monotonic()
        self._settling.stop()
        self._down, self._released_at = False, None
        self.went_up.emit(at_s)
