"""The main window, driven as a person would: what it shows for each dictation, and what it reports."""

import sys
from dataclasses import replace
from datetime import datetime

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QAccessible, QKeyEvent, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QComboBox, QPushButton, QTextEdit, QWidget

from app.dictation import Dictation, Entry, Press, Problem, Release, Remedy, State, Take, Wish
from app.events import ModelLoading
from app.ui.footer import Choice
from app.ui.main_window import MainWindow
from app.ui.theme import LIGHT, Sizes

NINE = datetime(2025, 3, 3, 9, 5)
TALKING = Take(1, NINE, heard=True, elapsed_s=67.4, level_dbfs=-20.0, committed="Hello team,", partial=" quick up")
LONG = "The microphone was unplugged in the middle of the sentence. Connect it again, or choose another one below."


def entries(*texts):
    return tuple(Entry(number, NINE, text) for number, text in enumerate(texts, 1))[::-1]


@pytest.fixture
def window(theme, qtbot):
    window = MainWindow(theme)
    qtbot.addWidget(window, before_close_func=QWidget.hide)
    window.footer.microphone.offer((Choice("", "System default"), Choice("b", "Büro")), "")
    window.footer.model.offer((Choice("tiny.en", "tiny.en"), Choice("base", "base", available=False)), "tiny.en")
    window.show()
    qtbot.waitExposed(window)
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    window.control.setFocus()
    return window


@pytest.fixture
def asked(window):
    inputs = []
    window.asked.connect(inputs.append)
    return inputs


def key(kind, code, *, repeat=False):
    return QKeyEvent(kind, code, Qt.KeyboardModifier.NoModifier, "", repeat)


def kinds(inputs):
    return [type(what) for what in inputs]


# What it shows


@pytest.mark.parametrize(
    ("now", "headline"),
    [
        (Dictation(), "Ready"),
        (Dictation(recording=Take()), "Preparing"),
        (Dictation(recording=TALKING), "Listening  1:07"),
        (Dictation(finishing=(TALKING,)), "Finishing"),
        (Dictation(problem=Problem("No.", "", Remedy.DISMISS, serious=True)), "Problem"),
    ],
)
def test_each_state_has_a_word_a_name_and_a_look(window, now, headline):
    idle = window.control.grab().toImage()
    window.show_dictation(now)
    assert window.headline.text() == headline
    assert window.advice.text()
    recording = now.state in (State.PREPARING, State.LISTENING)
    assert window.control.accessibleName() == ("Finish dictation" if recording else "Dictate")
    assert (window.control.grab().toImage() == idle) == (now.state is State.IDLE)


def test_level_moves_the_ring(window):
    window.show_dictation(Dictation(recording=TALKING))
    loud = window.control.grab().toImage()
    window.control.show_level(-120.0)
    assert window.control.grab().toImage() != loud


def inks(text):
    """The text of each run and its colour."""
    block, runs = text.document().begin(), []
    iterator = block.begin()
    while not iterator.atEnd():
        fragment = iterator.fragment()
        form = fragment.charFormat()
        assert not form.fontItalic()
        runs.append((fragment.text(), form.foreground().color().name()))
        iterator += 1
    return runs


def place(text, position):
    cursor = QTextCursor(text.document())
    cursor.setPosition(position)
    return text.cursorRect(cursor)


def test_pending_text_is_lighter_and_stands_where_it_will_stay(window):
    window.show_dictation(Dictation(recording=TALKING))
    assert inks(window.live) == [("Hello team,", LIGHT.ink), (" quick up", LIGHT.ink_soft)]
    before = place(window.live, 18)
    window.show_dictation(Dictation(recording=replace(TALKING, committed="Hello team, quick", partial=" update 🙂 n")))
    assert inks(window.live) == [("Hello team, quick", LIGHT.ink), (" update 🙂 n", LIGHT.ink_soft)]
    assert place(window.live, 18) == before
    window.show_dictation(Dictation(recording=replace(TALKING, committed="Hello team, quick update 🙂", partial=" s")))
    assert inks(window.live) == [("Hello team, quick update 🙂", LIGHT.ink), (" s", LIGHT.ink_soft)]


def test_live_text_follows_its_end_unless_scrolled_away(window):
    bar = window.live.verticalScrollBar()
    window.show_dictation(Dictation(recording=replace(TALKING, committed="word " * 400)))
    assert 0 < bar.value() == bar.maximum()
    bar.setValue(0)
    window.show_dictation(Dictation(recording=replace(TALKING, committed="word " * 500)))
    assert bar.value() == 0


def test_last_text_stays_large_and_earlier_ones_are_listed_newest_first(window):
    history = entries("One.", "Two.", "Three.")
    window.show_dictation(Dictation(history=history, last=history[0]))
    assert window.live.toPlainText() == "Three."
    assert [button.accessibleDescription() for button in window.history.buttons] == ["Two.", "One."]
    window.show_dictation(Dictation(history=history, recording=Take()))
    assert window.live.toPlainText() == ""
    assert [button.accessibleDescription() for button in window.history.buttons] == ["Three.", "Two.", "One."]


def test_status_says_the_most_important_thing(window):
    loading = ModelLoading("tiny.en", 3, 7)
    problem = Problem("Broken.", "Mend it.", Remedy.DISMISS, serious=True)
    last = entries("One.")[0]
    for now, words in (
        (Dictation(problem=problem, loading=loading, copied="One."), "Broken. Mend it."),
        (Dictation(loading=loading, copied="One."), "Loading the model tiny.en: 3 of 7"),
        (Dictation(copied="One.", last=last), "Copied to the clipboard"),
        (Dictation(last=last), "Not on the clipboard yet. Press Ctrl+C to copy it."),
        (Dictation(), ""),
    ):
        window.show_dictation(now)
        assert window.status.words == words
        assert window.status.action.isVisible() == (now.problem is not None)


@pytest.mark.parametrize("width", [380, 900])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_everything_fits_and_the_control_stays_where_it_is(theme, qtbot, width, scale):
    theme.sizes = Sizes(scale)
    theme.choose("light")
    window = MainWindow(theme)
    qtbot.addWidget(window, before_close_func=QWidget.hide)
    window.resize(width, 700)
    window.show()
    qtbot.waitExposed(window)
    history = entries("One.", "Donaudampfschifffahrtsgesellschaft " * 9)
    short = Problem("Broken.", "Mend it.", Remedy.RETRY, serious=True)
    places = set()
    for now in (
        Dictation(),
        Dictation(recording=TALKING),
        Dictation(history=history, last=history[0], copied="x"),
        Dictation(history=history, problem=short),
        Dictation(history=history, problem=Problem(LONG, LONG, Remedy.RETRY, serious=True)),
    ):
        window.show_dictation(now)
        QTest.qWait(30)
        if now.problem is None or now.problem is short:
            places.add(window.control.mapTo(window, QPoint(0, 0)).toTuple())
        page = window.centralWidget().widget()
        assert page.width() <= window.width()
        for child in page.findChildren(QWidget):
            if child.isVisible() and isinstance(child, QAbstractButton | QComboBox | QTextEdit):
                right = child.mapTo(page, QPoint(child.width(), 0)).x()
                assert right <= page.width(), (child.accessibleName(), now)
    assert len(places) == 1


# What it reports


def test_mouse_holds_even_when_it_slides_off(window, asked):
    middle = window.control.rect().center()
    QTest.mousePress(window.control, Qt.MouseButton.LeftButton, pos=middle)
    QTest.mouseMove(window.control, QPoint(-50, -50))
    assert kinds(asked) == [Press]
    QTest.mouseRelease(window.control, Qt.MouseButton.LeftButton, pos=QPoint(-50, -50))
    assert kinds(asked) == [Press, Release]
    assert asked[0].at_s <= asked[1].at_s
    QTest.mouseClick(window.control, Qt.MouseButton.RightButton, pos=middle)
    QTest.mouseClick(window.control, Qt.MouseButton.LeftButton, pos=QPoint(1, 1))  # a corner outside the ring
    assert len(asked) == 2


@pytest.mark.parametrize("code", [Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_F9])
def test_keys_hold_however_the_keyboard_repeats(window, asked, qtbot, code):
    target = window.footer.theme if code is Qt.Key.Key_F9 else window.control
    kind = QEvent.Type
    for event in (
        key(kind.KeyPress, code),
        key(kind.KeyRelease, code, repeat=True),
        key(kind.KeyPress, code, repeat=True),
        key(kind.KeyRelease, code),  # a repeat that Qt did not recognise as one
        key(kind.KeyPress, code),
        key(kind.KeyRelease, code),
    ):
        QApplication.sendEvent(target, event)
    assert kinds(asked) == [Press]
    qtbot.waitUntil(lambda: len(asked) == 2)
    assert kinds(asked) == [Press, Release]


@pytest.mark.parametrize("target", ["control", "footer"])
def test_losing_the_window_lets_go(window, asked, qtbot, target):
    code = Qt.Key.Key_Space if target == "control" else Qt.Key.Key_F9
    QApplication.sendEvent(getattr(window, target), key(QEvent.Type.KeyPress, code))
    window.hide()
    qtbot.waitUntil(lambda: kinds(asked) == [Press, Release])


def test_shortcuts(window, asked, qtbot):
    qtbot.keyClick(window, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    qtbot.keyClick(window, Qt.Key.Key_R, Qt.KeyboardModifier.AltModifier)  # the control's mnemonic
    qtbot.waitUntil(lambda: len(asked) == 3)
    assert asked == [Wish.TOGGLE, Wish.CANCEL, Wish.TOGGLE]
    with qtbot.waitSignal(window.quit_asked):
        qtbot.keyClick(window, Qt.Key.Key_Q, Qt.KeyboardModifier.ControlModifier)
    with qtbot.waitSignal(window.footer.captions_asked) as switched:
        qtbot.keyClick(window, Qt.Key.Key_T, Qt.KeyboardModifier.ControlModifier)
    assert switched.args == [True]


def test_copy_key_copies_the_last_text_or_what_is_selected(window, qtbot):
    history = entries("One.", "Two.")
    window.show_dictation(Dictation(history=history, last=history[0]))
    window.live.setFocus()
    with qtbot.waitSignal(window.copy_asked) as copied:
        qtbot.keyClick(window.live, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert copied.args == ["Two."]
    cursor = window.live.textCursor()
    cursor.setPosition(0)
    cursor.setPosition(2, QTextCursor.MoveMode.KeepAnchor)
    window.live.setTextCursor(cursor)
    with qtbot.assertNotEmitted(window.copy_asked):
        qtbot.keyClick(window.live, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QApplication.clipboard().text() == "Tw"


def test_each_earlier_text_can_be_copied_by_key(window, qtbot):
    window.show_dictation(Dictation(history=entries("One.", "Two.", "Three.")))
    newest, middle, oldest = window.history.buttons
    newest.setFocus()
    qtbot.keyClick(newest, Qt.Key.Key_Down)
    assert middle.hasFocus()
    with qtbot.waitSignal(window.copy_asked) as copied:
        qtbot.keyClick(middle, Qt.Key.Key_Space)
    assert copied.args == ["Two."]
    qtbot.keyClick(middle, Qt.Key.Key_Down)
    qtbot.keyClick(oldest, Qt.Key.Key_Down)
    assert oldest.hasFocus()


def test_tab_reaches_every_control_in_reading_order_and_each_has_a_name(window):
    window.show_dictation(
        Dictation(history=entries("One.", "Two."), problem=Problem("Broken.", "", Remedy.RETRY, serious=True))
    )
    window.live.setFocus()
    reached: list[QWidget] = []
    while window.focusWidget() not in reached:
        reached.append(window.focusWidget())
        QTest.keyClick(window.focusWidget(), Qt.Key.Key_Tab)
    footer = window.footer
    assert reached == [
        window.live,
        window.control,
        window.status.action,
        *window.history.buttons,
        footer.microphone,
        footer.model,
        footer.theme,
        footer.captions,
    ]
    for control in reached:
        spoken = QAccessible.queryAccessibleInterface(control)
        assert spoken.text(QAccessible.Text.Name), control
        assert spoken.text(QAccessible.Text.Description) or isinstance(control, QPushButton), control


def test_a_screen_reader_hears_states_problems_and_the_copied_text(window, monkeypatch):
    heard = []
    monkeypatch.setattr(QAccessible, "isActive", lambda: True)
    monkeypatch.setattr(QAccessible, "updateAccessibility", lambda event: heard.append(event.message()))
    for now in (
        Dictation(recording=Take()),
        Dictation(recording=TALKING),
        Dictation(finishing=(TALKING,)),
        Dictation(last=entries("One.")[0], copied="One."),
        Dictation(problem=Problem("Broken.", "Mend it.", Remedy.RETRY, serious=True)),
    ):
        window.show_dictation(now)
    assert heard == ["Preparing", "Listening", "Finishing", "Ready", "Copied: One.", "Problem", "Broken. Mend it."]


def test_a_screen_reader_can_press_the_control(window, asked, qtbot):
    QAccessible.queryAccessibleInterface(window.control).actionInterface().doAction("Press")
    qtbot.waitUntil(lambda: bool(asked))
    assert asked == [Wish.TOGGLE]


OFFSCREEN = pytest.mark.qt_log_ignore("This plugin does not support")  # what Qt's screenless platform says of popups


@OFFSCREEN
@pytest.mark.parametrize(
    ("remedy", "wishes"),
    [
        (Remedy.DISMISS, [Wish.DISMISS]),
        (Remedy.RETRY, [Wish.DISMISS, Wish.START]),
        (Remedy.CHOOSE_MODEL, [Wish.DISMISS]),
    ],
)
def test_a_problem_offers_its_remedy(window, asked, qtbot, remedy, wishes):
    window.show_dictation(Dictation(problem=Problem("Broken.", "", remedy, serious=True)))
    qtbot.mouseClick(window.status.action, Qt.MouseButton.LeftButton)
    assert asked == wishes
    assert window.footer.model.view().isVisible() == (remedy is Remedy.CHOOSE_MODEL)


def test_closing_is_only_reported(window, qtbot):
    with qtbot.waitSignal(window.closing):
        window.close()
    assert window.isVisible()


# Pickers


def test_picker_reports_the_choice_of_the_person_only(window, qtbot):
    picker = window.footer.microphone
    chosen = []
    picker.chosen.connect(chosen.append)
    qtbot.keyClick(picker, Qt.Key.Key_Down)
    assert (chosen, picker.key) == (["b"], "b")
    picker.offer((Choice("", "System default"), Choice("c", "Headset")), "c")
    assert (chosen, picker.currentText()) == (["b"], "Headset")


def test_picker_skips_what_is_not_available(window, qtbot):
    picker = window.footer.model
    with qtbot.assertNotEmitted(picker.chosen):
        qtbot.keyClick(picker, Qt.Key.Key_Down)
    assert picker.key == "tiny.en"


@OFFSCREEN
def test_picker_asks_for_a_fresh_list_and_shows_it_while_open(window, qtbot):
    picker = window.footer.microphone
    with qtbot.waitSignal(window.footer.microphones_wanted):
        picker.showPopup()
    picker.offer(tuple(Choice(str(n), f"Microphone {n}") for n in range(5)), "3")
    assert picker.view().isVisible()
    assert (picker.count(), picker.currentText()) == (5, "Microphone 3")
    picker.hidePopup()


# The binding


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is immortal from Python 3.12 on")
def test_calls_into_qt_keep_none_alive(theme):
    # PySide6 6.12.0 loses a reference to None in every call without a result, until Python dies of it.
    before = sys.getrefcount(None)
    for _ in range(1000):
        theme.setObjectName("theme")
    assert sys.getrefcount(None) > before - 500
