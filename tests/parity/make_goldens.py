"""Run openai-whisper on known inputs and store the few kilobytes of its answers that `test_parity.py` compares with.

An engine that is tested only against itself can be wrong in a consistent way, so the oracle is the original program.
Nothing is written unless it agrees with CTranslate2's library (see `oracle.py`), its cached and uncached logits agree
with each other, and no stored decision hangs on the last bits of the arithmetic.

Run it in an environment made from `requirements.txt`, after any change in `recipes.py`: `python make_goldens.py`.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np
import oracle
import recipes
import torch
import whisper
from oracle import demand
from recipes import Floats, Shape
from whisper.decoding import DecodingTask
from whisper.model import disable_sdpa
from whisper.tokenizer import get_tokenizer

GREEDY = {"temperature": 0.0, "beam_size": None, "fp16": False, "condition_on_previous_text": True}


def mel_goldens(clips: dict[str, Floats]) -> dict[str, np.ndarray]:
    """Return selected frames and the mean and mean square over all frames, for 80 and 128 mels."""
    arrays = {}
    for n_mels in (80, 128):
        arrays[f"filters/{n_mels}"] = whisper.audio.mel_filters("cpu", n_mels).numpy().sum(axis=1)
        for name, samples in clips.items():
            mel = oracle.log_mel(samples, n_mels)
            arrays[f"{name}/{n_mels}/frames"] = mel[:, recipes.mel_frames(mel.shape[1])]
            wide = mel.astype(np.float64)
            arrays[f"{name}/{n_mels}/means"] = np.array([wide.mean(), np.square(wide).mean()])
    return arrays


def encoder_goldens(features: Floats, content_frames: int) -> dict[str, np.ndarray]:
    """Return selected positions and channels of an encoder output, and the norm of each run of positions."""
    positions = recipes.encoder_positions(content_frames, len(features))
    channels = recipes.encoder_channels(features.shape[1])
    return {"values": features[np.ix_(positions, channels)], "norms": recipes.block_norms(features)}


def logits_goldens(
    model: whisper.Whisper, features: Floats, tokens: list[int], prefill: int, keep: slice = slice(None)
) -> dict[str, np.ndarray]:
    """Return what is stored of the logits of `tokens`; stop if cache and one pass differ or a choice is a near tie."""
    logits = oracle.logits_of(model, features, tokens)
    cached = oracle.cached_logits_of(model, features, tokens, prefill)
    gap = float(np.abs(logits - cached).max())
    demand(gap < 1e-3, f"logits with the cache differ by {gap}")
    top = np.argsort(-logits, axis=1, kind="stable")[:, :10]
    values = np.take_along_axis(logits, top, axis=1)
    lead = float((values[keep, 0] - values[keep, 1]).min())
    print(f"  logits: cache against one pass {gap:.1e}; smallest lead of the best over the next {lead:.3f}")
    demand(lead > 2e-3, "two tokens tie; choose other tokens")
    return {
        "tokens": np.array(tokens, dtype=np.int32),
        "prefill": np.array(prefill),
        "rows": np.arange(len(tokens))[keep],
        "top_ids": top[keep].astype(np.int32),
        "top_values": values[keep],
        "probe_values": logits[keep][:, recipes.probe_ids(logits.shape[1])],
        "log_sum_exp": recipes.log_sum_exp(logits[keep]),
    }


def prefixed(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays with `prefix/` before each name."""
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def transcript(model: whisper.Whisper, samples: Floats, **options: Any) -> dict[str, Any]:
    """Return transcribe()'s greedy answer; stop if it hangs on the last bits of the arithmetic."""
    answer = model.transcribe(samples, **{**GREEDY, **options})
    with disable_sdpa():
        again = model.transcribe(samples, **{**GREEDY, **options})
    with shaken(model):
        shaken_answer = model.transcribe(samples, **{**GREEDY, **options})
    for other in (again, shaken_answer):
        same = [s["tokens"] for s in answer["segments"]] == [s["tokens"] for s in other["segments"]]
        demand(same and answer["language"] == other["language"], "this transcript is not stable; choose another clip")
    print(f"  {len(answer['segments'])} segments: {answer['text'][:70]}...")
    return {"options": options, **answer}


@contextmanager
def shaken(model: whisper.Whisper, amount: float = 1e-5) -> Iterator[None]:
    """Change every weight of `model` by up to `amount` of itself for a while."""
    kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    noise = {n: torch.from_numpy(1 + np.float32(amount) * recipes.uniform(9, *t.shape)) for n, t in kept.items()}
    model.load_state_dict({name: tensor * noise[name] for name, tensor in kept.items()})
    try:
        yield
    finally:
        model.load_state_dict(kept)


def window_decodes(model: whisper.Whisper, mel: Floats) -> dict[str, Any]:
    """Return greedy decodes of one window without timestamps, plain and after a prompt."""
    tokenizer = oracle.tokenizer_of(model)
    answers = {}
    for name, options in {
        "plain": {},
        "prompt": {"prompt": tokenizer.encode(" The weekly report, by Anna and Ben.")},
    }.items():
        wanted = whisper.DecodingOptions(language="en", without_timestamps=True, fp16=False, **options)
        said = model.decode(torch.from_numpy(mel), wanted)
        answers[name] = {
            "prompt_tokens": options.get("prompt", []),
            "tokens": said.tokens,
            "text": said.text,
            "avg_logprob": said.avg_logprob,
            "no_speech_prob": said.no_speech_prob,
            "compression_ratio": said.compression_ratio,
        }
    return answers


# Each is hard for another reason: apostrophes, digits, runs of space, scripts, combining marks, emoji with joiners,
# characters cut by tokens, punctuation, code, an empty string.
STRINGS = [
    "",
    " ",
    " Hello world.",
    " Don't you're we'll I'D it's 'tis",
    " it's 2024, naïve façade",
    "ABC123 4,567.89 € ½ ²",
    "  a   b\t\tc \n\n d  ",
    "\n\n x\r\n",
    " こんにちは世界",
    " 你好，世界。 안녕하세요",
    " Привет, мир! Ελληνικά",
    " שלום العربية हिन्दी ไทย",
    " e\u0301 a\u0308 \u00e9 \u2060x",
    " 🙂👩\u200d👩\u200d👧 🇩🇪",
    " — “ok” … «oui» ¿no?",
    " def f(x):\n\treturn {'a': [x ** 2]}  # ♪♪ (laughs)",
    " <| not special |> <<>> --",
    " Donaudampfschifffahrtsgesellschaft antidisestablishmentarianism",
]


def tokenizer_goldens() -> dict[str, Any]:
    """Return encodings, decodings of broken sequences, special ids and lists of suppressed ids."""
    goldens: dict[str, Any] = {"strings": STRINGS, "vocabularies": {}}
    for n_vocab in (51_864, 51_865, 51_866):
        multilingual = n_vocab > 51_864
        languages = n_vocab - 51_765 - multilingual
        tokenizer = get_tokenizer(multilingual, num_languages=languages)
        sequences = {}
        if multilingual:
            for language, task in (("en", "transcribe"), ("fr", "translate"), ("su", "transcribe")):
                own = get_tokenizer(True, num_languages=languages, language=language, task=task)
                sequences[f"{language} {task}"] = list(own.sot_sequence)
        else:
            sequences["en transcribe"] = list(tokenizer.sot_sequence)
        encoded = [tokenizer.encode(text) for text in STRINGS]
        broken = [ids[:-1] for ids in encoded if len(ids) > 1] + [ids[1:] for ids in encoded if len(ids) > 1]
        goldens["vocabularies"][str(n_vocab)] = {
            "encoded": encoded,
            "broken": [{"ids": ids, "text": tokenizer.decode(ids)} for ids in broken],
            "special": {
                "eot": tokenizer.eot,
                "sot": tokenizer.sot,
                "translate": tokenizer.translate,
                "transcribe": tokenizer.transcribe,
                "sot_lm": tokenizer.sot_lm,
                "sot_prev": tokenizer.sot_prev,
                "no_speech": tokenizer.no_speech,
                "no_timestamps": tokenizer.no_timestamps,
                "timestamp_begin": tokenizer.timestamp_begin,
            },
            # openai-whisper lists them in the order of a set, another one in each run
            "languages": dict(sorted(zip(tokenizer.all_language_codes, tokenizer.all_language_tokens, strict=True))),
            "sot_sequences": sequences,
            "non_speech": list(tokenizer.non_speech_tokens),
            "suppressed": suppressed(n_vocab),
        }
    return goldens


def suppressed(n_vocab: int) -> list[int]:
    """Return the ids that openai-whisper suppresses by default at every step, for a vocabulary size."""
    shape = Shape(80, 1500, 64, 1, 1, n_vocab, 448, 64, 1, 1)
    model = whisper.Whisper(whisper.ModelDimensions(**shape.as_dict()))
    return list(DecodingTask(model, whisper.DecodingOptions(language="en", fp16=False))._get_suppress_tokens())


@dataclass
class Goldens:
    """All that is made, on its way to the files."""

    mel: dict[str, np.ndarray] = field(default_factory=dict)
    encoder: dict[str, np.ndarray] = field(default_factory=dict)
    logits: dict[str, np.ndarray] = field(default_factory=dict)
    transcripts: dict[str, Any] = field(default_factory=dict)
    agreement: dict[str, Any] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)

    def write(self) -> None:
        """Write the goldens and where they come from."""
        packages = ("openai-whisper", "torch", "ctranslate2", "numpy", "tiktoken", "av")
        provenance = {
            "python": sys.version.split()[0],
            "packages": {package: version(package) for package in packages},
            "agreement_with_ctranslate2": self.agreement,
            "fingerprints": self.fingerprints,
        }
        recipes.GOLDENS.mkdir(exist_ok=True)
        for name, arrays in {"mel": self.mel, "encoder": self.encoder, "logits": self.logits}.items():
            np.savez_compressed(recipes.GOLDENS / f"{name}.npz", **arrays)
        for name, data in {
            "transcripts": self.transcripts,
            "tokenizer": tokenizer_goldens(),
            "provenance": provenance,
        }.items():
            text = json.dumps(data, ensure_ascii=False, indent=None if name == "tokenizer" else 1)
            (recipes.GOLDENS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        total = sum(file.stat().st_size for file in recipes.GOLDENS.iterdir())
        print(f"wrote {total / 1024:.0f} KiB into {recipes.GOLDENS.name}/")


def real_model_goldens(name: str, clips: dict[str, Floats], goldens: Goldens) -> None:
    """Add what one of the packaged models computes."""
    shape, weights = oracle.packaged(name)
    goldens.fingerprints[name] = recipes.fingerprint(*(weights[key] for key in sorted(weights)))
    model = oracle.build(shape, weights)
    tokenizer = oracle.tokenizer_of(model)
    mels = {clip: oracle.log_mel(clips[clip], shape.n_mels) for clip in ("sample", "full_window")}
    sample = recipes.window(mels["sample"])
    goldens.agreement[name] = oracle.check_with_ctranslate2(name, model, sample)
    for clip, mel in mels.items():
        features = oracle.encode(model, recipes.window(mel))
        goldens.encoder |= prefixed(f"{name}/{clip}", encoder_goldens(features, mel.shape[1]))
    short = sample[:, : recipes.SHORT_FRAMES]
    features = oracle.encode_short(model, short)
    goldens.encoder |= prefixed(f"{name}/short_window", encoder_goldens(features, mels["sample"].shape[1]))

    answers = {
        "sample": transcript(model, clips["sample"]),
        "silence": transcript(model, clips["silence"]),
        "long": transcript(model, clips["long"]),
        "long, windows apart": transcript(model, clips["long"], condition_on_previous_text=False),
        "window": window_decodes(model, sample),
    }
    if model.is_multilingual:
        answers["spanish"] = transcript(model, clips["spanish"])
        answers["spanish, translated"] = transcript(model, clips["spanish"], language="es", task="translate")
        answers["languages"] = {}
        for clip in ("sample", "spanish", "italian"):
            mel = recipes.window(oracle.log_mel(clips[clip], shape.n_mels))
            answers["languages"][clip] = dict(sorted(model.detect_language(torch.from_numpy(mel))[1].items()))
    goldens.transcripts[name] = answers

    sot = list(tokenizer.sot_sequence)
    said = [token for segment in answers["sample"]["segments"] for token in segment["tokens"]]
    features = oracle.encode(model, sample)
    goldens.logits |= prefixed(name, logits_goldens(model, features, [*sot, *said[:24]], len(sot)))


def random_model_goldens(name: str, clips: dict[str, Floats], goldens: Goldens) -> None:
    """Add what a model with random weights computes."""
    shape = recipes.RANDOM_MODELS[name]
    weights = recipes.random_weights(shape)
    goldens.fingerprints[name] = recipes.fingerprint(*(weights[key] for key in sorted(weights)))
    model = oracle.build(shape, weights)
    mel = oracle.log_mel(clips["full_window"], shape.n_mels)
    features = oracle.encode(model, recipes.window(mel))
    print(f"{name}: encoder output of magnitude {np.abs(features).mean():.2f}")
    goldens.encoder |= prefixed(f"{name}/full_window", encoder_goldens(features, mel.shape[1]))
    # The small one goes on to the very last text position.
    count, keep = (448, slice(None, None, 21)) if name == "turbo_small" else (24, slice(None))
    tokens = recipes.random_tokens(count, shape.n_vocab)
    goldens.logits |= prefixed(name, logits_goldens(model, features, tokens, 7, keep))


def main() -> None:
    """Make all goldens, and write them only when every check has held."""
    speech = {name: recipes.speech(name) for name in recipes.SPEECH}
    clips = {**speech, **recipes.signals(), "long": recipes.long_clip()}
    goldens = Goldens(fingerprints={name: recipes.fingerprint(samples) for name, samples in clips.items()})
    goldens.mel = mel_goldens({name: clips[name] for name in ("sample", "long", *recipes.signals())})
    for name in ("tiny.en", "base"):
        real_model_goldens(name, clips, goldens)
    for name in recipes.RANDOM_MODELS:
        random_model_goldens(name, clips, goldens)
    goldens.write()


if __name__ == "__main__":
    try:
        main()
    except oracle.OracleError as error:
        sys.exit(f"nothing written: {error}")
