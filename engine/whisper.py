"""A loaded model and everything it can do: what `engine.load_model` gives.

One inference thread uses it; nothing here is locked.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import numba
import numpy as np

from engine import cache, catalogue, kernels
from engine.batched import transcribe_batched
from engine.coverage import mend
from engine.decoding.prompt import words
from engine.decoding.search import softmax
from engine.downmix import SAMPLE_RATE
from engine.errors import CancelledError
from engine.mel import FRAMES_PER_SECOND, WINDOW_FRAMES
from engine.model import Decoder, Network
from engine.options import TranscribeOptions
from engine.packing import Packed
from engine.recording import Recording
from engine.samples import Audio, blocks
from engine.segments import WindowTranscriber, never
from engine.timing import add_words
from engine.tokenizer import UNSPACED_LANGUAGES, Tokenizer
from engine.transcribe import transcribe
from engine.transcript import Segment, Transcript, Word
from engine.voice import load_voice_network
from engine.weights import Weights

_UNHEARD = TranscribeOptions(vad=False)
COMPUTE = ("auto", "float32")  # "auto" is the fastest that is as accurate as float32


class Whisper:
    """A Whisper model, ready to run."""

    def __init__(self, name: str, model: Weights | Packed, ops: ModuleType = kernels) -> None:
        """Weights are packed for `ops` (engine.kernels, or engine.reference to check it)."""
        self.name = name
        self.network = Network(model, ops)
        self.dimensions = model.dimensions
        self.tokenizer = Tokenizer(model.ranks, model.dimensions.n_vocab)
        self._voice = load_voice_network(ops)

    @property
    def multilingual(self) -> bool:
        """Whether it knows more than English, can tell languages apart and can translate."""
        return self.tokenizer.multilingual

    def log_mel(self, audio: Audio, *, sample_rate: float = SAMPLE_RATE) -> np.ndarray:
        """Normalised log-mel [n_mels, 3000] float32 of the first 30 s of `audio`, zero behind its end.

        It is a window as the encoder was trained on, 10 ms a frame; what audio may be, `transcribe` says.
        """
        mel = self._hear(
            audio, sample_rate, _UNHEARD, stop=WINDOW_FRAMES + 2
        ).mel  # the last two frames look beyond the window
        return mel.window(0)

    def encode(self, mel: np.ndarray) -> np.ndarray:
        """Audio features [n, n_audio_state] float32, 20 ms each, of normalised log-mel [n_mels, 2 n] float32.

        n is 1 to 1500; `log_mel` gives such a window, with n of 1500, and other shapes are a ValueError.
        """
        return self.network.encode(mel)

    def detect_language(
        self, audio: Audio, languages: Sequence[str] = (), *, sample_rate: float = SAMPLE_RATE
    ) -> dict[str, float]:
        """Probability, 0 to 1, of each language by its code, likeliest first, from the first 30 s of `audio`.

        `languages`: the codes that come into question, all by default. An English-only model answers that it is
        English. What audio may be and what is raised, `transcribe` says.
        """
        if not self.multilingual:
            return {"en": 1.0}
        return self.language_probabilities(self.encode(self.log_mel(audio, sample_rate=sample_rate)), languages)

    def language_probabilities(self, features: np.ndarray, allowed: Sequence[str] = ()) -> dict[str, float]:
        """What detect_language gives, from the audio features [n, n_audio_state] of a window.

        ValueError where the model knows none of the codes `allowed`.
        """
        if not self.multilingual:
            return {"en": 1.0}
        codes = [code for code in self.tokenizer.languages if not allowed or code in allowed]
        if not codes:
            raise ValueError(f"{self.name} knows none of the languages {', '.join(allowed)}")
        decoder = Decoder(self.network, features)
        logits = decoder.logits(decoder.read([self.tokenizer.sot]))[0]
        shares = zip(codes, softmax(logits[[self.tokenizer.language_token(c) for c in codes]]).tolist(), strict=True)
        return dict(sorted(shares, key=lambda share: -share[1]))

    def new_recording(self, options: TranscribeOptions) -> Recording:
        """An empty recording for this model, in which voice activity listens if the options want it."""
        return Recording(self.dimensions.n_mels, self._voice if options.vad else None)

    def language_of(
        self, recording: Recording, options: TranscribeOptions, cancelled: Callable[[], bool] = never
    ) -> str:
        """The language that the options name, else the likeliest in the first window in which somebody is heard.

        Raises ValueError where the model does not know the one that is named, or cannot do the task, and
        CancelledError soon after `cancelled` answers true.
        """
        if not self.multilingual:
            named = options.languages if options.language is None else (options.language,)
            if (named and "en" not in named) or options.task == "translate":
                raise ValueError(f"{self.name} knows only English and cannot translate; use a model such as base")
            return "en"
        if options.language is None:
            features = self.network.encode(recording.mel.window(recording.first_heard()), cancelled)
            return next(iter(self.language_probabilities(features, options.languages)))
        self.tokenizer.language_token(options.language)
        return options.language

    def transcribe(
        self,
        audio: Audio,
        options: TranscribeOptions | None = None,
        *,
        sample_rate: float = SAMPLE_RATE,
        on_progress: Callable[[float, float], None] = lambda done_s, total_s: None,
        cancel: Callable[[], bool] = never,
    ) -> Transcript:
        """Transcribe audio of any length and form.

        `audio`: the path of an audio or video file; a binary file object, read from its start if it can seek; or
        samples [n], [n, channels] or [channels, n], n being the greater, of `sample_rate` Hz (1,000 to 3,072,000),
        floats within [-1, 1] or integers of 8, 16 or 32 bits, as an array or what NumPy makes one of. Channels are
        mixed, NaN and infinity are silence.

        `on_progress(done_s, total_s)` is called after each window, `cancel` is asked at every token and every second
        of audio that is read, and a true answer raises CancelledError. Raises AudioError where a file cannot be read,
        ValueError where the samples are no such samples and where the model cannot do what the options ask.
        """
        options = options or TranscribeOptions()
        recording = self._hear(audio, sample_rate, options, cancel)
        language = self.language_of(recording, options, cancel)
        transcriber = WindowTranscriber(self.network, self.tokenizer, options, language)
        if options.batch_size > 1:
            previous = words(self.tokenizer, options.initial_prompt)
            found = transcribe_batched(
                transcriber, recording, previous=previous, on_progress=on_progress, cancelled=cancel
            )
        else:
            previous = self.initial_tokens(options)
            found = transcribe(transcriber, recording, previous=previous, on_progress=on_progress, cancelled=cancel)
        segments, gaps = mend(transcriber, recording, found, cancel)
        text = "".join(segment.text for segment in segments)
        return Transcript(text, language, tuple(segments), recording.mel.duration_s, gaps)

    def align(
        self, audio: Audio, text: str, *, language: str | None = None, sample_rate: float = SAMPLE_RATE
    ) -> tuple[Word, ...]:
        """When each word of `text`, which is known to be what `audio` says, is said; () for a blank text.

        `language`: its code, None detects it; what audio may be and what else is raised, `transcribe` says. ValueError
        where the audio is empty or longer than 30 s, or the text has more tokens than the decoder has room for.
        Source: openai-whisper's word timestamps; see engine.timing.
        """
        text = " ".join(text.split())
        if not text:
            return ()
        recording = self._hear(audio, sample_rate, _UNHEARD, stop=WINDOW_FRAMES + 1)
        mel = recording.mel
        if mel.n_frames == 0:
            raise ValueError("there is no audio to align the text with")
        if mel.n_frames > WINDOW_FRAMES:
            longest_s = WINDOW_FRAMES // FRAMES_PER_SECOND
            raise ValueError(
                f"the audio is longer than the {longest_s} s that can be aligned at once; cut it and its text"
            )
        options = TranscribeOptions(language=language)
        features = self.encode(mel.window(0))
        if self.multilingual and language is None:
            language = next(iter(self.language_probabilities(features)))
        else:
            language = self.language_of(recording, options)
        tokens = self.tokenizer.encode(text if language in UNSPACED_LANGUAGES else f" {text}")
        room = self.dimensions.n_text_ctx - len(self.tokenizer.sot_sequence(language, "transcribe")) - 2
        if len(tokens) > room:
            raise ValueError(
                f"the text has {len(tokens)} tokens, more than the {room} that can be aligned at once; cut it"
            )
        whole = Segment(0, 0, 0.0, mel.duration_s, text, tuple(tokens), 0.0, 0.0, 0.0, 0.0)
        decoder = Decoder(self.network, features)
        (aligned,) = add_words(
            [whole], decoder, self.tokenizer, options, language=language, frames=mel.n_frames, last_speech=0.0
        )
        return aligned.words

    def _hear(
        self,
        audio: Audio,
        sample_rate: float,
        options: TranscribeOptions,
        cancel: Callable[[], bool] = never,
        stop: int | None = None,
    ) -> Recording:
        """The audio as a recording, read no further than to frame `stop`."""
        recording = self.new_recording(options)
        for block in blocks(audio, sample_rate, cancel):
            recording.push(block)
            if cancel():
                raise CancelledError
            if stop is not None and recording.mel.n_frames >= stop:
                break
        return recording

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
    packed = cache.load(files, "float32")
    numba.set_num_threads(threads or available)
    steps = kernels.KERNEL_COUNT + 1
    on_progress(0, steps)
    kernels.warm_up(lambda done: on_progress(done, steps))
    model = Whisper(files.name, packed)
    on_progress(steps, steps)
    return model
