"""What the end-to-end tests share: a microphone that PortAudio really opens."""

from collections.abc import Callable, Iterator

import pytest

from app import capture

from .pulse import VirtualMicrophone


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[VirtualMicrophone], None]]:
    """Connects this process to a virtual microphone until the test ends."""

    def to(microphone: VirtualMicrophone) -> None:
        for name, value in microphone.environment.items():
            monkeypatch.setenv(name, value)
        assert capture.refresh()

    yield to
    monkeypatch.undo()
    assert capture.refresh(), "a stream was left open"


@pytest.fixture(scope="session")
def stereo_server() -> Iterator[VirtualMicrophone]:
    """One server for all tests that leave it as it was: starting one takes two seconds."""
    with VirtualMicrophone(positions="front-left,front-right", description="Mikrofon für mich") as microphone:
        yield microphone


@pytest.fixture
def stereo(stereo_server: VirtualMicrophone, connect: Callable[[VirtualMicrophone], None]) -> VirtualMicrophone:
    """A stereo microphone at 48 kHz, connected to this process; leave it as it was."""
    connect(stereo_server)
    return stereo_server


@pytest.fixture
def fragile(connect: Callable[[VirtualMicrophone], None]) -> Iterator[VirtualMicrophone]:
    """A mono microphone at 44.1 kHz, connected to this process, for this test alone to break."""
    with VirtualMicrophone(rate=44_100) as microphone:
        connect(microphone)
        yield microphone
