"""The captions: the words over all windows, which never take the focus nor a click.

It exists so that people can read along while they work in another window. Two lines; the box keeps its size
and place, a line once broken stays broken there, and what scrolled away does not come back. Qt thread.
"""

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt, QTimer, Slot
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QGuiApplication,
    QPainter,
    QPaintEvent,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import QWidget

from app.dictation import Dictation, State
from app.ui import icons
from app.ui.live_text import qt_length
from app.ui.theme import CAPTIONS, Sizes, Theme
from app.ui.words import STATE_WORDS

ROWS = 2
COLUMNS = 52
PADDING_PX = 16
SHAPE_PX = 18
RADIUS_PX = 14
LINE_HEIGHT = 1.4
BELOW_PX = 48  # from the edge of the screen
LINGER_MS = 5_000  # the last words stay this long
GROUND_ALPHA = 0.88


@dataclass(frozen=True)
class Line:
    """One row: where it begins in the whole text, and its length, both in UTF-16 units as Qt counts."""

    start: int
    length: int


class CaptionLines:
    """Text broken into rows of a fixed width, of which the last few are shown.

    Rows that have scrolled away and cannot change are forgotten, so that an hour of speech costs what a minute does.
    """

    def __init__(self, font: QFont, width_px: float) -> None:
        """Starts empty."""
        self._option = QTextOption()
        self._option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self._font = font
        self._width = width_px
        self.layout = QTextLayout()
        self.lines: tuple[Line, ...] = ()  # of the layout
        self.first = 0  # the topmost of them that is shown
        self._committed = ""
        self._forgotten = 0  # how many characters of it are no longer laid out
        self._base = 0  # the same in UTF-16 units

    def show(self, committed: str, pending: str) -> None:
        """Break this text, which goes on from the one before unless its beginning differs."""
        if committed.startswith(self._committed):
            self._forget()
        else:
            self.first = self._forgotten = self._base = 0
        self._committed = committed
        steady = committed[self._forgotten :]
        text = (steady + pending).replace("\n", " ")
        self.layout = QTextLayout(text, self._font)
        self.layout.setTextOption(self._option)
        border = qt_length(steady)
        self.layout.setFormats(
            [_run(0, border, CAPTIONS.ink), _run(border, qt_length(text) - border, CAPTIONS.ink_soft)]
        )
        self.lines = self._break()
        last = len(self.lines) - 1
        self.first = max(min(self.first, last), last - ROWS + 1, 0)

    def _break(self) -> tuple[Line, ...]:
        lines = []
        self.layout.beginLayout()
        while (line := self.layout.createLine()).isValid():
            line.setLineWidth(self._width)
            lines.append(Line(self._base + line.textStart(), line.textLength()))
        self.layout.endLayout()
        return tuple(lines)

    def _forget(self) -> None:
        """Lay out no longer what lies above the rows shown and before the end of the committed text."""
        shown = self.lines[self.first].start if self.lines else 0
        end = self._base + qt_length(self._committed[self._forgotten :])
        if shown >= end:
            return
        units = self.layout.text().encode("utf-16-le")[: 2 * (shown - self._base)]
        self._forgotten += len(units.decode("utf-16-le"))
        self._base = shown
        self.first = 0


def _run(start: int, length: int, colour: str) -> QTextLayout.FormatRange:
    run = QTextLayout.FormatRange()
    run.start, run.length = start, length
    form = QTextCharFormat()
    form.setForeground(QColor(colour))
    run.format = form
    return run


class Captions(QWidget):
    """The window; `switch` turns it on, and then it shows itself while there is something to show."""

    def __init__(self, theme: Theme) -> None:
        """Starts switched off."""
        flags = Qt.WindowType
        super().__init__(
            None,
            flags.Tool
            | flags.FramelessWindowHint
            | flags.WindowStaysOnTopHint
            | flags.WindowTransparentForInput
            | flags.WindowDoesNotAcceptFocus,
        )
        self.setAttribute(Qt.WidgetAttribute.WA_TranslucentBackground)
        self.setAttribute(Qt.WidgetAttribute.WA_ShowWithoutActivating)
        # Window managers list no notification in their task bar.
        self.setAttribute(Qt.WidgetAttribute.WA_X11NetWmWindowTypeNotification)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWindowTitle("Sottovoce captions")
        self.setAccessibleName("Captions")
        self._sizes: Sizes = theme.sizes
        self._font = QFont(self.font())
        self._font.setPixelSize(self._sizes.live)
        self._on = False
        self._state = State.IDLE
        self._session: int | None = None
        self._lines = CaptionLines(self._font, 1.0)
        self._hiding = QTimer(self)
        self._hiding.setSingleShot(True)
        self._hiding.setInterval(LINGER_MS)
        self._hiding.timeout.connect(self.hide)

    @staticmethod
    def obstacle() -> str | None:
        """Say in one sentence why captions cannot work on this desktop; None when they can."""
        if QGuiApplication.platformName().startswith("wayland"):
            return "Captions would take the keyboard away from your work under Wayland."
        return None

    def switch(self, *, on: bool) -> None:
        """Show captions from now on, or never."""
        if on is self._on:
            return
        self._on = on
        if not on:
            self.hide()

    def greet(self) -> None:
        """Show the person who has just switched them on where they will be."""
        if self._on and self._state is State.IDLE:
            self._begin(None)
            self._lines.show("", "Captions appear here while you speak.")
            self._appear()
            self._hiding.start()

    def show_dictation(self, now: Dictation) -> None:
        """Show the newest words; after the last ones, stay a while."""
        take, before = now.shown, self._state
        self._state = now.state
        if take is None:
            if before in (State.IDLE, State.ERROR):
                return
            if now.last:
                self._lines.show(now.last.text, "")
                self._hiding.start()
            else:
                self.hide()
        else:
            if take.session != self._session or before in (State.IDLE, State.ERROR):
                self._begin(take.session)
            self._lines.show(take.committed, take.partial)
            if self._on:
                self._hiding.stop()
                self._appear()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the box, the state's shape and the rows."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ground = QColor(CAPTIONS.surface)
        ground.setAlphaF(GROUND_ALPHA)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(ground)
        radius = self._sizes.px(RADIUS_PX)
        painter.drawRoundedRect(QRectF(self.rect()), radius, radius)

        padding, shape, row = self._sizes.px(PADDING_PX), self._sizes.px(SHAPE_PX), self._row
        place = QRectF(padding, padding + (row - shape) / 2, shape, shape)
        icons.renderer(f"state-{self._state.value}", CAPTIONS.of(self._state)).render(painter, place)
        left, layout = padding + shape + padding * 0.75, self._lines.layout
        if not layout.text():
            painter.setFont(self._font)
            painter.setPen(QColor(CAPTIONS.ink_soft))
            painter.drawText(QPointF(left, self._baseline(0)), STATE_WORDS[self._state])
        painter.setPen(QColor(CAPTIONS.ink))
        for number in range(self._lines.first, len(self._lines.lines)):
            line = layout.lineAt(number)
            top = self._baseline(number - self._lines.first) - line.ascent()
            line.draw(painter, QPointF(left, top))
        painter.end()

    @property
    def _row(self) -> float:
        return self._sizes.live * LINE_HEIGHT

    def _baseline(self, row: int) -> float:
        metrics = QFontMetricsF(self._font)
        return self._sizes.px(PADDING_PX) + self._row * row + (self._row + metrics.ascent() - metrics.descent()) / 2

    def _begin(self, session: int | None) -> None:
        """Take the size and place for a new text."""
        self._session = session
        screen = QGuiApplication.primaryScreen().availableGeometry()
        padding, shape = self._sizes.px(PADDING_PX), self._sizes.px(SHAPE_PX)
        around = 2 * padding + shape + padding * 0.75
        column = QFontMetricsF(self._font).averageCharWidth() * COLUMNS
        width = min(column + around, screen.width() - 2 * padding)
        height = 2 * padding + ROWS * self._row
        self._lines = CaptionLines(self._font, width - around)
        self.resize(round(width), round(height))
        self.move(
            screen.left() + (screen.width() - self.width()) // 2,
            screen.bottom() - self.height() - BELOW_PX,
        )

    @Slot()
    def _appear(self) -> None:
        if not self.isVisible():
            self.show()
        self.update()
