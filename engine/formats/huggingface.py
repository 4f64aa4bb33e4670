"""Reads a Whisper model as Hugging Face's transformers keep it: safetensors, config.json and a vocabulary.

Only the names differ from openai-whisper's; the numbers are the same.
"""

from pathlib import Path
from typing import Any

from engine.errors import ModelFormatError, ModelUnsupportedError
from engine.formats import safetensors
from engine.formats.arrays import assemble, dimensions
from engine.formats.json_files import alignment_heads, read_config
from engine.formats.vocabulary import read_ranks
from engine.weights import Array, Weights

_DIMENSIONS = {
    "n_mels": "num_mel_bins",
    "n_audio_ctx": "max_source_positions",
    "n_audio_state": "d_model",
    "n_audio_head": "encoder_attention_heads",
    "n_audio_layer": "encoder_layers",
    "n_vocab": "vocab_size",
    "n_text_ctx": "max_target_positions",
    "n_text_state": "d_model",
    "n_text_head": "decoder_attention_heads",
    "n_text_layer": "decoder_layers",
}
_FIXED = {"model_type": "whisper", "activation_function": "gelu", "scale_embedding": False}
_NAMES = {
    "blocks": "layers",
    "attn": "self_attn",
    "cross_attn": "encoder_attn",
    "attn_ln": "self_attn_layer_norm",
    "cross_attn_ln": "encoder_attn_layer_norm",
    "mlp_ln": "final_layer_norm",
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "out": "out_proj",
    "ln": "layer_norm",
    "ln_post": "layer_norm",
    "token_embedding": "embed_tokens",
    "positional_embedding": "embed_positions.weight",
}


def read(weights: tuple[Path, ...], vocabulary: Path, config: Path) -> Weights:
    """Read all of the files that the weights are spread over, the vocabulary, config.json and its neighbours.

    The arrays are views of the mapped files. Raises ModelFormatError where a file is damaged, ModelUnsupportedError
    where it is not a Whisper, or is quantised.
    """
    settings = read_config(config)
    for name, wanted in _FIXED.items():
        found = settings.get(name, None if name == "model_type" else wanted)
        if found != wanted:
            shown = repr(found)[:60] if isinstance(found, str | int | float | None) else type(found).__name__
            raise ModelUnsupportedError(f"{config}: {name} is {shown}; of a Whisper it is {wanted!r}")
    shape = dimensions(config, {ours: _required(config, settings, theirs) for ours, theirs in _DIMENSIONS.items()})
    tensors: dict[str, Array] = {}
    size = 0
    for path in weights:
        arrays, n_bytes = safetensors.tensors(path)
        tensors.update(arrays)
        size += n_bytes

    def find(name: str) -> Array:
        theirs = hugging_face_name(name)
        for candidate in (f"model.{theirs}", theirs):
            if candidate in tensors:
                return tensors[candidate]
        raise ModelFormatError(weights[0], f"model.{theirs} is missing")

    generation = config.with_name("generation_config.json")
    heads = alignment_heads(generation, shape) if generation.is_file() else ()
    return assemble(weights[0], shape, find, read_ranks(vocabulary), size=size, alignment_heads=heads)


def hugging_face_name(name: str) -> str:
    """What transformers call the array to which openai-whisper gave this name."""
    parts = name.replace("mlp.0", "fc1").replace("mlp.2", "fc2").split(".")
    return ".".join(_NAMES.get(part, part) for part in parts)


def _required(path: Path, settings: dict[str, Any], name: str) -> Any:
    if name not in settings:
        raise ModelFormatError(path, f"{name} is missing")
    return settings[name]
