"""`DataType`: an interned string such as "float32x4" that knows its code, bits and lanes."""

from __future__ import annotations

import re
from typing import Any

from tilewright.node import register_converter, register_leaf

_PATTERN = re.compile(
    r"(?P<code>int|uint|float|bfloat|custom(?:\[\w+\])?|float8_e4m3fn|float8_e5m2|e4m3_float|e5m2_float|e2m1_float)(?P<bits>\d+)?(?:x(?P<lanes>\d+))?"
)
_FLOAT8 = {"float8_e4m3fn", "float8_e5m2", "e4m3_float", "e5m2_float"}


class DataType(str):
    """A scalar or vector element type.

    `code` is one of int, uint, float, bfloat, bool, handle, void or a float8 kind; `bits` the width
    of one lane; `lanes` the number of lanes; `element` the one-lane type. Equal to its string.
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

    @classmethod
    def _parse(cls, text: Any) -> DataType:
        if not isinstance(text, str):
            name = getattr(text, "name", None) or getattr(text, "__name__", None)
            if not isinstance(name, str):
                raise TypeError(f"a data type is a string such as 'float32' or 'int8x16', but was given {text!r}")
            return cls(name)
        base, x, lanes = text.partition("x")
        if not text or (base in ("bool", "handle", "void") and (not x or lanes.isdigit())):
            code, bits = (base or "void"), {"bool": 1, "handle": 64}.get(base, 0)
            count = int(lanes or 1)
            canonical = text or "void"
        else:
            match = _PATTERN.fullmatch(text)
            if match is None or (match["bits"] is None and match["code"] not in ("int", "uint", "float", *_FLOAT8)):
                raise TypeError(
                    f"unknown data type {text!r}; expected one like 'float32', 'int8', 'uint1', 'bool', 'bfloat16',"
                    " 'float8_e4m3fn' or 'handle', with 'x<lanes>' appended for vectors"
                )
            code, count = match["code"], int(match["lanes"] or 1)
            bits = int(match["bits"]) if match["bits"] else (8 if code in _FLOAT8 else 32)
            canonical = text
            if text in ("int", "uint", "float"):
                return cls(f"{text}32")
            if code == "uint" and bits == 1:
                return cls("bool" if count == 1 else f"boolx{count}")
        self = _interned.get(canonical)
        if self is None:
            self = _interned[canonical] = str.__new__(cls, canonical)
            self.code, self.bits, self.lanes = code, bits, count
            self.is_float = code in ("float", "bfloat") or code in _FLOAT8
            self.is_int, self.is_uint, self.is_bool = code == "int", code in ("uint", "bool"), code == "bool"
            self.element = self if count == 1 else cls(canonical.rpartition("x")[0])
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
