"""Transcripts as files: text, subtitles, tab-separated values and JSON, as openai-whisper lays them out.

Rendering is pure; only `write` touches the disk. Called by the command line and, for exports, by the window.
"""

import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.transcript import Segment, Transcript


def render(transcript: Transcript, format: str) -> str:
    """The whole file as text; `format` is one of FORMATS, else ValueError."""
    if format not in _RENDERERS:
        raise ValueError(f"no such format: {format!r}; the formats are {', '.join(FORMATS)}")
    return _RENDERERS[format](transcript)


def write(transcript: Transcript, format: str, directory: str | os.PathLike[str], stem: str) -> Path:
    """Writes `directory/stem.format` in UTF-8, whole or not at all, and returns its path.

    Makes the directory if need be and replaces an older file. Raises OSError.
    """
    path = Path(directory) / f"{stem}.{format}"
    content = render(transcript, format)
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


def cues(segments: tuple[Segment, ...]) -> Iterator[tuple[int, int, str]]:
    """Start and end in whole milliseconds, and the text on one line, of each segment that has text.

    Every cue ends after it starts, and none starts before the one ahead of it.
    """
    start = 0
    for segment in segments:
        text = " ".join(segment.text.split())
        if not text:
            continue
        start = max(start, round(segment.start * 1000))
        yield start, max(start + 1, round(segment.end * 1000)), text


def _txt(transcript: Transcript) -> str:
    return "".join(f"{text}\n" for _, _, text in cues(transcript.segments))


def _srt(transcript: Transcript) -> str:
    return "".join(
        f"{number}\n{timestamp(start, ',')} --> {timestamp(end, ',')}\n{text.replace('-->', '->')}\n\n"
        for number, (start, end, text) in enumerate(cues(transcript.segments), 1)
    )


def _vtt(transcript: Transcript) -> str:
    return "WEBVTT\n\n" + "".join(
        f"{timestamp(start, hours=False)} --> {timestamp(end, hours=False)}\n{_vtt_text(text)}\n\n"
        for start, end, text in cues(transcript.segments)
    )


def _vtt_text(text: str) -> str:
    """WebVTT reads "<" as a tag and "&" as an entity, and "-->" may not occur in a cue."""
    return text.replace("-->", "->").replace("&", "&amp;").replace("<", "&lt;")


def _tsv(transcript: Transcript) -> str:
    return "start\tend\ttext\n" + "".join(f"{start}\t{end}\t{text}\n" for start, end, text in cues(transcript.segments))


def _json(transcript: Transcript) -> str:
    segments = [{key: _finite(value) for key, value in vars(s).items()} for s in transcript.segments]
    record = {"text": transcript.text, "segments": segments, "language": transcript.language}
    return json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: object) -> object:
    """JSON has no infinity and no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


_RENDERERS: dict[str, Callable[[Transcript], str]] = {
    "txt": _txt,
    "srt": _srt,
    "vtt": _vtt,
    "tsv": _tsv,
    "json": _json,
}
FORMATS = tuple(_RENDERERS)
