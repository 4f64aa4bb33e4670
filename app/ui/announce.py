"""Say something through the screen reader.

It exists so that a change of state is heard by those who do not see it. Only the Qt thread calls it.
"""

from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QWidget


def announce(widget: QWidget, text: str) -> None:
    """Have the screen reader, if one is on, say `text` after what it is saying."""
    if QAccessible.isActive():
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(widget, text))
