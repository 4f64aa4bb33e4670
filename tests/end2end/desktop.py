"""A desktop of its own for one test: X server, window manager, session bus and screen reader's view of the windows.

What a person would use is used: keys go through the X server, text is read where a screen reader reads it, the
clipboard by another program. Everything ends with the context. Called from the test's thread.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PACKAGES = "xvfb openbox xdotool xclip dbus-daemon at-spi2-core gir1.2-atspi-2.0 python3-gi"
_READER = Path(__file__).with_name("read_windows.py")
_BUS_LAUNCHER = "/usr/libexec/at-spi-bus-launcher"


class Desktop:
    """Use it as a context manager; `environment` is what programs on it need."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self.directory = Path(tempfile.mkdtemp(prefix="desktop-"))
        self.environment = dict(os.environ) | {
            "XDG_CONFIG_HOME": str(self.directory / "config"),
            "XDG_RUNTIME_DIR": str(self.directory),
            "QT_QPA_PLATFORM": "xcb",
            "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1",
        }
        for name in ("WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS"):
            self.environment.pop(name, None)
        self._processes: list[subprocess.Popen[Any]] = []

    def __enter__(self) -> Self:
        """Start the desktop and wait until it can show a window."""
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything."""
        self.close()

    def close(self) -> None:
        """Stop everything that was started here and delete the directory."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        shutil.rmtree(self.directory, ignore_errors=True)

    def spawn(self, *command: str, **options: Any) -> subprocess.Popen[Any]:
        """Start a program on this desktop; it ends with it at the latest."""
        if shutil.which(command[0]) is None:
            raise RuntimeError(f"{command[0]} is missing; install it with: apt-get install {PACKAGES}")
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, env=self.environment, **(quiet | options))
        self._processes.append(process)
        return process

    def output(self, *command: str) -> str:
        """What a program prints; empty where it fails."""
        done = subprocess.run(command, env=self.environment, capture_output=True, encoding="utf-8", timeout=60)
        return done.stdout if done.returncode == 0 else ""

    def focus(self, title: str) -> None:
        """Give the window with this title the keyboard."""
        window = self.output("xdotool", "search", "--onlyvisible", "--name", title).split()[0]
        self.output("xdotool", "windowactivate", "--sync", window)

    def clipboard(self) -> str:
        """The text on the X clipboard, as another program gets it."""
        return self.output("xclip", "-selection", "clipboard", "-out")

    def widgets(self) -> list[dict[str, str]]:
        """Every widget on the screen as a screen reader sees it: its role, name, description and text."""
        found: list[dict[str, str]] = json.loads(self.output("/usr/bin/python3", str(_READER)) or "[]")
        return found

    def _start(self) -> None:
        read, write = os.pipe()
        screen = ("-screen", "0", "1280x900x24", "-nolisten", "tcp", "-noreset")
        self.spawn("Xvfb", "-displayfd", str(write), *screen, pass_fds=(write,))
        os.close(write)
        with os.fdopen(read) as told:
            self.environment["DISPLAY"] = ":" + told.readline().strip()
        address = f"unix:path={self.directory}/bus"
        self.spawn("dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address={address}")
        self.environment["DBUS_SESSION_BUS_ADDRESS"] = address
        wait_until("the session bus", (self.directory / "bus").exists)
        self.spawn(_BUS_LAUNCHER, "--launch-immediately")
        self.spawn("openbox")
        supporting = ("xprop", "-root", "_NET_SUPPORTING_WM_CHECK")
        wait_until("the window manager", lambda: "window id" in self.output(*supporting))


def wait_until(what: str, done: Callable[[], Any], attempts: int = 600) -> Any:
    """The first true answer of `done`, asked ten times a second; RuntimeError when it never comes."""
    for _ in range(attempts):
        if answer := done():
            return answer
        time.sleep(0.1)
    raise RuntimeError(f"{what} never came")
