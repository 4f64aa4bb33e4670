"""The big round control: hold it to talk, click it to keep listening.

It exists because no stock button tells a hold from a click, nor shows five states by shape and colour with
a level around them. It only reports that it went down or up; the state machine decides. Qt thread.
"""

import time

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt, QTimer, Signal, Slot
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QHideEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QAbstractButton, QWidget

from app.dictation import State
from app.ui import icons, level
from app.ui.held_key import HeldKey
from app.ui.theme import Theme
from app.ui.words import STATE_WORDS

DISC_PX = 84
RING_PX = 16  # how far the level reaches beyond the disc
SHAPE_PX = 38
RIM_PX = 5
TURN_MS = 33
TURN_DEGREES = 9.0
_BY_KEYBOARD = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason, Qt.FocusReason.ShortcutFocusReason)
_KEYS = (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter)


class RecordControl(QAbstractButton):
    """Shows the state and the level; draws itself.

    Signals: went_down(float) and went_up(float) as the pointer or a key holds it, with the time.monotonic() of
    that; clicked() only when a program such as a screen reader presses it.
    """

    went_down = Signal(float)
    went_up = Signal(float)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        """Starts idle."""
        super().__init__(parent)
        self._theme = theme
        self._state = State.IDLE
        self._level = 0.0
        self._angle = 0.0
        self._pointer_down = False
        self._key = HeldKey(self)
        self._key.went_down.connect(self._went_down)
        self._key.went_up.connect(self._went_up)
        self._outlined = False
        self._turning = QTimer(self)
        self._turning.setInterval(TURN_MS)
        self._turning.timeout.connect(self._turn)
        self.setText("&Record")  # never drawn: it gives the control its mnemonic
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setToolTip("Hold to talk, or click to keep listening (F9)")
        theme.changed.connect(self.update)
        self._name()

    def show_state(self, state: State) -> None:
        """Draw this state from now on."""
        if state is self._state:
            return
        self._state = state
        if state is not State.LISTENING:
            self._level = 0.0
        self._name()
        still = self.style().styleHint(self.style().StyleHint.SH_Widget_Animation_Duration, None, self) == 0
        self._angle = 0.0
        if state is State.PREPARING and not still:
            self._turning.start()
        else:
            self._turning.stop()
        self.update()

    def show_level(self, rms_dbfs: float) -> None:
        """Draw how loud it is now, while listening."""
        shown = level.follow(self._level, level.fraction(rms_dbfs))
        if shown != self._level:
            self._level = shown
            self.update()

    def let_go(self) -> None:
        """Count as released, whatever the pointer and the keys do."""
        self._key.let_go()
        if self._pointer_down:
            self._pointer_down = False
            self._went_up(time.monotonic())

    def sizeHint(self) -> QSize:
        """Room for the disc with its ring at full level and the focus outline."""
        side = round((DISC_PX + 2 * RING_PX) * self._scale + 8)
        return QSize(side, side)

    def minimumSizeHint(self) -> QSize:
        """Never smaller than it is drawn."""
        return self.sizeHint()

    def hitButton(self, position: QPoint) -> bool:
        """Only the disc and its ring are the control, not the corners."""
        away = QPointF(position) - QRectF(self.rect()).center()
        return QPointF.dotProduct(away, away) <= (self.width() / 2) ** 2

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Hold with the left button."""
        if event.button() is Qt.MouseButton.LeftButton and self.hitButton(event.position().toPoint()):
            self.setFocus(Qt.FocusReason.MouseFocusReason)
            self._pointer_down = True
            self._went_down(time.monotonic())
        else:
            event.ignore()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Let go, wherever the pointer is by now."""
        if event.button() is Qt.MouseButton.LeftButton:
            self.let_go()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Sliding off the disc does not let go."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Hold with Space or Enter."""
        if event.key() not in _KEYS:
            super().keyPressEvent(event)
        else:
            self._key.press(event)

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        """Let go of Space or Enter."""
        if event.key() not in _KEYS:
            super().keyReleaseEvent(event)
        else:
            self._key.release(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show the focus to those who came by the keyboard."""
        super().focusInEvent(event)
        self._outlined = event.reason() in _BY_KEYBOARD
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """A release that went to another window must not be missed."""
        super().focusOutEvent(event)
        self._outlined = False
        self.let_go()
        self.update()

    def hideEvent(self, event: QHideEvent) -> None:
        """Nobody can hold what is hidden."""
        super().hideEvent(event)
        self.let_go()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw level, disc and focus from the middle outwards."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        middle = QRectF(self.rect()).center()
        radius = DISC_PX * self._scale / 2
        if self._state is State.LISTENING:
            self._paint_level(painter, middle, radius)
        self._paint_disc(painter, middle, radius)
        if self._outlined:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(self._theme.colours.ink), 2))
            painter.drawEllipse(middle, radius + 6, radius + 6)
        painter.end()

    def _paint_disc(self, painter: QPainter, middle: QPointF, radius: float) -> None:
        """The disc is the state's shape where that is round, and holds it where it is not."""
        colours, state = self._theme.colours, self._state
        filled = state is State.LISTENING
        colour = QColor(colours.of(state))
        fill = colour if filled else QColor(colours.raised)
        painter.setBrush(fill.darker(108) if self.isDown() else fill)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.drawEllipse(middle, radius, radius)

        width = RIM_PX * self._scale
        rim = QRectF(0, 0, 2 * radius - width, 2 * radius - width)
        rim.moveCenter(middle)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(colour, width, c=Qt.PenCapStyle.RoundCap))
        if state is State.PREPARING:
            painter.drawArc(rim, round((90 - self._angle) * 16), -270 * 16)
        else:
            painter.drawEllipse(rim)

        name = f"state-{state.value}" if state in (State.FINISHING, State.ERROR) else "microphone"
        size = SHAPE_PX * self._scale
        place = QRectF(0, 0, size, size)
        place.moveCenter(middle)
        icons.renderer(name, colours.raised if filled else colour.name()).render(painter, place)

    def _paint_level(self, painter: QPainter, middle: QPointF, radius: float) -> None:
        reach = RING_PX * self._scale
        colour = QColor(self._theme.colours.listening)
        track = QColor(colour)
        track.setAlphaF(0.12)
        halo = QColor(colour)
        halo.setAlphaF(0.38)
        painter.setPen(Qt.PenStyle.NoPen)
        for brush, part in ((track, 1.0), (halo, self._level)):
            painter.setBrush(brush)
            painter.drawEllipse(middle, radius + reach * part, radius + reach * part)

    @property
    def _scale(self) -> float:
        return min(self._theme.sizes.scale, 1.4)  # big enough already: text needs the room more

    @Slot(float)
    def _went_down(self, at_s: float) -> None:
        self.setDown(True)
        self.went_down.emit(at_s)

    @Slot(float)
    def _went_up(self, at_s: float) -> None:
        self.setDown(False)
        self.went_up.emit(at_s)

    def _name(self) -> None:
        recording = self._state in (State.PREPARING, State.LISTENING)
        self.setAccessibleName("Finish dictation" if recording else "Dictate")
        self.setAccessibleDescription(
            f"{STATE_WORDS[self._state]}. Hold Space to talk, or press it shortly to keep listening."
        )

    @Slot()
    def _turn(self) -> None:
        self._angle = (self._angle + TURN_DEGREES) % 360
        self.update()
