"""What both sides of the parity tests make from scratch: signals, weights, and which values are compared.

`make_goldens.py` runs openai-whisper on these inputs and stores a few kilobytes of its answers; `test_parity.py` makes
the very same inputs again and compares the engine's answers. Nothing here may ever change without making the goldens
anew: their `provenance.json` holds a fingerprint of every input, which the tests check first.

All randomness comes from the raw output of PCG64, which NumPy keeps stable for ever (its distributions may change).
"""

import hashlib
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Weights = dict[str, Floats]

RATE = 16_000
WINDOW_FRAMES = 3000
SHORT_FRAMES = 1202  # a shorter window, for an encoder that need not see 30 s
GOLDENS = Path(__file__).parent / "goldens"
ROOT = Path(__file__).parents[2]
SPEECH = {
    "sample": ROOT / "resources" / "sample.flac",
    "note": ROOT / "tests" / "data" / "note_shopping.flac",
    "question": ROOT / "tests" / "data" / "question_chain.flac",
    "spanish": ROOT / "tests" / "data" / "es_email.flac",
    "italian": ROOT / "tests" / "data" / "it_note.flac",
}


def fingerprint(*arrays: Floats) -> str:
    """Return the SHA-256 of the bytes of float32 arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array, dtype="<f4").tobytes())
    return digest.hexdigest()


def uniform(seed: int, *shape: int) -> Floats:
    """Return float32 values in [-1, 1), each a multiple of 2**-23, the same ones everywhere."""
    count = prod(shape)
    words = np.random.PCG64(seed).random_raw((count + 1) // 2)
    halves = words.astype("<u8", copy=False).view("<u4")[:count]
    return ((halves >> 8).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)).reshape(shape)


# --- sound -----------------------------------------------------------------------------------------------------------


def speech(name: str) -> Floats:
    """Return one of the clips in SPEECH, 16 kHz mono, in [-1, 1)."""
    with av.open(str(SPEECH[name])) as container:
        blocks = [frame.to_ndarray().ravel() for frame in container.decode(audio=0)]
        stream = container.streams.audio[0]
        if (stream.rate, stream.channels) != (RATE, 1) or blocks[0].dtype != np.int16:
            raise ValueError(f"{SPEECH[name].name} must be 16-bit, 16 kHz mono")
    return np.concatenate(blocks).astype(np.float32) / np.float32(32768)


def _sweep(samples: int, low_hz: float, high_hz: float) -> NDArray[np.float64]:
    t = np.arange(samples) / RATE
    return np.sin(2 * np.pi * (low_hz * t + (high_hz - low_hz) * t**2 * RATE / (2 * samples)))


def _sixteen_bit(signal: NDArray[np.floating]) -> Floats:
    # Rounding to a recording's grid wipes out the last-bit differences between sine implementations.
    return (np.round(signal * 32767) / 32768).astype(np.float32)


def signals() -> dict[str, Floats]:
    """Return the synthetic signals by name, each chosen for one way in which a log-mel can go wrong."""
    seconds = np.arange(480_000) / RATE
    quiet_then_loud = np.full(560_000, 0.002)
    quiet_then_loud[500_000:] = 0.7
    click_behind = 0.002 * uniform(6, 16_159)
    click_behind[-60:] = 0.9
    return {
        # not a multiple of the hop: the last frame looks at both sound and padding
        "chirp": _sixteen_bit(0.5 * _sweep(48_077, 50, 7600) + 0.01 * uniform(1, 48_077)),
        # the window to the sample
        "full_window": _sixteen_bit(
            0.4 * _sweep(480_000, 100, 4000) * np.sin(np.pi * 1.5 * seconds) ** 2 + 0.005 * uniform(2, 480_000)
        ),
        # the loudest place, which sets the floor for all frames, lies in the second window
        "quiet_then_loud": _sixteen_bit(quiet_then_loud * uniform(3, 560_000)),
        # it lies behind the last whole frame, in one that is not even kept
        "click_behind": _sixteen_bit(click_behind),
        "silence": np.zeros(16_000, dtype=np.float32),
        "short": _sixteen_bit(0.3 * uniform(4, 1_000)),
        "one_frame": _sixteen_bit(0.3 * uniform(5, 160)),
    }


def long_clip() -> Floats:
    """Return a minute of speech: three clips by turns, at other loudnesses, with pauses of other lengths.

    No sentence comes twice in 30 s: repetition would send the model into a loop, and a loop tests little.
    """
    turns = (
        (0.0, "sample", 1.0),
        (1.0, "note", 1.0),
        (1.2, "question", 1.0),
        (8.0, "note", 0.5),
        (1.2, "sample", 1.0),
        (0.3, "question", 0.5),
        (4.0, "note", 0.25),
    )
    parts: list[Floats] = []
    for pause_s, name, gain in turns:
        parts += [np.zeros(int(pause_s * RATE), dtype=np.float32), speech(name) * np.float32(gain)]
    return np.concatenate(parts)


def window(mel: Floats) -> Floats:
    """Return the first 30-s window `[n_mels, 3000]` of a log-mel, filled up with zeros as openai-whisper does."""
    content = mel[:, :WINDOW_FRAMES]
    return np.pad(content, ((0, 0), (0, WINDOW_FRAMES - content.shape[1])))


# --- weights ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """The ten numbers that define a Whisper, by openai-whisper's names."""

    n_mels: int
    n_audio_ctx: int
    n_audio_state: int
    n_audio_head: int
    n_audio_layer: int
    n_vocab: int
    n_text_ctx: int
    n_text_state: int
    n_text_head: int
    n_text_layer: int

    def as_dict(self) -> dict[str, int]:
        """Return the numbers by name."""
        return asdict(self)


# large-v3-turbo in small (more encoder than decoder layers, 128 mels, its vocabulary), and one layer in its true width.
RANDOM_MODELS = {
    "turbo_small": Shape(128, 1500, 128, 2, 3, 51_866, 448, 128, 2, 2),
    "turbo_slice": Shape(128, 1500, 1280, 20, 1, 51_866, 448, 1280, 20, 1),
}


def _tensor_shapes(s: Shape) -> dict[str, tuple[int, ...]]:
    d = s.n_audio_state
    shapes: dict[str, tuple[int, ...]] = {
        "encoder.conv1.weight": (d, s.n_mels, 3),
        "encoder.conv1.bias": (d,),
        "encoder.conv2.weight": (d, d, 3),
        "encoder.conv2.bias": (d,),
        "encoder.positional_embedding": (s.n_audio_ctx, d),
        "encoder.ln_post.weight": (d,),
        "encoder.ln_post.bias": (d,),
        "decoder.token_embedding.weight": (s.n_vocab, d),
        "decoder.positional_embedding": (s.n_text_ctx, d),
        "decoder.ln.weight": (d,),
        "decoder.ln.bias": (d,),
    }
    blocks = [f"encoder.blocks.{i}" for i in range(s.n_audio_layer)]
    blocks += [f"decoder.blocks.{i}" for i in range(s.n_text_layer)]
    for block in blocks:
        for attention in ("attn", "cross_attn") if block.startswith("decoder") else ("attn",):
            for projection in ("query", "key", "value", "out"):
                shapes[f"{block}.{attention}.{projection}.weight"] = (d, d)
                if projection != "key":
                    shapes[f"{block}.{attention}.{projection}.bias"] = (d,)
            shapes[f"{block}.{attention}_ln.weight"] = shapes[f"{block}.{attention}_ln.bias"] = (d,)
        shapes |= {f"{block}.mlp.0.weight": (4 * d, d), f"{block}.mlp.0.bias": (4 * d,)}
        shapes |= {f"{block}.mlp.2.weight": (d, 4 * d), f"{block}.mlp.2.bias": (d,)}
        shapes |= {f"{block}.mlp_ln.weight": (d,), f"{block}.mlp_ln.bias": (d,)}
    return shapes


def random_weights(shape: Shape, seed: int = 100) -> Weights:
    """Return weights in openai-whisper's tensor names, scaled so that no layer saturates and attention is not flat."""
    weights: Weights = {}
    for index, (name, dims) in enumerate(_tensor_shapes(shape).items()):
        values = uniform(seed + index, *dims)
        if "ln" in name and name.endswith("weight"):
            values = 1 + np.float32(0.2) * values
        elif len(dims) == 1 or "embedding" in name:
            values *= np.float32(0.2)
        else:
            gain = 2.5 if ".query." in name or ".key." in name else 1.4
            values *= np.float32(gain / np.sqrt(prod(dims[1:])))
        weights[name] = values
    return weights


def random_tokens(count: int, n_vocab: int) -> list[int]:
    """Return token ids for teacher forcing of a model with random weights, over the whole vocabulary."""
    return [int((x + 1) / 2 * n_vocab) for x in uniform(7, count)]


# --- which values are compared ---------------------------------------------------------------------------------------


def mel_frames(content_frames: int) -> list[int]:
    """Return which frames of a log-mel are stored: the first, the middle and the last ones."""
    middle = content_frames // 2
    wanted = [*range(4), *range(middle - 2, middle + 2), *range(content_frames - 5, content_frames)]
    return sorted({f for f in wanted if 0 <= f < content_frames})


def encoder_positions(content_frames: int, positions: int = 1500) -> list[int]:
    """Return which encoder positions are stored: both ends, the end of the sound, and some between."""
    edge = content_frames // 2
    wanted = [0, 1, 2, *range(edge - 2, edge + 3), *range(100, positions, 117), *range(positions - 3, positions)]
    return sorted({p for p in wanted if 0 <= p < positions})


def encoder_channels(n_state: int) -> list[int]:
    """Return which channels of an encoder output are stored: 48, spread evenly."""
    return np.linspace(0, n_state - 1, 48).astype(int).tolist()


def block_norms(features: Floats) -> NDArray[np.float64]:
    """Return the Euclidean norm of each run of 50 positions of `[n, d]`: together they see every value."""
    squares = np.square(features.astype(np.float64)).sum(axis=1)
    return np.sqrt(np.add.reduceat(squares, np.arange(0, len(squares), 50)))


def probe_ids(n_vocab: int) -> list[int]:
    """Return 64 token ids whose logits are stored for every row: text, special ones, timestamps."""
    special = range(n_vocab - 1501 - 8, n_vocab - 1501)
    spread = np.linspace(0, n_vocab - 1, 64 - len(special)).astype(int).tolist()
    return sorted({*spread, *special})


def log_sum_exp(logits: Floats) -> NDArray[np.float64]:
    """Return the log of the sum of exponentials of each row: one number that sees every logit."""
    values = logits.astype(np.float64)
    peak = values.max(axis=-1)
    return peak + np.log(np.exp(values - peak[:, None]).sum(axis=-1))
