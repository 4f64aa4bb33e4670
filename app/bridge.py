"""The one door from other threads to the Qt thread.

It exists so that an event made by the recorder or the engine is handled on the Qt thread, in order, without
anybody waiting. `send` may be called from any thread; the handler runs on the thread of the `Bridge`.
"""

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, Signal, Slot


class Bridge(QObject):
    """Carries frozen events to one handler.

    Signals: sent(object) with each event, queued.
    """

    sent = Signal(object)

    def __init__(self, handle: Callable[[object], None], parent: QObject | None = None) -> None:
        """`handle` gets every event on the thread that makes this object."""
        super().__init__(parent)
        self._handle: Callable[[object], None] | None = handle
        self.sent.connect(self._deliver, Qt.ConnectionType.QueuedConnection)

    def send(self, event: object) -> None:
        """Send an event from any thread; returns at once."""
        self.sent.emit(event)

    def close(self) -> None:
        """Drop whatever still comes."""
        self._handle = None

    @Slot(object)
    def _deliver(self, event: object) -> None:
        if self._handle:
            self._handle(event)
