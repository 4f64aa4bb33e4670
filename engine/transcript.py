"""What transcribing gives: plain frozen records that may cross threads, be kept or be written to a file."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Word:
    """One word with the punctuation around it, when it was said and how sure the model was of it."""

    start: float  # seconds from the start of the audio
    end: float
    word: str  # with its leading space
    probability: float  # 0 to 1, the mean of its tokens'


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
    words: tuple[Word, ...] = ()  # if the options ask for word times


@dataclass(frozen=True)
class Span:
    """A stretch of a recording."""

    start: float  # seconds from the start of the audio
    end: float


@dataclass(frozen=True)
class Transcript:
    """The text of one recording; `language` is a Whisper code such as "en"."""

    text: str
    language: str
    segments: tuple[Segment, ...]
    duration_s: float
    gaps: tuple[Span, ...] = ()  # where somebody seems to speak and no words were found
