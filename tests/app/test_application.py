"""The app as a whole, without a screen: the real pipeline and model dictate a clip into the real window."""

import os
import signal
import threading
import wave
from itertools import islice

import numpy as np
import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QGuiApplication

from app.application import SAMPLE_KEY, Application, StopSignals
from app.dictation import State
from app.resources import SAMPLE_CLIP
from engine.audio import SAMPLE_RATE, decode

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")
LOAD_MS = 120_000  # the very first start of a machine compiles the kernels


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """The first words of the sample clip: "Hello team, quick update on the release.\""""
    path = tmp_path_factory.mktemp("clips") / "clip.wav"
    samples = np.concatenate(list(islice(decode(SAMPLE_CLIP), 200)))[: round(2.9 * SAMPLE_RATE)]
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return path


@pytest.fixture
def start(qapp, qtbot, tmp_path):
    """Starts the app, and closes it again when the test has not."""
    before = set(threading.enumerate())
    running = []

    def app(**options):
        made = Application(qapp, tmp_path / "settings.json", **({"model": None, "clip": None} | options))
        running.append(made)
        made.open()
        return made

    yield app
    for made in running:
        made.close()
        for widget in (made.window, made.captions, made):
            widget.deleteLater()
    assert set(threading.enumerate()) <= before, "a thread outlived the app"


def test_a_clip_becomes_text_in_window_captions_and_clipboard(start, clip, qtbot):
    app = start(clip=clip)
    footer = app.window.footer
    assert footer.microphone.currentText() == "clip.wav"
    qtbot.mouseClick(footer.captions, Qt.MouseButton.LeftButton)
    states, partials = [], []

    def note():
        if app.state not in states[-1:]:
            states.append(app.state)
        partials.append(app.window.live.toPlainText())

    app.bridge.sent.connect(lambda _: QTimer.singleShot(0, note))
    qtbot.keyClick(app.window.control, Qt.Key.Key_Space)  # before the model is there: it records at once
    qtbot.waitUntil(lambda: app.window.status.words == "Copied to the clipboard", timeout=LOAD_MS)
    qtbot.wait(20)
    text = QGuiApplication.clipboard().text()
    assert text.lower().startswith("hello team")
    assert app.window.live.toPlainText() == text
    assert states[-3:] == [State.LISTENING, State.FINISHING, State.IDLE]
    assert app.captions.isVisible()

    partials.clear()
    qtbot.keyClick(app.window.control, Qt.Key.Key_Space)
    assert app.state is State.PREPARING
    (earlier,) = app.window.history.buttons
    qtbot.waitUntil(lambda: any(partials), timeout=LOAD_MS)  # words while the clip still plays
    app.window.activateWindow()  # Qt's screenless platform gives any new window the focus
    qtbot.waitUntil(app.window.isActiveWindow)
    qtbot.keyClick(app.window, Qt.Key.Key_Escape)
    assert app.state is State.IDLE
    qtbot.mouseClick(earlier, Qt.MouseButton.LeftButton)
    assert app.window.status.words == "Copied to the clipboard"


def test_choices_are_kept_and_the_sample_clip_is_for_now(start, qtbot, tmp_path):
    app = start()
    footer = app.window.footer
    qtbot.keyClick(footer.theme, Qt.Key.Key_End)
    footer.microphone.setCurrentIndex(footer.microphone.findData(SAMPLE_KEY))
    footer.microphone.activated.emit(footer.microphone.currentIndex())
    app.close()
    again = start()
    assert again.window.footer.theme.currentText() == "Dark"
    assert again.theme.choice == "dark"
    assert again.window.footer.microphone.key == ""


def test_a_damaged_settings_file_is_said_in_the_window(start, tmp_path):
    (tmp_path / "settings.json").write_text("{")
    app = start()
    assert "damaged" in app.window.status.words


def test_an_unknown_model_is_said_and_another_one_offered(start, qtbot):
    app = start(model="no-such-model")
    qtbot.waitUntil(lambda: "no-such-model" in app.window.status.words, timeout=LOAD_MS)
    assert app.state is State.ERROR
    assert app.window.status.action.text().replace("&", "") == "Choose a model"


def test_quitting_while_it_records_ends_every_thread(start, clip, qtbot):
    app = start(clip=clip)
    qtbot.keyClick(app.window.control, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: app.state is State.LISTENING)
    app.close()  # the fixture looks at the threads
    assert not app.window.isVisible()


def test_closing_the_window_quits_where_there_is_no_tray(start, qapp):
    app = start()
    QTimer.singleShot(0, app.window.close)
    assert qapp.exec() == 0


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_event_loop(qapp, number):
    handler = signal.getsignal(number)
    signals = StopSignals(qapp)
    QTimer.singleShot(0, lambda: os.kill(os.getpid(), number))
    assert qapp.exec() == 0
    signals.close()
    assert signal.getsignal(number) is handler


def test_a_signal_before_the_event_loop_ends_it_all_the_same(qapp):
    signals = StopSignals(qapp)
    signal.raise_signal(signal.SIGTERM)
    too_late = QTimer(singleShot=True, interval=5_000)
    too_late.timeout.connect(lambda: qapp.exit(1))
    too_late.start()
    assert qapp.exec() == 0
    too_late.stop()
    signals.close()
