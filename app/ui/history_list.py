"""The finished texts of this run, newest first, each with its time and its copy button.

It exists so that no text is lost when the next one begins. Qt thread.
"""

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.dictation import Entry
from app.ui import icons
from app.ui.theme import GAP, Theme

ICON_PX = 18
LEAST_PX = 84


class HistoryList(QScrollArea):
    """A column of cards; Up and Down step through their copy buttons.

    Signals: copy_asked(str) with the text of the card whose button was pressed.
    """

    copy_asked = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        """Starts empty."""
        super().__init__(parent)
        self._theme = theme
        self._cards: list[_Card] = []
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName("Earlier texts")
        self.setAccessibleDescription("The texts of this run, newest first")
        column = QWidget()
        self._column = QVBoxLayout(column)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(GAP)
        self._empty = QLabel("Finished texts stay here until you quit.")
        self._empty.setProperty("role", "soft")
        self._empty.setWordWrap(True)
        self._column.addWidget(self._empty)
        self._column.addStretch(1)
        self.setWidget(column)
        theme.changed.connect(self._restyle)

    def show_entries(self, entries: tuple[Entry, ...]) -> None:
        """Show these entries, newest first; only cards that are new are made."""
        wanted = [entry.session for entry in entries]
        for card in [card for card in self._cards if card.entry.session not in wanted]:
            self._cards.remove(card)
            self._column.removeWidget(card)
            card.hide()
            card.deleteLater()
        have = {card.entry.session: card for card in self._cards}
        self._cards = [have.get(entry.session) or self._make(entry) for entry in entries]
        for place, card in enumerate(self._cards):
            if self._column.indexOf(card) != place:
                self._column.insertWidget(place, card)
                card.show()  # now, not when the layout gets to it: Tab and the screen must not miss it
        self._empty.setVisible(not self._cards)

    @property
    def buttons(self) -> tuple[QToolButton, ...]:
        """The copy buttons, newest text first."""
        return tuple(card.button for card in self._cards)

    def sizeHint(self) -> QSize:
        """Room for the newest card: the layout gives it more when there is more."""
        px = self._theme.sizes.px
        return QSize(px(240), px(LEAST_PX))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Step to the next or the previous card."""
        steps = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1}
        focused = next((n for n, card in enumerate(self._cards) if card.button.hasFocus()), None)
        step = steps.get(Qt.Key(event.key()))
        if focused is None or step is None:
            super().keyPressEvent(event)
            return
        card = self._cards[min(max(focused + step, 0), len(self._cards) - 1)]
        card.button.setFocus(Qt.FocusReason.TabFocusReason)
        self.ensureWidgetVisible(card)

    def _make(self, entry: Entry) -> "_Card":
        card = _Card(entry, self._theme)
        card.button.clicked.connect(lambda: self.copy_asked.emit(entry.text))
        return card

    @Slot()
    def _restyle(self) -> None:
        for card in self._cards:
            card.restyle()


class _CopyButton(QToolButton):
    """A button that leaves Up and Down to the list."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            event.ignore()
        else:
            super().keyPressEvent(event)


class _Card(QFrame):
    """One entry: its time, its text, its copy button."""

    def __init__(self, entry: Entry, theme: Theme) -> None:
        super().__init__()
        self.entry = entry
        self._theme = theme
        self.setProperty("role", "card")
        when = QLabel(f"{entry.began:%H:%M}")
        when.setProperty("role", "small")
        text = QLabel()
        text.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)
        text.setTextFormat(Qt.TextFormat.PlainText)
        text.setWordWrap(True)
        text.setText(entry.text)
        text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.button = _CopyButton()
        self.button.setProperty("role", "quiet")
        self.button.setToolTip("Copy this text")
        self.button.setAccessibleName(f"Copy the text of {entry.began:%H:%M}")
        self.button.setAccessibleDescription(entry.text)
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(when)
        words.addWidget(text)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, GAP, GAP, 10)
        row.addLayout(words, 1)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignTop)
        self.restyle()

    def restyle(self) -> None:
        size = self._theme.sizes.px(ICON_PX)
        self.button.setIcon(icons.icon("copy", self._theme.colours.ink_soft, size))
        self.button.setIconSize(QSize(size, size))
