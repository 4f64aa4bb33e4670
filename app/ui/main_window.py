"""The window: what is being said, the control to say it, what was said before, and what is in use.

It exists to show a `Dictation` and to report what the person wants; it decides nothing. Qt thread.
"""

from itertools import pairwise

from PySide6.QtCore import QEvent, Qt, Signal, Slot
from PySide6.QtGui import QAction, QCloseEvent, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame, QLabel, QMainWindow, QScrollArea, QVBoxLayout, QWidget

from app.dictation import Dictation, Press, Release, Remedy, State, Wish
from app.ui import icons, words
from app.ui.announce import announce
from app.ui.footer import Footer
from app.ui.held_key import HeldKey
from app.ui.history_list import HistoryList
from app.ui.live_text import LiveText
from app.ui.record_control import RecordControl
from app.ui.status_line import StatusLine
from app.ui.theme import GAP, GROUP, MARGIN, Theme

WIDE_PX = 720  # from here on the earlier texts stand beside the live one
HOLD_KEY = Qt.Key.Key_F9


class MainWindow(QMainWindow):
    """One pane: dictate.

    Signals: asked(Press | Release | Wish); copy_asked(str); quit_asked(); closing() when the person closes
    the window, which then stays until someone hides it. Those of `footer` are the choices.
    """

    asked = Signal(object)
    copy_asked = Signal(str)
    quit_asked = Signal()
    closing = Signal()

    def __init__(self, theme: Theme) -> None:
        """Starts with an idle dictation."""
        super().__init__()
        self._theme = theme
        self._now = Dictation()
        self._key = HeldKey(self)
        self.setWindowTitle("Sottovoce")
        self.live = LiveText(theme)
        self.control = RecordControl(theme)
        self.headline = QLabel()
        self.headline.setProperty("role", "lead")
        self.advice = QLabel()
        self.advice.setProperty("role", "small")
        self.status = StatusLine(theme)
        self.history = HistoryList(theme)
        self.footer = Footer(theme)
        self._lay_out()
        self._connect()
        self._order_tabs()
        theme.changed.connect(self._restyle)
        self._restyle()
        self._render()
        px = theme.sizes.px
        room = self.screen().availableGeometry().size() * 0.9
        self.setMinimumSize(min(px(340), room.width()), min(px(580), room.height()))
        self.resize(min(px(820), room.width()), min(px(620), room.height()))
        self.control.setFocus()

    def show_dictation(self, now: Dictation) -> None:
        """Show this, touching only what differs from before."""
        before, self._now = self._now, now
        self._render()
        if now.state is not before.state:
            announce(self, words.STATE_WORDS[now.state])
        if now.problem and now.problem != before.problem:
            announce(self, f"{now.problem.message} {now.problem.hint}")
        if now.copied and not before.copied:
            announce(self, f"Copied: {now.copied}")

    def let_go(self) -> None:
        """Count every held key and button as released."""
        self.control.let_go()
        self._key.let_go()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """F9 works like the record control, wherever the focus is."""
        if event.key() != HOLD_KEY or event.modifiers():
            super().keyPressEvent(event)
        else:
            self._key.press(event)

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        """The end of F9."""
        if event.key() != HOLD_KEY:
            super().keyReleaseEvent(event)
        else:
            self._key.release(event)

    def changeEvent(self, event: QEvent) -> None:
        """Another window may swallow the release of a held key."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.ActivationChange and not self.isActiveWindow():
            self.let_go()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Leave it to the application whether closing hides or quits."""
        event.ignore()
        self.let_go()
        self.closing.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put things side by side when there is room."""
        super().resizeEvent(event)
        wide = self.width() >= self._theme.sizes.px(WIDE_PX)
        directions = QBoxLayout.Direction
        self._body.setDirection(directions.LeftToRight if wide else directions.TopToBottom)
        self._body.setSpacing(MARGIN if wide else GAP)
        self.footer.arrange(wide=wide)
        margin = MARGIN if wide else GROUP
        self._page.setContentsMargins(margin, margin, margin, GROUP)

    def _lay_out(self) -> None:
        centre = Qt.AlignmentFlag.AlignHCenter
        reading = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        reading.addStretch(1)
        reading.addWidget(self.live, 1000)  # as wide as a column may be, then centred
        reading.addStretch(1)
        talk = QVBoxLayout()
        talk.setSpacing(4)
        talk.addLayout(reading, 1)
        talk.addSpacing(GAP)
        talk.addWidget(self.control, 0, centre)
        talk.addWidget(self.headline, 0, centre)
        talk.addWidget(self.advice, 0, centre)
        talk.addSpacing(GAP)
        talk.addWidget(self.status)

        # The column is there before it has a text: the control must not move from under the pointer.
        earlier = QVBoxLayout()
        earlier.setSpacing(GAP)
        title = QLabel("Earlier")
        title.setProperty("role", "small")
        earlier.addWidget(title)
        earlier.addWidget(self.history, 1)

        self._body = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._body.addLayout(talk, 5)
        self._body.addLayout(earlier, 3)
        rule = QFrame()
        rule.setProperty("role", "rule")
        rule.setFixedHeight(1)
        page = QWidget()
        self._page = QVBoxLayout(page)
        self._page.setSpacing(GROUP)
        self._page.addLayout(self._body, 1)
        self._page.addWidget(rule)
        self._page.addWidget(self.footer)
        # Only a window too small for the text size ever scrolls as a whole.
        scroller = QScrollArea()
        scroller.setWidgetResizable(True)
        scroller.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroller.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroller.setWidget(page)
        self.setCentralWidget(scroller)

    def _connect(self) -> None:
        for held in (self.control, self._key):
            held.went_down.connect(self._went_down)
            held.went_up.connect(self._went_up)
        self.control.clicked.connect(self._toggle)
        self.history.copy_asked.connect(self.copy_asked)
        self.status.remedy_asked.connect(self._remedy)
        standard = QKeySequence.StandardKey
        for keys, slot in (
            ("Ctrl+R", self._toggle),
            ("Esc", self._cancel),
            (standard.Copy, self._copy_last),
            ("Ctrl+T", self.footer.captions.click),
            ("Ctrl+Q", self.quit_asked.emit),
        ):
            action = QAction(self)
            action.setShortcut(QKeySequence(keys))
            action.triggered.connect(slot)
            self.addAction(action)

    def _render(self) -> None:
        now = self._now
        take = now.shown
        if take:
            self.live.show_hint("Speak now." if now.state is State.LISTENING else "")
            self.live.show_text(take.committed, take.partial)
            self.control.show_level(take.level_dbfs)
        else:
            self.live.show_hint(words.WELCOME)
            self.live.show_text(now.last.text if now.last else "", "")
        self.control.show_state(now.state)
        self.headline.setText(words.headline(now))
        self.advice.setText(words.advice(now))
        self.status.show_dictation(now)
        earlier = tuple(entry for entry in now.history if entry is not now.last)
        before = self.history.buttons
        self.history.show_entries(earlier)
        if self.history.buttons != before:
            self._order_tabs()

    def _order_tabs(self) -> None:
        """Tab goes in reading order, through cards that were made after what follows them."""
        footer = self.footer
        order = [self.live, self.control, self.status.action, *self.history.buttons]
        order += [footer.microphone, footer.model, footer.theme, footer.captions]
        for widget, following in pairwise(order):
            self.setTabOrder(widget, following)

    @Slot()
    def _restyle(self) -> None:
        colours = self._theme.colours
        self.setWindowIcon(icons.tile(State.LISTENING, colours.accent, colours.on_accent))

    @Slot(float)
    def _went_down(self, at_s: float) -> None:
        self.asked.emit(Press(at_s))

    @Slot(float)
    def _went_up(self, at_s: float) -> None:
        self.asked.emit(Release(at_s))

    @Slot()
    def _toggle(self) -> None:
        self.asked.emit(Wish.TOGGLE)

    @Slot()
    def _cancel(self) -> None:
        self.asked.emit(Wish.CANCEL)

    @Slot()
    def _copy_last(self) -> None:
        if self._now.history:
            self.copy_asked.emit(self._now.history[0].text)

    @Slot(object)
    def _remedy(self, remedy: Remedy) -> None:
        self.asked.emit(Wish.DISMISS)
        if remedy is Remedy.RETRY:
            self.asked.emit(Wish.START)
        elif remedy is Remedy.CHOOSE_MODEL:
            self.footer.model.setFocus()
            self.footer.model.showPopup()
