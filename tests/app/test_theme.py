"""Colours that can be read, sizes that follow the system, light and dark that follow it live."""

import re
from dataclasses import fields
from itertools import product

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette

from app.dictation import State
from app.resources import ICONS
from app.ui import captions, icons, theme
from app.ui.theme import CAPTIONS, DARK, LIGHT, Sizes, sizes_for

TABLES = [pytest.param(LIGHT, id="light"), pytest.param(DARK, id="dark")]


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_measured_right():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("colours", TABLES)
def test_text_is_readable(colours):
    pairs = [*product((colours.ink, colours.ink_soft), (colours.surface, colours.raised))]
    pairs.append((colours.on_accent, colours.accent))
    assert min(contrast(*pair) for pair in pairs) >= 4.5


@pytest.mark.parametrize("colours", TABLES)
def test_shapes_can_be_seen(colours):
    shapes = [colours.of(state) for state in State] + [colours.warning, colours.edge]
    assert min(contrast(*pair) for pair in product(shapes, (colours.surface, colours.raised))) >= 3
    tiles = [contrast(colours.on_accent, colours.of(state)) for state in State]
    assert min(tiles) >= 3
    assert contrast(colours.raised, colours.listening) >= 3  # the microphone on the filled disc


def test_captions_are_readable_over_white():
    alpha = captions.GROUND_ALPHA
    mixed = [round(int(CAPTIONS.surface[at : at + 2], 16) * alpha + 255 * (1 - alpha)) for at in (1, 3, 5)]
    for ground in (CAPTIONS.surface, "#" + "".join(f"{value:02x}" for value in mixed)):
        assert min(contrast(ink, ground) for ink in (CAPTIONS.ink, CAPTIONS.ink_soft)) >= 4.5
        assert min(contrast(CAPTIONS.of(state), ground) for state in State) >= 3


def test_the_arrow_of_the_pickers_serves_light_and_dark():
    (grey,) = re.findall(r'stroke="(#\w+)"', theme.CHEVRON.read_text())
    assert min(contrast(grey, colours.raised) for colours in (LIGHT, DARK)) >= 3


def test_colours_are_named_in_one_file():
    files = [path for path in (ICONS.parent.parent / "app").rglob("*.py") if "#" in path.read_text(encoding="utf-8")]
    naming = [path.name for path in files if re.search(r'"#[0-9a-fA-F]{3,8}"', path.read_text(encoding="utf-8"))]
    assert naming == ["theme.py"]


@pytest.mark.parametrize("colours", TABLES)
def test_every_role_is_a_colour(colours):
    assert all(re.fullmatch(r"#[0-9a-f]{6}", getattr(colours, role.name)) for role in fields(colours))


def test_sizes_follow_the_system_font_from_drawn_to_double(qapp):
    font = qapp.font()
    found = []
    for pixels in (9, 14, 21, 28, 60):
        font.setPixelSize(pixels)
        found.append(sizes_for(font).scale)
    assert found == [1, 1, 1.5, 2, 2]
    assert (Sizes(2).small, Sizes(2).body, Sizes(2).live) == (24, 28, 40)


def window_colour(qapp):
    return qapp.palette().color(QPalette.ColorRole.Window).name()


def test_theme_follows_the_system_live_unless_told_otherwise(qapp, theme, qtbot):
    hints = qapp.styleHints()
    theme.choose("system")
    with qtbot.waitSignal(theme.changed):
        hints.colorSchemeChanged.emit(Qt.ColorScheme.Dark)
    assert theme.colours is DARK
    assert window_colour(qapp) == DARK.surface
    hints.colorSchemeChanged.emit(Qt.ColorScheme.Light)
    assert window_colour(qapp) == LIGHT.surface
    theme.choose("dark")
    hints.colorSchemeChanged.emit(Qt.ColorScheme.Light)
    assert window_colour(qapp) == DARK.surface


def test_icons_take_their_colour(qapp):
    image = icons.pixmap("state-listening", LIGHT.listening, 24).toImage()
    assert image.pixelColor(12, 12).name() == LIGHT.listening
    assert image.pixelColor(0, 0).alpha() == 0
    assert icons.pixmap("copy", LIGHT.ink, 18, 2.0).deviceIndependentSize().width() == 18
