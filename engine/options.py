"""How to transcribe: one frozen record of choices, named and set as openai-whisper does."""

import math
from dataclasses import dataclass
from typing import Literal

from engine.languages import LANGUAGES

Task = Literal["transcribe", "translate"]
PREPEND_PUNCTUATIONS = "\"'“¿([{-"
APPEND_PUNCTUATIONS = "\"'.。,，!！?？:：”)]}、"


@dataclass(frozen=True)
class TranscribeOptions:
    """Choices for one transcription; the defaults are openai-whisper's with its command line's best_of."""

    language: str | None = None  # a code of engine.languages; None detects it on the first 30 s
    languages: tuple[str, ...] = ()  # what detection may find; all that the model knows by default
    task: Task = "transcribe"  # or "translate" into English, which multilingual models can
    temperatures: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # 0 is greedy; the next ones when that fails
    best_of: int = 5  # samples drawn at temperatures above 0
    beam_size: int | None = None  # hypotheses kept at temperature 0; None is greedy
    patience: float = 1.0  # how many texts must end before a beam search does, over beam_size
    length_penalty: float | None = None  # None ranks by mean log probability, else 0 (none) to 1
    compression_ratio_threshold: float | None = 2.4  # a text that compresses better repeats itself: failed
    logprob_threshold: float | None = -1.0  # a mean log probability below: failed
    no_speech_threshold: float | None = 0.6  # a window with more of this and a failed logprob is silence
    condition_on_previous_text: bool = True  # earlier windows' text is the next one's prompt
    initial_prompt: str = ""  # said to have been said before the first window
    carry_initial_prompt: bool = False  # before every window
    prefix: str = ""  # how the first window's text begins; not repeated in the result
    hotwords: str = ""  # words to expect, before every window; not used together with a prefix
    clip_timestamps: tuple[float, ...] = (0.0,)  # seconds: start, end, start, end ...; a last end may be left out
    without_timestamps: bool = False
    max_initial_timestamp: float | None = 1.0  # seconds
    suppress_blank: bool = True
    suppress_tokens: tuple[int, ...] = (-1,)  # -1 stands for brackets, notes, speaker dashes and the like
    repetition_penalty: float = 1.0  # above 1, tokens that came before are less likely
    no_repeat_ngram_size: int = 0  # a sequence of so many tokens does not come twice in a window
    vad: bool = True  # voice activity advises: text that is made up where nobody speaks is dropped, gaps are mended
    batch_size: int = 1  # windows decoded side by side, in recordings that are there as a whole
    word_timestamps: bool = False  # when each word was said, too; segments then begin and end with their words
    prepend_punctuations: str = PREPEND_PUNCTUATIONS  # marks that belong to the word behind them
    append_punctuations: str = APPEND_PUNCTUATIONS  # marks that belong to the word before them
    hallucination_silence_threshold: float | None = None  # seconds of silence around strange words that are dropped

    def __post_init__(self) -> None:
        """Raises ValueError for a choice that no model knows."""
        for code in (*self.languages, *([self.language] if self.language is not None else [])):
            if code not in LANGUAGES:
                raise ValueError(f"unknown language {code!r}; use a code such as en, de or zh")
        if self.task not in ("transcribe", "translate"):
            raise ValueError(f"unknown task {self.task!r}; use transcribe or translate")
        if not self.temperatures or not all(0 <= temperature < math.inf for temperature in self.temperatures):
            raise ValueError("temperatures must be one or more numbers from 0 up")
        if self.batch_size < 1:
            raise ValueError("batch_size must be 1 or more")
        if self.best_of < 1 or (self.beam_size is not None and self.beam_size < 1):
            raise ValueError("best_of and beam_size must be 1 or more")
        clips = list(self.clip_timestamps)
        if not clips or clips != sorted(clips) or not all(0 <= second < math.inf for second in clips):
            raise ValueError("clip_timestamps must be one or more seconds from 0 up, in order")
        if self.max_initial_timestamp is not None and not 0 <= self.max_initial_timestamp < math.inf:
            raise ValueError("max_initial_timestamp must be 0 or more seconds")
        if min(self.suppress_tokens, default=0) < -1:
            raise ValueError("suppress_tokens must be numbers of tokens from 0 up, or -1")
        if not 0 < self.repetition_penalty < math.inf or self.no_repeat_ngram_size < 0:
            raise ValueError("repetition_penalty must be above 0 and no_repeat_ngram_size 0 or more")
        if not 0 < self.patience < math.inf:
            raise ValueError("patience must be above 0")
        if self.length_penalty is not None and not 0 <= self.length_penalty <= 1:
            raise ValueError("length_penalty must be within 0 and 1")
        if self.hallucination_silence_threshold is not None:
            if not self.word_timestamps:
                raise ValueError("hallucination_silence_threshold needs word_timestamps")
            if not self.hallucination_silence_threshold >= 0:
                raise ValueError("hallucination_silence_threshold must be 0 or more seconds")
