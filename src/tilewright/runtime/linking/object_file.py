"""Object files without tools: constants as ELF, Mach-O, COFF or WebAssembly, and the place for a seal."""

from __future__ import annotations

import struct

from tilewright.runtime.linking import wasm_format as wasm
from tilewright.support.errors import TVMError
from tilewright.support.object_kind import COFF, ELF, MACH_O, WASM, ObjectKind

_ALIGN = 64
_PROGBITS, _NOTE = 1, 7
_ALLOCATED, _EXCLUDED = 2, 0x80000000
SEAL = b"Tilewright seal\n" + bytes(16)
"""The seal before its content is known (native/src/seal.cc): magic, length, checksum."""


def data_object(symbol: str, data: bytes | memoryview, kind: ObjectKind) -> bytes:
    """An object of read-only data, aligned to 64 bytes and exported as `symbol`, to be linked with objects of `kind`.

    Raises TVMError for data that the container cannot hold.
    """
    if kind.container == ELF:
        return _elf(kind, b".rodata", _PROGBITS, _ALLOCATED, _ALIGN, data, symbol.encode())
    if kind.container != MACH_O and len(data) >= 1 << 32:
        raise TVMError(
            f"{symbol} holds {len(data)} bytes, but an object for {kind.made_for} holds less than 4 GiB; store the parameters"
            " apart (relay.save_param_dict)"
        )
    return {MACH_O: _mach_o, COFF: _coff, WASM: _wasm}[kind.container](symbol.encode(), data, kind)


def _assembled(size: int, *parts: tuple[int, bytes | memoryview]) -> bytes:
    """A file of parts at their places, zeros between them."""
    out = bytearray(size)
    for at, part in parts:
        out[at : at + len(part)] = part
    return bytes(out)


def seal_object(kind: ObjectKind, linked: bool) -> bytes:
    """ELF object with a note that has the place for a seal: of a library, where it will be linked into one, else of an object, which
    linkers leave out of libraries."""
    owner = b"Tilewright\0"
    note = struct.pack("<III", len(owner), len(SEAL), 1) + owner.ljust(12, b"\0") + SEAL
    return _elf(kind, b".note.tilewright", _NOTE, _ALLOCATED if linked else _EXCLUDED, 4, note, b"")


def _elf(
    target: ObjectKind, name: bytes, kind: int, flag: int, align: int, data: bytes | memoryview, symbol: bytes
) -> bytes:
    """One section, and the symbol that it begins with (b"": none)."""
    wide = target.bits == 64
    names = b"\0" + name + b"\0.symtab\0.strtab\0.note.GNU-stack\0"
    strings = b"\0" + symbol + b"\0"
    size = len(data)
    item = 24 if wide else 16
    symtab = bytes(item)
    if symbol and wide:
        symtab += struct.pack("<IBBHQQ", 1, (1 << 4) | 1, 0, 1, 0, size)
    elif symbol:
        symtab += struct.pack("<IIIBBH", 1, 0, size, (1 << 4) | 1, 0, 1)
    header_size, entry = (64, 64) if wide else (52, 40)
    data_at = _ALIGN
    symtab_at = (data_at + size + 7) & ~7
    strings_at = symtab_at + len(symtab)
    names_at = strings_at + len(strings)
    sections_at = (names_at + len(names) + 7) & ~7
    head = b"\x7fELF" + bytes([2 if wide else 1, 1, 1]) + bytes(9)
    pattern = "<HHIQQQIHHHHHH" if wide else "<HHIIIIIHHHHHH"
    head += struct.pack(pattern, 1, target.machine, 1, 0, 0, sections_at, target.flags, header_size, 0, 0, entry, 6, 5)

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
        section(name, kind, flag, data_at, size, align=align),
        section(b".symtab", 2, 0, symtab_at, len(symtab), link=3, info=1, align=8, item=item),
        section(b".strtab", 3, 0, strings_at, len(strings)),
        section(b".note.GNU-stack", 1, 0, strings_at, 0),
        section(b".strtab", 3, 0, names_at, len(names)),
    ])  # fmt: skip
    return _assembled(
        sections_at + len(sections),
        (0, head), (data_at, data), (symtab_at, symtab), (strings_at, strings), (names_at, names), (sections_at, sections),
    )  # fmt: skip


def _mach_o(symbol: bytes, data: bytes | memoryview, kind: ObjectKind) -> bytes:
    """64 bits: one segment with the section __TEXT,__const; the load command of the system's version; the symbol table."""
    size = len(data)
    strings = b"\0_" + symbol + b"\0"
    symbols = struct.pack("<IBBHQ", 1, 0x0F, 1, 0, 0)  # external, defined in section 1
    segment_size, symtab_size = 72 + 80, 24
    commands_size = segment_size + len(kind.version) + symtab_size
    data_at = (32 + commands_size + _ALIGN - 1) & -_ALIGN
    symbols_at = (data_at + size + 7) & ~7
    strings_at = symbols_at + len(symbols)
    head = struct.pack(
        "<IIIIIIII", 0xFEEDFACF, kind.machine, kind.flags, 1, 3 if kind.version else 2, commands_size, 0, 0
    )
    segment = struct.pack("<II16sQQQQIIII", 0x19, segment_size, b"", 0, size, data_at, size, 7, 7, 1, 0)
    section = struct.pack("<16s16sQQIIIIIIII", b"__const", b"__TEXT", 0, size, data_at, 6, 0, 0, 0, 0, 0, 0)
    symtab = struct.pack("<IIIIII", 0x2, symtab_size, symbols_at, 1, strings_at, len(strings))
    return _assembled(
        strings_at + len(strings),
        (0, head + segment + section + kind.version + symtab), (data_at, data), (symbols_at, symbols + strings),
    )  # fmt: skip


def _coff(symbol: bytes, data: bytes | memoryview, kind: ObjectKind) -> bytes:
    """One section .rdata, one symbol. On 32-bit x86 names of C have an underscore before them."""
    size = len(data)
    name = (b"_" if kind.machine == 0x14C else b"") + symbol + b"\0"
    symbols_at = (_ALIGN + size + 3) & ~3
    head = struct.pack("<HHIIIHH", kind.machine, 1, 0, symbols_at, 1, 0, 0)
    # Initialised data, read only, aligned to 64 bytes.
    section = struct.pack("<8sIIIIIIHHI", b".rdata", 0, 0, size, _ALIGN, 0, 0, 0, 0, 0x40000040 | 7 << 20)
    symbols = struct.pack("<IIIhHBB", 0, 4, 0, 1, 0, 2, 0)
    strings = struct.pack("<I", 4 + len(name)) + name
    return _assembled(
        symbols_at + len(symbols) + len(strings), (0, head + section), (_ALIGN, data), (symbols_at, symbols + strings)
    )


def _wasm(symbol: bytes, data: bytes | memoryview, kind: ObjectKind) -> bytes:
    """One data segment of an imported memory, and its symbol (tool conventions, version 2 of the section "linking")."""
    size, exported = wasm.uleb(len(data)), wasm.uleb(0x20)
    place = b"\x01\x00\x41\x00\x0b" + size  # one segment, where the linker puts it
    memory = wasm.section(wasm.IMPORTS, b"\x01" + wasm.name(b"env") + wasm.name(b"__linear_memory") + b"\x02\x00\x01")
    segment = wasm.section(5, b"\x01" + wasm.name(b".rodata." + symbol) + wasm.uleb(_ALIGN.bit_length() - 1) + b"\x00")
    table = wasm.section(8, b"\x01\x01" + exported + wasm.name(symbol) + b"\x00\x00" + size)
    linking = wasm.section(wasm.CUSTOM, wasm.name(b"linking") + b"\x02" + segment + table)
    head = b"\0asm\x01\0\0\0" + memory + bytes([wasm.DATA]) + wasm.uleb(len(place) + len(data)) + place
    return b"".join((head, data, linking))
