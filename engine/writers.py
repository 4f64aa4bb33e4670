"""Transcripts as files: text, subtitles, tab-separated values and JSON, as openai-whisper lays them out.

Rendering is pure; only `write` touches the disk. Called by the command line and, for exports, by the window.
"""

import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.subtitles import Cue, SubtitleLayout, cues
from engine.transcript import Segment, Transcript

PLAIN = SubtitleLayout()


def render(transcript: Transcript, format: str, layout: SubtitleLayout = PLAIN) -> str:
    """The whole file as text; `format` is one of FORMATS, else ValueError.

    `layout` says how srt and vtt look; ValueError where it needs word times and the transcript has none.
    """
    if format not in _RENDERERS:
        raise ValueError(f"no such format: {format!r}; the formats are {', '.join(FORMATS)}")
    if layout != PLAIN and transcript.segments and not _has_words(transcript):
        raise ValueError("this layout of subtitles needs a transcript with word times")
    return _RENDERERS[format](transcript, layout)


def write(
    transcript: Transcript,
    format: str,
    directory: str | os.PathLike[str],
    stem: str,
    layout: SubtitleLayout = PLAIN,
) -> Path:
    """Writes `directory/stem.format` in UTF-8, whole or not at all, and returns its path.

    Makes the directory if need be and replaces an older file. Raises OSError, and ValueError as `render` does.
    """
    path = Path(directory) / f"{stem}.{format}"
    content = render(transcript, format, layout)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(unfinished, "w", encoding="utf-8", newline="\n") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def timestamp(milliseconds: int, decimal: str = ".", hours: bool = True) -> str:
    """`HH:MM:SS.mmm`; the hours grow beyond 99 as needed, and are left out while 0 if `hours` is false."""
    minutes, rest = divmod(milliseconds, 60_000)
    hour, minute = divmod(minutes, 60)
    prefix = f"{hour:02d}:" if hours or hour else ""
    return f"{prefix}{minute:02d}:{rest // 1000:02d}{decimal}{rest % 1000:03d}"


def lines(segments: tuple[Segment, ...]) -> Iterator[tuple[int, int, str]]:
    """Start and end in whole milliseconds, and the text on one line, of each segment that has text.

    Each ends after it starts, and none starts before the one ahead of it.
    """
    start = 0
    for segment in segments:
        text = " ".join(segment.text.split())
        if not text:
            continue
        start = max(start, round(segment.start * 1000))
        yield start, max(start + 1, round(segment.end * 1000)), text


def _txt(transcript: Transcript, layout: SubtitleLayout) -> str:
    return "".join(f"{text}\n" for _, _, text in lines(transcript.segments))


def _srt(transcript: Transcript, layout: SubtitleLayout) -> str:
    return "".join(
        f"{number}\n{timestamp(cue.start, ',')} --> {timestamp(cue.end, ',')}\n{_shown(cue)}\n\n"
        for number, cue in enumerate(cues(transcript.segments, layout), 1)
    )


def _vtt(transcript: Transcript, layout: SubtitleLayout) -> str:
    return "WEBVTT\n\n" + "".join(
        f"{timestamp(cue.start, hours=False)} --> {timestamp(cue.end, hours=False)}\n{_shown(cue, _vtt_text)}\n\n"
        for cue in cues(transcript.segments, layout)
    )


def _shown(cue: Cue, spell: Callable[[str], str] = str) -> str:
    """The text of a cue, each word as `spell` has it; "-->" may not occur in one."""
    words = [spell(word) for word in cue.words]
    if cue.highlighted is not None:
        word = words[cue.highlighted]
        bare = word.lstrip()
        words[cue.highlighted] = f"{word[: len(word) - len(bare)]}<u>{bare}</u>"
    return "".join(words).strip().replace("-->", "->")


def _vtt_text(text: str) -> str:
    """WebVTT reads "<" as a tag and "&" as an entity."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _tsv(transcript: Transcript, layout: SubtitleLayout) -> str:
    return "start\tend\ttext\n" + "".join(
        f"{start}\t{end}\t{text}\n" for start, end, text in lines(transcript.segments)
    )


def _json(transcript: Transcript, layout: SubtitleLayout) -> str:
    segments = [{key: _finite(value) for key, value in vars(s).items() if key != "words"} for s in transcript.segments]
    if _has_words(transcript):
        for segment, record in zip(transcript.segments, segments, strict=True):
            record["words"] = [
                {"word": w.word, "start": w.start, "end": w.end, "probability": _finite(w.probability)}
                for w in segment.words
            ]
    whole = {"text": transcript.text, "segments": segments, "language": transcript.language}
    return json.dumps(whole, ensure_ascii=False, allow_nan=False) + "\n"


def _has_words(transcript: Transcript) -> bool:
    return any(segment.words for segment in transcript.segments)


def _finite(value: object) -> object:
    """JSON has no infinity and no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


_RENDERERS: dict[str, Callable[[Transcript, SubtitleLayout], str]] = {
    "txt": _txt,
    "srt": _srt,
    "vtt": _vtt,
    "tsv": _tsv,
    "json": _json,
}
FORMATS = tuple(_RENDERERS)
