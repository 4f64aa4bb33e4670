"""The tray icon: the state at a glance, and start, stop, captions, show and quit in its menu.

It exists so that the app can be used with its window closed. A desktop may have no tray, get one later or
lose it, so this looks for one every second and makes or drops the icon: one shown before its host exists
never docks. Qt thread.
"""

from PySide6.QtCore import QObject, QTimer, Signal, Slot
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QSystemTrayIcon

from app.dictation import Dictation, State, Wish
from app.ui import icons
from app.ui.theme import Theme
from app.ui.words import STATE_WORDS

LOOK_MS = 1_000


class Tray(QObject):
    """The icon, while there is a tray.

    Signals: asked(Wish); captions_asked(bool); show_asked(); quit_asked(); present(bool) when the tray came
    or went.
    """

    asked = Signal(object)
    captions_asked = Signal(bool)
    show_asked = Signal()
    quit_asked = Signal()
    present = Signal(bool)

    def __init__(self, theme: Theme, parent: QObject | None = None) -> None:
        """Starts without an icon; `look` finds the tray."""
        super().__init__(parent)
        self._theme = theme
        self._state = State.IDLE
        self._icon: QSystemTrayIcon | None = None
        self._menu = QMenu()
        self._start = self._item("&Start dictation", lambda: self.asked.emit(Wish.START))
        self._stop = self._item("S&top dictation", lambda: self.asked.emit(Wish.STOP))
        self._menu.addSeparator()
        self._captions = QAction("&Captions", self._menu, checkable=True)
        self._captions.triggered.connect(self.captions_asked)
        self._menu.addAction(self._captions)
        self._item("Sho&w window", self.show_asked.emit)
        self._menu.addSeparator()
        self._item("&Quit", self.quit_asked.emit)
        self._looking = QTimer(self)
        self._looking.setInterval(LOOK_MS)
        self._looking.timeout.connect(self.look)
        self._looking.start()
        theme.changed.connect(self._draw)
        self._draw()

    @property
    def shown(self) -> bool:
        """Whether there is an icon that the person can reach."""
        return self._icon is not None

    @Slot()
    def look(self) -> None:
        """Make the icon when a tray has appeared, drop it when the tray has gone."""
        available = QSystemTrayIcon.isSystemTrayAvailable()
        if available == self.shown:
            return
        if available:
            self._icon = QSystemTrayIcon(self)
            self._icon.setContextMenu(self._menu)
            self._icon.activated.connect(self._activated)
            self._draw()
            self._icon.show()
        else:
            self._drop()
        self.present.emit(available)

    def show_dictation(self, now: Dictation) -> None:
        """Show its state."""
        if now.state is not self._state:
            self._state = now.state
            self._draw()

    def show_captions(self, *, on: bool) -> None:
        """Tick the menu item of the captions, or not."""
        self._captions.setChecked(on)

    def tell(self, title: str, words: str) -> None:
        """Show a short message at the icon, where the desktop does that."""
        if self._icon:
            self._icon.showMessage(title, words, self._icon.icon())

    def close(self) -> None:
        """Drop the icon for good."""
        self._looking.stop()
        self._drop()
        self._menu.deleteLater()

    def _drop(self) -> None:
        if self._icon:
            self._icon.hide()
            self._icon.deleteLater()
            self._icon = None

    def _item(self, label: str, slot: object) -> QAction:
        action = QAction(label, self._menu)
        action.triggered.connect(slot)
        self._menu.addAction(action)
        return action

    @Slot()
    def _draw(self) -> None:
        recording = self._state in (State.PREPARING, State.LISTENING)
        self._start.setEnabled(not recording)
        self._stop.setEnabled(recording)
        if self._icon:
            colours = self._theme.colours
            self._icon.setIcon(icons.tile(self._state, colours.of(self._state), colours.on_accent))
            self._icon.setToolTip(f"Sottovoce: {STATE_WORDS[self._state]}")

    @Slot(QSystemTrayIcon.ActivationReason)
    def _activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason is QSystemTrayIcon.ActivationReason.Trigger:
            self.show_asked.emit()
