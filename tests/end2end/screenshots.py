"""Screenshots of every surface in every state, to be looked at: python tests/end2end/screenshots.py DIRECTORY.

Light and dark, narrow and wide, at the scales 1 and 2 and with text twice as big, each in a process of its own
because Qt reads them once. The widgets are the real ones, fed with the events of a dictation of the sample clip.
Needs a display, or QT_QPA_PLATFORM=offscreen.
"""

import argparse
import os
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from PySide6.QtGui import QColor, QPainter, QPixmap  # noqa: E402
from PySide6.QtTest import QTest  # noqa: E402
from PySide6.QtWidgets import QApplication  # noqa: E402

from app.dictation import Copied, Dictation, Start, Started, State, Wish, advance  # noqa: E402
from app.events import Failed, Final, Level, Listening, ModelLoading, ModelReady, Notice, Partial  # noqa: E402
from app.ui import icons  # noqa: E402
from app.ui.captions import Captions  # noqa: E402
from app.ui.footer import Choice  # noqa: E402
from app.ui.main_window import MainWindow  # noqa: E402
from app.ui.theme import DARK, LIGHT, Theme  # noqa: E402

SIZES = {"narrow": (420, 640), "wide": (900, 640), "small": (340, 580), "large": (1400, 1000)}
RUNS = {"1x": "1", "2x": "2", "text200": "1"}  # and the scale of the screen
TEXT = (
    "Hello team, quick update on the release. The installer is finished, the translations are almost done, and "
    "testing will start on Monday. Please report anything odd before Friday."
)
OTHERS = (
    "Lunch at one?",
    "Die Donaudampfschifffahrtsgesellschaft hat die Sitzung auf Freitag verschoben, weil der Entwurf noch nicht fertig "
    "war. 会議は明日の十時に始まります。",
    "Dear all, the meeting moves to Friday at ten because the draft was not ready yet. I will send it around on "
    "Wednesday evening, so that everyone has a day to read it.",
    "Buy milk, eggs and two lemons.",
)
NINE = datetime(2025, 3, 3, 9, 5)


def tell(*inputs: object) -> Dictation:
    """Return the dictation after these inputs, numbering sessions as the pipeline does."""
    now, session = Dictation(), 0
    for what in inputs:
        now, actions = advance(now, what)
        if Start() in actions:
            session += 1
            now, _ = advance(now, Started(session, NINE + timedelta(minutes=7 * session)))
    return now


def words_of(start: int, stop: int) -> str:
    """Return some words of the text."""
    return " ".join(TEXT.split()[start:stop])


def spoken(session: int, text: str) -> tuple[object, ...]:
    """Return the inputs of one whole dictation."""
    final = Final(session, 5.0, 5.2, text, "en")
    return Wish.START, Listening(session, "Microphone"), Wish.STOP, final, Copied(text)


def scenes() -> dict[str, Dictation]:
    """Return a dictation for each thing that the window can look like."""
    ready = (ModelReady("tiny.en"),)
    history = ready + tuple(what for n, text in enumerate(OTHERS, 1) for what in spoken(n, text))
    number = len(OTHERS) + 1
    talking = (Wish.START, Listening(number, "Microphone"), Level(number, 7.4, -24.0, 0.4))
    words = Partial(number, 7.0, 7.4, words_of(0, 13), " " + words_of(13, 18))
    lost = Failed(number, "The microphone was unplugged.", "Connect it, or choose another one below.", words_of(0, 11))
    return {
        "empty": tell(*ready),
        "loading": tell(ModelLoading("tiny.en", 3, 7)),
        "preparing": tell(*ready, Wish.START),
        "listening": tell(*ready, Wish.START, replace(talking[1], session=1), replace(words, session=1),
                          replace(talking[2], session=1)),
        "listening-again": tell(*history, *talking, words),
        "finishing": tell(*history, *talking, words, Wish.STOP),
        "finished": tell(*history, *spoken(number, TEXT)),
        "error": tell(*history, *talking, words, lost),
        "notice": tell(*history, *talking, words, Notice(number, "Only silence comes from the microphone.",
                                                         "Is it muted?")),
    }  # fmt: skip


def shoot(qt: QApplication, directory: Path, name: str) -> None:
    """Make every picture of one run."""
    for mode, colours in (("light", LIGHT), ("dark", DARK)):
        theme = Theme(qt, mode)
        window = MainWindow(theme)
        window.footer.microphone.offer((Choice("", "System default (Built-in Audio Analogue Stereo)"),), "")
        window.footer.model.offer((Choice("tiny.en", "tiny.en"), Choice("base", "base")), "tiny.en")
        window.show()
        QTest.qWaitForWindowExposed(window)
        for size, (width, height) in SIZES.items():
            window.resize(width, height)
            QTest.qWait(200)  # the window manager answers in its own time
            for scene, now in scenes().items():
                window.show_dictation(now)
                if now.shown:
                    window.control.show_level(now.shown.level_dbfs)
                QTest.qWait(40)
                window.grab().save(str(directory / f"window-{scene}-{size}-{mode}-{name}.png"))
        window.hide()
        captions = Captions(theme)
        captions.switch(on=True)
        captions.greet()
        for scene, now in scenes().items():
            captions.show_dictation(now)
            qt.processEvents()
            over(captions.grab(), colours.surface).save(str(directory / f"captions-{scene}-{mode}-{name}.png"))
        captions.hide()
        for widget in (window, captions, theme):
            widget.deleteLater()
    tray().save(str(directory / f"tray-{name}.png"))


def over(picture: QPixmap, colour: str) -> QPixmap:
    """Return a see-through picture on a plain ground."""
    ground = QPixmap(picture.size())
    ground.setDevicePixelRatio(picture.devicePixelRatio())
    ground.fill(QColor(colour))
    painter = QPainter(ground)
    painter.drawPixmap(0, 0, picture)
    painter.end()
    return ground


def tray() -> QPixmap:
    """Return the five tray icons at 16, 22 and 32 px on light and dark panels, and without colour."""
    sheet = QPixmap(5 * 48, 6 * 44)
    sheet.fill(QColor("#f0f0f0"))
    painter = QPainter(sheet)
    painter.fillRect(0, 88, 5 * 48, 88, QColor("#202020"))
    painter.fillRect(0, 176, 5 * 48, 44, QColor("#808080"))
    for column, state in enumerate(State):
        for row in range(6):
            colours = DARK if row in (2, 3) else LIGHT
            ground = "#555555" if row == 5 else colours.of(state)
            size = (16, 22, 16, 32, 22, 16)[row]
            icon = icons.tile(state, ground, colours.on_accent)
            painter.drawPixmap(column * 48 + 8, row * 44 + 6, icon.pixmap(size, size))
    painter.end()
    return sheet


def main() -> None:
    """Start one process for each run, or be one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--run", choices=RUNS, help="only this one")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.run is None:
        for name, scale in RUNS.items():
            command = [sys.executable, __file__, str(options.directory), "--run", name]
            subprocess.run(command, env=os.environ | {"QT_SCALE_FACTOR": scale}, check=True)
        return
    qt = QApplication(["sottovoce"])
    if options.run == "text200":
        font = qt.font()
        font.setPixelSize(28)
        qt.setFont(font)
    shoot(qt, options.directory, options.run)


if __name__ == "__main__":
    main()
