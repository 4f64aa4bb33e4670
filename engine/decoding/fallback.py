"""Decodes a window again at a higher temperature when the result looks wrong.

Source: openai-whisper's decode_with_fallback, with faster-whisper's choice where all temperatures fail: the likeliest
of those that do not repeat themselves.
"""

import numpy as np

from engine.decoding.window import WindowDecoder, WindowResult
from engine.options import TranscribeOptions


def decode_with_fallback(window: WindowDecoder, options: TranscribeOptions) -> WindowResult:
    """The first result that passes, over `options.temperatures`; else the best of those that failed."""
    random = np.random.default_rng(0)  # the same audio gives the same text
    failed: list[WindowResult] = []
    for temperature in options.temperatures:
        result = window.decode(temperature, random)
        if not _failed(result, options):
            return result
        failed.append(result)
    varied = [result for result in failed if not repeats(result, options)]
    return max(varied or failed, key=lambda result: result.avg_logprob)


def is_silence(result: WindowResult, options: TranscribeOptions) -> bool:
    """Whether the model heard no speech and was not sure of the text it gave all the same."""
    if options.no_speech_threshold is None or result.no_speech_prob <= options.no_speech_threshold:
        return False
    return options.logprob_threshold is None or result.avg_logprob <= options.logprob_threshold


def repeats(result: WindowResult, options: TranscribeOptions) -> bool:
    """Whether the text compresses so well that it must go round in circles."""
    limit = options.compression_ratio_threshold
    return limit is not None and result.compression_ratio > limit


def _failed(result: WindowResult, options: TranscribeOptions) -> bool:
    if is_silence(result, options):
        return False
    unsure = options.logprob_threshold is not None and result.avg_logprob < options.logprob_threshold
    return unsure or repeats(result, options)
