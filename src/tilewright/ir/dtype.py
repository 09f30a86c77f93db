"""`DataType`: an interned string such as "float32x4" that knows its code, bits and lanes."""

from __future__ import annotations

import re
from typing import Any

from tilewright.node import register_converter, register_leaf
from tilewright.support.errors import UnknownTypeError

_PATTERN = re.compile(
    r"(?P<code>int|uint|float|bfloat|custom(?:\[\w+\])?|float8_e4m3fn|float8_e5m2|e4m3_float|e5m2_float|e2m1_float)(?P<bits>\d+)?"
    r"(?:x(?P<scalable>vscalex)?(?P<lanes>\d+))?"
)
_FLOAT8 = {"float8_e4m3fn", "float8_e5m2", "e4m3_float", "e5m2_float"}


class ScalableLanes:
    """`factor` times vscale lanes: as many as the vectors of a machine have, known when the program is compiled for it.

    It is more than any number, and equal to none.
    """

    __slots__ = ("factor",)

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScalableLanes) and self.factor == other.factor

    def __hash__(self) -> int:
        return hash((ScalableLanes, self.factor))

    def __mul__(self, times: int) -> ScalableLanes:
        return ScalableLanes(self.factor * times)

    __rmul__ = __mul__

    def __floordiv__(self, by: int) -> ScalableLanes:
        if self.factor % by:
            raise TypeError(f"{self} lanes cannot be divided by {by}")
        return ScalableLanes(self.factor // by)

    def __gt__(self, other: int) -> bool:
        return True

    __ge__ = __gt__

    def __lt__(self, other: int) -> bool:
        return False

    __le__ = __lt__

    def __str__(self) -> str:
        return f"vscalex{self.factor}"

    __repr__ = __str__


MOST_SCALE = 16
"""The largest vscale: vectors of 2048 bits."""


def most_lanes(lanes: int) -> int:
    """The largest number of lanes that this may be."""
    return lanes.factor * MOST_SCALE if isinstance(lanes, ScalableLanes) else lanes


class DataType(str):
    """A scalar or vector element type.

    `code` is one of int, uint, float, bfloat, bool, handle, void or a float8 kind; `bits` the width
    of one lane; `lanes` the number of lanes (ScalableLanes of scalable vectors, such as "float32xvscalex4"); `element` the
    one-lane type. Equal to its string.
    """

    __slots__ = ("bits", "code", "element", "is_bool", "is_float", "is_int", "is_uint", "lanes")
    code: str
    bits: int
    lanes: int
    element: DataType
    is_float: bool
    is_int: bool
    is_uint: bool
    is_bool: bool

    def __new__(cls, text: str) -> DataType:
        found = _interned.get(text)
        if found is None:
            found = _interned[text] = cls._parse(text)
        return found

    @property
    def itemsize(self) -> int:
        """The bytes of one element of an array, a vector's lanes together. Raises ValueError for vectors of no fixed length and handles."""
        if self == "handle" or isinstance(self.lanes, ScalableLanes):
            raise ValueError(f"the size of a {self} is the machine's")
        return (self.bits * self.lanes + 7) // 8

    @classmethod
    def _parse(cls, text: Any) -> DataType:
        if not isinstance(text, str):
            name = getattr(text, "name", None) or getattr(text, "__name__", None)
            if not isinstance(name, str):
                raise TypeError(f"a data type is a string such as 'float32' or 'int8x16', but was given {text!r}")
            return cls(name)
        base, x, lanes = text.partition("x")
        number = lanes.removeprefix("vscalex")
        scalable = number != lanes
        if not text or (base in ("bool", "handle", "void") and (not x or number.isdigit())):
            code, bits = (base or "void"), {"bool": 1, "handle": 64}.get(base, 0)
            count = int(number or 1)
            canonical = text or "void"
        else:
            match = _PATTERN.fullmatch(text)
            if match is None or (match["bits"] is None and match["code"] not in ("int", "uint", "float", *_FLOAT8)):
                raise UnknownTypeError(
                    f"unknown data type {text!r}; expected one like 'float32', 'int8', 'uint1', 'bool', 'bfloat16',"
                    " 'float8_e4m3fn' or 'handle', with 'x<lanes>' appended for vectors"
                )
            code, count, scalable = match["code"], int(match["lanes"] or 1), match["scalable"] is not None
            bits = int(match["bits"]) if match["bits"] else (8 if code in _FLOAT8 else 32)
            canonical = text
            if text in ("int", "uint", "float"):
                return cls(f"{text}32")
            if code == "uint" and bits == 1:
                return cls("bool" + text[len("uint1") :])
        self = _interned.get(canonical)
        if self is None:
            self = _interned[canonical] = str.__new__(cls, canonical)
            self.code, self.bits = code, bits
            held: Any = ScalableLanes(count) if scalable else count
            self.lanes = held
            self.is_float = code in ("float", "bfloat") or code in _FLOAT8
            self.is_int, self.is_uint, self.is_bool = code == "int", code in ("uint", "bool"), code == "bool"
            vector = scalable or count != 1
            self.element = cls(canonical[: canonical.rindex("xvscalex" if scalable else "x")]) if vector else self
        return self

    def with_lanes(self, lanes: int) -> DataType:
        """The same element type with another number of lanes."""
        if lanes == self.lanes:
            return self
        return self.element if lanes == 1 else DataType(f"{self.element}x{lanes}")

    @property
    def type_code(self) -> str:
        return self.code

    @property
    def bytes(self) -> int:
        """Size of one lane in bytes; a bool takes one."""
        return (self.bits + 7) // 8

    def __reduce__(self) -> tuple[Any, ...]:
        return DataType, (str(self),)


_interned: dict[str, DataType] = {}

register_converter("DataType", DataType, lambda value, where: DataType(value))
register_leaf(DataType, "dtype", str, DataType, lambda d: d.encode(), lambda a, b: a is b)
register_leaf(ScalableLanes, "lanes", lambda v: v.factor, ScalableLanes, lambda v: str(v).encode(), lambda a, b: a == b)
