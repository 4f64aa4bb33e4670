"""What the desktop offers Qt, as a line of JSON on stdout: `python -m app.ui.desktop_probe`.

A process of its own, because Qt ends its process where a library or the display is missing, and may wait for ever for a
desktop that does not answer. `sottovoce doctor` runs it and gives up in time.
"""

import json
import sys
import time

from PySide6.QtCore import QMimeData
from PySide6.QtWidgets import QApplication, QSystemTrayIcon

_TRAY_WAIT_S = 1.0  # a tray makes itself known to Qt a moment after the start


def main() -> None:
    """Look, print, and leave everything as it is."""
    application = QApplication(sys.argv[:1])
    deadline = time.monotonic() + _TRAY_WAIT_S
    while not QSystemTrayIcon.isSystemTrayAvailable() and time.monotonic() < deadline:
        application.processEvents()
        time.sleep(0.05)
    held: QMimeData | None = application.clipboard().mimeData()  # asks whoever owns the clipboard
    found = {
        "platform": application.platformName(),
        "tray": QSystemTrayIcon.isSystemTrayAvailable(),
        "clipboard_holds": bool(held and held.formats()),
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
