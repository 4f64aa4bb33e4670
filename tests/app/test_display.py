"""Whether there is a display: sockets that answer, that are stale, that are not there."""

import socket
import sys

import pytest

from app import display
from app.display import display_problem

pytestmark = pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="there is always a display")

NOTHING_SET = "There is no display: neither WAYLAND_DISPLAY nor DISPLAY is set."


@pytest.fixture
def sockets(tmp_path_factory, monkeypatch):
    """A directory short enough for sockets, which stands for X11's as well."""
    directory = tmp_path_factory.mktemp("d")
    monkeypatch.setattr(display, "_X11_SOCKETS", directory)
    return directory


@pytest.fixture
def listen(sockets):
    """Listens at a name in the directory; a stale socket is one that nobody listens at any more."""
    opened = []

    def at(name, *, stale=False):
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(sockets / name))
        server.listen()
        opened.append(server)
        if stale:
            server.close()

    yield at
    for server in opened:
        server.close()


def test_nothing_set():
    assert display_problem({}) == NOTHING_SET
    assert display_problem({"DISPLAY": "", "WAYLAND_DISPLAY": ""}) == NOTHING_SET


@pytest.mark.parametrize("name", [":7", ":7.0", "unix:7"])
def test_x11_that_answers(listen, name):
    listen("X7")
    assert display_problem({"DISPLAY": name}) is None


def test_x11_that_does_not_answer(listen):
    listen("X7", stale=True)
    assert display_problem({"DISPLAY": ":7"}) == "There is no display: nothing answers at DISPLAY=:7."
    assert display_problem({"DISPLAY": ":8"}) == "There is no display: nothing answers at DISPLAY=:8."
    assert display_problem({"DISPLAY": "x"}) == "There is no display: DISPLAY=x names no display."
    assert "nothing answers" in display_problem({"DISPLAY": "127.0.0.1:60000"})


def test_x11_over_the_network(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(display, "_X11_PORT", server.getsockname()[1] - 10)
        assert display_problem({"DISPLAY": "127.0.0.1:10.0"}) is None


def test_wayland_by_name_and_by_path(listen, sockets):
    listen("wayland-3")
    assert display_problem({"WAYLAND_DISPLAY": "wayland-3", "XDG_RUNTIME_DIR": str(sockets)}) is None
    assert display_problem({"WAYLAND_DISPLAY": str(sockets / "wayland-3")}) is None
    assert "WAYLAND_DISPLAY=wayland-4" in display_problem(
        {"WAYLAND_DISPLAY": "wayland-4", "XDG_RUNTIME_DIR": str(sockets)}
    )


def test_either_is_enough_unless_qt_was_told_which(listen, sockets):
    listen("X7")
    environment = {"DISPLAY": ":7", "WAYLAND_DISPLAY": "gone", "XDG_RUNTIME_DIR": str(sockets)}
    assert display_problem(environment) is None
    assert display_problem(environment | {"QT_QPA_PLATFORM": "xcb"}) is None
    assert "gone" in display_problem(environment | {"QT_QPA_PLATFORM": "wayland"})
    assert display_problem(environment | {"QT_QPA_PLATFORM": "wayland;xcb"}) is None


def test_platforms_without_a_display_need_none():
    assert display_problem({"QT_QPA_PLATFORM": "offscreen"}) is None
    assert display_problem({"QT_QPA_PLATFORM": "vnc:size=800x600"}) is None
    assert display_problem({"QT_QPA_PLATFORM": "xcb"}) == "There is no display: DISPLAY is not set."


def test_libraries_that_qt_would_miss_are_named(listen, monkeypatch):
    listen("X7")
    monkeypatch.setitem(display._X11_LIBRARIES, "libxcb-nonsense.so.9", "libxcb-nonsense9")
    told = "Qt cannot open windows without libxcb-nonsense9. Type: sudo apt install libxcb-nonsense9"
    assert display_problem({"DISPLAY": ":7"}) == told
