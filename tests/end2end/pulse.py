"""A microphone made of software: a private PulseAudio whose only source repeats what the test plays.

Nothing is faked on the app's side: PortAudio opens this source through ALSA's PulseAudio plug-in as it would
open a headset. Everything lives in one temporary directory and ends with the context; the machine's own sound
server, if it has one, is never touched. Called from the test's thread.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
import wave
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

SINK = "loudspeaker"
SOURCE = "microphone"

_SERVER_SCRIPT = """\
load-module module-native-protocol-unix socket={socket} auth-anonymous=1
load-module module-null-sink sink_name={sink} rate={rate} channels={channels} channel_map={positions} format=s16le
load-module module-remap-source master={sink}.monitor source_name={source} \
source_properties="device.description='{description}'"
set-default-source {source}
set-default-sink {sink}
"""
_SERVER_OPTIONS = (
    "-n --daemonize=no --exit-idle-time=-1 --disable-shm=yes --use-pid-file=no --realtime=no --high-priority=no"
)


class VirtualMicrophone:
    """A PulseAudio server whose one microphone is called SOURCE; use it as a context manager.

    `environment` holds the variables that lead PortAudio, pactl and paplay to this server: the process under
    test needs them before PortAudio starts in it, or before `app.capture.refresh`.
    """

    def __init__(self, *, rate: int = 48_000, positions: str = "mono", description: str = "Test microphone") -> None:
        """`rate`, `positions` (of the channels, as "front-left,front-right"): the microphone's own;
        `description`: the name that people see.
        """
        self.rate = rate
        self.positions = positions
        self.channels = len(positions.split(","))
        self.description = description
        self.directory = Path(tempfile.mkdtemp(prefix="pulse-"))  # not deeper: a socket's path is short
        self._socket = self.directory / "native"
        self._log = self.directory / "log"
        self._processes: list[subprocess.Popen[bytes]] = []
        self.environment = {
            "XDG_RUNTIME_DIR": str(self.directory),
            "PULSE_RUNTIME_PATH": str(self.directory),
            "PULSE_STATE_PATH": str(self.directory / "state"),
            "PULSE_COOKIE": str(self.directory / "cookie"),
            "PULSE_SERVER": f"unix:{self._socket}",
        }

    def __enter__(self) -> Self:
        """Start the server and wait until its microphone delivers."""
        try:
            self._start_server()
            self._keep_awake()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything that was started and delete the directory."""
        self.close()

    def close(self) -> None:
        """Stop everything that was started and delete the directory; may be called twice."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def play(self, clip: Path, *options: str) -> None:
        """Say a WAV file into the microphone; returns when the server has played its last sample.

        `options`: more for paplay.
        """
        # All of a short clip in the server's hands, so that no gap is heard when the machine is busy.
        self._run("paplay", "--latency-msec=5000", f"--device={SINK}", *options, str(clip))

    def say(self, samples: NDArray[np.float32]) -> None:
        """Say samples of shape (n,) or (n, channels) at the microphone's rate; returns when all are played."""
        clip = self.directory / "clip.wav"
        write_wav(clip, samples, self.rate)
        self.play(clip, f"--channel-map={self.positions}")

    def suspend(self, suspended: bool = True) -> None:
        """Freeze the microphone, as a driver that stalls does: it stays open but delivers nothing."""
        self.pactl("suspend-source", SOURCE, str(int(suspended)))
        self.pactl("suspend-sink", SINK, str(int(suspended)))
        if not suspended:
            self._wait("wakes up", self._is_prompt)

    def mute(self, muted: bool = True) -> None:
        """Mute the microphone: it goes on delivering, but exact zeros only."""
        self.pactl("set-source-mute", SOURCE, str(int(muted)))

    def unplug(self) -> None:
        """Remove the microphone; the server stays, with no source left to move a stream to."""
        self.pactl("unload-module", "module-remap-source")
        self.pactl("unload-module", "module-null-sink")

    def kill(self) -> None:
        """End the server as a crash would, and whatever plays on it."""
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        self._processes.clear()

    def pactl(self, *words: str) -> str:
        """Run pactl on this server and give what it prints."""
        return self._run("pactl", *words)

    def _start_server(self) -> None:
        script = self.directory / "server.pa"
        script.write_text(
            _SERVER_SCRIPT.format(
                socket=self._socket,
                sink=SINK,
                source=SOURCE,
                rate=self.rate,
                channels=self.channels,
                positions=self.positions,
                description=self.description,
            ),
            encoding="utf-8",
        )
        self._spawn("pulseaudio", *_SERVER_OPTIONS.split(), f"--file={script}", f"--log-target=file:{self._log}")
        self._wait("starts", lambda: self._call("pactl", "info").returncode == 0)

    def _keep_awake(self) -> None:
        # A null sink that plays nothing hands over two seconds at a time; this silence makes it prompt.
        shape = (f"--rate={self.rate}", f"--channels={self.channels}", "--format=s16le")
        self._spawn("pacat", "--playback", "--raw", "--latency-msec=20", f"--device={SINK}", *shape, "/dev/zero")
        self._wait("becomes prompt", self._is_prompt)

    def _is_prompt(self) -> bool:
        latency = re.search(r"Latency: (\d+) usec, configured (\d+)", self.pactl("list", "sinks"))
        return latency is not None and 0 < int(latency[1]) < 50_000 and int(latency[2]) < 50_000

    def _wait(self, what: str, done: Callable[[], bool]) -> None:
        for _ in range(100):
            if done():
                return
            time.sleep(0.1)
        log = self._log.read_text(errors="replace") if self._log.exists() else ""
        raise RuntimeError(f"the private PulseAudio never {what}: {log}")

    def _spawn(self, *command: str) -> None:
        null = subprocess.DEVNULL
        process = subprocess.Popen(
            _installed(command), env=os.environ | self.environment, stdin=null, stdout=null, stderr=null
        )
        self._processes.append(process)

    def _run(self, *command: str) -> str:
        done = self._call(*command)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
        return done.stdout

    def _call(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            _installed(command),
            env=os.environ | self.environment,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )


def write_wav(path: Path, samples: NDArray[np.float32], rate: int) -> None:
    """Write float samples, shape (n,) or (n, channels) in -1..1, as a 16-bit WAV file."""
    table = samples.reshape(len(samples), -1)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(table.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.round(np.clip(table, -1, 1) * 32767).astype("<i2").tobytes())


def _installed(command: tuple[str, ...]) -> tuple[str, ...]:
    if shutil.which(command[0]) is None:
        raise RuntimeError(f"{command[0]} is missing; `make test` sets up what these tests need")
    return command
