"""Put text on the clipboard, and know whether it is really there.

It exists because Wayland takes a text only from the window that has the focus and says nothing when it does
not: the text then waits for the focus. Qt thread.
"""

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtGui import QGuiApplication


class Clipboard(QObject):
    """The system's clipboard.

    Signals: copied(str) when the text is there.
    """

    copied = Signal(str)

    def __init__(self, application: QGuiApplication) -> None:
        """Starts with nothing waiting."""
        super().__init__(application)
        self._application = application
        self._waiting = ""
        application.focusWindowChanged.connect(self._retry)

    def put(self, text: str) -> None:
        """Copy this text now, or where the desktop forbids that, once a window of ours has the focus."""
        self._waiting = text
        self._retry()

    @Slot()
    def _retry(self) -> None:
        needs_focus = self._application.platformName().startswith("wayland")
        if not self._waiting or (needs_focus and self._application.focusWindow() is None):
            return
        text, self._waiting = self._waiting, ""
        self._application.clipboard().setText(text)
        self.copied.emit(text)
