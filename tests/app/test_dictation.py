"""The state machine: each rule once by hand, then any order of inputs against what must always hold."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dictation import (
    HOLD_S,
    Cancel,
    Copied,
    Copy,
    Dictation,
    Press,
    Release,
    Remedy,
    Start,
    Started,
    State,
    Stop,
    Wish,
    advance,
)
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

NOON = datetime(2025, 1, 1, 12, 0)


def final(session, text):
    return Final(session, audio_s=2.0, wall_s=2.1, text=text, language="en")


def partial(session, committed, pending=""):
    return Partial(session, audio_s=1.0, wall_s=1.1, committed=committed, partial=pending)


class Run:
    """A dictation that numbers its sessions as the pipeline does, and remembers every action."""

    def __init__(self):
        self.now = Dictation()
        self.sessions = 0
        self.actions = []

    def feed(self, *inputs):
        for what in inputs:
            self.now, actions = advance(self.now, what)
            self.actions += actions
            if Start() in actions:
                self.sessions += 1
                self.now, _ = advance(self.now, Started(self.sessions, NOON))
        return self

    @property
    def state(self):
        return self.now.state


def test_hold_is_push_to_talk():
    run = Run().feed(Press(10.0))
    assert run.state is State.PREPARING
    run.feed(Listening(1, "Microphone"), Release(10.0 + HOLD_S + 0.1))
    assert run.state is State.FINISHING
    run.feed(final(1, " Hello. "))
    assert run.state is State.IDLE
    assert run.actions == [Start(), Stop(), Copy("Hello.")]
    assert [entry.text for entry in run.now.history] == ["Hello."]
    assert run.now.history[0].began == NOON


def test_short_click_toggles():
    run = Run().feed(Press(10.0), Release(10.1), Listening(1, "Microphone"))
    assert run.state is State.LISTENING
    run.feed(Press(20.0))
    assert run.state is State.FINISHING
    run.feed(Release(29.0))
    assert run.actions == [Start(), Stop()]


def test_hold_may_start_and_end_before_the_model_is_ready():
    run = Run().feed(ModelLoading("tiny.en", 1, 3), Press(0.0), Listening(1, "Microphone"))
    assert run.state is State.LISTENING
    run.feed(Release(2.0), ModelReady("tiny.en"), final(1, "Early words."))
    assert run.actions == [Start(), Stop(), Copy("Early words.")]
    assert (run.now.loading, run.now.model) == (None, "tiny.en")


def test_new_dictation_while_the_last_one_finishes():
    run = Run().feed(Wish.START, Listening(1, "M"), Wish.STOP, Wish.START, Listening(2, "M"), partial(2, "Two"))
    run.feed(final(1, "One."))
    assert run.state is State.LISTENING
    assert run.now.shown.committed == "Two"
    assert run.now.last is None
    run.feed(Wish.STOP, final(2, "Two."))
    assert [entry.text for entry in run.now.history] == ["Two.", "One."]
    assert run.actions == [Start(), Stop(), Start(), Copy("One."), Stop(), Copy("Two.")]
    assert run.now.last.text == "Two."


def test_cancel_drops_the_text_even_if_it_comes():
    run = Run().feed(Press(0.0), Listening(1, "M"), partial(1, "Never"), Wish.CANCEL, Release(5.0))
    assert run.state is State.IDLE
    run.feed(final(1, "Never mind."), Cancelled(1), Level(1, 3.0, -20.0, 0.5))
    assert run.now == Dictation()
    assert run.actions == [Start(), Cancel()]


def test_cancel_while_finishing_then_on_a_problem_then_on_nothing():
    run = Run().feed(Wish.START, Wish.STOP, Wish.CANCEL)
    assert run.state is State.IDLE
    run.feed(ModelFailed("base", "No.", "Choose another."), Wish.CANCEL)
    assert run.now.problem is None
    run.feed(Wish.CANCEL)
    assert run.actions == [Start(), Stop(), Cancel()]


def test_error_keeps_the_text_and_the_next_press_starts_again():
    run = Run().feed(Press(0.0), Listening(1, "M"), Failed(1, "Microphone unplugged.", "Plug it in.", "Half a"))
    assert run.state is State.ERROR
    assert run.now.problem.remedy is Remedy.RETRY
    assert run.now.history[0].text == "Half a"
    run.feed(Release(1.0))
    assert run.state is State.ERROR
    run.feed(Press(2.0))
    assert run.state is State.PREPARING
    assert run.now.problem is None
    assert run.actions == [Start(), Copy("Half a"), Start()]


def test_an_older_failure_does_not_spoil_a_newer_success():
    run = Run().feed(Wish.START, Wish.STOP, Wish.START, Failed(1, "Broken.", "", ""), Wish.STOP, final(2, "Fine."))
    assert run.state is State.IDLE
    assert run.now.problem.message == "Broken."


def test_source_that_ends_by_itself_is_finishing():
    run = Run()
    run.feed(ModelReady("m"), Press(1.0), Release(1.1), Listening(1, "clip"), Ended(1))
    assert run.now.state is State.FINISHING
    assert Stop() not in run.actions
    run.feed(Ended(1), final(1, "It is done."))
    assert run.now.state is State.IDLE
    assert run.now.history[0].text == "It is done."


def test_source_that_ends_by_itself_and_silence():
    run = Run().feed(Press(0.0), Release(0.1), Listening(1, "clip.flac"), final(1, "  "))
    assert run.state is State.IDLE
    assert run.now.problem.message == "No words were heard."
    assert run.now.history == ()
    assert run.actions == [Start()]


def test_notice_shows_without_ending_the_dictation():
    run = Run().feed(Wish.START, Listening(1, "M"), Notice(1, "0.2 s were lost.", "Close other programs."))
    assert run.state is State.LISTENING
    assert run.now.problem.message == "0.2 s were lost."
    run.feed(Wish.DISMISS)
    assert run.now.problem is None


def test_model_failure_is_an_error_only_while_idle_and_keeps_the_model_before():
    run = Run().feed(ModelReady("tiny.en"), ModelLoading("base", 0, 2), ModelFailed("base", "Damaged.", "Reinstall."))
    assert run.state is State.ERROR
    assert (run.now.model, run.now.loading) == ("tiny.en", None)
    run.feed(Wish.START)
    assert run.state is State.PREPARING


def test_a_model_that_arrives_solves_the_want_of_one():
    run = Run().feed(Wish.START, Listening(1, "M"), Notice(1, "There is no model.", "Choose one."))
    assert run.now.problem.remedy is Remedy.CHOOSE_MODEL
    assert run.feed(ModelReady("base")).now.problem is None


def test_copied_is_remembered_until_the_next_start():
    run = Run().feed(Wish.START, Wish.STOP, final(1, "One."), Copied("One."))
    assert run.now.copied == "One."
    assert run.feed(Wish.TOGGLE).now.copied == ""


SESSIONS = st.integers(min_value=1, max_value=6)
WORDS = st.text("ab ", max_size=4)
INPUTS = st.one_of(
    st.builds(Press, st.floats(0, 2)),
    st.builds(Release, st.floats(0, 4)),
    st.sampled_from(Wish),
    st.builds(Listening, SESSIONS, st.just("M")),
    st.builds(partial, SESSIONS, WORDS, WORDS),
    st.builds(final, SESSIONS, WORDS),
    st.builds(Cancelled, SESSIONS),
    st.builds(Ended, SESSIONS),
    st.builds(Notice, SESSIONS, WORDS, WORDS),
    st.builds(Failed, SESSIONS, WORDS, WORDS, WORDS),
    st.builds(ModelFailed, WORDS, WORDS, WORDS),
)


@given(st.lists(INPUTS, max_size=40))
def test_whatever_the_order(inputs):
    run = Run()
    for what in inputs:
        before, done = run.now, len(run.actions)
        alive = {take.session for take in (*before.finishing, before.recording) if take}
        run.feed(what)
        now, new = run.now, run.actions[done:]

        sessions = [take.session for take in (*now.finishing, now.recording) if take]
        assert sessions == sorted(set(sessions))
        assert (now.state in (State.PREPARING, State.LISTENING)) == (now.recording is not None)
        assert now.pressed_at_s is None or now.recording is not None
        assert len(new) <= 1
        if Start() in new:
            assert before.recording is None
        if Stop() in new:
            assert before.recording is not None
            assert now.finishing[-1].session == before.recording.session
        if Cancel() in new:
            assert len(sessions) == len(alive) - 1

        session = getattr(what, "session", None)
        if session is not None and session not in alive:
            assert now == before
        if isinstance(what, Final | Failed) and session in alive:
            assert session not in sessions
            kept = [what.text.strip()] if what.text.strip() else []
            assert [entry.text for entry in now.history] == kept + [entry.text for entry in before.history]
            assert new == [Copy(text) for text in kept]
        else:
            assert now.history == before.history


@pytest.mark.parametrize("event", [Listening(1, "M"), final(1, "x"), Failed(1, "m", "h", "t"), Notice(1, "m", "h")])
def test_nothing_comes_from_a_session_that_never_was(event):
    assert advance(Dictation(), event) == (Dictation(), ())
