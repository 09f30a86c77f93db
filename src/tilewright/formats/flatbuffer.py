"""A reader of flatbuffers that trusts nothing: every offset is checked against the file, and shared parts cannot multiply.

Tables are read by `schema.TABLES` into records; vectors of numbers are views of the file, so weights that are mapped stay mapped.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from tilewright.formats.tflite_schema import TABLES, UNIONS, Field

FORMATS = {
    "bool": "<?", "int8": "<b", "uint8": "<B", "int16": "<h", "uint16": "<H", "int32": "<i", "uint32": "<I", "int64": "<q", "uint64": "<Q",
    "float32": "<f", "float64": "<d",
}  # fmt: skip
_OFFSET, _SIGNED, _SLOT = struct.Struct("<I"), struct.Struct("<i"), struct.Struct("<H")


class Damaged(ValueError):
    """The bytes are not what the schema says; the message says where."""


class Record:
    """A table that was read: its fields as attributes. Absent numbers have their default, absent vectors are empty, absent tables None."""

    table: str

    def __init__(self, table: str) -> None:
        self.table = table

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self.table} has no field {name}")


class FlatBuffer:
    """The bytes of one flatbuffer."""

    def __init__(self, data: Any) -> None:
        self.bytes = memoryview(data).cast("B")
        self.size = len(self.bytes)
        # A file has no more tables than bytes / 4 and no more elements than bytes, unless parts of it are shared to make it explode.
        self.tables_left = self.size // 4 + 16
        self.elements_left = 4 * self.size + 64

    def read(self, table: str) -> Record:
        """The root, a table of this type. Raises Damaged."""
        return self.table(table, self.jump(0, "the file's root"), table)

    def number(self, kind: struct.Struct, at: int, where: str) -> Any:
        """The number at a place."""
        if not 0 <= at <= self.size - kind.size:
            raise Damaged(f"{where} is at byte {at}, outside the {self.size} bytes")
        return kind.unpack_from(self.bytes, at)[0]

    def jump(self, at: int, where: str) -> int:
        """Where the offset at a place leads."""
        return at + int(self.number(_OFFSET, at, where))

    def table(self, name: str, at: int, where: str) -> Record:
        """The table at a place."""
        self.tables_left -= 1
        if self.tables_left < 0:
            raise Damaged(f"{where} belongs to more tables than fit in {self.size} bytes")
        entries = at - int(self.number(_SIGNED, at, where))
        count = (int(self.number(_SLOT, entries, f"the field list of {where}")) - 4) // 2
        length = int(self.number(_SLOT, entries + 2, f"the field list of {where}"))
        record = Record(name)
        values = record.__dict__
        for field in TABLES.get(name, ()):
            place = 0
            if field.slot < count:
                place = int(self.number(_SLOT, entries + 4 + 2 * field.slot, f"the field list of {where}"))
                if place and place >= max(length, 4):
                    raise Damaged(f"{where}.{field.name} lies outside its table")
            values[field.name] = self.field(field, at + place if place else 0, f"{where}.{field.name}", values)
        return record

    def field(self, field: Field, at: int, where: str, before: dict[str, Any]) -> Any:
        """The value of a field at a place; 0: it is absent. before: the fields in front of it."""
        if field.many:
            return self.vector(field.kind, at, where)
        if field.kind in FORMATS:
            return self.number(_STRUCTS[field.kind], at, where) if at else field.default
        if not at:
            return None
        if field.kind == "string":
            return bytes(self.array("uint8", self.jump(at, where), where)).decode("utf-8", "replace")
        if field.kind == "|":
            names = UNIONS[field.name]
            number = int(before[f"{field.name}_type"])
            if number >= len(names):
                # A newer schema: an operator that needs it is refused by its name.
                return None
            return self.table(names[number], self.jump(at, where), where) if number else None
        return self.table(field.kind, self.jump(at, where), where)

    def vector(self, kind: str, at: int, where: str) -> Any:
        """A vector: an array of numbers, or a list."""
        if kind in FORMATS:
            return self.array(kind, self.jump(at, where), where) if at else np.zeros(0, kind)
        if not at:
            return []
        begin = self.jump(at, where)
        offsets = self.array("uint32", begin, where)
        if len(offsets) > self.tables_left:
            raise Damaged(f"{where} has {len(offsets)} elements, more than fit in {self.size} bytes")
        places = [begin + 4 + 4 * k + int(o) for k, o in enumerate(offsets.tolist())]
        if kind == "string":
            return [bytes(self.array("uint8", p, where)).decode("utf-8", "replace") for p in places]
        return [self.table(kind, p, f"{where}[{k}]") for k, p in enumerate(places)]

    def array(self, kind: str, at: int, where: str) -> np.ndarray[Any, Any]:
        """The vector of numbers at a place, not copied."""
        count = int(self.number(_OFFSET, at, where))
        dtype = np.dtype(kind)
        if at + 4 + count * dtype.itemsize > self.size:
            raise Damaged(
                f"{where} claims {count} elements of {dtype.itemsize} bytes from byte {at + 4} on, but there are {self.size} bytes in all"
            )
        if dtype.itemsize > 1:
            self.elements_left -= count
            if self.elements_left < 0:
                raise Damaged(f"{where} belongs to vectors with more elements than fit in {self.size} bytes")
        return np.frombuffer(self.bytes, dtype, count, at + 4)


_STRUCTS = {name: struct.Struct(text) for name, text in FORMATS.items()}
