"""From a model's arrays to the parts that the network consists of, in the form that its ops want.

This is the one description of the packed layout: engine.model asks for the parts by the names they have here, and
engine.cache keeps whatever they are. They are made one at a time, so that a large model need never be in memory twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from engine.weights import Dimensions, Weights

Layer = Any  # what the `pack` of the ops gives: a NamedTuple of arrays and numbers


class Norm(NamedTuple):
    """A layer normalisation: gain and bias [d]."""

    gain: np.ndarray
    bias: np.ndarray


class Block(NamedTuple):
    """Self-attention and feed-forward layer, which encoder and decoder have alike."""

    attn_ln: Norm
    qkv: Layer  # query, key and value projections as one layer
    out: Layer
    mlp_ln: Norm
    mlp_in: Layer
    mlp_out: Layer


class CrossAttention(NamedTuple):
    """What each layer of the decoder has besides: attention to the audio features."""

    ln: Norm
    query: Layer
    key: Layer
    value: Layer
    out: Layer


TYPES: tuple[type, ...] = (Norm, Block, CrossAttention)  # of parts, besides arrays and the layers of the ops


@dataclass(frozen=True)
class Packed:
    """All that a network needs: what a model's files come down to."""

    dimensions: Dimensions
    ranks: Sequence[bytes]  # byte strings of the text tokens
    alignment_heads: tuple[tuple[int, int], ...]
    parts: Mapping[str, Any]  # each an array or one of TYPES, by the names that `parts_of` gives them


def pack(weights: Weights, ops: ModuleType) -> Packed:
    """The model with all of its parts made for `ops`, which is engine.kernels or engine.reference."""
    return Packed(weights.dimensions, weights.ranks, weights.alignment_heads, dict(parts_of(weights, ops)))


def parts_of(weights: Weights, ops: ModuleType) -> Iterator[tuple[str, Any]]:
    """Each part under its name, made when it is asked for, in the order in which the network uses them."""
    arrays, d = weights.arrays, weights.dimensions

    def floats(name: str) -> np.ndarray:
        return np.array(arrays[name], np.float32)

    def layer(*names: str) -> Layer:
        """One linear layer out of one or several stacked on each other."""
        width = arrays[f"{names[0]}.weight"].shape[0]
        none = np.zeros(width, np.float32)
        weight = np.concatenate([floats(f"{name}.weight") for name in names])
        return ops.pack(weight, np.concatenate([arrays.get(f"{name}.bias", none) for name in names]))

    def convolution(name: str) -> Layer:
        """Kernel [n_out, n_in, 3] as a layer over three neighbouring rows laid end to end."""
        kernel = floats(f"{name}.weight").transpose(0, 2, 1).reshape(d.n_audio_state, -1)
        return ops.pack(kernel, floats(f"{name}.bias"))

    def norm(name: str) -> Norm:
        return Norm(floats(f"{name}.weight"), floats(f"{name}.bias"))

    def block(name: str) -> Block:
        attention = f"{name}.attn"
        return Block(
            attn_ln=norm(f"{attention}_ln"),
            qkv=layer(f"{attention}.query", f"{attention}.key", f"{attention}.value"),
            out=layer(f"{attention}.out"),
            mlp_ln=norm(f"{name}.mlp_ln"),
            mlp_in=layer(f"{name}.mlp.0"),
            mlp_out=layer(f"{name}.mlp.2"),
        )

    def cross_attention(name: str) -> CrossAttention:
        projections = {part: layer(f"{name}.{part}") for part in ("query", "key", "value", "out")}
        return CrossAttention(ln=norm(f"{name}_ln"), **projections)

    yield "encoder.conv1", convolution("encoder.conv1")
    yield "encoder.conv2", convolution("encoder.conv2")
    yield "encoder.positions", floats("encoder.positional_embedding")  # [n_audio_ctx, d]
    for i in range(d.n_audio_layer):
        yield f"encoder.blocks.{i}", block(f"encoder.blocks.{i}")
    yield "encoder.ln", norm("encoder.ln_post")
    yield "decoder.embedding", floats("decoder.token_embedding.weight")  # [n_vocab, d]
    yield "decoder.positions", floats("decoder.positional_embedding")  # [n_text_ctx, d]
    for i in range(d.n_text_layer):
        name = f"decoder.blocks.{i}"
        yield name, (block(name), cross_attention(f"{name}.cross_attn"))
    yield "decoder.ln", norm("decoder.ln")
    yield "decoder.unembedding", ops.pack(floats("decoder.token_embedding.weight"))
