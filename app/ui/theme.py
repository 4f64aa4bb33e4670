"""Colours by role, text sizes from one scale, and the rule when light or dark applies.

It exists so that no other file names a colour or a size. `Colours` and `Sizes` are plain data; `Theme` has
the lifetime of the application, follows the system and tells the widgets. Only the Qt thread uses it.
"""

from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Qt, Signal, Slot
from PySide6.QtGui import QColor, QFont, QFontInfo, QPalette
from PySide6.QtWidgets import QApplication

from app.dictation import State
from app.resources import ICONS


@dataclass(frozen=True)
class Colours:
    """One table of colours; every value is an RGB hex string and is used by its role only."""

    surface: str  # the window
    raised: str  # cards, fields and buttons on it
    ink: str
    ink_soft: str
    line: str  # dividers, which may be faint
    edge: str  # outlines that show where a control is
    accent: str
    on_accent: str  # text and shapes on accent, and on the tiles of the tray
    listening: str
    finishing: str
    warning: str
    error: str

    def of(self, state: State) -> str:
        """Return the colour of a state's shape."""
        return {
            State.IDLE: self.accent,
            State.PREPARING: self.ink_soft,
            State.LISTENING: self.listening,
            State.FINISHING: self.finishing,
            State.ERROR: self.error,
        }[state]


LIGHT = Colours(
    surface="#fbfaf8",
    raised="#ffffff",
    ink="#1d1b19",
    ink_soft="#6b655e",
    line="#e4e0d9",
    edge="#8b847b",
    accent="#2f6f5e",
    on_accent="#ffffff",
    listening="#c4432b",
    finishing="#2d5f9a",
    warning="#8a5a00",
    error="#a3123a",
)
DARK = Colours(
    surface="#191817",
    raised="#262422",
    ink="#efece7",
    ink_soft="#a8a198",
    line="#37342f",
    edge="#857d73",
    accent="#6fbfa8",
    on_accent="#10201b",
    listening="#f07b5f",
    finishing="#8fb8f0",
    warning="#e2b454",
    error="#ff8fa3",
)
# Anything may lie below the captions, so they are light on nearly black in both themes.
CAPTIONS = replace(DARK, surface="#141312")


@dataclass(frozen=True)
class Sizes:
    """Text sizes in pixels, and lengths that grow with them; `scale` is 1 at the size that was drawn."""

    scale: float

    def px(self, drawn: float) -> int:
        """Scale a length that was drawn for text of 14 px."""
        return round(drawn * self.scale)

    @property
    def small(self) -> int:
        """Hints and times."""
        return self.px(12)

    @property
    def body(self) -> int:
        """Controls, finished texts."""
        return self.px(14)

    @property
    def lead(self) -> int:
        """The word of the state."""
        return self.px(16)

    @property
    def live(self) -> int:
        """The words being spoken."""
        return self.px(20)


def sizes_for(font: QFont) -> Sizes:
    """Follow the system's own text size upwards to double; never below the sizes that were drawn."""
    return Sizes(min(max(QFontInfo(font).pixelSize() / 14, 1.0), 2.0))


def palette(colours: Colours) -> QPalette:
    """Return the palette from which Qt's own style draws its controls."""
    roles = QPalette.ColorRole
    table = {
        roles.Window: colours.surface,
        roles.WindowText: colours.ink,
        roles.Base: colours.raised,
        roles.AlternateBase: colours.surface,
        roles.Text: colours.ink,
        roles.Button: colours.raised,
        roles.ButtonText: colours.ink,
        roles.BrightText: colours.error,
        roles.Link: colours.accent,
        roles.LinkVisited: colours.accent,
        roles.Highlight: colours.accent,
        roles.Accent: colours.accent,
        roles.HighlightedText: colours.on_accent,
        roles.ToolTipBase: colours.raised,
        roles.ToolTipText: colours.ink,
        roles.PlaceholderText: colours.ink_soft,
        roles.Light: colours.raised,
        roles.Midlight: colours.line,
        roles.Mid: colours.line,
        roles.Dark: colours.edge,
        roles.Shadow: colours.line,
    }
    made = QPalette()
    for role, value in table.items():
        made.setColor(role, QColor(value))
    for role in (roles.WindowText, roles.Text, roles.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, role, QColor(colours.ink_soft))
    return made


def style_sheet(colours: Colours, sizes: Sizes) -> str:
    """Return the little that the palette cannot say: padding, radius, outlines, focus."""
    return f"""
    QWidget {{ font-size: {sizes.body}px; }}
    QLabel[role="small"] {{ font-size: {sizes.small}px; color: {colours.ink_soft}; }}
    QLabel[role="soft"] {{ color: {colours.ink_soft}; }}
    QLabel[role="lead"] {{ font-size: {sizes.lead}px; font-weight: 600; }}
    QScrollArea, QScrollArea > QWidget > QWidget {{ background: transparent; border: none; }}
    QTextEdit {{ background: transparent; border: none; font-size: {sizes.live}px; }}
    QFrame[role="card"] {{ background: {colours.raised}; border: 1px solid {colours.line};
        border-radius: {RADIUS}px; }}
    QFrame[role="rule"] {{ background: {colours.line}; border: none; }}
    QPushButton, QToolButton, QComboBox {{ background: {colours.raised}; color: {colours.ink};
        border: 1px solid {colours.edge}; border-radius: {RADIUS}px; padding: 4px 12px; }}
    QComboBox {{ padding: 4px 8px; combobox-popup: 0; }}
    QComboBox QAbstractItemView::item {{ padding: 4px 8px; min-height: {sizes.px(24)}px; }}
    QComboBox QAbstractItemView::item:selected {{ background: {colours.accent}; color: {colours.on_accent}; }}
    QComboBox::drop-down {{ border: none; width: {sizes.px(24)}px; }}
    QComboBox::down-arrow {{ image: url("{CHEVRON.as_posix()}"); width: {sizes.px(16)}px; height: {sizes.px(16)}px; }}
    QComboBox QAbstractItemView {{ background: {colours.raised}; border: 1px solid {colours.edge}; outline: none;
        selection-background-color: {colours.accent}; selection-color: {colours.on_accent}; }}
    QToolButton[role="quiet"] {{ background: transparent; border-color: transparent; padding: 4px; }}
    QPushButton:hover, QToolButton:hover, QComboBox:hover {{ border-color: {colours.accent}; }}
    QPushButton:pressed, QToolButton:pressed, QToolButton:checked {{ background: {colours.accent};
        border-color: {colours.accent}; color: {colours.on_accent}; }}
    QPushButton:focus, QToolButton:focus {{ border: 2px solid {colours.accent}; padding: 3px 11px; }}
    QComboBox:focus {{ border: 2px solid {colours.accent}; padding: 3px 7px; }}
    QToolButton[role="quiet"]:focus {{ padding: 3px; }}
    QToolButton:checked:focus {{ border-color: {colours.ink}; }}
    QScrollBar:vertical {{ background: transparent; width: 10px; margin: 0; border: none; }}
    QScrollBar::handle:vertical {{ background: {colours.edge}; border-radius: 3px; min-height: 24px; margin: 0 2px; }}
    QScrollBar::add-line, QScrollBar::sub-line {{ height: 0; width: 0; }}
    QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}
    QProgressBar {{ background: {colours.line}; border: none; border-radius: 3px;
        max-height: 6px; min-height: 6px; }}
    QProgressBar::chunk {{ background: {colours.accent}; border-radius: 3px; }}
    QBalloonTip QLabel {{ color: {LIGHT.ink}; }}  /* Qt draws its own tray messages on pale yellow */
    QToolTip {{ background: {colours.raised}; color: {colours.ink}; border: 1px solid {colours.edge};
        padding: 4px; }}
    """


CHEVRON = ICONS / "chevron.svg"  # a style sheet can only name a file: its grey serves light and dark
RADIUS = 8
GAP = 8  # inside a group
GROUP = 16  # between groups
MARGIN = 24  # at the window's edges

Scheme = Qt.ColorScheme
_FORCED = {"light": Scheme.Light, "dark": Scheme.Dark}


class Theme(QObject):
    """The colours and sizes in force.

    Signals: changed() after they changed and the application's palette and style sheet were replaced.
    """

    changed = Signal()

    def __init__(self, application: QApplication, choice: str) -> None:
        """`choice`: "system", "light" or "dark"; needs the application's font to be the system's still."""
        super().__init__(application)
        self._application = application
        self._hints = application.styleHints()
        self.sizes = sizes_for(application.font())
        self.choice = choice
        application.setStyle("Fusion")
        self.colours = LIGHT
        self.choose(choice)
        self._hints.colorSchemeChanged.connect(self._follow)

    def choose(self, choice: str) -> None:
        """Follow the system, or be light or dark whatever it says."""
        self.choice = choice
        if choice in _FORCED:
            self._hints.setColorScheme(_FORCED[choice])  # window frames follow where they can
        else:
            self._hints.unsetColorScheme()
        self._apply(_FORCED.get(choice, self._hints.colorScheme()))

    @Slot(Qt.ColorScheme)
    def _follow(self, scheme: Qt.ColorScheme) -> None:
        self._apply(_FORCED.get(self.choice, scheme))

    def _apply(self, scheme: Qt.ColorScheme) -> None:
        self.colours = DARK if scheme is Scheme.Dark else LIGHT
        self._application.setPalette(palette(self.colours))
        self._application.setStyleSheet(style_sheet(self.colours, self.sizes))
        self.changed.emit()
