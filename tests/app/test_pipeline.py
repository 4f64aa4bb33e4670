"""The pipeline with real sources, a real recorder and the embedded model: what is said, in order, and nothing lost."""

import itertools
import threading
import time
from pathlib import Path

import pytest

from app.capture import FilePlayback
from app.events import (
    Cancelled,
    Ended,
    Failed,
    Final,
    Level,
    Listening,
    ModelFailed,
    ModelLoading,
    ModelReady,
    Notice,
    Partial,
)
from app.pipeline import Pipeline

ROOT = Path(__file__).parent.parent.parent
SHOPPING = ROOT / "tests" / "data" / "note_shopping.flac"
QUESTION = ROOT / "tests" / "data" / "question_chain.flac"
PATIENCE_S = 120


class Listener:
    """Keeps every event and waits for those of a kind."""

    def __init__(self):
        self.events = []
        self._changed = threading.Condition()

    def hear(self, event):
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def wait_for(self, *kinds, session=None):
        def found():
            for event in self.events:
                if isinstance(event, kinds) and session in (None, getattr(event, "session", None)):
                    return event
            return None

        with self._changed:
            assert self._changed.wait_for(found, PATIENCE_S), f"no {kinds} among {self.events}"
            return found()

    def of(self, session, *kinds):
        return [e for e in self.events if isinstance(e, kinds) and e.session == session]


@pytest.fixture
def listener():
    return Listener()


@pytest.fixture
def pipeline(listener):
    pipeline = Pipeline(listener.hear)
    yield pipeline
    assert pipeline.close(PATIENCE_S)


def fast(path):
    return FilePlayback(path, realtime=False)


def test_a_take_is_heard_shown_and_finished_in_order(pipeline, listener):
    pipeline.load_model("tiny.en")
    session = pipeline.start(FilePlayback(SHOPPING))
    final = listener.wait_for(Final)
    assert "basil" in final.text
    assert (final.session, final.language) == (session, "en")
    assert final.audio_s == pytest.approx(4.97, abs=0.05)
    loading = [e for e in listener.events if isinstance(e, ModelLoading)]
    assert [e.done for e in loading] == list(range(loading[0].total + 1))
    kinds = [type(e) for e in listener.events if not isinstance(e, Level | ModelLoading)]
    assert kinds.count(Listening) == kinds.count(Ended) == 1
    assert kinds[-1] is Final
    partials = listener.of(session, Partial)
    assert partials
    for earlier, later in itertools.pairwise(partials):
        assert later.committed.startswith(earlier.committed)
    levels = listener.of(session, Level)
    assert len(levels) == pytest.approx(4.97 / 0.05, abs=2)
    assert max(e.rms_dbfs for e in levels) > -30


def test_takes_follow_each_other_without_waiting(pipeline, listener):
    """The second is recorded while the model loads and the first is not finished; both texts come."""
    first, second = pipeline.start(fast(SHOPPING)), pipeline.start(fast(QUESTION))
    pipeline.load_model("tiny.en")
    assert "keys" in listener.wait_for(Final, session=second).text
    assert "basil" in listener.wait_for(Final, session=first).text
    assert second == first + 1


def test_stop_keeps_what_was_said_before(pipeline, listener):
    pipeline.load_model("tiny.en")
    session = pipeline.start(FilePlayback(SHOPPING))
    while not (heard := listener.of(session, Level)) or heard[-1].elapsed_s < 1.5:
        time.sleep(0.02)
    pipeline.stop()
    final = listener.wait_for(Final)
    assert 1.4 < final.audio_s < 4
    assert "shopping" in final.text.lower()
    assert "basil" not in final.text


def test_cancel_ends_without_a_text(pipeline, listener):
    pipeline.load_model("tiny.en")
    session = pipeline.start(FilePlayback(SHOPPING))
    listener.wait_for(Listening)
    pipeline.cancel()
    assert listener.wait_for(Cancelled).session == session
    after = pipeline.start(fast(QUESTION))
    assert "keys" in listener.wait_for(Final, session=after).text
    assert not listener.of(session, Final, Failed)


def test_a_recording_without_a_model_waits_for_one(pipeline, listener):
    pipeline.load_model("no-such-model")
    session = pipeline.start(fast(SHOPPING))
    failed = listener.wait_for(ModelFailed)
    assert "no-such-model" in failed.message
    assert listener.wait_for(Notice).session == session
    pipeline.load_model("tiny.en")
    assert "basil" in listener.wait_for(Final, session=session).text


def test_a_model_that_does_not_load_leaves_the_one_before(pipeline, listener):
    pipeline.load_model("tiny.en")
    pipeline.load_model("no-such-model")
    listener.wait_for(ModelFailed)
    session = pipeline.start(fast(QUESTION))
    assert "keys" in listener.wait_for(Final, session=session).text


def test_a_source_that_does_not_open_is_said_in_one_sentence(pipeline, listener):
    pipeline.load_model("tiny.en")
    session = pipeline.start(fast(ROOT / "nothing.flac"))
    failed = listener.wait_for(Failed)
    assert failed.session == session
    assert "nothing.flac" in failed.message
    assert failed.text == ""


def test_closing_while_recording_and_transcribing(listener):
    pipeline = Pipeline(listener.hear)
    pipeline.load_model("tiny.en")
    pipeline.start(FilePlayback(SHOPPING))
    listener.wait_for(ModelReady)
    assert pipeline.close(PATIENCE_S)
    assert not any(t.name in ("engine", "recorder") for t in threading.enumerate())


def test_the_engine_leaves_other_threads_their_turns(pipeline, listener):
    """A heartbeat of 10 ms goes on while the model works: kernels that kept the GIL would swallow nearly all beats."""
    pipeline.load_model("tiny.en")
    listener.wait_for(ModelReady)
    pipeline.start(fast(SHOPPING))
    beats, began = 0, time.monotonic()
    while not any(isinstance(e, Final) for e in listener.events):
        time.sleep(0.01)
        beats += 1
    possible = (time.monotonic() - began) / 0.01
    assert beats > possible / 4
