"""The dictation state machine: what the person and the pipeline say goes in, what to do comes out.

It exists so that no order of presses, releases and late events can confuse the app, and so that tests can
show this without a window. It is pure: `advance` takes a frozen state and one input and returns the next
state and the actions to carry out. The Qt thread calls it; it knows neither Qt nor threads nor a clock.

A dictation under way is a `Take`. At most one take records; any number of earlier ones may still wait for
their text. The displayed state is derived from them, so it cannot disagree with them.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from app.events import (
    Cancelled,
    Ended,
    Event,
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

HOLD_S = 0.4  # a press held longer than this is push-to-talk: letting go ends the dictation
SILENCE_DBFS = -120.0


class State(Enum):
    """The five states that every surface shows by a shape, a colour and a word."""

    IDLE = "idle"
    PREPARING = "preparing"
    LISTENING = "listening"
    FINISHING = "finishing"
    ERROR = "error"


class Wish(Enum):
    """What a person can ask for without holding a key down."""

    START = "start"
    STOP = "stop"
    TOGGLE = "toggle"
    CANCEL = "cancel"
    DISMISS = "dismiss"


@dataclass(frozen=True)
class Press:
    """The record control or its key went down; `at_s` is any clock that only moves forward."""

    at_s: float


@dataclass(frozen=True)
class Release:
    """The record control or its key came up; `at_s` is on the clock of `Press`."""

    at_s: float


@dataclass(frozen=True)
class Started:
    """The pipeline's answer to `Start`; it is fed before any other input."""

    session: int
    at: datetime


@dataclass(frozen=True)
class Copied:
    """This text is on the clipboard now."""

    text: str


@dataclass(frozen=True)
class Start:
    """Open the chosen source and answer with `Started`."""


@dataclass(frozen=True)
class Stop:
    """Stop recording; the text is still wanted."""


@dataclass(frozen=True)
class Cancel:
    """Drop the newest take that has not ended, recording or not."""


@dataclass(frozen=True)
class Copy:
    """Put this text, which is not empty, on the clipboard."""

    text: str


Action = Start | Stop | Cancel | Copy


class Remedy(Enum):
    """The one action that a problem line offers."""

    DISMISS = "dismiss"
    RETRY = "retry"
    CHOOSE_MODEL = "choose model"


@dataclass(frozen=True)
class Problem:
    """One line for the person; `serious` ones turn the idle state into the error state."""

    message: str
    hint: str
    remedy: Remedy
    serious: bool


Input = Press | Release | Wish | Started | Copied | Problem | Event


@dataclass(frozen=True)
class Take:
    """One dictation from its start to its text; `session` is None until the pipeline has numbered it."""

    session: int | None = None
    began: datetime | None = None
    heard: bool = False
    elapsed_s: float = 0.0
    level_dbfs: float = SILENCE_DBFS
    committed: str = ""
    partial: str = ""


@dataclass(frozen=True)
class Entry:
    """A finished text of this run, and when its dictation began."""

    session: int
    began: datetime
    text: str


@dataclass(frozen=True)
class Dictation:
    """Everything the window, the captions and the tray show about dictation."""

    recording: Take | None = None
    finishing: tuple[Take, ...] = ()  # oldest first
    pressed_at_s: float | None = None  # set while the press that started `recording` is held
    history: tuple[Entry, ...] = ()  # newest first
    last: Entry | None = None  # the entry of the newest take, until the next one starts
    copied: str = ""  # what this app last put on the clipboard since the newest take started
    problem: Problem | None = None
    loading: ModelLoading | None = None
    model: str | None = None  # the one that can transcribe now

    @property
    def state(self) -> State:
        """The displayed state; a new recording hides an old one that is finishing."""
        if self.recording:
            return State.LISTENING if self.recording.heard else State.PREPARING
        if self.finishing:
            return State.FINISHING
        return State.ERROR if self.problem and self.problem.serious else State.IDLE

    @property
    def shown(self) -> Take | None:
        """The take whose live text is shown: the newest one."""
        return self.recording or (self.finishing[-1] if self.finishing else None)


Step = tuple[Dictation, tuple[Action, ...]]


def advance(now: Dictation, what: Input) -> Step:
    """Return the state after `what` and the actions to carry out, in order."""
    match what:
        case Press(at_s):
            return _press(now, at_s)
        case Release(at_s):
            return _release(now, at_s)
        case Wish():
            return _wish(now, what)
        case Started(session, at):
            assert now.recording
            assert now.recording.session is None
            return replace(now, recording=replace(now.recording, session=session, began=at)), ()
        case Copied(text):
            return replace(now, copied=text), ()
        case Problem():
            return replace(now, problem=what), ()
        case ModelLoading() | ModelReady() | ModelFailed():
            return _model(now, what), ()
        case _:
            return _session(now, what)


def _press(now: Dictation, at_s: float) -> Step:
    if now.recording:
        return _stop(now)
    begun, actions = _start(now)
    return replace(begun, pressed_at_s=at_s), actions


def _release(now: Dictation, at_s: float) -> Step:
    if now.pressed_at_s is None:
        return now, ()
    if at_s - now.pressed_at_s > HOLD_S:
        return _stop(now)
    return replace(now, pressed_at_s=None), ()


def _wish(now: Dictation, wish: Wish) -> Step:
    match wish:
        case Wish.START:
            return (now, ()) if now.recording else _start(now)
        case Wish.STOP:
            return _stop(now) if now.recording else (now, ())
        case Wish.TOGGLE:
            return _stop(now) if now.recording else _start(now)
        case Wish.CANCEL:
            return _cancel(now)
        case Wish.DISMISS:
            return replace(now, problem=None), ()


def _start(now: Dictation) -> Step:
    return replace(now, recording=Take(), last=None, copied="", problem=None), (Start(),)


def _stop(now: Dictation) -> Step:
    return _finish_recording(now), (Stop(),)


def _finish_recording(now: Dictation) -> Dictation:
    assert now.recording
    return replace(now, recording=None, finishing=(*now.finishing, now.recording), pressed_at_s=None)


def _cancel(now: Dictation) -> Step:
    if now.recording:
        return replace(now, recording=None, pressed_at_s=None), (Cancel(),)
    if now.finishing:
        return replace(now, finishing=now.finishing[:-1]), (Cancel(),)
    return replace(now, problem=None), ()


def _model(now: Dictation, event: ModelLoading | ModelReady | ModelFailed) -> Dictation:
    match event:
        case ModelLoading():
            return replace(now, loading=event)
        case ModelReady(model):
            solved = now.problem and now.problem.remedy is Remedy.CHOOSE_MODEL
            return replace(now, loading=None, model=model, problem=None if solved else now.problem)
        case ModelFailed(_, message, hint):
            problem = Problem(message, hint, Remedy.CHOOSE_MODEL, serious=True)
            return replace(now, loading=None, problem=problem)


def _session(now: Dictation, event: Listening | Level | Partial | Ended | Final | Cancelled | Notice | Failed) -> Step:
    take = _take(now, event.session)
    if take is None:  # it was cancelled or has ended: whatever it still says is stale
        return now, ()
    newest = take is now.shown
    match event:
        case Listening():
            return _with(now, replace(take, heard=True)), ()
        case Level(_, elapsed_s, rms_dbfs, _):
            return _with(now, replace(take, elapsed_s=elapsed_s, level_dbfs=rms_dbfs)), ()
        case Partial(_, _, _, committed, partial):
            partial = partial if committed else partial.lstrip()  # it brings the space before its first word
            return _with(now, replace(take, committed=committed, partial=partial)), ()
        case Notice(_, message, hint):
            remedy = Remedy.DISMISS if now.model or now.loading else Remedy.CHOOSE_MODEL
            return replace(now, problem=Problem(message, hint, remedy, serious=False)), ()
        case Ended():  # by itself, unless the person has asked for it already
            return (_finish_recording(now) if take is now.recording else now), ()
        case Cancelled():
            return _without(now, take), ()
        case Final(_, _, _, text, _):
            ended = _without(now, take)
            if text.strip():
                return _keep(ended, take, text.strip(), newest=newest)
            silent = Problem("No words were heard.", "", Remedy.DISMISS, serious=False)
            return replace(ended, problem=now.problem or silent), ()
        case Failed(_, message, hint, text):
            remedy = Remedy.RETRY if newest else Remedy.DISMISS
            ended = replace(_without(now, take), problem=Problem(message, hint, remedy, serious=newest))
            return _keep(ended, take, text.strip(), newest=newest) if text.strip() else (ended, ())


def _take(now: Dictation, session: int) -> Take | None:
    takes = (*now.finishing, now.recording) if now.recording else now.finishing
    return next((take for take in takes if take.session == session), None)


def _with(now: Dictation, take: Take) -> Dictation:
    if now.recording and now.recording.session == take.session:
        return replace(now, recording=take)
    finishing = tuple(take if old.session == take.session else old for old in now.finishing)
    return replace(now, finishing=finishing)


def _without(now: Dictation, take: Take) -> Dictation:
    if now.recording is take:
        return replace(now, recording=None, pressed_at_s=None)
    return replace(now, finishing=tuple(old for old in now.finishing if old is not take))


def _keep(now: Dictation, take: Take, text: str, *, newest: bool) -> Step:
    assert take.session is not None
    assert take.began is not None
    entry = Entry(take.session, take.began, text)
    kept = replace(now, history=(entry, *now.history), last=entry if newest else now.last)
    return kept, (Copy(text),)
