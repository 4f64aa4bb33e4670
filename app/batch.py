"""`sottovoce transcribe`: audio files to text, one after the other, each on its own account. Main thread."""

import logging
import os
import stat
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Protocol

from app.errors import UsageError
from app.terminal import complain, progress
from engine import AudioError, TranscribeOptions, Transcript, Whisper
from engine.audio import duration_s
from engine.subtitles import SubtitleLayout
from engine.writers import render, write

_log = logging.getLogger(__name__)


class Load(Protocol):
    """Loads the model that was asked for."""

    def __call__(self, *, on_progress: Callable[[int, int], None]) -> Whisper:
        """`on_progress(done, total)` counts the steps."""


@dataclass(frozen=True)
class Output:
    """Where transcripts go, in which of engine.writers.FORMATS, and how subtitles look; `directory` None is stdout."""

    formats: tuple[str, ...]
    directory: str | None
    layout: SubtitleLayout

    def prepare(self, paths: Sequence[str], stems: Sequence[str]) -> None:
        """Make the directory and say which files are called otherwise there; UsageError where it cannot be."""
        if self.directory is None:
            return
        try:
            os.makedirs(self.directory, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.directory}: cannot be made a directory: {error.strerror}") from None
        for path, stem in zip(paths, stems, strict=True):
            if stem != Path(path).stem:
                _log.warning("%s: written as %s.*, since another file has its name.", path, stem)

    def deliver(self, transcript: Transcript, stem: str) -> None:
        """Write the transcript in every format; OSError."""
        for format in self.formats:
            if self.directory is not None:
                write(transcript, format, self.directory, stem, self.layout)
            elif sys.stdout is not None:
                sys.stdout.write(render(transcript, format, self.layout))
                sys.stdout.flush()  # whoever reads along, or interrupts us, has what is finished


def transcribe_files(paths: Sequence[str], load: Load, options: TranscribeOptions, output: Output, shown: bool) -> bool:
    """Transcribe each file; whether all of it worked. One that fails costs a line on stderr and nothing else.

    `shown`: show progress. What `load` raises passes through, and UsageError where `output` cannot be.
    """
    stems = output_stems(paths)
    output.prepare(paths, stems)
    readable = [(path, stem) for path, stem in zip(paths, stems, strict=True) if _is_readable(path)]
    if not readable:
        return False
    with progress("loading the model", shown) as update:
        model = load(on_progress=update)
    done = 0
    try:
        for path, stem in readable:
            if _transcribe(model, path, stem, options, output, shown):
                done += 1
    except KeyboardInterrupt:
        complain(f"interrupted; {done} of {len(paths)} files are done")
        raise
    return done == len(paths)


def output_stems(paths: Sequence[str]) -> list[str]:
    """What the output of each file is called, without ending: as the file without its own.

    Where an earlier file has that name already, the file's whole name is used, and then numbers. Names that
    differ in case only count as the same, as they do on many disks.
    """
    taken: set[str] = set()
    stems = []
    for path in map(Path, paths):
        names = chain((path.stem, path.name), (f"{path.stem}-{number}" for number in count(2)))
        name = next(name for name in names if name.casefold() not in taken)
        taken.add(name.casefold())
        stems.append(name)
    return stems


def _is_readable(path: str) -> bool:
    """Whether the file looks like audio; asked of all files first, so that a slip shows at once."""
    try:
        if not (os.path.exists(path) and stat.S_ISFIFO(os.stat(path).st_mode)):  # a pipe can be read only once
            duration_s(path)
    except (AudioError, OSError) as error:
        complain(str(error))
        return False
    return True


def _transcribe(model: Whisper, path: str, stem: str, options: TranscribeOptions, output: Output, shown: bool) -> bool:
    try:
        with progress(Path(path).name, shown) as update:
            transcript = model.transcribe(path, options, on_progress=update)
    except AudioError as error:
        complain(str(error))
        return False
    for gap in transcript.gaps:
        span = f"{gap.start:.0f} to {gap.end:.0f} s"
        _log.warning("%s: somebody seems to speak at %s, but no words were made out.", path, span)
    try:
        output.deliver(transcript, stem)
    except OSError as error:
        if output.directory is None:  # the others have nowhere to go either
            raise
        complain(f"{path}: its transcript cannot be written: {error.strerror}")
        return False
    return True
