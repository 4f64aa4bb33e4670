"""Errors that a person sees: one sentence that says what happened, one that says what to do."""


class AppError(Exception):
    """Base of the app's own errors; `hint` is one sentence that a person can act on."""

    def __init__(self, message: str, hint: str = "") -> None:
        """`message`: what happened, naming the thing; `hint`: the cure."""
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.hint = hint


class CaptureError(AppError):
    """The microphone is missing, cannot be opened, or stopped delivering."""


class SettingsError(AppError):
    """The settings file cannot be read or written."""


class UsageError(AppError):
    """What was typed on the command line cannot be done."""
