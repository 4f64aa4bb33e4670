"""The engine against openai-whisper, through both the NumPy reference and the compiled kernels.

The expected values are stored in `goldens/`; `README.md` says how they were made and what the bounds mean.
"""

import json
from functools import cache

import numpy as np
import pytest

from engine import catalogue, kernels, reference
from engine.decoding.filters import TokenFilter
from engine.formats import ctranslate2
from engine.mel import LogMel, log_mel, mel_filters
from engine.model import Decoder
from engine.options import TranscribeOptions
from engine.tokenizer import Tokenizer
from engine.weights import Dimensions, Weights
from engine.whisper import Whisper

from . import recipes

REAL = ("tiny.en", "base")
RANDOM = tuple(recipes.RANDOM_MODELS)
MEL_BOUND = 1e-4  # largest error; log-mel spans 2
ENCODER_BOUND = 1e-4  # relative
LOGITS_BOUND = 1e-2  # largest error; logits span about 20

PROVENANCE, TRANSCRIPTS, TOKENIZERS = (
    json.loads((recipes.GOLDENS / f"{name}.json").read_text("utf-8"))
    for name in ("provenance", "transcripts", "tokenizer")
)
MELS, ENCODERS, LOGITS = (dict(np.load(recipes.GOLDENS / f"{name}.npz")) for name in ("mel", "encoder", "logits"))


def through(in_numba, in_numpy=()):
    """Parametrise by arguments and ops: `in_numba` with the kernels, `in_numpy` with the slow reference too."""
    cases = [pytest.param(*case, kernels, id="-".join([*case, "numba"])) for case in in_numba]
    return cases + [pytest.param(*case, reference, id="-".join([*case, "numpy"])) for case in in_numpy]


@cache
def clip(name):
    if name == "long":
        return recipes.long_clip()
    return recipes.speech(name) if name in recipes.SPEECH else recipes.signals()[name]


@cache
def weights_of(name):
    if name in REAL:
        files = catalogue.find(name)
        return ctranslate2.read(files.weights, files.vocabulary)
    shape = recipes.RANDOM_MODELS[name]
    ranks = ctranslate2.read_ranks(catalogue.find("base").vocabulary)
    return Weights(Dimensions(**shape.as_dict()), recipes.random_weights(shape), ranks)


@cache
def model_of(name, ops):
    return Whisper(name, weights_of(name), ops)


def features_of(name, ops):
    """The audio features on which the goldens' logits and decodes were made."""
    return encode(name, ops, "sample" if name in REAL else "full_window")


@cache
def encode(name, ops, signal, frames=recipes.WINDOW_FRAMES):
    model = model_of(name, ops)
    mel = recipes.window(log_mel(clip(signal), model.dimensions.n_mels))
    return model.encode(np.ascontiguousarray(mel[:, :frames]))


def golden(arrays, prefix):
    return {name.rpartition("/")[2]: array for name, array in arrays.items() if name.startswith(f"{prefix}/")}


# --- the inputs are the goldens' own ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*recipes.SPEECH, *recipes.signals(), "long"])
def test_sound_is_what_the_goldens_were_made_of(name):
    assert recipes.fingerprint(clip(name)) == PROVENANCE["fingerprints"][name]


@pytest.mark.parametrize("name", [*REAL, *RANDOM])
def test_weights_are_what_the_goldens_were_made_of(name):
    """For the real models this holds the engine's reader of model.bin to another one, bit by bit."""
    arrays = weights_of(name).arrays
    assert recipes.fingerprint(*(arrays[key] for key in sorted(arrays))) == PROVENANCE["fingerprints"][name]


# --- log-mel ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_mels", [80, 128])
def test_mel_filters(n_mels):
    np.testing.assert_allclose(mel_filters(n_mels).sum(axis=1), MELS[f"filters/{n_mels}"], rtol=1e-5)


@pytest.mark.parametrize("n_mels", [80, 128])
@pytest.mark.parametrize("name", ["sample", "long", *recipes.signals()])
def test_log_mel(name, n_mels):
    samples, expected = clip(name), golden(MELS, f"{name}/{n_mels}")
    mel = log_mel(samples, n_mels)
    assert mel.shape == (n_mels, len(samples) // 160)
    frames = mel[:, recipes.mel_frames(mel.shape[1])]
    np.testing.assert_allclose(frames, expected["frames"], rtol=0, atol=MEL_BOUND)
    wide = mel.astype(np.float64)
    np.testing.assert_allclose([wide.mean(), np.square(wide).mean()], expected["means"], rtol=0, atol=MEL_BOUND)


@pytest.mark.parametrize("name", ["sample", "long", *recipes.signals()])
def test_log_mel_of_a_growing_recording(name):
    """The first window when the sound came in blocks; its floor is that of the whole recording."""
    samples, expected = clip(name), golden(MELS, f"{name}/80")["frames"]
    growing = LogMel(80)
    for block in np.array_split(samples, 7):
        growing.push(block)
        growing.window(0)
    window = growing.window(0)
    content = len(samples) // 160
    frames = [frame for frame in recipes.mel_frames(content) if frame < recipes.WINDOW_FRAMES]
    np.testing.assert_allclose(window[:, frames], expected[:, : len(frames)], rtol=0, atol=MEL_BOUND)
    assert not window[:, content:].any()


# --- network ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "signal", "ops"),
    through(
        [(name, signal) for name in REAL for signal in ("sample", "full_window", "short_window")]
        + [(name, "full_window") for name in RANDOM],
        [("tiny.en", "sample"), ("tiny.en", "short_window"), ("base", "sample"), ("turbo_small", "full_window")],
    ),
)
def test_encoder(name, signal, ops):
    expected = golden(ENCODERS, f"{name}/{signal}")
    if signal == "short_window":
        signal, features = "sample", encode(name, ops, "sample", recipes.SHORT_FRAMES)
    else:
        features = encode(name, ops, signal)
    positions = recipes.encoder_positions(len(clip(signal)) // 160, len(features))
    values = features[np.ix_(positions, recipes.encoder_channels(features.shape[1]))]
    error = np.linalg.norm(values - expected["values"]) / np.linalg.norm(expected["values"])
    assert error < ENCODER_BOUND
    np.testing.assert_allclose(recipes.block_norms(features), expected["norms"], rtol=ENCODER_BOUND)


@pytest.mark.parametrize(
    ("name", "ops"), through([(name,) for name in (*REAL, *RANDOM)], [("tiny.en",), ("base",), ("turbo_small",)])
)
def test_logits(name, ops):
    expected = golden(LOGITS, name)
    tokens, prefill = expected["tokens"].tolist(), int(expected["prefill"])
    decoder = Decoder(model_of(name, ops).network, features_of(name, ops))
    steps = [tokens[:prefill], *([token] for token in tokens[prefill:])]
    logits = np.concatenate([decoder.logits(decoder.read(step)) for step in steps])[expected["rows"]]
    top = np.take_along_axis(logits, expected["top_ids"].astype(int), axis=1)
    probes = logits[:, recipes.probe_ids(logits.shape[1])]
    assert logits.argmax(axis=1).tolist() == expected["top_ids"][:, 0].tolist()
    np.testing.assert_allclose(top, expected["top_values"], rtol=0, atol=LOGITS_BOUND)
    np.testing.assert_allclose(probes, expected["probe_values"], rtol=0, atol=LOGITS_BOUND)
    np.testing.assert_allclose(recipes.log_sum_exp(logits), expected["log_sum_exp"], rtol=0, atol=LOGITS_BOUND)


@pytest.mark.parametrize(("signal", "ops"), through([("sample",), ("spanish",), ("italian",)], [("sample",)]))
def test_language_probabilities(signal, ops):
    expected = TRANSCRIPTS["base"]["languages"][signal]
    found = model_of("base", ops).language_probabilities(encode("base", ops, signal))
    assert found == pytest.approx(expected, abs=1e-4)
    assert next(iter(found)) == max(expected, key=expected.__getitem__)


# --- transcripts -----------------------------------------------------------------------------------------------------


def assert_same_segments(found, expected):
    assert [list(s.tokens) for s in found] == [s["tokens"] for s in expected]
    assert [(s.id, s.seek, s.text, s.temperature) for s in found] == [
        (s["id"], s["seek"], s["text"], s["temperature"]) for s in expected
    ]
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.start, ours.end) == pytest.approx((theirs["start"], theirs["end"]), abs=1e-6)
        assert_same_figures(ours, theirs)


def assert_same_figures(ours, theirs):
    # openai-whisper leaves the language tokens their share of the probability; the engine takes it away.
    assert ours.avg_logprob == pytest.approx(theirs["avg_logprob"], abs=1e-4)
    assert ours.no_speech_prob == pytest.approx(theirs["no_speech_prob"], abs=1e-3)
    assert ours.compression_ratio == pytest.approx(theirs["compression_ratio"], rel=0.05)  # zlibs differ a little


@pytest.mark.parametrize(
    ("name", "case", "ops"),
    through(
        [(name, case) for name in REAL for case in TRANSCRIPTS[name] if case not in ("window", "languages")],
        [("tiny.en", "sample")],
    ),
)
def test_greedy_transcript(name, case, ops):
    expected = TRANSCRIPTS[name][case]
    options = TranscribeOptions(temperatures=(0.0,), **expected["options"])
    found = model_of(name, ops).transcribe(clip(case.partition(",")[0]), options)
    assert (found.text, found.language) == (expected["text"], expected["language"])
    assert_same_segments(found.segments, expected["segments"])


@pytest.mark.parametrize(
    ("name", "case", "ops"),
    through([(name, case) for name in REAL for case in ("plain", "prompt")], [("tiny.en", "prompt")]),
)
def test_window_without_timestamps(name, case, ops):
    expected, model = TRANSCRIPTS[name]["window"][case], model_of(name, ops)
    prompt = model.tokenizer.decode(expected["prompt_tokens"])
    options = TranscribeOptions(language="en", temperatures=(0.0,), without_timestamps=True, initial_prompt=prompt)
    (found,) = model.transcribe(clip("sample"), options).segments
    assert (list(found.tokens), found.text.strip()) == (expected["tokens"], expected["text"])
    assert_same_figures(found, expected)


# --- tokenizer -------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[51864, 51865, 51866], scope="module")
def tokenizer_and_golden(request):
    ranks = ctranslate2.read_ranks(catalogue.find("tiny.en" if request.param == 51864 else "base").vocabulary)
    return Tokenizer(ranks, request.param), TOKENIZERS["vocabularies"][str(request.param)]


def test_encodings(tokenizer_and_golden):
    tokenizer, expected = tokenizer_and_golden
    assert [tokenizer.encode(text) for text in TOKENIZERS["strings"]] == expected["encoded"]
    assert [tokenizer.decode(ids) for ids in expected["encoded"]] == TOKENIZERS["strings"]


def test_decoding_of_broken_sequences(tokenizer_and_golden):
    tokenizer, expected = tokenizer_and_golden
    assert [tokenizer.decode(case["ids"]) for case in expected["broken"]] == [c["text"] for c in expected["broken"]]


def test_special_tokens(tokenizer_and_golden):
    tokenizer, expected = tokenizer_and_golden
    assert {name: getattr(tokenizer, name) for name in expected["special"]} == expected["special"]
    assert {code: tokenizer.language_token(code) for code in tokenizer.languages} == expected["languages"]
    sequences = {name: tokenizer.sot_sequence(*name.split()) for name in expected["sot_sequences"]}
    assert sequences == expected["sot_sequences"]
    assert list(tokenizer.non_speech) == expected["non_speech"]


def test_suppressed_tokens(tokenizer_and_golden):
    """The engine also suppresses a second no-timestamps, which openai-whisper leaves to chance."""
    tokenizer, expected = tokenizer_and_golden
    logits = np.zeros(tokenizer.n_vocab, np.float32)
    TokenFilter(tokenizer, TranscribeOptions(without_timestamps=True)).apply(logits, [tokenizer.encode(" a")[0]])
    assert {*np.flatnonzero(np.isneginf(logits)).tolist()} == {*expected["suppressed"], tokenizer.no_timestamps}
