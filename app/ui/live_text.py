"""The words as they are spoken: committed in full ink, pending behind them in lighter ink.

It exists so that text appears in place: only what changed is replaced, nothing already shown moves, and
what the person has selected or scrolled to stays. Qt thread.
"""

from PySide6.QtCore import QEvent, QSize, Qt, Slot
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
)
from PySide6.QtWidgets import QFrame, QTextEdit, QWidget

from app.ui.theme import Theme

LINE_HEIGHT_PERCENT = 140
LEAST_LINES = 3
COLUMNS = 70  # lines longer than this are tiring to read


class LiveText(QTextEdit):
    """A read-only text that grows; it follows its end unless the person scrolled away from it."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        """Starts empty."""
        super().__init__(parent)
        self._theme = theme
        self._committed = ""
        self._pending = ""
        self._hint = ""
        self.setReadOnly(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Text")
        self.setAccessibleDescription("What you said. Pending words may still change.")
        self.document().setDocumentMargin(0)
        self._following = True
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        self.verticalScrollBar().rangeChanged.connect(self._grown)
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_text(self, committed: str, pending: str) -> None:
        """Show `committed` followed by `pending`, touching only what differs from before."""
        if (committed, pending) == (self._committed, self._pending):
            return
        # Words that turn from pending to committed change their ink, so they count as different.
        same = len(self._committed) if committed.startswith(self._committed) else 0
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        cursor.setPosition(qt_length(committed[:same]))
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.insertText(committed[same:], _ink(self._theme.colours.ink))
        cursor.insertText(pending, _ink(self._theme.colours.ink_soft))
        cursor.endEditBlock()
        self._committed, self._pending = committed, pending

    def show_hint(self, hint: str) -> None:
        """Say this in the place of the text, while there is none."""
        if hint != self._hint:
            self._hint = hint
            self.viewport().update()

    def sizeHint(self) -> QSize:
        """The least: the layout gives it all the room that is left."""
        return QSize(self.maximumWidth(), self.minimumHeight())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the text, or else the hint."""
        super().paintEvent(event)
        if not self._committed and not self._pending:
            painter = QPainter(self.viewport())
            painter.setPen(QColor(self._theme.colours.ink_soft))
            painter.drawText(self.viewport().rect(), Qt.TextFlag.TextWordWrap, self._hint)
            painter.end()

    def event(self, event: QEvent) -> bool:
        """Take the copy key from the window while something is selected here."""
        if (
            event.type() is QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.matches(QKeySequence.StandardKey.Copy)
            and self.textCursor().hasSelection()
        ):
            event.accept()
            return True
        return super().event(event)

    @Slot(int)
    def _scrolled(self, value: int) -> None:
        self._following = value >= self.verticalScrollBar().maximum() - 2

    @Slot(int, int)
    def _grown(self, _: int, maximum: int) -> None:
        if self._following:
            self.verticalScrollBar().setValue(maximum)

    @Slot()
    def _restyle(self) -> None:
        font = QFont(self.font())
        font.setPixelSize(self._theme.sizes.live)
        metrics = QFontMetrics(font)
        self.setMaximumWidth(metrics.averageCharWidth() * COLUMNS)
        self.setMinimumHeight(round(metrics.height() * LINE_HEIGHT_PERCENT / 100 * LEAST_LINES))
        committed, pending = self._committed, self._pending
        self._committed = self._pending = ""
        self.clear()
        lines = QTextBlockFormat()
        lines.setLineHeight(LINE_HEIGHT_PERCENT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        QTextCursor(self.document()).setBlockFormat(lines)
        self.show_text(committed, pending)


def _ink(colour: str) -> QTextCharFormat:
    ink = QTextCharFormat()
    ink.setForeground(QColor(colour))
    return ink


def qt_length(text: str) -> int:
    """Return the length as Qt counts it, in UTF-16 units."""
    return len(text.encode("utf-16-le")) // 2
