"""Prints every widget that is shown, as a screen reader sees it, as JSON: role, name, description, text.

Run by the system's own Python, which has Debian's bindings of AT-SPI; desktop.py calls it.
"""

import json

import gi

gi.require_version("Atspi", "2.0")
from gi.repository import Atspi, GLib  # noqa: E402


def text_of(widget):
    if widget.get_text_iface() is None:
        return ""
    return Atspi.Text.get_text(widget, 0, Atspi.Text.get_character_count(widget))


def walk(widget, found):
    if widget is None:
        return
    try:
        if widget.get_role() != Atspi.Role.APPLICATION and not widget.get_state_set().contains(Atspi.StateType.SHOWING):
            return
        found.append(
            {
                "role": widget.get_role_name(),
                "name": widget.get_name() or "",
                "description": widget.get_description() or "",
                "text": text_of(widget),
            }
        )
        for i in range(widget.get_child_count()):
            walk(widget.get_child_at_index(i), found)
    except GLib.Error:  # it was deleted while we looked
        return


def main():
    found = []
    for i in range(Atspi.get_desktop_count()):
        desktop = Atspi.get_desktop(i)
        for k in range(desktop.get_child_count()):
            walk(desktop.get_child_at_index(k), found)
    print(json.dumps(found))


main()
