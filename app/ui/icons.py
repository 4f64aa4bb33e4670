"""The one drawn set of icons, recoloured by role.

It exists so that an icon is drawn once, in `resources/icons`, and takes its colour from the theme. Only the
Qt thread uses it.
"""

from functools import cache

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from app.dictation import State
from app.resources import ICONS

TRAY_SIZES_PX = (16, 20, 22, 24, 32, 48, 64, 128)
_TILE_STROKE = 3.0  # the 2-px strokes are too thin on a tile of 16 px


@cache
def renderer(name: str, colour: str, stroke: float = 2.0) -> QSvgRenderer:
    """Return what draws the icon `name` in a colour (RGB hex); `stroke` is in units of the 24-unit grid."""
    svg = (ICONS / f"{name}.svg").read_text(encoding="utf-8")
    svg = svg.replace("currentColor", colour).replace('stroke-width="2"', f'stroke-width="{stroke}"')
    return QSvgRenderer(QByteArray(svg.encode()))


def pixmap(name: str, colour: str, size_px: int, ratio: float = 1.0) -> QPixmap:
    """Return one icon, `size_px` logical pixels wide, sharp at the device pixel `ratio`."""
    made = _canvas(round(size_px * ratio))
    painter = QPainter(made)
    renderer(name, colour).render(painter)
    painter.end()
    made.setDevicePixelRatio(ratio)
    return made


def icon(name: str, colour: str, size_px: int) -> QIcon:
    """Return one icon for a control, sharp at every usual device pixel ratio."""
    made = QIcon()
    for ratio in (1, 2, 3):
        made.addPixmap(pixmap(name, colour, size_px * ratio))
    return made


def tile(state: State, ground: str, shape: str) -> QIcon:
    """Return a state's shape on a tile: it reads at 16 px, without colour, on a light and on a dark panel."""
    made = QIcon()
    for size in TRAY_SIZES_PX:
        canvas = _canvas(size)
        painter = QPainter(canvas)
        renderer("tile", ground).render(painter)
        inset = size * 0.06
        renderer(f"state-{state.value}", shape, _TILE_STROKE).render(
            painter, QRectF(inset, inset, size - 2 * inset, size - 2 * inset)
        )
        painter.end()
        made.addPixmap(canvas)
    return made


def _canvas(size_px: int) -> QPixmap:
    canvas = QPixmap(size_px, size_px)
    canvas.fill(Qt.GlobalColor.transparent)
    return canvas
