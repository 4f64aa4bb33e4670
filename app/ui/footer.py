"""The choices at the foot of the window: microphone, model, theme, captions.

It exists so that what is in use can always be seen and changed without another window. It shows what it is
given and reports choices; it neither lists devices nor loads models. Qt thread.
"""

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QSize, Qt, Signal, Slot
from PySide6.QtGui import QPaintEvent, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QComboBox,
    QGridLayout,
    QLabel,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionComboBox,
    QStylePainter,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.ui import icons
from app.ui.theme import GAP, GROUP, Theme

ICON_PX = 18
CONTROL_PX = 32
THEMES = (("System", "system"), ("Light", "light"), ("Dark", "dark"))


@dataclass(frozen=True)
class Choice:
    """One line of a picker: `key` is what is reported; one that is not `available` is shown and says why."""

    key: str
    label: str
    tip: str = ""
    available: bool = True


class Footer(QWidget):
    """Three pickers and the switch of the captions, in one row or, when narrow, in two.

    Signals: microphone_chosen(str), model_chosen(str), theme_chosen(str) with the key of a choice;
    captions_asked(bool); microphones_wanted() when the list of microphones is about to be looked at.
    """

    microphone_chosen = Signal(str)
    model_chosen = Signal(str)
    theme_chosen = Signal(str)
    captions_asked = Signal(bool)
    microphones_wanted = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        """Starts with nothing to choose."""
        super().__init__(parent)
        self._theme = theme
        self._wide: bool | None = None
        self.microphone = Picker("Where your voice comes from. The sample clip needs no microphone.")
        self.model = Picker("What turns speech into text. Bigger ones are more accurate and slower.")
        self.theme = Picker("Light, dark, or as the system has it.")
        self.theme.offer(tuple(Choice(key, label) for label, key in THEMES), theme.choice)
        self.captions = QToolButton()
        self.captions.setText("&Captions")
        self.captions.setCheckable(True)
        self.captions.setToolTip("Show the words over all windows while you speak (Ctrl+T)")
        self.captions.setAccessibleName("Captions")
        self.captions.setAccessibleDescription("Show the words over all windows while you speak")
        self._fields = (
            _field("&Microphone", self.microphone),
            _field("M&odel", self.model),
            _field("&Theme", self.theme),
            _field("", self.captions),
        )
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(GROUP)
        self._grid.setVerticalSpacing(GAP)
        self.microphone.chosen.connect(self.microphone_chosen)
        self.model.chosen.connect(self.model_chosen)
        self.theme.chosen.connect(self.theme_chosen)
        self.microphone.opening.connect(self.microphones_wanted)
        self.captions.clicked.connect(self.captions_asked)
        theme.changed.connect(self._restyle)
        self._restyle()
        self.arrange(wide=True)

    def arrange(self, *, wide: bool) -> None:
        """Use one row or two."""
        if wide is self._wide:
            return
        self._wide = wide
        for field in self._fields:
            self._grid.removeWidget(field)
        microphone, model, theme, captions = self._fields
        places = ((0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 3, 1)) if wide else ((0, 0, 3), (1, 0, 1), (1, 1, 1), (1, 2, 1))
        for field, (row, column, columns) in zip((microphone, model, theme, captions), places, strict=True):
            self._grid.addWidget(field, row, column, 1, columns)
        styles = Qt.ToolButtonStyle
        self.captions.setToolButtonStyle(styles.ToolButtonTextBesideIcon if wide else styles.ToolButtonIconOnly)
        for column, stretch in enumerate((5, 3, 2, 0) if wide else (1, 1, 0, 0)):
            self._grid.setColumnStretch(column, stretch)

    @Slot()
    def _restyle(self) -> None:
        size = self._theme.sizes.px(ICON_PX)
        self.captions.setIconSize(QSize(size, size))
        for control in (self.microphone, self.model, self.theme, self.captions):
            control.setMinimumHeight(self._theme.sizes.px(CONTROL_PX))
        colours = self._theme.colours
        made = icons.icon("captions", colours.ink, size)
        made.addPixmap(icons.pixmap("captions", colours.on_accent, 3 * size), made.Mode.Normal, made.State.On)
        self.captions.setIcon(made)


class Picker(QComboBox):
    """A combo box of choices.

    Signals: chosen(str) with the key when the person picked another one; opening() before its list is shown.
    """

    chosen = Signal(str)
    opening = Signal()

    def __init__(self, about: str) -> None:
        """`about`: what is chosen here, for the tooltip and the screen reader."""
        super().__init__()
        self.setToolTip(about)
        self.setAccessibleDescription(about)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(4)
        self._items = QStandardItemModel(self)
        self.setModel(self._items)
        self.setItemDelegate(QStyledItemDelegate(self))  # the one that style sheets reach
        self.activated.connect(self._report)
        self._choices: tuple[Choice, ...] = ()
        self._key = ""

    def offer(self, choices: tuple[Choice, ...], key: str) -> None:
        """Show these choices with the one of `key` chosen, which is not reported."""
        if choices != self._choices:
            self._choices = choices
            self._items.clear()
            for choice in choices:
                item = QStandardItem(choice.label)
                item.setData(choice.key, Qt.ItemDataRole.UserRole)
                item.setToolTip(choice.tip or choice.label)
                item.setEnabled(choice.available)
                self._items.appendRow(item)
            if self.view().isVisible():  # it keeps the size of the old list
                self.hidePopup()
                super().showPopup()
        self._key = key
        self.setCurrentIndex(self.findData(key))

    @property
    def key(self) -> str:
        """The key of the chosen line."""
        return self._key

    def showPopup(self) -> None:
        """Ask for a fresh list, and drop down the one there is."""
        self.opening.emit()
        super().showPopup()

    def event(self, event: QEvent) -> bool:
        """Do nothing on the wheel unless it has the focus: scrolling past must not change a choice."""
        if event.type() is QEvent.Type.Wheel and not self.hasFocus():
            event.ignore()
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw as ever, but end a name that is too long with dots: style sheets only cut it off."""
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        part = QStyle.SubControl.SC_ComboBoxEditField
        field = self.style().subControlRect(QStyle.ComplexControl.CC_ComboBox, option, part, self)
        option.currentText = self.fontMetrics().elidedText(
            self.currentText(), Qt.TextElideMode.ElideRight, field.width() - GAP
        )
        painter = QStylePainter(self)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ComboBox, option)
        painter.drawControl(QStyle.ControlElement.CE_ComboBoxLabel, option)
        painter.end()

    @Slot(int)
    def _report(self, place: int) -> None:
        key = self.itemData(place)
        if key != self._key:
            self._key = key
            self.chosen.emit(key)


def _field(label: str, control: QWidget) -> QWidget:
    """Return a control with its label above it."""
    field = QWidget()
    column = QVBoxLayout(field)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(2)
    words = QLabel(label)
    words.setProperty("role", "small")
    if label:
        words.setBuddy(control)
        control.setAccessibleName(label.replace("&", ""))
    column.addWidget(words)
    column.addWidget(control)
    return field
