"""File playback as a source, and what the microphone says where PortAudio is not installed."""

import subprocess
import sys
import threading
import wave
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from app.capture import FilePlayback
from app.errors import CaptureError
from app.recorder import Recorder
from app.ring import Ring

from ..listener import Listener

LONG_S = 30.0  # for what must happen; reached only when it does not


def write_wav(path: Path, seconds: float) -> NDArray[np.float32]:
    """A 16 kHz mono file of noise; gives the samples that are in it."""
    values = np.random.default_rng(1).integers(-8000, 8000, round(seconds * 16_000), dtype=np.int16)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(values.astype("<i2").tobytes())
    return values.astype(np.float32) / 32768


def play(path: Path, realtime: bool) -> Listener:
    listener = Listener()
    recorder = Recorder(FilePlayback(path, realtime), listener)
    recorder.start()
    assert recorder.join(LONG_S)
    return listener


def wait_until_stuck(ring: Ring) -> None:
    """Until nothing was written for a while."""
    written = -1
    while written != ring.written:
        written = ring.written
        threading.Event().wait(0.2)


@pytest.mark.parametrize(("realtime", "seconds"), [(True, 0.53), (False, 0.53), (False, 25)])
def test_a_file_is_played_whole_and_ends_by_itself(tmp_path: Path, realtime: bool, seconds: float) -> None:
    samples = write_wav(tmp_path / "clip.wav", seconds)
    listener = play(tmp_path / "clip.wav", realtime)
    assert listener.events == [("listening",), ("end", None)]
    assert np.array_equal(listener.audio, samples)


def test_without_real_time_a_file_waits_for_its_reader(tmp_path: Path) -> None:
    samples = write_wav(tmp_path / "clip.wav", 15)
    source = FilePlayback(tmp_path / "clip.wav", realtime=False)
    ring = source.start()
    wait_until_stuck(ring)
    assert not source.finished
    blocks = [ring.read()]
    while not source.finished:
        blocks.append(ring.read())
    blocks.append(ring.read())
    assert np.array_equal(np.concatenate(blocks)[:, 0], samples)
    assert ring.lost == 0


def test_real_time_is_not_rushed_and_stop_ends_it_early(tmp_path: Path) -> None:
    samples = write_wav(tmp_path / "clip.wav", 60)
    source = FilePlayback(tmp_path / "clip.wav")
    ring = source.start()
    while not ring.written:
        threading.Event().wait(0.01)
    source.stop()
    assert source.finished
    played = ring.read()[:, 0]
    assert 0 < len(played) < len(samples) // 2
    assert np.array_equal(played, samples[: len(played)])
    assert source.problem is None


@pytest.mark.parametrize("content", [None, b"", b"not audio at all"])
def test_a_file_that_cannot_be_read_ends_with_one_sentence(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "clip.wav"
    if content is not None:
        path.write_bytes(content)
    listener = play(path, realtime=True)
    assert [event[0] for event in listener.events] == ["end"]
    assert isinstance(listener.problem, CaptureError)
    assert "clip.wav" in listener.problem.message


def test_a_file_is_named_by_its_name_and_does_not_hear_the_world(tmp_path: Path) -> None:
    source = FilePlayback(tmp_path / "clip.wav")
    assert source.name == "clip.wav"
    assert not source.live
    source.stop()  # allowed although nothing was started


WITHOUT_PORTAUDIO = """
import ctypes.util
ctypes.util.find_library = lambda name: None
from app.capture import Microphone, microphones
from app.errors import CaptureError
for action in (Microphone().start, microphones):
    try:
        action()
    except CaptureError as error:
        print(error.message, "|", error.hint)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere PortAudio comes with sounddevice")
def test_a_machine_without_portaudio_is_told_the_cure() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_PORTAUDIO], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    expected = "PortAudio, the library that reads microphones, is missing. | "
    expected += "Install it with: sudo apt install libportaudio2"
    assert done.stdout.splitlines() == [expected, expected]
