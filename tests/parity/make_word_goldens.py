"""Run openai-whisper with word timestamps on known inputs and store what `test_word_parity.py` compares with.

Nothing is written unless the words hold still: the same ones come out with PyTorch's other attention and with all
weights changed by up to 1e-5 of themselves, and at the same times but for a few that are printed.

Run it in an environment made from `requirements.txt`: `python make_word_goldens.py`.
"""

import io
import json
import sys
from typing import Any

import numpy as np
import oracle
import recipes
import whisper
from make_goldens import GREEDY, shaken
from oracle import demand
from recipes import Floats
from whisper.model import disable_sdpa
from whisper.utils import WriteSRT, WriteVTT

CASES = {
    "tiny.en": {
        "sample": "sample",
        "note": "note",
        "question": "question",
        "long": "long",
        "noise": "noise",
        "noise, skipped": "noise",
    },
    "base": {
        "sample": "sample",
        "note": "note",
        "question": "question",
        "spanish": "spanish",
        "italian": "italian",
        "long, windows apart": "long",
        "spanish, translated": "spanish",
        "sample, as if without spaces": "sample",
    },
}
# Noise that is taken for a full stop, if speech is not asked for.
NOISE: dict[str, Any] = {"no_speech_threshold": None, "condition_on_previous_text": False}
OPTIONS: dict[str, dict[str, Any]] = {
    "noise": NOISE,
    "noise, skipped": {**NOISE, "hallucination_silence_threshold": 1.0},
    "long, windows apart": {"condition_on_previous_text": False},
    "spanish, translated": {"language": "es", "task": "translate"},
    # Chinese is split at each character; English taken for it shows that, and spaces that stand alone.
    "sample, as if without spaces": {"language": "zh"},
}
LAYOUTS: list[dict[str, Any]] = [
    {},
    {"highlight_words": True},
    {"max_line_width": 18},
    {"max_line_width": 18, "max_line_count": 2},
    {"max_line_count": 1},
    {"max_words_per_line": 3},
    {"max_line_width": 30, "max_words_per_line": 4, "highlight_words": True},
    {"max_line_width": 42, "max_line_count": 1, "max_words_per_line": 2},
]


def noise() -> Floats:
    """Return five seconds of noise; `test_word_parity.py` makes the same."""
    return recipes.uniform(14, 5 * recipes.RATE) * np.float32(0.03)


def words_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all words of a transcript in order."""
    return [word for segment in answer["segments"] for word in segment["words"]]


def timed_transcript(model: whisper.Whisper, name: str, samples: Floats, **options: Any) -> dict[str, Any]:
    """Return transcribe()'s greedy answer with word times; stop if it hangs on the last bits of the arithmetic."""
    wanted = {**GREEDY, "word_timestamps": True, **options}
    answer = model.transcribe(samples, **wanted)
    words = words_of(answer)
    with disable_sdpa():
        again = words_of(model.transcribe(samples, **wanted))
    with shaken(model):
        shaken_words = words_of(model.transcribe(samples, **wanted))
    for other in (again, shaken_words):
        demand([w["word"] for w in other] == [w["word"] for w in words], f"{name}: the words are not stable")
        moved = [w for w, o in zip(words, other, strict=True) if (w["start"], w["end"]) != (o["start"], o["end"])]
        demand(len(moved) <= 0.02 * len(words), f"{name}: {len(moved)} of {len(words)} words move")
        print(f"  {name}: {len(words)} words, {len(moved)} move", flush=True)
    return answer


def compact(options: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Return what is compared of a transcript; a word is its text, start, end and probability."""
    segments = [
        {
            "seek": s["seek"],
            "start": round(float(s["start"]), 3),
            "end": round(float(s["end"]), 3),
            "tokens": s["tokens"],
            "words": [
                [w["word"], round(float(w["start"]), 3), round(float(w["end"]), 3), round(float(w["probability"]), 4)]
                for w in s["words"]
            ],
        }
        for s in answer["segments"]
        if s["text"]  # emptied ones stay in its list
    ]
    return {"options": options, "language": answer["language"], "segments": segments}


def alignment_heads(name: str) -> dict[str, Any]:
    """Return the published (layer, head) pairs of a model size, and the numbers of its layers and heads."""
    size = "turbo" if "turbo" in name else name.split(".")[0].split("-")[0]
    layers, heads = {"tiny": (4, 6), "base": (6, 8), "small": (12, 12), "medium": (24, 16), "large": (32, 20)}.get(
        size, (4, 20)
    )
    model = whisper.Whisper(whisper.ModelDimensions(80, 1500, 64, 1, 1, 51_865, 448, 64, heads, layers))
    model.set_alignment_heads(whisper._ALIGNMENT_HEADS[name])
    return {"text_layers": layers, "text_heads": heads, "pairs": model.alignment_heads.indices().T.tolist()}


def subtitles(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the subtitle files of a transcript in each layout."""
    files = []
    for layout in LAYOUTS:
        texts = {}
        for writer in (WriteSRT("."), WriteVTT(".")):
            file = io.StringIO()
            writer.write_result(answer, file, layout)
            texts[writer.extension] = file.getvalue()
        files.append({"layout": layout, **texts})
    return files


def main() -> None:
    """Make the goldens, and write them only when every check has held."""
    clips = {**{name: recipes.speech(name) for name in recipes.SPEECH}, "long": recipes.long_clip(), "noise": noise()}
    transcripts: dict[str, Any] = {}
    files: list[dict[str, Any]] = []
    for name, cases in CASES.items():
        model = oracle.build(*oracle.packaged(name))
        model.set_alignment_heads(whisper._ALIGNMENT_HEADS[name])
        transcripts[name] = {}
        for case, clip in cases.items():
            options = OPTIONS.get(case, {})
            answer = timed_transcript(model, f"{name}, {case}", clips[clip], **options)
            transcripts[name][case] = {"clip": clip, **compact(options, answer)}
            if (name, case) == ("base", "sample"):
                files = subtitles(answer)
    published = [name for name in whisper._ALIGNMENT_HEADS if name not in ("large", "turbo")]  # names of others too
    goldens = {
        "alignment_heads": {name: alignment_heads(name) for name in published},
        "transcripts": transcripts,
        "subtitles": {"model": "base", "case": "sample", "files": files},
    }
    text = json.dumps(goldens, ensure_ascii=False, separators=(",", ":"))
    (recipes.GOLDENS / "words.json").write_text(text + "\n", encoding="utf-8")
    print(f"wrote {len(text) / 1024:.0f} KiB")


if __name__ == "__main__":
    try:
        main()
    except oracle.OracleError as error:
        sys.exit(f"nothing written: {error}")
