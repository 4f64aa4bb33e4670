"""Capture with nothing faked: PortAudio opens a real PulseAudio source, and then things go wrong with it."""

import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from app import devices
from app.capture import Microphone, MicrophoneInfo, microphones, refresh
from app.errors import CaptureError
from app.recorder import Recorder

from ..listener import Listener
from .pulse import VirtualMicrophone

LONG_S = 30.0  # for what must happen; reached only when it does not
STOP_S = 2.0  # within which a recorder must be done whatever its device does


def chirp(rate: int, seconds: float = 1.5) -> NDArray[np.float32]:
    """A tone that climbs from 200 Hz to 1.5 kHz: known at every rate, and like nothing but itself."""
    t = np.arange(round(seconds * rate)) / rate
    return (0.4 * np.sin(2 * np.pi * (200 * t + 1300 / (2 * seconds) * t**2))).astype(np.float32)


def find_chirp(audio: NDArray[np.float32]) -> tuple[int, float]:
    """Where in 16 kHz audio the whole chirp lies, and its normalised correlation there."""
    clip = chirp(16_000)
    assert len(audio) >= len(clip)
    products = np.correlate(audio, clip, "valid")
    at = int(products.argmax())
    part = audio[at : at + len(clip)]
    return at, float(products[at] / np.sqrt(np.sum(part**2) * np.sum(clip**2)))


class Recording:
    """A microphone being recorded, until `finish`."""

    def __init__(self, device: str | None = None) -> None:
        self.source = Microphone(device)
        self.listener = Listener()
        self._recorder = Recorder(self.source, self.listener)
        self._recorder.start()

    @property
    def loudest_dbfs(self) -> float:
        return max(rms_dbfs for _, rms_dbfs, _ in self.listener.levels)

    def wait_for_audio(self) -> None:
        deadline = time.monotonic() + LONG_S
        while not self.listener.blocks:
            assert not self.listener.ended.is_set(), self.listener.problem
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def finish(self) -> None:
        """Stop, and hold the recorder to its bound."""
        self._recorder.stop()
        assert self._recorder.join(STOP_S)


def test_microphones_are_listed_with_their_names_and_the_default(stereo: VirtualMicrophone) -> None:
    assert microphones() == (
        MicrophoneInfo("pulse:microphone", "Mikrofon für mich", default=True),
        MicrophoneInfo("pulse:loudspeaker.monitor", "Monitor of Null Output", default=False),
    )


def test_the_default_microphone_hears_what_is_said(stereo: VirtualMicrophone) -> None:
    recording = Recording()
    recording.wait_for_audio()
    voice = chirp(stereo.rate)
    stereo.say(np.stack([voice, -voice], axis=1))  # which an average would cancel
    time.sleep(0.2)  # the way from the server's loudspeaker to its microphone
    recording.finish()
    assert recording.listener.problem is None
    assert recording.source.name == "Mikrofon für mich"
    assert abs(find_chirp(recording.listener.audio)[1]) > 0.95
    ring = recording.source._ring
    assert ring is not None
    assert (ring.rate, ring.channels, ring.lost, ring.overflows) == (48_000, 2, 0, 0)
    assert abs(len(recording.listener.audio) - ring.written / 3) <= 2


@pytest.mark.parametrize("device", ["pulse:microphone", "Mikrofon für mich"])
def test_a_chosen_microphone_hears_the_one_channel_that_speaks(stereo: VirtualMicrophone, device: str) -> None:
    recording = Recording(device)
    recording.wait_for_audio()
    voice = chirp(stereo.rate)
    stereo.say(np.stack([np.zeros_like(voice), voice], axis=1))
    time.sleep(0.2)
    recording.finish()
    assert recording.listener.problem is None
    assert find_chirp(recording.listener.audio)[1] > 0.95
    assert recording.listener.events[0] == ("listening",)
    assert recording.loudest_dbfs == pytest.approx(20 * np.log10(0.4), abs=0.5)


def test_six_channels_are_kept_apart_and_the_one_that_speaks_is_heard(
    connect: Callable[[VirtualMicrophone], None],
) -> None:
    positions = "front-left,front-right,rear-left,rear-right,front-center,lfe"
    with VirtualMicrophone(positions=positions) as microphone:
        connect(microphone)
        recording = Recording()
        recording.wait_for_audio()
        voice = np.zeros((round(1.5 * microphone.rate), 6), np.float32)
        voice[:, 4] = chirp(microphone.rate)
        microphone.say(voice)
        time.sleep(0.2)
        recording.finish()
    assert find_chirp(recording.listener.audio)[1] > 0.95
    assert recording.loudest_dbfs == pytest.approx(20 * np.log10(0.4), abs=0.5)


def test_channels_without_a_position_are_heard_too(connect: Callable[[VirtualMicrophone], None]) -> None:
    with VirtualMicrophone(positions="aux0,aux1") as microphone:
        connect(microphone)
        recording = Recording()
        recording.wait_for_audio()
        voice = chirp(microphone.rate)
        microphone.say(np.stack([np.zeros_like(voice), voice], axis=1))
        time.sleep(0.2)
        recording.finish()
    assert find_chirp(recording.listener.audio)[1] > 0.95


def test_the_choice_is_made_by_this_stream_only(stereo: VirtualMicrophone) -> None:
    recording = Recording("pulse:loudspeaker.monitor")
    recording.wait_for_audio()
    streams = stereo.pactl("list", "source-outputs")
    recording.finish()
    ours = next(part for part in streams.split("Source Output #") if "Sottovoce" in part)
    sources = stereo.pactl("list", "short", "sources").splitlines()
    monitor = next(line.split("\t")[0] for line in sources if "loudspeaker.monitor" in line)
    assert f"Source: {monitor}\n" in ours
    assert "PULSE_SOURCE" not in os.environ


def test_an_unknown_microphone_is_named(stereo: VirtualMicrophone) -> None:
    recording = Recording("pulse:gone")
    assert recording.listener.ended.wait(LONG_S)
    assert isinstance(recording.listener.problem, CaptureError)
    assert recording.listener.problem.message == "The microphone “pulse:gone” is not there."


def test_a_rate_and_channels_that_the_driver_refuses_are_replaced(
    stereo: VirtualMicrophone, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = devices.find
    monkeypatch.setattr(devices, "find", lambda sd, name: replace(find(sd, name), rate=999_999, channels=50))
    recording = Recording()
    recording.wait_for_audio()
    recording.finish()
    ring = recording.source._ring
    assert ring is not None
    assert (ring.rate, ring.channels) == (48_000, 2)


def test_without_pactl_the_default_device_remains(stereo: VirtualMicrophone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(stereo.directory))
    (only,) = microphones()  # called pulse where the system's sound settings name no default
    assert only.default
    recording = Recording(only.name)
    recording.wait_for_audio()
    recording.finish()
    assert recording.listener.problem is None


def test_stop_waits_for_what_a_busy_process_left_with_the_driver(stereo: VirtualMicrophone) -> None:
    for _ in range(3):
        source = Microphone()
        ring = source.start()
        time.sleep(0.3)
        began, before = time.monotonic(), ring.written
        ctypes.PyDLL(None).usleep(300_000)  # holds the GIL: nothing reaches the ring meanwhile
        passed_s = time.monotonic() - began
        source.stop()
        assert ring.written - before >= passed_s * ring.rate
        assert ring.lost == 0


def test_a_muted_microphone_is_told(stereo: VirtualMicrophone) -> None:
    stereo.mute()
    try:
        recording = Recording()
        assert recording.listener.noticed.wait(LONG_S)
        recording.finish()
    finally:
        stereo.mute(False)
    assert [event[0] for event in recording.listener.events] == ["listening", "notice", "end"]
    assert "“Mikrofon für mich” delivers only silence" in str(recording.listener.events[1][1])
    assert not recording.listener.audio.any()


def test_a_stalled_microphone_cannot_hang_stop(fragile: VirtualMicrophone) -> None:
    recording = Recording()
    recording.wait_for_audio()
    fragile.suspend()
    recording.finish()
    assert recording.listener.problem is None


def test_a_stalled_microphone_is_told_and_what_it_heard_is_kept(fragile: VirtualMicrophone) -> None:
    recording = Recording()
    recording.wait_for_audio()
    fragile.say(chirp(fragile.rate))
    time.sleep(0.2)
    fragile.suspend()
    assert recording.listener.ended.wait(LONG_S)
    assert isinstance(recording.listener.problem, CaptureError)
    assert "“Test microphone” stopped delivering" in recording.listener.problem.message
    assert find_chirp(recording.listener.audio)[1] > 0.95


def test_an_unplugged_microphone_is_told_and_what_it_heard_is_kept(fragile: VirtualMicrophone) -> None:
    recording = Recording()
    recording.wait_for_audio()
    assert not refresh()  # which would pull PortAudio from under the open stream
    fragile.say(chirp(fragile.rate))
    time.sleep(0.2)
    fragile.unplug()
    assert recording.listener.ended.wait(LONG_S)
    assert isinstance(recording.listener.problem, CaptureError)
    assert recording.listener.problem.message == "The microphone “Test microphone” was disconnected."
    assert find_chirp(recording.listener.audio)[1] > 0.95

    again = Recording()
    assert again.listener.ended.wait(LONG_S)
    assert isinstance(again.listener.problem, CaptureError)
    assert again.listener.problem.message == "No microphone was found."
    assert microphones() == ()


def test_a_sound_server_that_dies_and_one_that_is_not_there(fragile: VirtualMicrophone) -> None:
    recording = Recording()
    recording.wait_for_audio()
    fragile.kill()
    assert recording.listener.ended.wait(LONG_S)
    assert isinstance(recording.listener.problem, CaptureError)
    assert len(recording.listener.audio)

    again = Recording()
    assert again.listener.ended.wait(LONG_S)
    assert isinstance(again.listener.problem, CaptureError)
    assert again.listener.problem.message == "No microphone was found."
    assert again.listener.problem.hint
    assert refresh()
    assert microphones() == ()


def test_a_microphone_that_comes_after_portaudio_is_found(
    fragile: VirtualMicrophone, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = fragile.environment["PULSE_SERVER"]
    monkeypatch.setenv("PULSE_SERVER", "unix:/nowhere")
    assert refresh()
    assert microphones() == ()
    monkeypatch.setenv("PULSE_SERVER", server)
    recording = Recording()
    recording.wait_for_audio()
    recording.finish()
    assert recording.listener.problem is None
