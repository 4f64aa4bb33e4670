"""Whether a window can be shown here at all.

It exists because Qt ends the process with a page of text when there is no display. This only connects and
disconnects, without Qt, so that any command can ask before it imports Qt. Called from the main thread.
"""

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

_TIMEOUT_S = 2.0
_X11_SOCKETS = Path("/", "tmp", ".X11-unix")  # fixed by the X Window System on every machine
_X11_PORT = 6000


def display_problem(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return one sentence that says why no window can be shown; None when one can."""
    if sys.platform in ("win32", "darwin"):
        return None
    platforms = [name.partition(":")[0] for name in environment.get("QT_QPA_PLATFORM", "").split(";") if name]
    checks = {"wayland": _wayland_problem, "wayland-egl": _wayland_problem, "xcb": _x11_problem}
    if any(name not in checks for name in platforms):
        return None  # such as offscreen or vnc: whoever chose it needs no display
    problems = [checks[name](environment) for name in platforms or ("wayland", "xcb")]
    if None in problems:
        return None
    told = [problem for problem in problems if problem]
    if not told:
        return "There is no display: neither WAYLAND_DISPLAY nor DISPLAY is set."
    return f"There is no display: {' and '.join(told)}."


def _wayland_problem(environment: Mapping[str, str]) -> str | None:
    """Return what is wrong, "" when Wayland is simply not there, None when it answers."""
    name = environment.get("WAYLAND_DISPLAY", "")
    if not name:
        return ""
    path = Path(environment.get("XDG_RUNTIME_DIR", "/"), name)  # an absolute name replaces the folder
    return None if _answers(str(path)) else f"nothing answers at WAYLAND_DISPLAY={name}"


def _x11_problem(environment: Mapping[str, str]) -> str | None:
    """Return what is wrong, "" when X11 is simply not there, None when it answers."""
    name = environment.get("DISPLAY", "")
    if not name:
        return ""
    host, _, rest = name.rpartition(":")
    number = rest.partition(".")[0]
    if not number.isdigit():
        return f"DISPLAY={name} names no display"
    if host in ("", "unix"):
        path = str(_X11_SOCKETS / f"X{number}")
        answers = _answers(path) or (sys.platform == "linux" and _answers("\0" + path))
    else:
        answers = _listens(host, _X11_PORT + int(number))
    return None if answers else f"nothing answers at DISPLAY={name}"


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_TIMEOUT_S)
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host.strip("[]"), port), timeout=_TIMEOUT_S).close()
    except (OSError, OverflowError):
        return False
    return True
