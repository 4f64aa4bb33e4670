"""The whole promise with nothing stood in for: speech at a microphone becomes text in the window and on the clipboard.

A clip is played into a virtual microphone that PortAudio really opens; the app runs as its own process on an X server
with a window manager; keys are pressed, the window is read as a screen reader reads it, the clipboard by xclip.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.audio import read

from .desktop import Desktop, wait_until
from .pulse import VirtualMicrophone, write_wav

CLIP = Path(__file__).parent.parent / "data" / "note_shopping.flac"
NUMBERS = {"2": "two", "12": "dozen"}


def words(text: str) -> list[str]:
    plain = "".join(c.lower() if c.isalnum() else " " for c in text).split()
    return [NUMBERS.get(word, word) for word in plain]


WORDS = words("Shopping list: two pints of milk, a dozen eggs, brown bread, olive oil, and some fresh basil.")


@pytest.fixture
def desktop() -> Iterator[Desktop]:
    with Desktop() as desktop:
        yield desktop


@pytest.fixture
def microphone() -> Iterator[VirtualMicrophone]:
    with VirtualMicrophone() as microphone:
        write_wav(microphone.directory / "speech.wav", read(CLIP), 16_000)
        yield microphone


@pytest.fixture
def app(desktop: Desktop, microphone: VirtualMicrophone) -> subprocess.Popen[bytes]:
    """The app in a process of its own, with its model loaded."""
    desktop.environment |= {k: v for k, v in microphone.environment.items() if k.startswith("PULSE")}
    process = desktop.spawn(sys.executable, "-m", "app", stderr=None)
    wait_until("the window", lambda: shows(desktop, "push button", "Dictate"))
    wait_until("the model", lambda: not shows(desktop, "progress bar", "Loading the model"))
    return process


def shows(desktop: Desktop, role: str, name: str) -> bool:
    return any(w["role"] == role and w["name"].startswith(name) for w in desktop.widgets())


def everything_shown(desktop: Desktop) -> str:
    return "\n".join(f"{w['role']}: {w['name']} | {w['description']} | {w['text']}" for w in desktop.widgets())


def test_speech_becomes_text_in_the_window_and_on_the_clipboard(
    desktop: Desktop, microphone: VirtualMicrophone, app: subprocess.Popen[bytes]
) -> None:
    desktop.focus("Sottovoce")
    desktop.output("xdotool", "key", "ctrl+r")
    wait_until("listening", lambda: "Listening" in everything_shown(desktop))
    microphone.play(microphone.directory / "speech.wav")
    wait_until("live text while recording", lambda: "milk" in everything_shown(desktop))
    desktop.output("xdotool", "key", "ctrl+r")
    text = wait_until("text on the clipboard", desktop.clipboard)
    assert words(text) == WORDS
    assert any(words(w["text"]) == WORDS for w in desktop.widgets()), everything_shown(desktop)
    app.send_signal(signal.SIGTERM)
    assert app.wait(30) == 0


def test_the_key_held_is_push_to_talk_and_escape_leaves_the_clipboard_alone(
    desktop: Desktop, microphone: VirtualMicrophone, app: subprocess.Popen[bytes]
) -> None:
    owner = ("xclip", "-selection", "clipboard", "-in", "-loops", "0")
    subprocess.run(owner, env=desktop.environment, input=b"precious", check=True)
    desktop.focus("Sottovoce")
    desktop.output("xdotool", "keydown", "F9")
    wait_until("listening", lambda: "Listening" in everything_shown(desktop))
    microphone.play(microphone.directory / "speech.wav")
    desktop.output("xdotool", "key", "Escape")
    desktop.output("xdotool", "keyup", "F9")
    wait_until("idle", lambda: shows(desktop, "push button", "Dictate"))
    assert desktop.clipboard() == "precious"
    desktop.output("xdotool", "keydown", "F9")
    wait_until("listening again", lambda: "Listening" in everything_shown(desktop))
    microphone.play(microphone.directory / "speech.wav")
    desktop.output("xdotool", "keyup", "F9")
    wait_until("the text", lambda: desktop.clipboard() != "precious")
    assert words(desktop.clipboard()) == WORDS
