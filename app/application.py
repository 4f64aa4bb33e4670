"""The desktop app: the only place where its objects are built and wired.

It exists so that who talks to whom can be read in one file. `run` builds everything on the Qt thread, which
from then on owns the dictation state, the settings and every widget; the pipeline's threads reach it
through the bridge alone.
"""

import argparse
import logging
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QEvent, QObject, QSocketNotifier, Qt, QTimer, Slot
from PySide6.QtWidgets import QApplication

from app import settings
from app.bridge import Bridge
from app.capture import FilePlayback, Microphone, MicrophoneInfo, Source, microphones, refresh
from app.dictation import (
    Action,
    Cancel,
    Copied,
    Copy,
    Dictation,
    Input,
    Problem,
    Remedy,
    Start,
    Started,
    State,
    Stop,
    advance,
)
from app.errors import AppError, SettingsError
from app.events import Failed, ModelFailed, ModelReady
from app.pipeline import Pipeline
from app.resources import SAMPLE_CLIP
from app.ui.captions import Captions
from app.ui.clipboard import Clipboard
from app.ui.footer import Choice
from app.ui.main_window import MainWindow
from app.ui.theme import Theme
from app.ui.tray import Tray
from engine.catalogue import known

CLOSE_TIMEOUT_S = 5.0
SAMPLE_KEY = "file:sample"  # what the microphone picker calls the two files that it may offer
CLIP_KEY = "file:input"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MicrophonesListed:
    """The microphones there are now, or why they cannot be listed; sent by the thread that looked."""

    microphones: tuple[MicrophoneInfo, ...]
    problem: str


def run(arguments: Sequence[str]) -> int:
    """Run the app until the person quits it and return its exit code.

    `arguments`: [--model NAME|PATH] [--input FILE]; the caller has made sure that there is a display.
    """
    parser = argparse.ArgumentParser(prog="sottovoce")
    parser.add_argument("--model", help="use this model, a name or a directory, for this run")
    parser.add_argument("--input", type=Path, help="dictate this audio file instead of the microphone")
    options = parser.parse_args(arguments)
    qt = QtApplication(["sottovoce"])
    application = Application(qt, settings.default_path(), model=options.model, clip=options.input)
    application.open()
    try:
        return qt.exec()
    finally:
        application.close()


class QtApplication(QApplication):
    """Qt's own, which ends when the desktop asks it to, though closing its window may only hide it."""

    def __init__(self, arguments: list[str]) -> None:
        """`arguments`: the program's name, then what Qt itself understands."""
        super().__init__(arguments)
        self.setApplicationName("sottovoce")
        self.setApplicationDisplayName("Sottovoce")
        self.setDesktopFileName("sottovoce")
        self.setQuitOnLastWindowClosed(False)

    def event(self, event: QEvent) -> bool:
        """End on the desktop's request to quit without asking each window."""
        if event.type() is QEvent.Type.Quit:
            self.exit(0)
            return True
        return super().event(event)


class Application(QObject):
    """Everything there is one of, from `open` to `close`."""

    def __init__(self, qt: QApplication, settings_path: Path, *, model: str | None, clip: Path | None) -> None:
        """`model` and `clip` (an audio file) replace what the settings say, for this run."""
        super().__init__(qt)
        self._qt = qt
        self._path = settings_path
        self._loaded = settings.load(settings_path)
        self._settings = self._loaded.settings
        self._now = Dictation()
        self._clips = {SAMPLE_KEY: SAMPLE_CLIP} | ({CLIP_KEY: clip} if clip else {})
        self._source_key = CLIP_KEY if clip else self._settings.microphone
        self._chosen_model = model or self._settings.model
        self._told_of_tray = False
        self._listing: threading.Thread | None = None

        self.theme = Theme(qt, self._settings.theme)
        self.bridge = Bridge(self._receive, self)
        self.pipeline = Pipeline(self.bridge.send)
        self.window = MainWindow(self.theme)
        self.captions = Captions(self.theme)
        self.tray = Tray(self.theme, self)
        self.clipboard = Clipboard(qt)
        self._connect()

    @property
    def state(self) -> State:
        """What every surface shows now."""
        return self._now.state

    def open(self) -> None:
        """Show the window, and begin to load the model and to look for microphones."""
        sys.excepthook = self._unexpected
        self._signals = StopSignals(self._qt)
        self._offer_microphones(MicrophonesListed((), ""))
        self._offer_models()
        self._show_captions(self._settings.captions and not Captions.obstacle())
        self.window.show()
        self.tray.look()
        for problem in self._loaded.problems:
            self._say(problem)
        self.pipeline.load_model(self._chosen_model)
        self._list_microphones()

    def close(self) -> None:
        """End everything, in this order; one step that fails does not keep the rest from ending."""
        for step in (
            self.tray.close,
            self.captions.close,
            self.window.hide,
            lambda: self.pipeline.close(CLOSE_TIMEOUT_S),
            self._wait_for_listing,
            self.bridge.close,
            self._signals.close,
        ):
            try:
                step()
            except Exception:
                _log.exception("while closing")
        sys.excepthook = sys.__excepthook__

    def _connect(self) -> None:
        window, footer, tray = self.window, self.window.footer, self.tray
        window.asked.connect(self._feed)
        window.copy_asked.connect(self.clipboard.put)
        window.quit_asked.connect(self._quit)
        window.closing.connect(self._close_window)
        footer.microphones_wanted.connect(self._list_microphones)
        footer.microphone_chosen.connect(self._choose_microphone)
        footer.model_chosen.connect(self._choose_model)
        footer.theme_chosen.connect(self._choose_theme)
        footer.captions_asked.connect(self._choose_captions)
        tray.asked.connect(self._feed)
        tray.captions_asked.connect(self._choose_captions)
        tray.show_asked.connect(self._show_window)
        tray.quit_asked.connect(self._quit)
        tray.present.connect(self._tray_present)
        self.clipboard.copied.connect(self._copied)

    # Dictation

    def _receive(self, event: object) -> None:
        """Handle what comes from another thread."""
        if isinstance(event, MicrophonesListed):
            self._listing = None
            self._offer_microphones(event)
            return
        self._feed(event)  # type: ignore[arg-type]
        if isinstance(event, ModelReady):
            self._chosen_model = event.model
            self._offer_models()
            self._keep(model=event.model)
        elif isinstance(event, ModelFailed):
            self._chosen_model = self._now.model or event.model
            self._offer_models()
        elif isinstance(event, Failed):
            self._list_microphones()

    @Slot(object)
    def _feed(self, what: Input) -> None:
        self._now, actions = advance(self._now, what)
        for action in actions:
            self._carry_out(action)
        self.window.show_dictation(self._now)
        self.captions.show_dictation(self._now)
        self.tray.show_dictation(self._now)

    def _carry_out(self, action: Action) -> None:
        match action:
            case Start():
                self._feed(Started(self.pipeline.start(self._source()), datetime.now()))
            case Stop():
                self.pipeline.stop()
            case Cancel():
                self.pipeline.cancel()
            case Copy(text):
                self.clipboard.put(text)

    def _source(self) -> Source:
        clip = self._clips.get(self._source_key)
        return FilePlayback(clip) if clip else Microphone(self._source_key or None)

    @Slot(str)
    def _copied(self, text: str) -> None:
        self._feed(Copied(text))

    def _say(self, message: str, hint: str = "") -> None:
        self._feed(Problem(message, hint, Remedy.DISMISS, serious=False))

    # Choices

    @Slot()
    def _list_microphones(self) -> None:
        if self._listing is None:
            self._listing = threading.Thread(target=self._look, name="microphone list", daemon=True)
            self._listing.start()

    def _look(self) -> None:
        """On a thread of its own: PortAudio takes its time, or a dead sound server all of it."""
        try:
            refresh()
            listed = MicrophonesListed(microphones(), "")
        except AppError as error:
            listed = MicrophonesListed((), error.message)
        self.bridge.send(listed)

    def _wait_for_listing(self) -> None:
        if self._listing:
            self._listing.join(CLOSE_TIMEOUT_S)

    def _offer_microphones(self, listed: MicrophonesListed) -> None:
        default = next((info.label for info in listed.microphones if info.default), "")
        choices = [Choice("", f"System default ({default})" if default else "System default", listed.problem)]
        choices += [Choice(info.name, info.label) for info in listed.microphones]
        labels = {SAMPLE_KEY: "Sample clip"}
        choices += [Choice(key, labels.get(key, path.name), str(path)) for key, path in self._clips.items()]
        if self._source_key not in {choice.key for choice in choices}:
            name = self._source_key.removeprefix("pulse:")
            choices.append(Choice(self._source_key, f"{name} (not connected)"))
        self.window.footer.microphone.offer(tuple(choices), self._source_key)

    def _offer_models(self) -> None:
        choices = [
            Choice(model.name, model.name, f"{model.about}, {model.size_mb} MB")
            if model.installed
            else Choice(model.name, f"{model.name} (not installed)", model.install, available=False)
            for model in known()
        ]
        if self._chosen_model not in {choice.key for choice in choices}:
            choices.append(Choice(self._chosen_model, Path(self._chosen_model).name, self._chosen_model))
        self.window.footer.model.offer(tuple(choices), self._chosen_model)

    @Slot(str)
    def _choose_microphone(self, key: str) -> None:
        self._source_key = key
        if key not in self._clips:
            self._keep(microphone=key)

    @Slot(str)
    def _choose_model(self, key: str) -> None:
        self.pipeline.load_model(key)

    @Slot(str)
    def _choose_theme(self, choice: str) -> None:
        self.theme.choose(choice)
        self._keep(theme=choice)

    @Slot(bool)
    def _choose_captions(self, on: bool) -> None:
        obstacle = Captions.obstacle() if on else None
        if obstacle:
            self._say(obstacle, "Start the app with QT_QPA_PLATFORM=xcb to have them.")
        self._show_captions(on and not obstacle)
        self.captions.greet()
        self._keep(captions=on and not obstacle)

    def _show_captions(self, on: bool) -> None:
        self.captions.switch(on=on)
        self.window.footer.captions.setChecked(on)
        self.tray.show_captions(on=on)

    def _keep(self, **changes: object) -> None:
        """Save these choices unless they are saved already."""
        changed = replace(self._settings, **changes)  # type: ignore[arg-type]
        if changed == self._settings:
            return
        self._settings = changed
        try:
            settings.save(changed, self._path)
        except SettingsError as error:
            self._say(error.message, error.hint)

    # The window, the tray and the end

    @Slot()
    def _show_window(self) -> None:
        self.window.show()
        self.window.setWindowState(self.window.windowState() & ~Qt.WindowState.WindowMinimized)
        self.window.raise_()
        self.window.activateWindow()

    @Slot()
    def _close_window(self) -> None:
        if not self.tray.shown:
            self._quit()
            return
        self.window.hide()
        if not self._told_of_tray:
            self._told_of_tray = True
            self.tray.tell("Sottovoce is still here", "Its icon has dictation and Quit in its menu.")

    @Slot(bool)
    def _tray_present(self, present: bool) -> None:
        if not present and not self.window.isVisible():
            self._show_window()  # there is no other way back to it

    @Slot()
    def _quit(self) -> None:
        self._qt.exit(0)

    def _unexpected(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """A wall: an error in our own code on the Qt thread is logged and said, and the app goes on."""
        _log.critical("an error in the app", exc_info=(kind, error, trace))
        self._say("Something went wrong in the app.", "Please report it; the log says more.")


class StopSignals:
    """Turns SIGINT and SIGTERM into the end of Qt's event loop, which Python alone cannot wake."""

    def __init__(self, qt: QApplication) -> None:
        """From now on; the handlers before come back with `close`."""
        self._ours, theirs = socket.socketpair()
        self._theirs = theirs
        theirs.setblocking(False)
        self._wakeup = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)

        def end(*_: object) -> None:
            QTimer.singleShot(0, lambda: qt.exit(0))  # a plain exit before the event loop begins would be lost

        wanted = (signal.SIGINT, signal.SIGTERM)
        self._handlers = {number: signal.signal(number, end) for number in wanted}
        # Python runs a handler between two bytecodes; reading the socket gives it the occasion.
        self._notifier = QSocketNotifier(self._ours.fileno(), QSocketNotifier.Type.Read)
        self._notifier.activated.connect(lambda: self._ours.recv(64))

    def close(self) -> None:
        """Leave signals as they were."""
        self._notifier.setEnabled(False)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        self._ours.close()
        self._theirs.close()
