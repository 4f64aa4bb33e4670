"""The words for each state, in one place for window, captions, tray and screen reader.

It exists so that the same thing is called the same everywhere. Pure text; the Qt thread calls it.
"""

from app.dictation import Dictation, State

STATE_WORDS = {
    State.IDLE: "Ready",
    State.PREPARING: "Preparing",
    State.LISTENING: "Listening",
    State.FINISHING: "Finishing",
    State.ERROR: "Problem",
}
WELCOME = "Say something: your words appear here and go to the clipboard. Nothing leaves this computer."


def clock(seconds: float) -> str:
    """Return a running time as 0:07, 12:03 or 1:02:03."""
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def headline(now: Dictation) -> str:
    """Return the state's word, with the time so far while recording and what is waited for when finishing."""
    word = STATE_WORDS[now.state]
    if now.recording and now.recording.heard:
        return f"{word}  {clock(now.recording.elapsed_s)}"
    return word


def advice(now: Dictation) -> str:
    """Return what the person can do now, in one short line."""
    match now.state:
        case State.IDLE | State.ERROR:
            return "Hold to talk, or click to keep listening (F9)"
        case State.PREPARING | State.LISTENING if now.pressed_at_s is not None:
            return "Let go to finish, Esc to cancel"
        case State.PREPARING | State.LISTENING:
            return "Click to finish, Esc to cancel"
        case _ if now.loading or now.model is None:
            return "The words come when the model is loaded"
        case _:
            return "Writing the last words, Esc to cancel"
