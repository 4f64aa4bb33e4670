"""The tray: icons that can be told apart, a menu that works, and a host that comes and goes."""

from itertools import combinations

import pytest
from PySide6.QtWidgets import QSystemTrayIcon

from app.dictation import Dictation, Problem, Remedy, State, Take, Wish
from app.ui import icons
from app.ui.theme import DARK, LIGHT
from app.ui.tray import Tray

pytestmark = pytest.mark.qt_log_ignore("No such signal .*systemTrayWindowChanged")  # as there is no panel

LISTENING = Dictation(recording=Take(1, heard=True))
FAILED = Dictation(problem=Problem("No.", "", Remedy.RETRY, serious=True))


@pytest.fixture
def host(monkeypatch):
    """A panel that can be switched on and off: Qt's screenless platform never has one."""
    there = [False]
    monkeypatch.setattr(QSystemTrayIcon, "isSystemTrayAvailable", lambda: there[0])
    return there


@pytest.fixture
def tray(theme, host):
    tray = Tray(theme)
    yield tray
    tray.close()


def greys(state, ground, shape):
    """The tile at 16 px without colour: its shape in white on one grey."""
    image = icons.tile(state, ground, shape).pixmap(16, 16).toImage()
    assert image.width() == 16
    return [image.pixelColor(x, y).lightness() for y in range(16) for x in range(16)]


def test_icons_differ_at_16_px_without_colour(qapp):
    shown = {state: greys(state, "#555555", "#ffffff") for state in State}
    for one, other in combinations(State, 2):
        differing = sum(abs(a - b) > 60 for a, b in zip(shown[one], shown[other], strict=True))
        assert differing >= 8, (one, other)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_icons_have_both_a_light_and_a_dark_part(qapp, colours):
    for state in State:
        seen = greys(state, colours.of(state), colours.on_accent)
        assert max(seen) - min(grey for grey in seen if grey) > 70, state


def test_icon_comes_and_goes_with_its_host(tray, host, qtbot):
    tray.look()
    assert not tray.shown
    host[0] = True
    with qtbot.waitSignal(tray.present) as came:
        tray.look()
    assert came.args == [True]
    assert tray.shown
    host[0] = False
    with qtbot.waitSignal(tray.present, timeout=3000) as went:  # it looks by itself
        pass
    assert went.args == [False]
    assert not tray.shown
    tray.tell("No panel", "nothing happens")


def labels(tray):
    return {action.text().replace("&", ""): action for action in tray._menu.actions() if action.text()}


def test_menu_reports_and_offers_what_is_possible(tray, qtbot):
    menu = labels(tray)
    assert list(menu) == ["Start dictation", "Stop dictation", "Captions", "Show window", "Quit"]
    assert (menu["Start dictation"].isEnabled(), menu["Stop dictation"].isEnabled()) == (True, False)
    with qtbot.waitSignal(tray.asked) as asked:
        menu["Start dictation"].trigger()
    assert asked.args == [Wish.START]
    tray.show_dictation(LISTENING)
    assert (menu["Start dictation"].isEnabled(), menu["Stop dictation"].isEnabled()) == (False, True)
    with qtbot.waitSignal(tray.asked) as asked:
        menu["Stop dictation"].trigger()
    assert asked.args == [Wish.STOP]
    with qtbot.waitSignal(tray.captions_asked) as captions:
        menu["Captions"].trigger()
    assert captions.args == [True]
    for label, signal in (("Show window", tray.show_asked), ("Quit", tray.quit_asked)):
        with qtbot.waitSignal(signal):
            menu[label].trigger()


def test_icon_shows_the_state(tray, host):
    host[0] = True
    tray.look()
    idle = tray._icon.icon().pixmap(16, 16).toImage()
    assert tray._icon.toolTip() == "Sottovoce: Ready"
    for now, words in ((LISTENING, "Listening"), (FAILED, "Problem")):
        tray.show_dictation(now)
        assert tray._icon.toolTip() == f"Sottovoce: {words}"
        assert tray._icon.icon().pixmap(16, 16).toImage() != idle
