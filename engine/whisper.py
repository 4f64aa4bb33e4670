"""A loaded model and everything it can do: what `engine.load_model` gives.

One inference thread uses it; nothing here is locked.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import numba
import numpy as np

from engine import catalogue, formats, kernels
from engine.audio import decode
from engine.decoding.prompt import words
from engine.decoding.search import softmax
from engine.errors import CancelledError
from engine.mel import LogMel
from engine.model import Decoder, Network
from engine.options import TranscribeOptions
from engine.tokenizer import Tokenizer
from engine.transcribe import WindowTranscriber, never, transcribe
from engine.transcript import Transcript
from engine.weights import Weights

COMPUTE = ("auto", "float32")  # "auto" is the fastest that is as accurate as float32


class Whisper:
    """A Whisper model, ready to run."""

    def __init__(self, name: str, weights: Weights, ops: ModuleType = kernels) -> None:
        """Pack `weights` for `ops` (engine.kernels, or engine.reference to check it)."""
        self.name = name
        self.network = Network(weights, ops)
        self.dimensions = weights.dimensions
        self.tokenizer = Tokenizer(weights.ranks, weights.dimensions.n_vocab)

    @property
    def multilingual(self) -> bool:
        """Whether it knows more than English, can tell languages apart and can translate."""
        return self.tokenizer.multilingual

    def encode(self, mel: np.ndarray) -> np.ndarray:
        """Audio features [n, n_audio_state] of normalised log-mel [n_mels, 2 n] float32, n up to 1500."""
        return self.network.encode(mel)

    def detect_language(self, features: np.ndarray, allowed: Sequence[str] = ()) -> dict[str, float]:
        """Probability of each language by its code, likeliest first, given a window's audio features.

        `allowed`: the codes that come into question, all by default. An English-only model answers that it is English.
        """
        if not self.multilingual:
            return {"en": 1.0}
        decoder = Decoder(self.network, features)
        logits = decoder.logits(decoder.read([self.tokenizer.sot]))[0]
        codes = [code for code in self.tokenizer.languages if not allowed or code in allowed]
        shares = zip(codes, softmax(logits[[self.tokenizer.language_token(c) for c in codes]]).tolist(), strict=True)
        return dict(sorted(shares, key=lambda share: -share[1]))

    def language_of(self, mel: LogMel, options: TranscribeOptions, seek: int = 0) -> str:
        """The language that the options name, else the likeliest in the window at frame `seek`.

        Raises ValueError where the model does not know the one that is named, or cannot do the task.
        """
        if not self.multilingual:
            if options.language not in (None, "en") or options.task == "translate":
                raise ValueError(f"{self.name} knows only English and cannot translate; use a model such as base")
            return "en"
        if options.language is None:
            return next(iter(self.detect_language(self.encode(mel.window(seek)), options.languages)))
        self.tokenizer.language_token(options.language)
        return options.language

    def transcribe(
        self,
        audio: str | Path | np.ndarray,
        options: TranscribeOptions | None = None,
        *,
        on_progress: Callable[[float, float], None] = lambda done_s, total_s: None,
        cancel: Callable[[], bool] = never,
    ) -> Transcript:
        """Transcribe an audio file, or mono samples [n] at 16 kHz, floats within [-1, 1], of any length.

        `on_progress(done_s, total_s)` is called after each window, `cancel` is asked at every token, and a true answer
        raises CancelledError. Raises AudioError where the file cannot be read, ValueError where the samples are no such
        samples and where the model cannot do what the options ask.
        """
        options = options or TranscribeOptions()
        mel = LogMel(self.dimensions.n_mels)
        for block in decode(audio) if isinstance(audio, str | Path) else [audio]:
            mel.push(block)
            if cancel():
                raise CancelledError
        language = self.language_of(mel, options)
        transcriber = WindowTranscriber(self.network, self.tokenizer, options, language)
        previous = self.initial_tokens(options)
        return transcribe(
            transcriber, mel, language=language, previous=previous, on_progress=on_progress, cancelled=cancel
        )

    def initial_tokens(self, options: TranscribeOptions) -> list[int]:
        """Tokens that count as said before the first window; a prompt that is carried along is not among them."""
        return [] if options.carry_initial_prompt else words(self.tokenizer, options.initial_prompt)


def load_model(
    name_or_path: str | Path = catalogue.DEFAULT_MODEL,
    *,
    compute: str = "auto",
    threads: int | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Whisper:
    """Load an installed model by name, or any of a kind that engine.formats reads by the path of its directory or file.

    `compute`: see COMPUTE; `threads`: how many cores to use, from 1 up, all of them by default; `on_progress(done,
    total)` counts the steps, of which a machine's first start has slow ones: the kernels are compiled then. Numba keeps
    the number of cores for the calling thread alone, which should be the one that transcribes. Raises
    ModelNotFoundError, ModelFormatError or ModelUnsupportedError, and ValueError for a compute or threads that is none.
    """
    if compute not in COMPUTE:
        raise ValueError(f"unknown compute {compute!r}; use {' or '.join(COMPUTE)}")
    available = int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    if threads is not None and not 1 <= threads <= available:
        raise ValueError(f"threads must be 1 to {available} on this machine, not {threads}")
    files = catalogue.find(name_or_path)
    catalogue.verify(files)
    weights = formats.load(files)
    numba.set_num_threads(threads or available)
    steps = kernels.KERNEL_COUNT + 1
    on_progress(0, steps)
    kernels.warm_up(lambda done: on_progress(done, steps))
    model = Whisper(files.name, weights)
    on_progress(steps, steps)
    return model
