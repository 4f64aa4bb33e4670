"""The network, top to bottom, written once against the ops of engine.reference or engine.kernels.

Source: Radford et al. 2022 (arXiv 2212.04356): pre-norm residual blocks, GELU, heads of 64, tied output projection.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from types import ModuleType
from typing import Any

import numpy as np

from engine import kernels
from engine.errors import CancelledError
from engine.packing import Block, CrossAttention, Layer, Norm, Packed, pack
from engine.weights import HEAD, Dimensions, Weights


class Network:
    """A Whisper network, packed for its ops; immutable once built."""

    def __init__(self, model: Weights | Packed, ops: ModuleType = kernels) -> None:
        """Put the parts of `model` in their places; weights are packed for `ops` first.

        `ops` is engine.kernels or engine.reference, and a packed model is packed for the same.
        """
        packed = model if isinstance(model, Packed) else pack(model, ops)
        parts, d = packed.parts, packed.dimensions
        self.dimensions: Dimensions = d
        self.alignment_heads = packed.alignment_heads
        self.ops: Any = ops
        self.conv1: Layer = parts["encoder.conv1"]
        self.conv2: Layer = parts["encoder.conv2"]
        self.audio_positions: np.ndarray = parts["encoder.positions"]
        self.encoder_blocks: tuple[Block, ...] = tuple(parts[f"encoder.blocks.{i}"] for i in range(d.n_audio_layer))
        self.encoder_ln: Norm = parts["encoder.ln"]
        self.embedding: np.ndarray = parts["decoder.embedding"]
        self.text_positions: np.ndarray = parts["decoder.positions"]
        self.decoder_blocks: tuple[tuple[Block, CrossAttention], ...] = tuple(
            parts[f"decoder.blocks.{i}"] for i in range(d.n_text_layer)
        )
        self.decoder_ln: Norm = parts["decoder.ln"]
        self.unembedding: Layer = parts["decoder.unembedding"]

    def encode(self, mel: np.ndarray, cancelled: Callable[[], bool] = lambda: False) -> np.ndarray:
        """Audio features [n, n_audio_state] of normalised log-mel [n_mels, 2 n] float32, n up to 1500.

        `cancelled` is asked before each block, and a true answer raises CancelledError.
        """
        ops, d = self.ops, self.dimensions
        n_mels, frames = mel.shape
        if n_mels != d.n_mels or frames % 2 or not 0 < frames <= 2 * d.n_audio_ctx:
            raise ValueError(f"mel is {mel.shape}, not ({d.n_mels}, an even number up to {2 * d.n_audio_ctx})")
        x = ops.linear(_neighbours(mel.T, stride=1), self.conv1, gelu=True)  # [2 n, d]
        x = ops.linear(_neighbours(x, stride=2), self.conv2, gelu=True)  # [n, d]
        x += self.audio_positions[: len(x)]
        for block in self.encoder_blocks:
            if cancelled():
                raise CancelledError
            q, k, v = np.split(ops.linear(self.norm(x, block.attn_ln), block.qkv), 3, axis=1)
            x = ops.linear(ops.attention(q, k, v, d.n_audio_head), block.out, residual=x)
            x = self.mlp(x, block)
        return self.norm(x, self.encoder_ln)

    def norm(self, x: np.ndarray, norm: Norm) -> np.ndarray:
        """Layer normalisation of x [n, d]."""
        y: np.ndarray = self.ops.layer_norm(x, norm.gain, norm.bias)
        return y

    def mlp(self, x: np.ndarray, block: Block) -> np.ndarray:
        """The feed-forward half of a block, added to x [n, d]."""
        hidden = self.ops.linear(self.norm(x, block.mlp_ln), block.mlp_in, gelu=True)
        y: np.ndarray = self.ops.linear(hidden, block.mlp_out, residual=x)
        return y


class Decoder:
    """The decoder on one window of audio, or on several side by side: its caches, and how many tokens it has read.

    It begins with one hypothesis a window, which reads the prompt. `branch` makes several of one, `step` gives each its
    own next token; all of them share each pass over the weights, and those of a window its keys and values. One owner.
    """

    def __init__(self, network: Network, *audio_features: np.ndarray) -> None:
        """Project the cross-attention keys and values of each window's features [n, n_audio_state], for all tokens."""
        ops = network.ops
        self.network = network
        self._cross = [
            [(ops.linear(features, cross.key), ops.linear(features, cross.value)) for features in audio_features]
            for _, cross in network.decoder_blocks
        ]
        self._windows = list(range(len(audio_features)))  # which window each hypothesis listens to
        self._caches = [self._new_cache() for _ in audio_features]  # self-attention keys and values of each
        self._spare: list[np.ndarray] = []
        self.length = 0

    def rewind(self, length: int = 0) -> None:
        """Back to the first hypothesis and its first `length` tokens; the audio stays."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind to {length} of {self.length} tokens")
        self.keep([0])
        self.length = length

    def branch(self, count: int) -> None:
        """Make `count` hypotheses of the only one there is."""
        self.keep([0] * count)

    def keep(self, sources: Sequence[int]) -> None:
        """Let hypothesis i go on from where hypothesis sources[i] is, for as many as there are sources."""
        old, new, taken = self._caches, [], set()
        self._spare += [cache for i, cache in enumerate(old) if i not in sources]
        for source in sources:
            if source in taken:
                copy = self._spare.pop() if self._spare else self._new_cache()
                copy[:, :, : self.length] = old[source][:, :, : self.length]
                new.append(copy)
            else:
                taken.add(source)
                new.append(old[source])
        self._caches = new
        self._windows = [self._windows[source] for source in sources]

    def read(self, tokens: Sequence[int]) -> np.ndarray:
        """Let each hypothesis read `tokens` behind those before; returns their final hidden states [hypotheses n, d].

        Raises ValueError where they do not fit into the model's context.
        """
        return self._forward(np.array([tokens] * len(self._caches), np.intp))

    def read_scored(self, tokens: Sequence[int], heads: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
        """Let the only hypothesis read; the hidden states, and the scores [heads, n, positions] tokens give the audio.

        They are those of cross-attention before its softmax, in `heads`, which are pairs of layer and head.
        """
        queries: list[np.ndarray] = []
        hidden = self._forward(np.array([tokens], np.intp), queries)

        def score(layer: int, head: int) -> np.ndarray:
            part = slice(head * HEAD, (head + 1) * HEAD)
            scores: np.ndarray = queries[layer][:, part] @ self._cross[layer][0][0][:, part].T
            return scores * np.float32(HEAD**-0.5)

        return hidden, np.stack([score(layer, head) for layer, head in heads])

    def step(self, tokens: Sequence[int]) -> np.ndarray:
        """Let each hypothesis read its own next token; returns their final hidden states [hypotheses, d]."""
        return self._forward(np.array(tokens, np.intp)[:, None])

    def _forward(self, tokens: np.ndarray, queries: list[np.ndarray] | None = None) -> np.ndarray:
        """Hidden states [hypotheses * n, d] of tokens [hypotheses, n].

        `queries` gets each layer's queries to the audio [hypotheses * n, d].
        """
        network, d, ops = self.network, self.network.dimensions, self.network.ops
        if len(tokens) != len(self._caches):
            raise ValueError(f"{len(tokens)} rows of tokens for {len(self._caches)} hypotheses")
        start, stop = self.length, self.length + tokens.shape[1]
        if stop > d.n_text_ctx:
            raise ValueError(f"{stop} tokens are more than the context of {d.n_text_ctx}")
        x = (network.embedding[tokens] + network.text_positions[start:stop]).reshape(-1, d.n_text_state)
        for layer, (block, cross) in enumerate(network.decoder_blocks):
            qkv = ops.linear(network.norm(x, block.attn_ln), block.qkv)
            attended = [
                self._attend_to_tokens(cache[layer], rows, start, stop)
                for cache, rows in zip(self._caches, np.split(qkv, len(tokens)), strict=True)
            ]
            x = ops.linear(np.concatenate(attended), block.out, residual=x)
            q = ops.linear(network.norm(x, cross.ln), cross.query)
            if queries is not None:
                queries.append(q)
            x = ops.linear(self._attend_to_audio(layer, q), cross.out, residual=x)
            x = network.mlp(x, block)
        self.length = stop
        return network.norm(x, network.decoder_ln)

    def _attend_to_tokens(self, cache: np.ndarray, qkv: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Put the new keys and values of one hypothesis and layer into its cache and attend to all there."""
        q, k, v = np.split(qkv, 3, axis=1)
        cache[0, start:stop], cache[1, start:stop] = k, v
        heads = self.network.dimensions.n_text_head
        attended: np.ndarray = self.network.ops.attention(q, cache[0, :stop], cache[1, :stop], heads, causal=True)
        return attended

    def _attend_to_audio(self, layer: int, q: np.ndarray) -> np.ndarray:
        """Attend with queries [hypotheses * n, d], each to its own window, all of one window at once."""
        heads, attention = self.network.dimensions.n_text_head, self.network.ops.attention
        n = len(q) // len(self._windows)
        attended, first = [], 0
        for window, members in groupby(self._windows):
            last = first + n * len(list(members))
            attended.append(attention(q[first:last], *self._cross[layer][window], heads))
            first = last
        return np.concatenate(attended) if len(attended) > 1 else attended[0]

    def _new_cache(self) -> np.ndarray:
        d = self.network.dimensions
        return np.empty((d.n_text_layer, 2, d.n_text_ctx, d.n_text_state), np.float32)

    def logits(self, hidden: np.ndarray) -> np.ndarray:
        """Scores [n, n_vocab] of the token that follows each of the hidden states [n, n_text_state]."""
        scores: np.ndarray = self.network.ops.linear(hidden, self.network.unembedding)
        return scores


def _neighbours(rows: np.ndarray, stride: int) -> np.ndarray:
    """Each `stride`-th row of [n, c] with the ones before and after it, zero outside: [ceil(n / stride), 3 c]."""
    n, c = rows.shape
    padded = np.zeros((n + 2, c), np.float32)
    padded[1:-1] = rows
    windows = np.lib.stride_tricks.sliding_window_view(padded.reshape(-1), 3 * c)[:: stride * c]
    return np.ascontiguousarray(windows)
