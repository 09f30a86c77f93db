"""Relocatable ELF objects of 32 bits, little-endian: sections, symbols, relocations."""

from __future__ import annotations

import struct
from typing import NamedTuple

from tilewright.micro.errors import LinkError

ARM, RISCV = 40, 243
"""ELF's numbers of machines."""
_PROGBITS, _SYMTAB, _RELA, _NOBITS, _REL, _INIT_ARRAY, _ARM_EXIDX = 1, 2, 4, 8, 9, 14, 0x70000001
_WRITE, _ALLOC, _EXEC = 1, 2, 4
_UNDEFINED, _ABSOLUTE, _COMMON = 0, 0xFFF1, 0xFFF2
KINDS = ("vectors", "text", "rodata", "data", "bss")
"""Kinds of sections, in the order in which they are placed."""


class Symbol(NamedTuple):
    """A symbol of an object. section: its number; -1 where it is not defined, -2 where `value` is its address. value: its offset there."""

    name: str
    section: int
    value: int
    size: int
    is_global: bool
    is_weak: bool
    is_function: bool


class Relocation(NamedTuple):
    """What is to be written at `offset` of a section. addend: None where it stands in the section."""

    offset: int
    kind: int
    symbol: int
    addend: int | None


class Section(NamedTuple):
    """A section that a device holds, or one of none (kind "")."""

    name: str
    kind: str
    size: int
    alignment: int
    data: bytes
    relocations: list[Relocation]


class ElfObject:
    """An object. name: what messages call it."""

    def __init__(self, name: str, data: bytes) -> None:
        """Raises LinkError for other files, and for damaged ones."""
        self.name, self.data = name, data
        if data[:7] != b"\x7fELF\x01\x01\x01" or len(data) < 52 or struct.unpack_from("<H", data, 16)[0] != 1:
            raise LinkError(f"{name} is no relocatable ELF object of 32 bits, little-endian")
        self.machine: int = struct.unpack_from("<H", data, 18)[0]
        if self.machine not in (ARM, RISCV):
            raise LinkError(
                f"{name} is for machine {self.machine} of ELF, but must be for Arm ({ARM}) or RISC-V ({RISCV})"
            )
        try:
            self._read(data)
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise LinkError(f"{name} is damaged: its tables are not where its header says ({error})") from error

    def _read(self, data: bytes) -> None:
        at, entry, count, names = (
            struct.unpack_from("<I", data, 32)[0], *struct.unpack_from("<HHH", data, 46),
        )  # fmt: skip
        headers = [struct.unpack_from("<10I", data, at + entry * k) for k in range(count)]
        strings = headers[names][4]
        relocations: dict[int, list[Relocation]] = {}
        self.symbols: list[Symbol] = []
        for _, kind, _, _, offset, size, link, info, _, _ in headers:
            if kind == _SYMTAB:
                self.symbols = _symbols(data, offset, size, headers[link][4])
            elif kind in (_REL, _RELA):
                relocations.setdefault(info, []).extend(_relocations(data, offset, size, kind == _RELA))
        self.sections: list[Section] = []
        for number, (name, kind, flags, _, offset, size, _, _, alignment, _) in enumerate(headers):
            label = _text(data, strings + name)
            held = _kind(label, kind, flags)
            content = b"" if kind == _NOBITS or not held else data[offset : offset + size]
            if held and kind != _NOBITS and len(content) != size:
                raise IndexError(f"section {label} ends behind the file")
            found = relocations.get(number, []) if held else []
            self.sections.append(Section(label, held, size, max(alignment, 1), content, found))
        self._commons()
        for section in self.sections:
            for r in section.relocations:
                if r.symbol >= len(self.symbols) or r.offset >= max(section.size, 1):
                    raise IndexError(f"a relocation of {section.name} is outside of it")

    def _commons(self) -> None:
        """Gives variables that C leaves to the linker a section each."""
        for k, s in enumerate(self.symbols):
            if s.section == _COMMON:
                self.symbols[k] = s._replace(section=len(self.sections), value=0)
                self.sections.append(Section(f".bss.{s.name}", "bss", s.size, max(s.value, 1), b"", []))


def linked_functions(data: bytes) -> list[Symbol]:
    """The functions of a linked program, by address; none of files that are no such program, or have no names."""
    if data[:7] != b"\x7fELF\x01\x01\x01" or len(data) < 52:
        return []
    at, entry, count = struct.unpack_from("<I", data, 32)[0], *struct.unpack_from("<HH", data, 46)
    try:
        headers = [struct.unpack_from("<10I", data, at + entry * k) for k in range(count)]
        tables = [_symbols(data, h[4], h[5], headers[h[6]][4]) for h in headers if h[1] == _SYMTAB]
    except (struct.error, IndexError, ValueError):
        return []
    return sorted([s for table in tables for s in table if s.is_function and s.size], key=lambda s: s.value)


def linked_lines(data: bytes) -> bytes:
    """The lines of source of a linked program: its section .debug_line. Empty where it has none, and of files that are no such program."""
    if data[:7] != b"\x7fELF\x01\x01\x01" or len(data) < 52:
        return b""
    at, (entry, count, names) = struct.unpack_from("<I", data, 32)[0], struct.unpack_from("<HHH", data, 46)
    try:
        headers = [struct.unpack_from("<10I", data, at + entry * k) for k in range(count)]
        labels = headers[names][4]
        return next((data[h[4] : h[4] + h[5]] for h in headers if _text(data, labels + h[0]) == ".debug_line"), b"")
    except (struct.error, IndexError, ValueError):
        return b""


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode() if at < len(data) else ""


def _kind(name: str, kind: int, flags: int) -> str:
    """The kind of a section of KINDS; "debug" for lines of source, "" for what a device does not hold, such as tables for exceptions."""
    if name == ".debug_line" and kind == _PROGBITS:
        return "debug"
    if not flags & _ALLOC or kind not in (_PROGBITS, _NOBITS, _INIT_ARRAY) or name.startswith(".eh_frame"):
        return ""
    if name == ".vectors":
        return "vectors"
    if kind == _NOBITS:
        return "bss"
    return "text" if flags & _EXEC else "data" if flags & _WRITE else "rodata"


def _symbols(data: bytes, offset: int, size: int, strings: int) -> list[Symbol]:
    found = []
    for k in range(size // 16):
        name, value, length, info, _, section = struct.unpack_from("<IIIBBH", data, offset + 16 * k)
        place = -1 if section == _UNDEFINED else -2 if section == _ABSOLUTE else section
        binding, kind = info >> 4, info & 15
        found.append(Symbol(_text(data, strings + name), place, value, length, binding > 0, binding == 2, kind == 2))
    return found


def _relocations(data: bytes, offset: int, size: int, explicit: bool) -> list[Relocation]:
    step, form = (12, "<IIi") if explicit else (8, "<II")
    found = []
    for k in range(size // step):
        at, info, *addend = struct.unpack_from(form, data, offset + step * k)
        found.append(Relocation(at, info & 0xFF, info >> 8, addend[0] if addend else None))
    return found


__all__ = ["ARM", "KINDS", "RISCV", "ElfObject", "Relocation", "Section", "Symbol", "linked_functions", "linked_lines"]
