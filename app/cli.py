"""The command line: what may be typed, and which exit code answers it.

Flags are spelt as openai-whisper spells them, with hyphens or underscores. Exit codes: 0 done; 1 a file, a model
or a device failed, and whatever could be done is done; 2 wrong usage; 130 interrupted. Runs on the main thread and
imports the engine and Qt only where a command needs them, so that --help and --version answer at once.
"""

import argparse
import importlib.metadata
import io
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from app import decoding_flags, word_flags
from app.errors import AppError, UsageError
from app.flag_values import several, text
from app.terminal import PROGRAM, complain, discard, shows_progress, warnings_on_stderr

if TYPE_CHECKING:
    from engine import TranscribeOptions, Whisper

DONE, FAILED, USAGE = 0, 1, 2
INTERRUPTED, NOBODY_READS = 130, 141  # as a shell counts what SIGINT and SIGPIPE end
FORMATS = ("txt", "srt", "vtt", "tsv", "json")
COMPUTE = ("auto", "float32")
DEFAULT_MODEL = "tiny.en"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what was typed and return the exit code; `arguments` default to those of this process."""
    try:
        _speak_utf8()
        code = _obey(sys.argv[1:] if arguments is None else arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except UsageError as error:
        complain(str(error))
        return USAGE
    except AppError as error:
        complain(str(error))
        return FAILED
    except MemoryError:
        complain("not enough memory; close other programs, or take a smaller model")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # as in `sottovoce transcribe ... | head`
        discard(sys.stdout)
        return NOBODY_READS
    except OSError as error:  # as on a full disk
        discard(sys.stdout)
        complain(f"{error.filename or 'the output cannot be written'}: {error.strerror}")
        return FAILED


def _obey(arguments: Sequence[str]) -> int:
    try:
        choices = _parser().parse_args(_with_hyphens(arguments))
    except SystemExit as done:  # after --help or a mistake
        return done.code if isinstance(done.code, int) else DONE
    if choices.run is not _open_app and (choices.app_model or choices.app_input):
        raise UsageError("--model and --input in front of a command are the app's; give them behind it")
    with warnings_on_stderr(getattr(choices, "quiet", False)):
        code: int = choices.run(choices)
    return code


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        complain(f"{message}; see: {self.prog} --help")
        raise SystemExit(USAGE)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROGRAM,
        description="Dictation that never leaves your machine. Without a command, it opens the app.",
        allow_abbrev=False,
    )
    version = f"{PROGRAM} {importlib.metadata.version(PROGRAM)}"
    parser.add_argument("--version", action="version", version=version)
    parser.add_argument("--model", dest="app_model", type=text, metavar="NAME|PATH", help="the app's model for now")
    parser.add_argument("--input", dest="app_input", type=text, metavar="FILE", help="dictate this file in the app")
    parser.set_defaults(run=_open_app)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _describe_transcribe(_command(commands, "transcribe", _transcribe, "turn audio files into text"))
    _describe_live(_command(commands, "live", _live, "dictate in the terminal, through the app's own pipeline"))
    _command(commands, "models", _models, "list the models")
    doctor = _command(commands, "doctor", _doctor, "say what works on this machine, and how to mend the rest")
    doctor.add_argument("--json", action="store_true", help="for programs to read")
    return parser


def _command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], summary: str) -> Any:
    command = commands.add_parser(name, help=summary, description=summary.capitalize() + ".", allow_abbrev=False)
    command.set_defaults(run=run)
    return command


def _describe_transcribe(command: argparse.ArgumentParser) -> None:
    command.usage = "%(prog)s [FLAGS] AUDIO [AUDIO ...]"
    add = command.add_argument
    add("audio", nargs="+", metavar="AUDIO", help="audio or video files of any length")
    _describe_engine(command)
    formats = "what to write: %(choices)s (default: txt)"
    add("--output-format", "-f", choices=(*FORMATS, "all"), default="txt", metavar="FORMAT", help=formats)
    add("--output-dir", "-o", type=text, metavar="DIR", help="write files here instead of to stdout; made if need be")
    add("--quiet", "-q", action="store_true", help="no progress bar and no warnings")
    decoding_flags.describe(command)
    word_flags.describe(command)
    decoding_flags.describe_ignored(command)


def _describe_live(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--input", type=text, metavar="FILE", help="play this file, at real speed, in place of a microphone")
    add("--fast", action="store_true", help="play the file as fast as it goes")
    add("--microphone", type=text, metavar="NAME", help="one that `sottovoce doctor` lists (default: the system's)")
    add("--events", action="store_true", help="print a line of JSON for each update of the text")
    _describe_engine(command)
    add("--quiet", "-q", action="store_true", help="nothing but the text: no live line, no warnings")
    decoding_flags.describe_words(command)


def _describe_engine(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    model = f"a name that `sottovoce models` lists, or the path of a Whisper model (default: {DEFAULT_MODEL})"
    add("--model", type=text, default=DEFAULT_MODEL, metavar="NAME|PATH", help=model)
    language = "what is spoken: a code such as en or de, an English name, or auto (default)"
    add("--language", default="auto", metavar="CODE|auto", help=language)
    languages = "what detection may find, as en,de,fr (default: all that the model knows)"
    add("--languages", type=several(text), default=(), metavar="LIST", help=languages)
    task = "transcribe, or translate into English (default: transcribe)"
    add("--task", choices=("transcribe", "translate"), default="transcribe", help=task)
    add("--threads", type=_threads, metavar="N", help="how many cores to use (default: all)")
    compute = "auto: the fastest that is as accurate as float32 (default); float32: exactly that"
    add("--compute", choices=COMPUTE, default="auto", help=compute)


def _threads(typed: str) -> int | None:
    number = int(typed) if typed.strip().isdecimal() else -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"must be 1 or more, or 0 for all, not {typed!r}")
    return number or None  # 0 is how openai-whisper leaves it open


def _transcribe(choices: argparse.Namespace) -> int:
    from app.batch import Output, transcribe_files
    from app.loading import check_model

    options = _options(choices, **decoding_flags.decoding_options(choices), **word_flags.word_options(choices))
    check_model(choices.model, options)
    everything = choices.output_format == "all"
    directory = "." if everything and choices.output_dir is None else choices.output_dir  # as openai-whisper
    formats = FORMATS if everything else (choices.output_format,)
    output = Output(formats, directory, word_flags.subtitle_layout(choices))
    load = partial(_load, choices, options, choices.model)
    done = transcribe_files(choices.audio, load, options, output, shows_progress(choices.quiet))
    return DONE if done else FAILED


def _live(choices: argparse.Namespace) -> int:
    if choices.input is None and choices.fast:
        raise UsageError("--fast is for --input FILE; a microphone has one speed")
    if choices.input is not None and choices.microphone is not None:
        raise UsageError("--input and --microphone exclude each other")
    from app.capture import FilePlayback, Microphone
    from app.live import dictate

    if choices.input is None:
        source: FilePlayback | Microphone = Microphone(choices.microphone)
    else:
        source = FilePlayback(Path(choices.input), realtime=not choices.fast)
    options = _options(choices, initial_prompt=choices.initial_prompt, hotwords=choices.hotwords)
    load = partial(_load, choices, options)
    shown = shows_progress(choices.quiet)
    dictate(source, choices.model, options, load, events=choices.events, shown=shown)
    return DONE


def _options(choices: argparse.Namespace, **more: Any) -> "TranscribeOptions":
    from app.loading import spoken_language, spoken_languages
    from engine import TranscribeOptions

    language, languages = spoken_language(choices.language), spoken_languages(choices.languages)
    try:
        return TranscribeOptions(language=language, languages=languages, task=choices.task, **more)
    except ValueError as error:
        raise UsageError(decoding_flags.as_flags(str(error))) from None


def _load(
    choices: argparse.Namespace,
    options: "TranscribeOptions",
    name_or_path: str,
    *,
    on_progress: Callable[[int, int], None],
) -> "Whisper":
    from app.loading import load_model

    return load_model(
        name_or_path,
        options,
        compute=choices.compute,
        threads=choices.threads,
        on_progress=on_progress,
    )


def _models(choices: argparse.Namespace) -> int:
    from engine.catalogue import known

    for model in known():
        state = "installed" if model.installed else f"not installed; type: {model.install}"
        print(f"{model.name:8} {model.size_mb:4} MB  {model.about:36} {state}")
    return DONE


def _doctor(choices: argparse.Namespace) -> int:
    from app import doctor

    code = DONE if doctor.report(as_json=choices.json) else FAILED
    if not doctor.waits_for_nobody():
        sys.stdout.flush()
        os._exit(code)
    return code


def _open_app(choices: argparse.Namespace) -> int:
    from app.display import display_problem

    problem = display_problem()
    if problem is not None:
        raise UsageError(f"{problem} `sottovoce live` dictates in the terminal.")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Qt's modules abort when an exception breaks into their import
    from app.application import run

    typed = {"--model": choices.app_model, "--input": choices.app_input}
    return run([word for flag, value in typed.items() if value is not None for word in (flag, value)])


def _with_hyphens(arguments: Sequence[str]) -> list[str]:
    """`--output_dir` as `--output-dir`, and `--suppress-tokens -1,11` with an equals sign, up to a lone `--`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    spelt: list[str] = []
    for argument in arguments[:end]:
        flag, equals, value = argument.partition("=")
        if flag.startswith("--"):
            spelt.append(flag.replace("_", "-") + equals + value)
        elif re.match(r"-[\d.]", argument) and spelt and spelt[-1].startswith("--") and "=" not in spelt[-1]:
            spelt[-1] += f"={argument}"  # argparse would take some of these for flags
        else:
            spelt.append(argument)
    return [*spelt, *arguments[end:]]


def _speak_utf8() -> None:
    """Programs that read our output get UTF-8, whatever the locale; a terminal gets what it can show."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="replace")
        else:
            sys.stdout.reconfigure(encoding="utf-8")
