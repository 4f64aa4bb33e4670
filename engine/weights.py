"""What a model file holds, in one form whatever its layout: dimensions, named arrays, vocabulary, alignment heads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from engine.errors import ModelUnsupportedError

HEAD = 64  # features of an attention head in every Whisper
_N_VOCAB_ENGLISH = 51864

# Heads of the decoder whose attention follows the speech, by encoder layers, decoder layers, width and vocabulary, each
# as layer: heads. Source: openai-whisper. Of large-v1 and large-v2, which have the same dimensions, the latter's.
_PUBLISHED_HEADS: dict[tuple[int, int, int, int], dict[int, tuple[int, ...]]] = {
    (4, 4, 384, 51864): {1: (0,), 2: (0, 5), 3: (0, 1, 2, 3, 4)},
    (4, 4, 384, 51865): {2: (2,), 3: (0, 2, 3, 4, 5)},
    (6, 6, 512, 51864): {3: (3,), 4: (7,), 5: (1, 5, 7)},
    (6, 6, 512, 51865): {3: (1,), 4: (2, 3, 7), 5: (1, 2, 4, 6)},
    (12, 12, 768, 51864): {
        6: (6,), 7: (0, 3, 8), 8: (2, 5, 7), 9: (0, 4, 8, 10), 10: (0, 1, 2, 3, 6, 11), 11: (2, 4),
    },
    (12, 12, 768, 51865): {5: (3, 9), 8: (0, 4, 7, 8), 9: (0, 7, 9), 10: (5,)},
    (24, 24, 1024, 51864): {
        11: (4,), 14: (1, 12, 14), 15: (4,), 16: (0, 4, 9), 17: (12, 14), 18: (7, 10, 15), 20: (0, 3, 9, 14), 21: (12,),
    },
    (24, 24, 1024, 51865): {13: (15,), 15: (4, 15), 16: (1,), 20: (0,), 23: (4,)},
    (32, 32, 1280, 51865): {
        10: (12,), 13: (17,), 16: (11, 12, 13), 17: (15, 16), 18: (4, 11, 19), 19: (11,), 21: (2, 3), 22: (3, 9, 12),
        23: (5, 7, 13), 25: (5,), 26: (1, 12), 27: (15,),
    },
    (32, 32, 1280, 51866): {
        7: (0,), 10: (17,), 12: (18,), 13: (12,), 16: (1,), 17: (14,), 19: (11,), 21: (4,), 24: (1,), 25: (6,),
    },
    (32, 4, 1280, 51866): {2: (4, 11), 3: (3, 6, 11, 14)},
}  # fmt: skip


@dataclass(frozen=True)
class Dimensions:
    """The shape of a Whisper; names as in the published models."""

    n_mels: int
    n_audio_ctx: int  # positions that the encoder puts out, one each 20 ms
    n_audio_state: int
    n_audio_head: int
    n_audio_layer: int
    n_vocab: int
    n_text_ctx: int  # tokens that the decoder can look back on
    n_text_state: int
    n_text_head: int
    n_text_layer: int

    def __post_init__(self) -> None:
        """Raises ModelUnsupportedError where the numbers make no Whisper."""
        limits = {
            "n_mels": (1, 256),
            "n_audio_ctx": (1500, 1500),
            "n_audio_state": (HEAD, 4096),
            "n_audio_layer": (1, 64),
            "n_vocab": (_N_VOCAB_ENGLISH, 51866),
            "n_text_ctx": (448, 448),
            "n_text_layer": (1, 64),
        }
        for name, (low, high) in limits.items():
            if not low <= getattr(self, name) <= high:
                raise ModelUnsupportedError(f"{name} is {getattr(self, name)}, not within {low} to {high}")
        for state, head in ((self.n_audio_state, self.n_audio_head), (self.n_text_state, self.n_text_head)):
            if state != head * HEAD:
                raise ModelUnsupportedError(f"{head} heads of {HEAD} do not make {state} features")
        if self.n_text_state != self.n_audio_state:
            raise ModelUnsupportedError("encoder and decoder differ in width")

    @property
    def multilingual(self) -> bool:
        """Whether the vocabulary is that of all languages, not of English alone."""
        return self.n_vocab != _N_VOCAB_ENGLISH

    @property
    def n_text_tokens(self) -> int:
        """Tokens of the vocabulary that are text; the special ones follow them."""
        return 50257 if self.multilingual else 50256

    def default_alignment_heads(self) -> tuple[tuple[int, int], ...]:
        """The published heads of a model of these dimensions, else all in the upper half of the decoder's layers."""
        published = _PUBLISHED_HEADS.get((self.n_audio_layer, self.n_text_layer, self.n_text_state, self.n_vocab))
        upper_half = range(self.n_text_layer // 2, self.n_text_layer)
        heads = published or dict.fromkeys(upper_half, tuple(range(self.n_text_head)))
        return tuple((layer, head) for layer, in_layer in heads.items() for head in in_layer)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The name and shape of every array of such a model."""
        d = self.n_audio_state
        shapes: dict[str, tuple[int, ...]] = {}

        def linear(name: str, n_out: int, n_in: int) -> None:
            shapes[f"{name}.weight"] = (n_out, n_in)
            if not name.endswith(".key"):
                shapes[f"{name}.bias"] = (n_out,)

        def norm(name: str) -> None:
            shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (d,)

        shapes["encoder.conv1.weight"], shapes["encoder.conv1.bias"] = (d, self.n_mels, 3), (d,)
        shapes["encoder.conv2.weight"], shapes["encoder.conv2.bias"] = (d, d, 3), (d,)
        shapes["encoder.positional_embedding"] = (self.n_audio_ctx, d)
        shapes["decoder.positional_embedding"] = (self.n_text_ctx, d)
        shapes["decoder.token_embedding.weight"] = (self.n_vocab, d)
        norm("encoder.ln_post")
        norm("decoder.ln")
        for stack, layers in (("encoder", self.n_audio_layer), ("decoder", self.n_text_layer)):
            for block in (f"{stack}.blocks.{i}" for i in range(layers)):
                for attention in ("attn", "cross_attn") if stack == "decoder" else ("attn",):
                    norm(f"{block}.{attention}_ln")
                    for projection in ("query", "key", "value", "out"):
                        linear(f"{block}.{attention}.{projection}", d, d)
                norm(f"{block}.mlp_ln")
                linear(f"{block}.mlp.0", 4 * d, d)
                linear(f"{block}.mlp.2", d, 4 * d)
        return shapes


@dataclass(frozen=True)
class Encoded:
    """An array in a form that NumPy does not know, such as bfloat16 or blocks of 4-bit numbers.

    NumPy decodes it, to float32 and anew each time, when told to make an array of it: np.array(encoded, np.float32).
    So a model takes the memory of its file and not that of its floats.
    """

    shape: tuple[int, ...]
    nbytes: int  # as it is stored
    decode: Callable[[], np.ndarray]  # to float32 of that shape

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """What NumPy calls; ValueError where it must not copy."""
        if copy is False:
            raise ValueError("an encoded array cannot be had without a copy")
        return self.decode().astype(np.float32 if dtype is None else dtype, copy=False)


Array = np.ndarray | Encoded


@dataclass(frozen=True)
class Weights:
    """A model as read: arrays under openai-whisper's names, in any float type or encoded."""

    dimensions: Dimensions
    arrays: Mapping[str, Array]
    ranks: Sequence[bytes]  # byte strings of the text tokens
    alignment_heads: tuple[tuple[int, int], ...] = ()  # (layer, head) of the decoder; the default ones where empty

    def __post_init__(self) -> None:
        """Fills in the default alignment heads."""
        heads = self.alignment_heads or self.dimensions.default_alignment_heads()
        object.__setattr__(self, "alignment_heads", heads)
