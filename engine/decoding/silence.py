"""When a window's text is not to be believed because nobody speaks in it.

The model itself is a poor judge: told of names to expect, it finds them in rain. Voice activity is a good one, but may
miss a voice under noise. So a window in which it hears nobody is decoded once, without anything that could be echoed,
and its text counts only where the model has no doubt of it.
"""

from dataclasses import replace

from engine.decoding.window import WindowResult
from engine.options import TranscribeOptions

# What openai-whisper's models make up for sounds without a voice stays outside of at least one of these.
_CERTAIN_NO_SPEECH = 0.2
_CERTAIN_LOGPROB = -0.5


def cautious(options: TranscribeOptions) -> TranscribeOptions:
    """The options for a window in which nobody is heard."""
    once = options.temperatures[:1]
    return replace(options, temperatures=once, initial_prompt="", carry_initial_prompt=False, prefix="", hotwords="")


def is_silence(result: WindowResult, options: TranscribeOptions, *, heard: bool = True) -> bool:
    """Whether nobody speaks in the window; `heard`: whether voice activity hears somebody, if it listens.

    Where it does, openai-whisper's rule stands: the model says that there is no speech, and is not sure of its text.
    """
    if not heard:
        return result.no_speech_prob >= _CERTAIN_NO_SPEECH or result.avg_logprob <= _CERTAIN_LOGPROB
    if options.no_speech_threshold is None or result.no_speech_prob <= options.no_speech_threshold:
        return False
    return options.logprob_threshold is None or result.avg_logprob <= options.logprob_threshold
