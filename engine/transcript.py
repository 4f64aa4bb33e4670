"""What transcribing gives: plain frozen records that may cross threads, be kept or be written to a file."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Segment:
    """A stretch of speech between two timestamps, with the figures by which Whisper judges its own work."""

    id: int  # from 0, without gaps
    seek: int  # first frame of 10 ms of the window that it was decoded from
    start: float  # seconds from the start of the audio
    end: float
    text: str  # as decoded: usually with a leading space
    tokens: tuple[int, ...]
    temperature: float
    avg_logprob: float  # mean log probability of the tokens
    compression_ratio: float  # bytes of the text over bytes of it compressed: high where it repeats itself
    no_speech_prob: float


@dataclass(frozen=True)
class Transcript:
    """The text of one recording; `language` is a Whisper code such as "en"."""

    text: str
    language: str
    segments: tuple[Segment, ...]
    duration_s: float
