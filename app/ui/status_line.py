"""One line that says what just happened or what is wrong, with at most one action.

It exists so that nothing ever opens a dialog: a problem, the loading of a model as a number, and "Copied"
share this line, in this order of importance. Qt thread.
"""

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.dictation import Dictation, Problem, Remedy
from app.ui import icons
from app.ui.theme import GAP, Theme

ICON_PX = 18
LEAST_PX = 40  # two lines, so that the control above does not move for a problem
_LABELS = {Remedy.DISMISS: "&Dismiss", Remedy.RETRY: "Try a&gain", Remedy.CHOOSE_MODEL: "Choose a mode&l"}


class StatusLine(QWidget):
    """Shows the most important thing there is to say.

    Signals: remedy_asked(Remedy) when the action of the shown problem was pressed.
    """

    remedy_asked = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        """Starts silent, and keeps the height of one line."""
        super().__init__(parent)
        self._theme = theme
        self._now = Dictation()
        self._icon = QLabel()
        self._text = QLabel()
        self._text.setTextFormat(Qt.TextFormat.PlainText)
        self._text.setMinimumWidth(1)  # or words on one line would keep the window from getting narrower
        self.action = QPushButton()
        self.action.clicked.connect(self._act)
        self._progress = QProgressBar()
        self._progress.setTextVisible(False)
        self._progress.setAccessibleName("Loading the model")
        self._row = QHBoxLayout()
        self._row.setSpacing(GAP)
        self._row.addStretch()
        self._row.addWidget(self._icon)
        self._row.addWidget(self._text)
        self._row.addWidget(self.action)
        self._row.addStretch()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addLayout(self._row)
        column.addWidget(self._progress)
        theme.changed.connect(self._show)
        self._show()

    @property
    def words(self) -> str:
        """What the line says now; empty when there is nothing to say."""
        return self._text.text()

    def show_dictation(self, now: Dictation) -> None:
        """Show what matters most of this."""
        before, self._now = _relevant(self._now), now
        if before != _relevant(now):
            self._show()

    @Slot()
    def _show(self) -> None:
        now = self._now
        loading = None if now.problem else now.loading
        self._progress.setVisible(loading is not None)
        self.action.setVisible(now.problem is not None)
        if now.problem:
            self._say(f"{now.problem.message} {now.problem.hint}".strip(), *self._mark(now.problem))
            self.action.setText(_LABELS[now.problem.remedy])
        elif loading:
            self._say(f"Loading the model {loading.model}: {loading.done} of {loading.total}")
            self._progress.setMaximum(max(loading.total, 1))
            self._progress.setValue(loading.done)
        elif now.copied:
            self._say("Copied to the clipboard", "check", self._theme.colours.accent)
        elif now.last:
            self._say(
                "Not on the clipboard yet. Press Ctrl+C to copy it.",
                "information",
                self._theme.colours.warning,
            )
        else:
            self._say("")
        self.setMinimumHeight(self._theme.sizes.px(LEAST_PX))
        self._spread()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Wrap when the words no longer fit."""
        super().resizeEvent(event)
        self._spread()

    def _say(self, text: str, name: str = "", colour: str = "") -> None:
        self._text.setText(text)
        self._icon.setVisible(bool(name))
        if name:
            size = self._theme.sizes.px(ICON_PX)
            self._icon.setPixmap(icons.pixmap(name, colour, size, self.devicePixelRatioF()))

    def _mark(self, problem: Problem) -> tuple[str, str]:
        colours = self._theme.colours
        return ("state-error", colours.error) if problem.serious else ("information", colours.warning)

    def _spread(self) -> None:
        """Keep words that fit on one line in the middle; let others wrap over the whole width."""
        beside = self._icon.sizeHint().width() + self.action.sizeHint().width() + 4 * GAP
        wrap = self._text.fontMetrics().horizontalAdvance(self._text.text()) > self.width() - beside
        self._text.setWordWrap(wrap)
        for place, stretch in enumerate((0, 0, 1, 0, 0) if wrap else (1, 0, 0, 0, 1)):
            self._row.setStretch(place, stretch)

    @Slot()
    def _act(self) -> None:
        if self._now.problem:
            self.remedy_asked.emit(self._now.problem.remedy)


def _relevant(now: Dictation) -> tuple[object, ...]:
    return now.problem, now.loading, now.copied, now.last
