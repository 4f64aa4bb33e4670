"""From a model's name and what is asked of it to a model that can do it; for the commands, on any thread."""

import difflib
from collections.abc import Callable, Sequence

import engine
from app.errors import AppError, UsageError
from engine import catalogue
from engine.languages import ALIASES, LANGUAGES, language_code


def load_model(
    name: str,
    options: engine.TranscribeOptions,
    *,
    compute: str = "auto",
    threads: int | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> engine.Whisper:
    """Load a model and see that it can do what `options` ask.

    Raises UsageError where there is no such model, or it cannot, and AppError where it is damaged.
    """
    check_model(name, options)
    try:
        model = engine.load_model(name, compute=compute, threads=threads, on_progress=on_progress)
    except ValueError as error:
        raise UsageError(str(error)) from None
    except engine.EngineError as error:
        raise AppError(str(error)) from None
    except MemoryError:
        raise AppError(f"{name}: not enough memory for it; close other programs, or take a smaller one") from None
    _check_task(name, model.multilingual, options)
    if model.multilingual and options.language not in (None, *model.tokenizer.languages):
        raise UsageError(f"{name}: does not know the language {LANGUAGES[options.language or '']}")
    if model.multilingual and options.languages and not {*options.languages} & {*model.tokenizer.languages}:
        raise UsageError(f"{name}: knows none of the languages {', '.join(options.languages)}")
    return model


def check_model(name: str, options: engine.TranscribeOptions) -> None:
    """Whether there is such a model and, as far as its name tells, it can do what `options` ask; cheap.

    Raises as load_model does.
    """
    try:
        catalogue.find(name)
    except engine.ModelNotFoundError as error:
        raise UsageError(str(error)) from None
    except engine.EngineError as error:
        raise AppError(str(error)) from None
    known = {model.name: model.multilingual for model in catalogue.known()}
    _check_task(name, known.get(name, True), options)


def _check_task(name: str, multilingual: bool, options: engine.TranscribeOptions) -> None:
    if multilingual:
        return
    if options.task == "translate":
        raise UsageError(f"{name}: an English-only model cannot translate; take a multilingual one, as --model base")
    named = (options.language,) if options.language is not None else options.languages
    if named and "en" not in named:
        language = " or ".join(LANGUAGES[code].title() for code in named)
        raise UsageError(f"{name}: knows only English, not {language}; take a multilingual model, as --model base")


def spoken_language(typed: str) -> str | None:
    """The code of a language given by code or English name, None for "auto"; raises UsageError."""
    if typed.strip().lower() == "auto":
        return None
    try:
        return language_code(typed)
    except ValueError:
        names = {name: code for code, name in LANGUAGES.items()} | ALIASES
        close = difflib.get_close_matches(typed.strip().lower(), [*names, *LANGUAGES], 1)
        meant = f"; did you mean {close[0]}?" if close else "; give a code such as en or de, or a name, or auto"
        raise UsageError(f"unknown language {typed!r}{meant}") from None


def spoken_languages(typed: Sequence[str]) -> tuple[str, ...]:
    """The codes of languages given by code or English name; raises UsageError."""
    codes = [spoken_language(language) for language in typed]
    if None in codes:
        raise UsageError("--languages must be codes or names of languages, not auto; leave it out to allow all")
    return tuple(code for code in codes if code is not None)
