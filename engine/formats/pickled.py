"""Reads a pickle that holds nothing but numbers, text, lists, dictionaries and what its caller lets it name.

Python's own unpickler imports and calls what a file tells it to. This machine knows the instructions that PyTorch's
files use, can construct nothing else, and hands each name and each call to the caller's tables: a file that asks for
more is refused, so no code in a file can ever run. It allocates in proportion to the pickle, and never recurses.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelFormatError
from engine.formats.cursor import Cursor

LARGEST = 1 << 20
_LONGEST_NAME = 200
_LONGEST_INTEGER = 8  # bytes
_PROTOCOLS = range(2, 6)

Make = Callable[..., Any]


@dataclass(frozen=True)
class Name:
    """Something that a pickle names: a stand-in, which neither is that thing nor leads to it."""

    text: str


def load(path: Path, data: memoryview, calls: Mapping[str, Make], names: frozenset[str], persistent: Make) -> Any:
    """What the pickle holds.

    `calls`: what stands in for each callable that it may name, "module.name"; `names`: what it may name besides, which
    stays a Name; `persistent`: gives the thing that an external reference, a tuple, stands for. All three get values
    of any type and number. Raises ModelFormatError.
    """
    if len(data) > LARGEST:
        raise ModelFormatError(path, f"its pickle is {len(data)} bytes long, which no model needs")
    machine = _Machine(path, data, calls, names, persistent)
    try:
        return machine.run()
    except TypeError as error:  # a stand-in was called with too few arguments, or too many
        raise ModelFormatError(path, f"its pickle is damaged: {error}") from None


class _Machine:
    """A stack of values, as the instructions of one pickle leave it."""

    def __init__(
        self, path: Path, data: memoryview, calls: Mapping[str, Make], names: frozenset[str], persistent: Make
    ) -> None:
        self.cursor = Cursor(path, data)
        self.calls, self.names, self.persistent = calls, names, persistent
        self.stack: list[Any] = []
        self.marks: list[int] = []  # lengths of the stack
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        while (code := bytes(self.cursor.take(1))) != b".":
            if code not in _INSTRUCTIONS:
                raise self.error(f"uses instruction {code!r}, which a model has no need of")
            _INSTRUCTIONS[code](self)
        return self.pop()

    def error(self, what: str) -> ModelFormatError:
        return ModelFormatError(self.cursor.path, f"its pickle {what}; it is not opened")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self, wanted: type = object) -> Any:
        if len(self.stack) <= (self.marks[-1] if self.marks else 0) or not isinstance(self.stack[-1], wanted):
            raise self.error(f"has no {wanted.__name__} where one is needed")
        return self.stack.pop()

    def top(self, wanted: type) -> Any:
        """The topmost value, which stays."""
        self.push(value := self.pop(wanted))
        return value

    def pop_to_mark(self) -> list[Any]:
        if not self.marks:
            raise self.error("has no mark where one is needed")
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def protocol(self) -> None:
        if (protocol := self.cursor.number("B")) not in _PROTOCOLS:
            raise self.error(f"is of protocol {protocol}")

    def put(self, code: str) -> None:
        self.memo[self.cursor.number(code)] = self.top(object)

    def get(self, code: str) -> None:
        if (number := self.cursor.number(code)) not in self.memo:
            raise self.error(f"refers to a value {number} that it has not made")
        self.push(self.memo[number])

    def integer(self) -> None:
        if (length := self.cursor.number("B")) > _LONGEST_INTEGER:
            raise self.error(f"has a number of {length} bytes")
        self.push(int.from_bytes(self.cursor.take(length), "little", signed=True))

    def real(self) -> None:
        self.push(struct.unpack(">d", self.cursor.take(8))[0])

    def tuple_of(self, count: int) -> None:
        self.push(tuple(reversed([self.pop() for _ in range(count)])))

    def line(self) -> str:
        """Text up to the next line feed."""
        size = bytes(self.cursor.peek(_LONGEST_NAME)).find(b"\n")
        if size < 0:
            raise self.error("has a name without end")
        text = self.cursor.text(size)
        self.cursor.take(1)
        return text

    def name(self) -> None:
        text = f"{self.line()}.{self.line()}"
        if text not in self.calls and text not in self.names:
            raise self.error(f"asks for {text!r}, which a model has no need of")
        self.push(Name(text))

    def call(self) -> None:
        arguments, name = self.pop(tuple), self.pop(Name)
        if name.text not in self.calls:
            raise self.error(f"calls {name.text}, which is not to be called")
        self.push(self.calls[name.text](*arguments))

    def refer(self) -> None:
        self.push(self.persistent(*self.pop(tuple)))

    def set_attributes(self) -> None:
        """Attributes of an ordered dictionary, such as the versions of a network's parts: of no use here."""
        self.pop(dict)
        self.top(dict)

    def append(self, values: list[Any]) -> None:
        self.top(list).extend(values)

    def set_items(self, values: list[Any]) -> None:
        keys = values[::2]
        if len(values) % 2 or not all(isinstance(key, str | int) for key in keys):
            raise self.error("has a dictionary whose keys are not names")
        self.top(dict).update(zip(keys, values[1::2], strict=True))


_INSTRUCTIONS: dict[bytes, Callable[[_Machine], None]] = {
    b"\x80": _Machine.protocol,
    b"(": lambda m: m.marks.append(len(m.stack)),
    b"q": lambda m: m.put("B"),
    b"r": lambda m: m.put("I"),
    b"h": lambda m: m.get("B"),
    b"j": lambda m: m.get("I"),
    b"N": lambda m: m.push(None),
    b"\x88": lambda m: m.push(True),
    b"\x89": lambda m: m.push(False),
    b"K": lambda m: m.push(m.cursor.number("B")),
    b"M": lambda m: m.push(m.cursor.number("H")),
    b"J": lambda m: m.push(m.cursor.number("i")),
    b"\x8a": _Machine.integer,
    b"G": _Machine.real,
    b"X": lambda m: m.push(m.cursor.text(m.cursor.number("I"))),
    b")": lambda m: m.push(()),
    b"\x85": lambda m: m.tuple_of(1),
    b"\x86": lambda m: m.tuple_of(2),
    b"\x87": lambda m: m.tuple_of(3),
    b"t": lambda m: m.push(tuple(m.pop_to_mark())),
    b"]": lambda m: m.push([]),
    b"a": lambda m: m.append([m.pop()]),
    b"e": lambda m: m.append(m.pop_to_mark()),
    b"}": lambda m: m.push({}),
    b"s": lambda m: m.set_items([m.pop(), m.pop()][::-1]),
    b"u": lambda m: m.set_items(m.pop_to_mark()),
    b"c": _Machine.name,
    b"R": _Machine.call,
    b"Q": _Machine.refer,
    b"b": _Machine.set_attributes,
}
