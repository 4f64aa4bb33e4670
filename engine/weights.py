"""What a model file holds, in one form whatever its layout: dimensions, named arrays, vocabulary."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.errors import ModelUnsupportedError

HEAD = 64  # features of an attention head in every Whisper


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
            "n_vocab": (51864, 51866),
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
class Weights:
    """A model as read: arrays under openai-whisper's names, in any float type."""

    dimensions: Dimensions
    arrays: dict[str, np.ndarray]
    ranks: Sequence[bytes]  # byte strings of the text tokens
