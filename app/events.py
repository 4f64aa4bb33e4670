"""What the pipeline tells whoever listens: the window through one Qt signal, the terminal directly.

Every event is frozen and belongs to nobody, so it may cross threads freely. Events of one dictation carry its session
number; a listener drops those of any session but the current one.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelLoading:
    """A model is being read or its kernels compiled; `done` of `total` steps are behind us."""

    model: str
    done: int
    total: int


@dataclass(frozen=True)
class ModelReady:
    """The model can transcribe now."""

    model: str


@dataclass(frozen=True)
class ModelFailed:
    """The model could not be loaded; the one before it, if any, is still in use."""

    model: str
    message: str
    hint: str


@dataclass(frozen=True)
class Listening:
    """The first real samples of this session arrived: what is said from now on is heard."""

    session: int
    source: str


@dataclass(frozen=True)
class Level:
    """How loud the last 50 ms or so were: full-scale sine is 0 dBFS; `elapsed_s` of audio so far."""

    session: int
    elapsed_s: float
    rms_dbfs: float
    peak: float


@dataclass(frozen=True)
class Partial:
    """Text so far: `committed` never changes within a session, `partial` behind it may.

    `audio_s`: seconds of audio that this text has heard; `wall_s`: seconds since the session started.
    """

    session: int
    audio_s: float
    wall_s: float
    committed: str
    partial: str


@dataclass(frozen=True)
class Ended:
    """Recording is over, by the person's wish or the source's own end; the rest of the text follows."""

    session: int


@dataclass(frozen=True)
class Final:
    """The whole text of a finished session; empty when nothing was said."""

    session: int
    audio_s: float
    wall_s: float
    text: str
    language: str


@dataclass(frozen=True)
class Cancelled:
    """The session ended without a text because the person asked for that."""

    session: int


@dataclass(frozen=True)
class Notice:
    """Something the person should know while the session goes on, such as lost samples."""

    session: int
    message: str
    hint: str


@dataclass(frozen=True)
class Failed:
    """The session ended by an error; what was transcribed until then is in `text`."""

    session: int
    message: str
    hint: str
    text: str


Event = (
    ModelLoading | ModelReady | ModelFailed | Listening | Level | Partial | Ended | Final | Cancelled | Notice | Failed
)
