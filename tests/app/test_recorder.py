"""The recorder with a source in memory: nothing lost, right lengths and levels, and an end in every case."""

import threading
import time

import numpy as np
import pytest
from numpy.typing import NDArray

from app.errors import AppError, CaptureError
from app.recorder import Recorder, loudness
from app.ring import Ring

from ..listener import Listener

LONG_S = 30.0  # for what must happen; reached only when it does not


class Memory:
    """A source that has its audio ready; `late` is what it still holds when it is stopped."""

    name = "memory"

    def __init__(
        self,
        audio: NDArray[np.float32],
        rate: int,
        *,
        late: NDArray[np.float32] | None = None,
        live: bool = True,
        ends: bool = True,
        room_s: float = 30,
        problem: AppError | None = None,
        refuses: AppError | None = None,
    ) -> None:
        self.live = live
        self.finished = False
        self.problem: AppError | None = None
        self.stops = 0
        self._audio = audio[:, None] if audio.ndim == 1 else audio
        self._late = self._audio[:0] if late is None else late[:, None]
        self._ends = ends
        self._ending = problem
        self._refuses = refuses
        self.ring = Ring(round(room_s * rate), self._audio.shape[1], rate)

    def start(self) -> Ring:
        if self._refuses:
            raise self._refuses
        self.ring.write(self._audio)
        self.problem = self._ending
        self.finished = self._ends
        return self.ring

    def stop(self) -> None:
        self.stops += 1
        self.ring.write(self._late)
        self.finished = True


class Trickle(Memory):
    """The same, written from a thread as the ring, `room_s` large, is emptied."""

    def start(self) -> Ring:
        threading.Thread(target=self._write).start()
        return self.ring

    def _write(self) -> None:
        rest = self._audio
        while len(rest):
            n = min(self.ring.room, len(rest))
            self.ring.write(rest[:n])
            rest = rest[n:]
            time.sleep(0)
        self.finished = True


def sine(seconds: float, rate: int, frequency: float = 440, level: float = 0.5) -> NDArray[np.float32]:
    t = np.arange(round(seconds * rate)) / rate
    return (level * np.sin(2 * np.pi * frequency * t)).astype(np.float32)


def record(source: Memory, **patience: float) -> Listener:
    """Record a source until it ends by itself."""
    listener = Listener()
    recorder = Recorder(source, listener, **patience)
    recorder.start()
    assert recorder.join(LONG_S)
    assert [event[0] for event in listener.events].count("end") == 1
    return listener


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100, 48_000, 96_000])
def test_any_rate_becomes_16_khz_of_the_same_length_and_sound(rate: int) -> None:
    audio = record(Memory(sine(2.01, rate), rate)).audio
    expected = sine(2.01, 16_000)
    assert abs(len(audio) - len(expected)) <= 2
    middle = slice(800, 31_200)  # the filter rings where the tone begins and ends abruptly
    assert np.abs(audio[middle] - expected[middle]).max() < 2e-3


def test_the_size_of_blocks_does_not_change_a_sample() -> None:
    voice = np.random.default_rng(1).normal(0, 0.1, 44_100).astype(np.float32)
    whole = record(Memory(voice, 44_100)).audio
    assert np.array_equal(record(Trickle(voice, 44_100, room_s=0.05)).audio, whole)


def test_sixteen_kilohertz_mono_passes_unchanged() -> None:
    voice = np.random.default_rng(1).normal(0, 0.1, 20_001).astype(np.float32)
    assert np.array_equal(record(Memory(voice, 16_000)).audio, voice)


def test_channels_out_of_phase_are_not_averaged() -> None:
    voice = sine(1, 48_000)
    audio = record(Memory(np.stack([voice, -voice], axis=1), 48_000)).audio
    assert loudness(audio)[1] == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize(("level", "dbfs"), [(1.0, 0.0), (0.5, -6.02), (0.1, -20.0), (0.001, -60.0), (0.0, -120.0)])
def test_levels_come_every_50_ms_and_a_full_scale_sine_is_0_dbfs(level: float, dbfs: float) -> None:
    listener = record(Memory(sine(1.02, 16_000, 1000, level), 16_000))
    assert [elapsed for elapsed, _, _ in listener.levels] == pytest.approx(np.arange(1, 21) * 0.05)
    for _, rms_dbfs, peak in listener.levels:
        assert rms_dbfs == pytest.approx(dbfs, abs=0.01)
        assert peak == pytest.approx(level)


def test_listening_waits_for_the_first_sound_of_a_device_that_wakes_up() -> None:
    heard_before = []

    class Watching(Listener):
        def on_listening(self) -> None:
            heard_before.append(len(self.audio))

    waking = np.concatenate([np.zeros(16_000, np.float32), sine(1, 16_000)])
    recorder = Recorder(Trickle(waking, 16_000, room_s=0.1), Watching())
    recorder.start()
    assert recorder.join(LONG_S)
    assert len(heard_before) == 1
    assert 14_400 <= heard_before[0] <= 16_000


@pytest.mark.parametrize(
    ("zeros_s", "live", "events"),
    [
        (1.2, True, ["end"]),
        (2.5, True, ["listening", "end"]),
        (3.5, True, ["listening", "notice", "end"]),
        (9.0, True, ["listening", "notice", "end"]),
        (9.0, False, ["listening", "end"]),
    ],
)
def test_nothing_but_zeros_is_listened_to_after_a_while_and_told_of_a_microphone(
    zeros_s: float, live: bool, events: list[str]
) -> None:
    listener = record(Memory(np.zeros(round(zeros_s * 8000), np.float32), 8000, live=live))
    assert [event[0] for event in listener.events] == events
    assert len(listener.audio) == round(zeros_s * 16_000)
    if "notice" in events:
        assert "only silence" in str(listener.events[1][1])


def test_lost_audio_is_told_once_and_the_rest_is_kept() -> None:
    source = Memory(sine(3, 16_000), 16_000, room_s=2)
    listener = record(source)
    assert source.ring.lost == 16_000
    assert [event[0] for event in listener.events] == ["listening", "notice", "end"]
    assert np.array_equal(listener.audio, sine(2, 16_000))


def test_an_overflow_that_the_driver_counts_is_told() -> None:
    source = Memory(sine(1, 16_000), 16_000)
    source.ring.overflows = 1
    assert [event[0] for event in record(source).events] == ["listening", "notice", "end"]


def test_stop_keeps_what_the_driver_still_held() -> None:
    first, late = sine(1, 48_000), sine(0.5, 48_000, 700)
    source = Memory(first, 48_000, late=late, ends=False)
    listener = Listener()
    recorder = Recorder(source, listener)
    recorder.start()
    assert listener.listening.wait(LONG_S)
    recorder.stop()
    assert recorder.join(LONG_S)
    assert listener.problem is None
    assert abs(len(listener.audio) - 24_000) <= 2
    t = np.arange(2000, 7000) / 16_000
    assert np.abs(listener.audio[18_000:23_000] - 0.5 * np.sin(2 * np.pi * 700 * t)).max() < 2e-3


def test_stop_before_any_audio_ends_without_a_problem() -> None:
    source = Memory(np.empty(0, np.float32), 48_000, ends=False)
    listener = Listener()
    recorder = Recorder(source, listener)
    recorder.stop()
    recorder.start()
    assert recorder.join(LONG_S)
    assert listener.events == [("end", None)]
    assert source.stops == 1


def test_a_stalled_microphone_is_told_and_what_it_delivered_is_kept() -> None:
    source = Memory(sine(1, 16_000), 16_000, late=sine(0.1, 16_000), ends=False)
    listener = record(source, stall_s=0.1)
    assert isinstance(listener.problem, CaptureError)
    assert "“memory” stopped delivering" in listener.problem.message
    assert listener.problem.hint
    assert len(listener.audio) == 17_600
    assert source.stops == 1


def test_a_microphone_that_never_delivers_is_told_too() -> None:
    source = Memory(np.empty(0, np.float32), 16_000, ends=False)
    assert isinstance(record(source, stall_s=LONG_S, first_block_s=0.1).problem, CaptureError)


def test_a_file_may_take_its_time() -> None:
    listener = Listener()
    source = Memory(sine(1, 16_000), 16_000, ends=False, live=False)
    recorder = Recorder(source, listener, stall_s=0.05)
    recorder.start()
    assert not listener.ended.wait(0.3)
    source.finished = True
    assert recorder.join(LONG_S)
    assert listener.problem is None


def test_a_source_that_does_not_start_ends_with_its_reason() -> None:
    reason = CaptureError("No microphone was found.", "Connect one.")
    assert record(Memory(sine(1, 16_000), 16_000, refuses=reason)).events == [("end", reason)]


def test_a_source_that_breaks_off_ends_with_its_reason_and_all_its_audio() -> None:
    reason = CaptureError("The microphone “memory” was disconnected.")
    listener = record(Memory(sine(1, 16_000), 16_000, problem=reason))
    assert listener.problem is reason
    assert len(listener.audio) == 16_000


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_even_a_fault_in_the_sink_ends_the_recording() -> None:
    class Faulty(Listener):
        def on_audio(self, samples: NDArray[np.float32]) -> None:
            raise ZeroDivisionError

    source = Memory(sine(1, 16_000), 16_000)
    listener = Faulty()
    recorder = Recorder(source, listener)
    recorder.start()
    assert recorder.join(LONG_S)
    assert isinstance(listener.problem, CaptureError)
    assert source.stops == 1


def test_the_sink_is_called_on_the_recorders_thread_only() -> None:
    threads = set()

    class Noting(Listener):
        def on_audio(self, samples: NDArray[np.float32]) -> None:
            threads.add(threading.current_thread().name)

        def on_end(self, problem: AppError | None) -> None:
            threads.add(threading.current_thread().name)

    recorder = Recorder(Memory(sine(1, 16_000), 16_000), Noting())
    recorder.start()
    assert recorder.join(LONG_S)
    assert threads == {"recorder"}
