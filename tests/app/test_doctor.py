"""The checks for real where they need nothing but this machine, and their bounds on what hangs or is missing."""

import json
import threading

import pytest

from app import doctor
from app.cli import main
from app.doctor import Check


@pytest.fixture
def no_display(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)


def test_the_report_for_programs(no_display, capfd):
    code = main(["doctor", "--json"])
    record = json.loads(capfd.readouterr().out)
    checks = {check["name"]: check for check in record["checks"]}
    assert {"screen", "tray", "clipboard", "microphone", "model", "cpu", "threads"} <= set(checks)
    assert all(set(check) == {"name", "status", "detail", "cure"} for check in checks.values())
    assert all(
        check["cure"] or check["status"] == "ok" or check["name"] in ("tray", "clipboard") for check in checks.values()
    )
    assert checks["screen"]["status"] == "missing"
    assert checks["model"]["status"] == "ok"
    assert record["versions"]["sottovoce"] != "missing"
    assert record["dictation"] == (checks["microphone"]["status"] == "ok")
    assert code == (0 if record["dictation"] else 1)


def test_the_report_for_people(no_display, capfd):
    code = main(["doctor"])
    out = capfd.readouterr().out
    assert "missing  screen      There is no display" in out
    assert "ok       model       tiny.en" in out
    assert out.rstrip().endswith("Dictation works here." if code == 0 else "see above.")


def test_the_desktop_is_asked_through_qt(monkeypatch):
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    tray, clipboard = doctor._desktop(doctor._screen())
    assert (tray.name, tray.status) == ("tray", "missing")
    assert (clipboard.name, clipboard.status) == ("clipboard", "ok")
    assert "offscreen" in clipboard.detail


def test_a_desktop_that_does_not_start_qt_is_failed_not_fatal(monkeypatch):
    monkeypatch.setenv("QT_QPA_PLATFORM", "no-such-platform")
    assert [check.status for check in doctor._desktop(Check("screen", "ok", ""))] == ["failed", "failed"]


def test_what_hangs_is_given_up():
    release = threading.Event()
    try:
        [check] = doctor._within(0.05, "microphone", lambda: [Check("microphone", "ok", "")] * release.wait())
        assert (check.name, check.status) == ("microphone", "failed")
        assert "no answer" in check.detail
        assert not doctor.waits_for_nobody()
    finally:
        release.set()


def test_what_is_not_installed_is_said():
    def look():
        raise ImportError("no module named numba")

    [check] = doctor._within(5, "threads", look)
    assert check.status == "failed"
    assert "numba" in check.detail
    assert check.cure
