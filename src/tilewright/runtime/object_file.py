"""ELF files without tools: an object that holds one blob, and a look at a library before the system loads it."""

from __future__ import annotations

import os
import platform
import struct

_MACHINES = {
    "x86_64": (62, 64, 0), "aarch64": (183, 64, 0), "riscv64": (243, 64, 5), "armv7": (40, 32, 0x05000400),
    "arm": (40, 32, 0x05000400), "thumbv7em": (40, 32, 0x05000400), "riscv32": (243, 32, 1), "i686": (3, 32, 0),
}  # fmt: skip
_ALIGN = 64


def has_data_objects(arch: str) -> bool:
    """Whether `data_object` knows the architecture."""
    return arch in _MACHINES


def data_object(symbol: str, data: bytes | memoryview, arch: str) -> bytes:
    """ELF object with `data` in .rodata, aligned to 64 bytes, exported as `symbol`; `arch` as in an LLVM triple."""
    if arch not in _MACHINES:
        known = ", ".join(_MACHINES)
        raise ValueError(f"constants cannot be written for the architecture `{arch}`; known are: {known}")
    machine, width, flags = _MACHINES[arch]
    wide = width == 64
    names = b"\0.rodata\0.symtab\0.strtab\0.note.GNU-stack\0"
    strings = b"\0" + symbol.encode() + b"\0"
    size = len(data)
    if wide:
        symtab = bytes(24) + struct.pack("<IBBHQQ", 1, (1 << 4) | 1, 0, 1, 0, size)
    else:
        symtab = bytes(16) + struct.pack("<IIIBBH", 1, 0, size, (1 << 4) | 1, 0, 1)
    header_size, entry = (64, 64) if wide else (52, 40)
    data_at = _ALIGN
    symtab_at = (data_at + size + 7) & ~7
    strings_at = symtab_at + len(symtab)
    names_at = strings_at + len(strings)
    sections_at = (names_at + len(names) + 7) & ~7
    head = b"\x7fELF" + bytes([2 if wide else 1, 1, 1]) + bytes(9)
    pattern = "<HHIQQQIHHHHHH" if wide else "<HHIIIIIHHHHHH"
    head += struct.pack(pattern, 1, machine, 1, 0, 0, sections_at, flags, header_size, 0, 0, entry, 6, 5)

    layout = "<IIQQQQIIQQ" if wide else "<IIIIIIIIII"

    def section(
        name: bytes,
        kind: int,
        flag: int,
        at: int,
        length: int,
        link: int = 0,
        info: int = 0,
        align: int = 1,
        item: int = 0,
    ) -> bytes:
        return struct.pack(layout, names.index(name + b"\0"), kind, flag, 0, at, length, link, info, align, item)

    sections = bytes(entry) + b"".join([
        section(b".rodata", 1, 2, data_at, size, align=_ALIGN),
        section(b".symtab", 2, 0, symtab_at, len(symtab), link=3, info=1, align=8, item=len(symtab) // 2),
        section(b".strtab", 3, 0, strings_at, len(strings)),
        section(b".note.GNU-stack", 1, 0, strings_at, 0),
        section(b".strtab", 3, 0, names_at, len(names)),
    ])  # fmt: skip
    out = bytearray(sections_at + len(sections))
    out[: len(head)] = head
    out[data_at : data_at + size] = data
    out[symtab_at : symtab_at + len(symtab)] = symtab
    out[strings_at : strings_at + len(strings)] = strings
    out[names_at : names_at + len(names)] = names
    out[sections_at:] = sections
    return bytes(out)


def check_library(path: str) -> None:
    """ValueError when a file is no ELF library, is cut off, or is for another machine; other systems' files pass.

    The loader of the system maps a file that was cut off, and the process dies when it touches what is missing.
    """
    if platform.system() != "Linux":
        return
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(64)
        if len(head) < 52 or head[:4] != b"\x7fELF" or head[4] not in (1, 2):
            raise ValueError(f"{path} is no library: its {size} bytes do not begin with an ELF header")
        wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
        machine = struct.unpack_from(order + "H", head, 18)[0]
        own = _MACHINES.get(_ARCHITECTURES.get(platform.machine(), platform.machine()))
        if own is not None and (machine, 64 if wide else 32) != own[:2]:
            made_for = next(
                (n for n, (code, bits, _) in _MACHINES.items() if (code, bits) == (machine, 64 if wide else 32)), None
            )
            raise ValueError(
                f"{path} was made for {made_for or f'machine {machine}'}, but this machine is {platform.machine()};"
                " compile it again for this machine"
            )
        at, entry, count = _program_headers(head, wide, order)
        file.seek(at)
        table = file.read(entry * count)
    # The table of sections is the last thing in most files.
    sections_at = struct.unpack_from(order + ("Q" if wide else "I"), head, 40 if wide else 32)[0]
    section, sections = struct.unpack_from(order + "HH", head, 58 if wide else 46)
    need = max(at + entry * count, sections_at + section * sections)
    for k in range(count if len(table) == entry * count else 0):
        offset, length = struct.unpack_from(order + ("8xQ16xQ" if wide else "4xI8xI"), table, k * entry)
        need = max(need, offset + length)
    if size < need:
        raise ValueError(f"{path} is cut off: it has {size} bytes of at least {need}; copy or compile it again")


_ARCHITECTURES = {"AMD64": "x86_64", "arm64": "aarch64", "armv7l": "armv7"}


def _program_headers(head: bytes, wide: bool, order: str) -> tuple[int, int, int]:
    """(offset, bytes of one, number) of the program headers."""
    at = struct.unpack_from(order + ("Q" if wide else "I"), head, 32 if wide else 28)[0]
    entry, count = struct.unpack_from(order + "HH", head, 54 if wide else 42)
    return at, entry, count


class ElfFile:
    """The symbols of an ELF file, read without loading it, so that one for any machine can be looked at.

    Raises ValueError where it is no such file, or is damaged.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) < 52 or data[:4] != b"\x7fELF" or data[4] not in (1, 2) or data[5] not in (1, 2):
            raise ValueError("it does not begin with an ELF header")
        self.data, self.wide, self.order = data, data[4] == 2, "<" if data[5] == 1 else ">"
        try:
            self.linked = struct.unpack_from(self.order + "H", data, 16)[0] != 1
            self.sections = self._sections()
            self.symbols = self._symbols()
        except struct.error:
            raise ValueError("it is cut off or damaged: its tables are not where its header says") from None

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
        """The bytes of a symbol that is data; None where there is no such symbol."""
        if name not in self.symbols:
            return None
        section, value, length = self.symbols[name]
        _, _, address, offset, _, _ = self.sections[section]
        at = offset + value - (address if self.linked else 0)
        return self.data[at : at + length]

    def size(self, name: str) -> int:
        """The bytes that a symbol's data take; 0 where there is none."""
        return self.symbols[name][2] if name in self.symbols else 0

    @property
    def code_bytes(self) -> int:
        """The bytes of machine code: of the sections that can be executed."""
        at = struct.unpack_from(self.order + ("Q" if self.wide else "I"), self.data, 40 if self.wide else 32)[0]
        entry, count = struct.unpack_from(self.order + "HH", self.data, 58 if self.wide else 46)
        form, place = (self.order + "Q16xQ", 8) if self.wide else (self.order + "I8xI", 8)
        parts = [struct.unpack_from(form, self.data, at + k * entry + place) for k in range(count)]
        return sum([size for flags, size in parts if flags & 4])
