"""The captions window: out of the way, and steady while the text grows and changes its mind."""

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QFontMetricsF

from app.dictation import Dictation, Entry, Problem, Remedy, Take
from app.ui.captions import ROWS, CaptionLines, Captions
from app.ui.theme import CAPTIONS

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support raise")  # says Qt's screenless platform

NINE = datetime(2025, 3, 3, 9, 5)
TALKING = Take(1, NINE, heard=True, committed="Hello team,", partial=" quick up")


@pytest.fixture
def captions(theme, qtbot):
    captions = Captions(theme)
    qtbot.addWidget(captions)
    captions.switch(on=True)
    return captions


def test_takes_neither_focus_nor_clicks_and_stays_on_top(captions):
    flags = captions.windowFlags()
    for flag in (
        Qt.WindowType.FramelessWindowHint,
        Qt.WindowType.WindowStaysOnTopHint,
        Qt.WindowType.WindowTransparentForInput,
        Qt.WindowType.WindowDoesNotAcceptFocus,
    ):
        assert flags & flag
    assert captions.windowType() is Qt.WindowType.Tool
    assert captions.testAttribute(Qt.WidgetAttribute.WA_ShowWithoutActivating)
    assert captions.testAttribute(Qt.WidgetAttribute.WA_TranslucentBackground)
    assert captions.focusPolicy() is Qt.FocusPolicy.NoFocus
    assert captions.obstacle() is None


def test_appears_while_there_is_something_to_show_and_lingers(captions, qtbot):
    assert not captions.isVisible()
    captions.show_dictation(Dictation(recording=Take()))
    assert captions.isVisible()
    captions.show_dictation(Dictation(recording=TALKING))
    captions.show_dictation(Dictation(finishing=(TALKING,)))
    place = captions.geometry()
    captions._hiding.setInterval(50)
    captions.show_dictation(Dictation(last=Entry(1, NINE, "Hello team, quick update.")))
    assert captions.isVisible()
    assert captions.geometry() == place
    qtbot.waitUntil(lambda: not captions.isVisible())


def test_stands_at_the_bottom_centre_of_the_screen(captions):
    captions.show_dictation(Dictation(recording=TALKING))
    screen, box = captions.screen().availableGeometry(), captions.geometry()
    assert abs(box.center().x() - screen.center().x()) <= 1
    assert 0 < screen.bottom() - box.bottom() < 100
    assert screen.contains(box)


def test_never_shows_when_switched_off_and_goes_when_cancelled(captions):
    captions.show_dictation(Dictation(recording=TALKING))
    captions.show_dictation(Dictation())
    assert not captions.isVisible()
    captions.show_dictation(Dictation(recording=TALKING))
    captions.switch(on=False)
    assert not captions.isVisible()
    captions.show_dictation(Dictation(recording=replace(TALKING, partial=" quick update")))
    captions.greet()
    assert not captions.isVisible()


def test_switching_on_shows_where_they_will_be_but_not_over_words(captions):
    captions.greet()
    assert captions.isVisible()
    captions.show_dictation(Dictation(recording=TALKING))
    words = captions._lines.layout.text()
    captions.greet()
    assert captions._lines.layout.text() == words == "Hello team, quick up"


def test_a_failure_hides_what_has_no_text(captions):
    captions.show_dictation(Dictation(recording=Take()))
    captions.show_dictation(Dictation(problem=Problem("No microphone.", "", Remedy.RETRY, serious=True)))
    assert not captions.isVisible()


def test_pending_words_are_lighter(captions):
    captions.show_dictation(Dictation(recording=replace(TALKING, committed="Hi 🙂,", partial=" you")))
    runs = [(run.start, run.length, run.format.foreground().color().name()) for run in captions._lines.layout.formats()]
    assert runs == [(0, 6, CAPTIONS.ink), (6, 4, CAPTIONS.ink_soft)]  # the smile is two UTF-16 units


def test_draws_its_words(captions):
    captions.show_dictation(Dictation(recording=Take()))
    waiting = captions.grab().toImage()
    captions.show_dictation(Dictation(recording=TALKING))
    assert captions.grab().toImage() != waiting


# Lines

WORDS = st.lists(st.sampled_from(["a", "team", "update", "Donaudampfschifffahrt", "会議は明日", "x" * 60]), max_size=40)


@given(WORDS, st.lists(st.tuples(st.integers(0, 6), st.lists(st.sampled_from(["so", "perhaps"]), max_size=8))))
@settings(max_examples=40, deadline=None)
def test_a_line_break_once_shown_stays_and_nothing_scrolls_back(qapp, words, steps):
    font = QFont()
    font.setPixelSize(20)
    lines = CaptionLines(font, QFontMetricsF(font).averageCharWidth() * 20)
    done, settled, top = 0, {}, 0
    for more, pending in steps:
        done += more
        committed = " ".join(words[:done])
        text = committed + "".join(f" {word}" for word in pending)
        lines.show(committed, text[len(committed) :])
        shown = lines.lines[lines.first :]
        assert (0 if not text else 1) <= len(shown) <= ROWS
        if not text:
            top = 0
            continue
        units = len(text.encode("utf-16-le")) // 2
        assert lines.lines[-1].start + lines.lines[-1].length == units
        for line in lines.lines:
            assert settled.get(line.start, line.length) == line.length
            assert not any(start < line.start < start + length for start, length in settled.items())
        if top in settled:
            assert shown[0].start >= min(top, lines.lines[-1].start)
        # The last committed line may still grow, so only those before it are settled.
        steady = len(committed.encode("utf-16-le")) // 2
        settled |= {line.start: line.length for line in lines.lines if line.start + line.length < steady}
        top = shown[0].start


def test_what_scrolled_away_is_not_laid_out_any_more(qapp):
    lines = CaptionLines(QFont(), 200.0)
    for length in range(1, 200):
        lines.show("🙂 word " * length, "and")
        assert len(lines.lines) <= ROWS + 2
    assert lines.layout.text().endswith("🙂 word and")


def test_a_new_text_begins_at_the_top(qapp):
    lines = CaptionLines(QFont(), 100.0)
    for _ in range(2):
        lines.show("many words that need more than two lines of this width", "")
    assert lines.lines[lines.first].start > 0
    lines.show("Other", "")
    assert lines.lines[lines.first].start == 0
