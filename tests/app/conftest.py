"""What the tests of the window share: Qt without a screen, and a theme."""

import os
from collections.abc import Iterator

import pytest

# No window pops up, and none depends on a window manager, unless whoever runs the tests asks for it.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from app.ui.theme import Theme


@pytest.fixture
def theme(qapp: QApplication) -> Iterator[Theme]:
    """The light theme, until the test ends."""
    theme = Theme(qapp, "light")
    yield theme
    theme.deleteLater()
