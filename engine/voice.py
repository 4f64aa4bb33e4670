"""How likely somebody speaks, each 32 ms: Silero's voice activity network, version 6, on the engine's own kernels.

The weights are those of the package silero-vad 6.2.3 (MIT), in resources/voice; the network is small: a spectrum by
convolution, four convolutions and an LSTM. All of it but the LSTM's recurrence is done for many chunks at once, which
makes it fifty times as fast as libraries that take one chunk a call. Runs on the engine's thread.
What it says is advice: it is never the reason to leave out audio that has not been decoded.
"""

import logging
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from engine import kernels
from engine.downmix import SAMPLE_RATE
from engine.errors import EngineError
from engine.formats import safetensors

_log = logging.getLogger(__name__)

CHUNK = 512  # samples
CHUNK_S = CHUNK / SAMPLE_RATE
_CONTEXT = 64  # samples of the chunk before that each chunk begins with
_MIRRORED = 64  # samples of a chunk's end that follow it, backwards
_WINDOW, _HOP = 256, 128  # of the spectrum
_BINS = _WINDOW // 2 + 1
_WIDTH = 128  # of the LSTM
_AT_ONCE = 512  # chunks; bounds the memory of one pass
_WEIGHTS = Path(__file__).resolve().parent.parent / "resources" / "voice" / "silero-vad-16k.safetensors"


class VoiceNetwork:
    """The network, packed for its ops; immutable once built."""

    def __init__(self, ops: ModuleType = kernels) -> None:
        """`ops`: engine.kernels or engine.reference. Raises ModelFormatError where the weights are damaged."""
        self.ops: Any = ops
        stored, _ = safetensors.tensors(_WEIGHTS)
        arrays = {name: np.array(array, np.float32) for name, array in stored.items()}

        def convolution(name: str, taps: slice = slice(None)) -> Any:
            """Kernel [n_out, n_in, 3], or some taps of it, as a layer over rows laid end to end."""
            kernel = arrays[f"{name}.weight"][:, :, taps].transpose(0, 2, 1)
            return ops.pack(kernel.reshape(len(kernel), -1), arrays[f"{name}.bias"])

        self._spectrum = ops.pack(arrays["stft_conv.weight"][:, 0])
        self._conv1, self._conv2 = convolution("conv1"), convolution("conv2")
        # Of the two frames that are left, and then the one, the other taps meet nothing but zeros.
        self._conv3, self._conv4 = convolution("conv3", slice(1, 3)), convolution("conv4", slice(1, 2))
        self._gates = ops.pack(arrays["lstm_cell.weight_ih"], arrays["lstm_cell.bias_ih"] + arrays["lstm_cell.bias_hh"])
        self._recurrent = np.ascontiguousarray(arrays["lstm_cell.weight_hh"].T)
        self._final = arrays["final_conv.weight"][0, :, 0], arrays["final_conv.bias"][0]

    def probabilities(self, chunks: np.ndarray, hidden: np.ndarray, cell: np.ndarray) -> np.ndarray:
        """Of speech [n] in chunks [n, 64 + 512] of samples, each led by the last 64 of the one before.

        `hidden` and `cell` [128] are the LSTM's state, zero at first, and are kept up.
        """
        linear = self.ops.linear
        n = len(chunks)
        x = np.concatenate([chunks, chunks[:, -2 : -_MIRRORED - 2 : -1]], axis=1)
        frames = np.lib.stride_tricks.sliding_window_view(x, _WINDOW, axis=1)[:, ::_HOP]  # [n, 4, 256]
        parts = linear(np.ascontiguousarray(frames).reshape(4 * n, _WINDOW), self._spectrum)
        magnitude = np.sqrt(parts[:, :_BINS] ** 2 + parts[:, _BINS:] ** 2).reshape(n, 4, _BINS)
        x = _relu(linear(_threes(magnitude, stride=1), self._conv1)).reshape(n, 4, -1)
        x = _relu(linear(_threes(x, stride=2), self._conv2)).reshape(n, -1)
        x = _relu(linear(_relu(linear(x, self._conv3)), self._conv4))
        x = _relu(self.ops.lstm(linear(x, self._gates), self._recurrent, hidden, cell))
        weight, bias = self._final
        spoken: np.ndarray = 1 / (1 + np.exp(-(x @ weight + bias)))
        return spoken


class VoiceActivity:
    """The probabilities of a recording that may still be growing; one owner, no thread of its own."""

    def __init__(self, network: VoiceNetwork) -> None:
        """`network` may be shared."""
        self._network = network
        self._pending = np.zeros(_CONTEXT, np.float32)  # the context of the next chunk and what there is of it
        self._hidden, self._cell = np.zeros(_WIDTH, np.float32), np.zeros(_WIDTH, np.float32)
        self._found: list[np.ndarray] = []

    def push(self, samples: np.ndarray) -> None:
        """Append float32 samples [n] at 16 kHz."""
        samples = np.concatenate([self._pending, samples])
        count = (len(samples) - _CONTEXT) // CHUNK
        for first in range(0, count, _AT_ONCE):
            last = min(count, first + _AT_ONCE)
            part = samples[first * CHUNK : last * CHUNK + _CONTEXT]
            chunks = np.lib.stride_tricks.sliding_window_view(part, _CONTEXT + CHUNK)[::CHUNK]
            self._found.append(self._network.probabilities(chunks, self._hidden, self._cell))
        self._pending = samples[count * CHUNK :].copy()

    def probabilities(self) -> np.ndarray:
        """That somebody speaks, of each whole chunk of 32 ms so far [n]."""
        self._found = [np.concatenate(self._found)] if self._found else []
        return self._found[0] if self._found else np.empty(0, np.float32)


def load_voice_network(ops: ModuleType = kernels) -> VoiceNetwork | None:
    """The network; None, and a warning, where its weights are missing or damaged: then everything is listened to."""
    try:
        return VoiceNetwork(ops)
    except (EngineError, OSError, LookupError) as error:
        _log.warning("voice activity is off: %s", error)
        return None


def _threes(x: np.ndarray, stride: int) -> np.ndarray:
    """Each `stride`-th row of x [n, 4, c] with its neighbours, zero outside its four: [n * 4 / stride, 3 c]."""
    n, rows, c = x.shape
    padded = np.zeros((n, rows + 2, c), np.float32)
    padded[:, 1:-1] = x
    windows = np.lib.stride_tricks.sliding_window_view(padded.reshape(n, -1), 3 * c, axis=1)[:, :: stride * c]
    return np.ascontiguousarray(windows).reshape(-1, 3 * c)


def _relu(x: np.ndarray) -> np.ndarray:
    positive: np.ndarray = np.maximum(x, np.float32(0))
    return positive
