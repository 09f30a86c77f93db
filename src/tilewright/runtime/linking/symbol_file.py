"""Symbols of object files and libraries for any machine, read without loading them: ELF, Mach-O, COFF and WebAssembly."""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Sequence

from tilewright.runtime.linking import wasm_format as wasm
from tilewright.support.object_kind import COFF, ELF, MACH_O, WASM, ObjectKind

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
    exported: list[str]
    """Those that other objects may use."""

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
        found, self.exported = {}, []
        for _, _, _, offset, size, link in tables:
            strings = self.sections[link][3] if link < len(self.sections) else 0
            form, step = (self.order + "IBBHQQ", 24) if self.wide else (self.order + "IIIBBH", 16)
            for k in range(size // step):
                fields = struct.unpack_from(form, self.data, offset + k * step)
                name, section = fields[0], fields[3] if self.wide else fields[5]
                value, length = fields[4:6] if self.wide else fields[1:3]
                if name and 0 < section < len(self.sections):
                    end = self.data.find(b"\0", strings + name)
                    symbol = self.data[strings + name : end].decode("utf-8", "replace")
                    found[symbol] = (section, value, length)
                    if fields[1 if self.wide else 3] >> 4:
                        self.exported.append(symbol)
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
        self.symbols, self.exported = {}, [name for name, _, _ in named]
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


class WasmFile(_PlainFile):
    """A WebAssembly object, or a module that is linked dynamically."""

    def _read(self) -> tuple[Sequence[_Section], Sequence[tuple[str, int, int]]]:
        sections: list[_Section] = []
        bodies: list[int] = []
        values: list[int] = []
        imported = {0: 0, 3: 0}
        exports: list[tuple[str, int, int]] = []
        table: list[tuple[str, int, int, int]] = []
        for number, r in wasm.Reader(self.data, 8, len(self.data)).parts():
            if number == wasm.IMPORTS:
                imported = _wasm_imports(r)
            elif number == wasm.GLOBALS:
                for _ in range(r.number()):
                    r.skip(2)
                    values.append(r.constant())
            elif number == wasm.EXPORTS:
                exports = [(r.name(), r.byte(), r.number()) for _ in range(r.number())]
            elif number == wasm.CODE:
                sections.insert(0, _Section(r.at, r.at, r.end - r.at, True))
                for _ in range(r.number()):
                    size = r.number()
                    bodies.append(r.skip(size))
            elif number == wasm.DATA:
                for _ in range(r.number()):
                    flags = r.number()
                    if flags == 2:
                        r.number()
                    address = 0 if flags == 1 else r.constant()
                    size = r.number()
                    sections.append(_Section(address, r.skip(size), size, False))
            elif number == wasm.CUSTOM and r.name() == "linking":
                table = _wasm_symbols(r)
        if not sections or not sections[0].code:
            sections.insert(0, _Section(0, 0, 0, True))
        # Memory that begins with zeros is in no segment.
        sections.append(_Section(0, len(self.data), 0, False))
        named = []
        for name, kind, index in exports:
            if kind == 0 and 0 <= index - imported[0] < len(bodies):
                named.append((name, 1, bodies[index - imported[0]]))
            elif kind == 3 and 0 <= index - imported[3] < len(values):
                address = values[index - imported[3]]
                held = [k for k, s in enumerate(sections) if not s.code and s.address <= address < s.address + s.size]
                named.append((name, held[0] + 1 if held else len(sections), address))
        for name, kind, index, value in table:
            if kind == 1 and index + 2 < len(sections):
                named.append((name, index + 2, sections[index + 1].address + value))
            elif kind == 0 and 0 <= index - imported[0] < len(bodies):
                named.append((name, 1, bodies[index - imported[0]]))
        return sections, named


def _wasm_imports(r: wasm.Reader) -> dict[int, int]:
    """The numbers of imported functions (0) and globals (3), which their numbers begin after."""
    found = {0: 0, 3: 0}
    for _ in range(r.number()):
        r.name(), r.name()
        kind = r.byte()
        if kind in (1, 2):
            if kind == 1:
                r.byte()
            flags = r.number()
            r.number()
            if flags & 1:
                r.number()
        elif kind == 3:
            r.skip(2)
        else:
            r.number()
        found[kind] = found.get(kind, 0) + 1
    return found


def _wasm_symbols(r: wasm.Reader) -> list[tuple[str, int, int, int]]:
    """(name, 0 for functions or 1 for data, function or segment, offset) of the symbols that an object defines for others."""
    found = []
    r.number()
    for number, part in r.parts():
        for _ in range(part.number()) if number == 8 else ():
            kind, flags = part.byte(), part.number()
            hidden, undefined = flags & 0x6, flags & 0x10
            if kind == 1:
                name = part.name()
                index, value = (0, 0) if undefined else (part.number(), part.number())
                if not undefined:
                    part.number()
            else:
                index, value = part.number(), 0
                name = "" if kind == 3 or (undefined and not flags & 0x40) else part.name()
            if name and kind in (0, 1) and not hidden and not undefined:
                found.append((name, kind, index, value))
    return found


_FORMS: dict[str, type[ElfFile] | type[_PlainFile]] = {ELF: ElfFile, MACH_O: MachOFile, COFF: CoffFile, WASM: WasmFile}
