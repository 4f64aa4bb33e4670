"""`sottovoce doctor`: what of dictation works on this machine, and what to do about the rest.

Each part is tried for real, on a thread or in a process of its own that is not waited for longer than a few seconds,
because the systems behind them can hang. Runs on the main thread.
"""

import importlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from app.display import display_problem
from app.errors import AppError

TIMEOUT_S = 20.0
_THREAD = "doctor: "
_PROBE_TIMEOUT_S = 15.0
_FIRST_SOUND_S = 3.0
_QT_CURE = "In a checkout, `make run` installs what Qt needs; the README names the libraries."
_FEATURES = {  # LLVM's names of what the kernels can use, as people know them
    "avx2": "AVX2",
    "fma": "FMA",
    "avx512f": "AVX-512",
    "avx512vnni": "AVX-512 VNNI",
    "avxvnni": "AVX-VNNI",
    "avx512bf16": "AVX-512 BF16",
    "amx-int8": "AMX",
    "neon": "NEON",
    "dotprod": "dot product",
    "i8mm": "I8MM",
    "bf16": "BF16",
}
_POOLS = {"tbb": "tbbpool", "omp": "omppool", "workqueue": "workqueue"}  # Numba's modules for its thread pools
_DISTRIBUTIONS = (
    "sottovoce", "numpy", "numba", "llvmlite", "av", "soxr", "sounddevice", "tiktoken", "PySide6-Essentials"
)  # fmt: skip
_DISPLAY_VARIABLES = ("WAYLAND_DISPLAY", "DISPLAY", "QT_QPA_PLATFORM")


@dataclass(frozen=True)
class Check:
    """How one part is: `detail` says what was found, `cure` what to do where it is not "ok"."""

    name: str
    status: Literal["ok", "missing", "failed"]
    detail: str
    cure: str = ""


def report(as_json: bool) -> bool:
    """Print how everything is; whether dictation can work, which takes a microphone and the default model."""
    checks = examine()
    able = all(check.status == "ok" for check in checks if check.name in ("microphone", "model"))
    if as_json:
        record = {"dictation": able, "checks": [asdict(check) for check in checks], "versions": versions()}
        print(json.dumps(record, indent=2, ensure_ascii=False))
        return able
    for check in checks:
        print(f"{check.status:8} {check.name:11} {check.detail}")
        if check.cure:
            print(f"{'':20} {check.cure}")
    print(f"{'':8} {'versions':11} {', '.join(f'{name} {version}' for name, version in versions().items())}")
    print("Dictation works here." if able else "Dictation does not work here yet: see above.")
    return able


def examine() -> list[Check]:
    """Every check, each bounded in time."""
    screen = _screen()
    parts: dict[str, Callable[[], list[Check]]] = {
        "desktop": lambda: _desktop(screen),
        "microphone": _microphone,
        "model": _models,
        "cpu": _cpu,
        "threads": _threads,
    }
    return [screen, *(check for name, look in parts.items() for check in _within(TIMEOUT_S, name, look))]


def waits_for_nobody() -> bool:
    """Whether every check has come back; one that has not may also keep Python from ending in good order."""
    return not any(thread.name.startswith(_THREAD) for thread in threading.enumerate())


def versions() -> dict[str, str]:
    """The versions of what this runs on, for a report of a problem."""
    found = {"python": platform.python_version(), "system": platform.platform()}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def _within(timeout_s: float, name: str, look: Callable[[], list[Check]]) -> list[Check]:
    """The result of `look`, or the failure that it did not come in time or could not even begin."""
    found: list[Check] = []

    def run() -> None:
        try:
            found.extend(look())
        except (ImportError, OSError) as error:
            found.append(Check(name, "failed", f"{error}", "Install the app again: in a checkout, `make run`."))

    thread = threading.Thread(target=run, name=f"{_THREAD}{name}", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        return [Check(name, "failed", f"no answer within {timeout_s:.0f} s", "Restart the session, then try again.")]
    return found


def _screen() -> Check:
    problem = display_problem()
    if problem is not None:
        return Check("screen", "missing", problem, "Log in to a desktop, or dictate with `sottovoce live`.")
    chosen = [f"{name}={value}" for name in _DISPLAY_VARIABLES if (value := os.environ.get(name))]
    return Check("screen", "ok", ", ".join(chosen) or platform.system())


def _desktop(screen: Check) -> list[Check]:
    """Tray and clipboard, as Qt finds them in a process of its own."""
    names = ("tray", "clipboard")
    if screen.status != "ok":
        return [Check(name, "missing", "needs a screen") for name in names]
    if getattr(sys, "frozen", False):  # then there is no interpreter to run the probe with
        return [Check(name, "ok", "not tried in a packaged app") for name in names]
    command = [sys.executable, "-m", "app.ui.desktop_probe"]
    try:
        probe = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=True)
        found = json.loads(probe.stdout)
    except subprocess.TimeoutExpired:
        return [Check(name, "failed", "the desktop does not answer Qt", _QT_CURE) for name in names]
    except (subprocess.CalledProcessError, ValueError) as error:
        said = str(getattr(error, "stderr", "")).strip().splitlines() or [str(error)]
        return [Check(name, "failed", f"Qt does not start: {said[-1]}", _QT_CURE) for name in names]
    tray = Check("tray", "ok", "there is one")
    if not found["tray"]:
        cure = "On GNOME, install the AppIndicator extension; the window does all that the tray does."
        tray = Check("tray", "missing", "the desktop shows no tray icons", cure)
    held = "it holds something" if found["clipboard_holds"] else "it is empty"
    return [tray, Check("clipboard", "ok", f"it answers ({found['platform']}); {held}")]


def _microphone() -> list[Check]:
    """Open the default one and listen until it delivers."""
    from app.capture import Microphone, microphones

    try:
        listed = microphones()
        microphone = Microphone()
        ring = microphone.start()
    except AppError as error:
        return [Check("microphone", "missing", error.message, error.hint)]
    deadline = time.monotonic() + _FIRST_SOUND_S
    while ring.written < ring.rate // 4 and not microphone.finished and time.monotonic() < deadline:
        time.sleep(0.02)
    microphone.stop()
    heard = ring.read()
    if not len(heard):
        detail = f"{microphone.name} opens, but delivers nothing"
        return [Check("microphone", "failed", detail, "Unplug it and connect it again, or choose another one.")]
    names = ", ".join(f"{info.label}{' (default)' if info.default else ''}" for info in listed)
    sound = "sound" if heard.any() else "only zeros just now: is it muted?"
    detail = f"{microphone.name}, {ring.rate} Hz, {ring.channels} channel(s), {sound}; there are: {names}"
    return [Check("microphone", "ok", detail)]


def _models() -> list[Check]:
    """Find each known model and check its weights; only the default one is needed."""
    from engine import EngineError, catalogue

    checks = []
    for model in catalogue.known():
        name = "model" if model.name == catalogue.DEFAULT_MODEL else f"model {model.name}"
        try:
            catalogue.verify(catalogue.find(model.name))
        except EngineError as error:
            status: Literal["missing", "failed"] = "failed" if model.installed else "missing"
            checks.append(Check(name, status, str(error), model.install))
        else:
            checks.append(Check(name, "ok", f"{model.name}: found and whole ({model.about})"))
    return checks


def _cpu() -> list[Check]:
    """The instructions that matter to the kernels."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    used = [label for name, label in _FEATURES.items() if features.get(name)]
    return [Check("cpu", "ok", f"{llvm.get_host_cpu_name()}: {', '.join(used) or 'no vector instructions'}")]


def _threads() -> list[Check]:
    """How many threads the engine gets, and which of Numba's pools runs them."""
    config: Any = importlib.import_module("numba").config
    for layer in config.THREADING_LAYER_PRIORITY:
        try:
            importlib.import_module(f"numba.np.ufunc.{_POOLS[layer]}")
        except ImportError:
            continue
        return [Check("threads", "ok", f"{config.NUMBA_NUM_THREADS} of {os.cpu_count()}, by {layer}")]
    return [Check("threads", "failed", "none of Numba's thread pools loads", "Install libgomp1 (OpenMP).")]
