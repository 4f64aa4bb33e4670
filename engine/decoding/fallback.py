"""Decodes a window again at a higher temperature when the result looks wrong.

Source: openai-whisper's decode_with_fallback, with faster-whisper's choice where all temperatures fail: the likeliest
of those that do not repeat themselves.
"""

from collections.abc import Sequence

import numpy as np

from engine.decoding.silence import is_silence
from engine.decoding.window import WindowDecoder, WindowResult
from engine.options import TranscribeOptions


def decode_with_fallback(
    window: WindowDecoder, options: TranscribeOptions, failed: Sequence[WindowResult] = ()
) -> WindowResult:
    """The first result that passes, over `options.temperatures`; else the best of those that failed.

    `failed`: results at the first of these temperatures, which need not be decoded again.
    """
    random = np.random.default_rng(0)  # the same audio gives the same text
    failed = list(failed)
    for temperature in options.temperatures[len(failed) :]:
        result = window.decode(temperature, random)
        if not has_failed(result, options):
            return result
        failed.append(result)
    varied = [result for result in failed if not repeats(result, options)]
    return max(varied or failed, key=lambda result: result.avg_logprob)


def repeats(result: WindowResult, options: TranscribeOptions) -> bool:
    """Whether the text compresses so well that it must go round in circles."""
    limit = options.compression_ratio_threshold
    return limit is not None and result.compression_ratio > limit


def has_failed(result: WindowResult, options: TranscribeOptions) -> bool:
    """Whether a result is to be improved on: unsure or going round in circles, and not silence."""
    if is_silence(result, options):
        return False
    unsure = options.logprob_threshold is not None and result.avg_logprob < options.logprob_threshold
    return unsure or repeats(result, options)
