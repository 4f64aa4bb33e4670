"""How to transcribe: one frozen record of choices, named and set as openai-whisper does."""

from dataclasses import dataclass
from typing import Literal

from engine.languages import LANGUAGES

Task = Literal["transcribe", "translate"]


@dataclass(frozen=True)
class TranscribeOptions:
    """Choices for one transcription; the defaults are openai-whisper's with its command line's best_of."""

    language: str | None = None  # a code of engine.languages; None detects it on the first 30 s
    task: Task = "transcribe"  # or "translate" into English, which multilingual models can
    temperatures: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # 0 is greedy; the next ones when that fails
    best_of: int = 5  # samples drawn at temperatures above 0
    compression_ratio_threshold: float | None = 2.4  # a text that compresses better repeats itself: failed
    logprob_threshold: float | None = -1.0  # a mean log probability below: failed
    no_speech_threshold: float | None = 0.6  # a window with more of this and a failed logprob is silence
    condition_on_previous_text: bool = True  # earlier windows' text is the next one's prompt
    initial_prompt: str = ""
    without_timestamps: bool = False
    max_initial_timestamp: float | None = 1.0  # seconds
    suppress_blank: bool = True
    suppress_non_speech: bool = True  # "suppress_tokens -1": no brackets, notes, speaker dashes

    def __post_init__(self) -> None:
        """Raises ValueError for a choice that no model knows."""
        if self.language is not None and self.language not in LANGUAGES:
            raise ValueError(f"unknown language {self.language!r}; use a code such as en, de or zh")
        if self.task not in ("transcribe", "translate"):
            raise ValueError(f"unknown task {self.task!r}; use transcribe or translate")
        if not self.temperatures or min(self.temperatures) < 0:
            raise ValueError("temperatures must be one or more numbers from 0 up")
        if self.best_of < 1:
            raise ValueError("best_of must be 1 or more")
