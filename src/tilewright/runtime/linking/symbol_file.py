"""Symbols of object files and libraries for any machine, read without loading them: ELF, Mach-O and COFF."""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Sequence

from tilewright.support.object_kind import COFF, ELF, MACH_O, ObjectKind

CUT = "it is cut off or damaged: its tables are not where its header says"


def symbol_file(data: bytes) -> SymbolFile:
    """The symbols of an object file or a library. Raises ValueError for other files, and for damaged ones."""
    kind = ObjectKind.of(data)
    form = _FORMS.get(kind.container) if kind is not None else None
    if form is None:
        raise ValueError("it does not begin with the header of an object file or a library")
    return form(data)


class SymbolFile:
    """Defined symbols by name, and what they hold."""

    symbols: dict[str, tuple[int, int, int]]
    """(section, value, size) of each."""

    @abstractmethod
    def content(self, name: str) -> bytes | None:
        """The bytes of a symbol that is data; None where there is no such symbol."""

    def size(self, name: str) -> int:
        """The bytes that a symbol's data take; 0 where there is none."""
        return self.symbols[name][2] if name in self.symbols else 0

    @property
    @abstractmethod
    def code_bytes(self) -> int:
        """The bytes of machine code."""


class ElfFile(SymbolFile):
    """An ELF object or library."""

    def __init__(self, data: bytes) -> None:
        self.data, self.wide, self.order = data, data[4] == 2, "<" if data[5] == 1 else ">"
        try:
            self.linked = struct.unpack_from(self.order + "H", data, 16)[0] != 1
            self.sections = self._sections()
            self.symbols = self._symbols()
        except struct.error:
            raise ValueError(CUT) from None

    def _sections(self) -> list[tuple[int, int, int, int, int, int]]:
        """(name, type, address, offset, size, link) of each section."""
        at = struct.unpack_from(self.order + ("Q" if self.wide else "I"), self.data, 40 if self.wide else 32)[0]
        entry, count = struct.unpack_from(self.order + "HH", self.data, 58 if self.wide else 46)
        form = self.order + ("II8xQQQI" if self.wide else "II4xIIII")
        return [struct.unpack_from(form, self.data, at + k * entry) for k in range(count)]

    def _symbols(self) -> dict[str, tuple[int, int, int]]:
        """(section, value, size) of each defined symbol; those of the dynamic table, where there is one, are enough."""
        tables = [s for s in self.sections if s[1] == 11] or [s for s in self.sections if s[1] == 2]
        found = {}
        for _, _, _, offset, size, link in tables:
            strings = self.sections[link][3] if link < len(self.sections) else 0
            form, step = (self.order + "IBBHQQ", 24) if self.wide else (self.order + "IIIBBH", 16)
            for k in range(size // step):
                fields = struct.unpack_from(form, self.data, offset + k * step)
                name, section = fields[0], fields[3] if self.wide else fields[5]
                value, length = fields[4:6] if self.wide else fields[1:3]
                if name and 0 < section < len(self.sections):
                    end = self.data.find(b"\0", strings + name)
                    found[self.data[strings + name : end].decode("utf-8", "replace")] = (section, value, length)
        return found

    def content(self, name: str) -> bytes | None:
        if name not in self.symbols:
            return None
        section, value, length = self.symbols[name]
        _, _, address, offset, _, _ = self.sections[section]
        at = offset + value - (address if self.linked else 0)
        return self.data[at : at + length]

    @property
    def code_bytes(self) -> int:
        """The bytes of the segments or sections that can be executed."""
        at = struct.unpack_from(self.order + ("Q" if self.wide else "I"), self.data, 40 if self.wide else 32)[0]
        entry, count = struct.unpack_from(self.order + "HH", self.data, 58 if self.wide else 46)
        form, place = (self.order + "Q16xQ", 8) if self.wide else (self.order + "I8xI", 8)
        parts = [struct.unpack_from(form, self.data, at + k * entry + place) for k in range(count)]
        return sum([size for flags, size in parts if flags & 4])


class _Section:
    """A section of a file whose symbols have no sizes."""

    __slots__ = ("address", "code", "offset", "size")

    def __init__(self, address: int, offset: int, size: int, code: bool) -> None:
        self.address, self.offset, self.size, self.code = address, offset, size, code


class _PlainFile(SymbolFile):
    """A file whose symbols have no sizes: each ends where the next one of its section begins."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        try:
            self.sections, named = self._read()
        except struct.error:
            raise ValueError(CUT) from None
        self.symbols = {}
        starts: dict[int, list[int]] = {}
        for _, section, value in named:
            starts.setdefault(section, []).append(value)
        for name, section, value in named:
            if 0 < section <= len(self.sections):
                place = self.sections[section - 1]
                end = min([v for v in starts[section] if v > value], default=place.address + place.size)
                self.symbols[name] = (section, value, max(0, end - value))

    @abstractmethod
    def _read(self) -> tuple[Sequence[_Section], Sequence[tuple[str, int, int]]]:
        """The sections, and (name, section from 1, address) of the symbols that others may use."""

    def content(self, name: str) -> bytes | None:
        if name not in self.symbols:
            return None
        section, value, length = self.symbols[name]
        at = self.sections[section - 1].offset + value - self.sections[section - 1].address
        return self.data[at : at + length]

    @property
    def code_bytes(self) -> int:
        return sum([s.size for s in self.sections if s.code])

    def text(self, at: int) -> str:
        """The string at a place in the file, up to the next zero."""
        return self.data[at : max(at, self.data.find(b"\0", at))].decode("utf-8", "replace")


class MachOFile(_PlainFile):
    """A Mach-O object or library of 64 bits."""

    def _read(self) -> tuple[Sequence[_Section], Sequence[tuple[str, int, int]]]:
        sections: list[_Section] = []
        named: list[tuple[str, int, int]] = []
        at, (count,) = 32, struct.unpack_from("<I", self.data, 16)
        for _ in range(count):
            command, size = struct.unpack_from("<II", self.data, at)
            if command == 0x19:  # a segment: its sections
                for k in range(struct.unpack_from("<I", self.data, at + 64)[0]):
                    address, length, offset, flags = struct.unpack_from("<QQI12xI", self.data, at + 72 + 80 * k + 32)
                    sections.append(_Section(address, offset, length, bool(flags & 0x80000400)))
            elif command == 0x2:  # the table of symbols
                table, number, strings, _ = struct.unpack_from("<IIII", self.data, at + 8)
                for k in range(number):
                    name, kind, section, _, value = struct.unpack_from("<IBBHQ", self.data, table + 16 * k)
                    # Defined in a section, and external; names of C have an underscore before them.
                    if kind & 0xEF == 0x0F:
                        named.append((self.text(strings + name).removeprefix("_"), section, value))
            if size < 8:
                raise ValueError(CUT)
            at += size
        return sections, named


class CoffFile(_PlainFile):
    """A COFF object."""

    def _read(self) -> tuple[Sequence[_Section], Sequence[tuple[str, int, int]]]:
        machine, count, _, table, number, optional, _ = struct.unpack_from("<HHIIIHH", self.data)
        sections = []
        for k in range(count):
            size, offset, flags = struct.unpack_from("<II12xI", self.data, 20 + optional + 40 * k + 16)
            sections.append(_Section(0, offset, size, bool(flags & 0x20)))
        named, k, strings = [], 0, table + 18 * number
        while k < number:
            head, value, section, _, kind, further = struct.unpack_from("<8sIhHBB", self.data, table + 18 * k)
            if section > 0 and kind == 2:
                long, at = struct.unpack("<II", head)
                name = head.rstrip(b"\0").decode("utf-8", "replace") if long else self.text(strings + at)
                # On 32-bit x86 names of C have an underscore before them.
                named.append((name.removeprefix("_") if machine == 0x14C else name, section, value))
            k += 1 + further
        return sections, named


_FORMS: dict[str, type[ElfFile] | type[MachOFile] | type[CoffFile]] = {ELF: ElfFile, MACH_O: MachOFile, COFF: CoffFile}
