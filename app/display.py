"""Whether a window can be shown here at all.

It exists because Qt ends the process with a page of text when there is no display. This only connects and
disconnects, without Qt, so that any command can ask before it imports Qt. Called from the main thread.
"""

import ctypes
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

_TIMEOUT_S = 2.0
_X11_SOCKETS = Path("/", "tmp", ".X11-unix")  # fixed by the X Window System on every machine
_X11_PORT = 6000
# What Qt needs for X11, brings not along and ends the process without; and the Debian package that has it.
_X11_LIBRARIES = {
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}


def display_problem(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return one or two sentences that say why no window can be shown, and the cure; None when one can."""
    if sys.platform in ("win32", "darwin"):
        return None
    platforms = [name.partition(":")[0] for name in environment.get("QT_QPA_PLATFORM", "").split(";") if name]
    checks = {"wayland": _wayland_problem, "wayland-egl": _wayland_problem, "xcb": _x11_problem}
    if any(name not in checks for name in platforms):
        return None  # such as offscreen or vnc: whoever chose it needs no display
    problems = {name: checks[name](environment) for name in platforms or ("wayland", "xcb")}
    working = [name for name, problem in problems.items() if problem is None]
    if working:
        return _libraries_problem() if working == ["xcb"] else None
    told = [problem for problem in problems.values() if problem]
    unset = "DISPLAY is not set" if list(problems) == ["xcb"] else "neither WAYLAND_DISPLAY nor DISPLAY is set"
    return f"There is no display: {' and '.join(told) or unset}."


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


def _libraries_problem() -> str | None:
    missing = []
    for library, package in _X11_LIBRARIES.items():
        try:
            ctypes.CDLL(library)
        except OSError:
            missing.append(package)
    if not missing:
        return None
    return f"Qt cannot open windows without {', '.join(missing)}. Type: sudo apt install {' '.join(missing)}"


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
