"""Symbols of object files under other names, so that several models can be linked into one program: ELF, Mach-O and COFF."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from tilewright.runtime.linking.symbol_file import symbol_file
from tilewright.support.errors import TVMError
from tilewright.support.object_kind import COFF, ELF, MACH_O, ObjectKind

FUNCTION = "__tvm_ffi_"
"""Before the name of a function in its symbol."""

Rename = Callable[[bytes], bytes]


def prefixed(symbol: str, prefix: str) -> str:
    """A symbol with a prefix before the name of the function, which may have it already."""
    head = FUNCTION if symbol.startswith(FUNCTION) else ""
    name = symbol.removeprefix(head)
    return symbol if name.startswith(prefix) else head + prefix + name


def with_prefix(objects: Mapping[str, bytes], prefix: str) -> dict[str, bytes]:
    """Objects whose global symbols have a prefix, where one of the objects defines them. Raises TVMError for containers other than ELF,
    Mach-O and COFF."""
    defined = {s for data in objects.values() if ObjectKind.of(data) is not None for s in symbol_file(data).exported}

    def rename(name: bytes) -> bytes:
        text = name.decode("utf-8", "surrogateescape")
        return prefixed(text, prefix).encode("utf-8", "surrogateescape") if text in defined else name

    return {name: renamed(data, rename) for name, data in objects.items()}


def renamed(data: bytes, rename: Rename) -> bytes:
    """An object whose global symbols have other names; what is no object stays as it is."""
    kind = ObjectKind.of(data)
    if kind is None:
        return data
    if kind.container == ELF:
        return _elf(data, kind, rename)
    if kind.container == MACH_O:
        return _mach_o(data, rename)
    if kind.container == COFF:
        return _coff(data, kind, rename)
    raise TVMError(
        f"symbols of {kind.container} objects cannot get a prefix (system_lib_prefix); compile the model without one"
    )


class _Strings:
    """A table of strings, to which new names are added."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)

    def at(self, place: int) -> bytes:
        return bytes(self.data[place : self.data.index(b"\0", place)])

    def add(self, name: bytes) -> int:
        place = len(self.data)
        self.data += name + b"\0"
        return place


def _elf(data: bytes, kind: ObjectKind, rename: Rename) -> bytes:
    wide, order = kind.bits == 64, "<" if kind.little else ">"
    out = bytearray(data)
    (sections,) = struct.unpack_from(order + ("Q" if wide else "I"), data, 40 if wide else 32)
    step, count = struct.unpack_from(order + "HH", data, 58 if wide else 46)
    form, fields_at = (order + "QQI", 24) if wide else (order + "III", 16)
    for k in range(count):
        head = sections + k * step
        if struct.unpack_from(order + "I", data, head + 4)[0] != 2:
            continue
        offset, size, link = struct.unpack_from(form, data, head + fields_at)
        strings_head = sections + link * step + fields_at
        strings_at, strings_size, _ = struct.unpack_from(form, data, strings_head)
        strings = _Strings(data[strings_at : strings_at + strings_size])
        for at in range(offset, offset + size, 24 if wide else 16):
            (name,) = struct.unpack_from(order + "I", data, at)
            is_global = data[at + (4 if wide else 12)] >> 4
            if name and is_global and (new := rename(old := strings.at(name))) != old:
                struct.pack_into(order + "I", out, at, strings.add(new))
        out += bytes(-len(out) % 8)
        struct.pack_into(order + ("QQ" if wide else "II"), out, strings_head, len(out), len(strings.data))
        out += strings.data
    return bytes(out)


def _mach_o(data: bytes, rename: Rename) -> bytes:
    out = bytearray(data)
    at, (count,) = 32, struct.unpack_from("<I", data, 16)
    for _ in range(count):
        command, size = struct.unpack_from("<II", data, at)
        if command == 0x2:
            table, number, strings_at, strings_size = struct.unpack_from("<IIII", data, at + 8)
            strings = _Strings(data[strings_at : strings_at + strings_size])
            for entry in range(table, table + 16 * number, 16):
                name, how = struct.unpack_from("<IB", data, entry)
                if how & 0x01 and not how & 0xE0 and (old := strings.at(name)).startswith(b"_"):
                    if (new := b"_" + rename(old[1:])) != old:
                        struct.pack_into("<I", out, entry, strings.add(new))
            out += bytes(-len(out) % 8)
            struct.pack_into("<II", out, at + 16, len(out), len(strings.data))
            out += strings.data
        at += size
    return bytes(out)


def _coff(data: bytes, kind: ObjectKind, rename: Rename) -> bytes:
    table, number = struct.unpack_from("<II", data, 8)
    strings_at = table + 18 * number
    (strings_size,) = struct.unpack_from("<I", data, strings_at)
    out, strings = bytearray(data[:strings_at]), _Strings(data[strings_at : strings_at + strings_size])
    mark = b"_" if kind.machine == 0x14C else b""
    k = 0
    while k < number:
        entry = table + 18 * k
        head, how, further = struct.unpack_from("<8s8xBB", data, entry)
        long, place = struct.unpack("<II", head)
        old = head.rstrip(b"\0") if long else strings.at(place)
        own = mark if old.startswith(mark) else b""
        if how == 2 and (new := own + rename(old.removeprefix(mark))) != old:
            struct.pack_into("<II", out, entry, 0, strings.add(new))
        k += 1 + further
    struct.pack_into("<I", strings.data, 0, len(strings.data))
    return bytes(out) + bytes(strings.data)


__all__ = ["FUNCTION", "prefixed", "renamed", "with_prefix"]
