"""Static libraries (.a) without `ar`: objects and the table of their symbols, as linkers of the objects' system read them."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from tilewright.runtime.linking.symbol_file import symbol_file
from tilewright.support.errors import TVMError
from tilewright.support.object_kind import MACH_O, WASM, ObjectKind

MAGIC = b"!<arch>\n"
_TABLES = (b"/", b"//", b"/SYM64/")


def archive(objects: Mapping[str, bytes]) -> bytes:
    """A static library of objects by name: GNU's form, or for Mach-O that of BSD."""
    kind = next((k for data in objects.values() if (k := ObjectKind.of(data))), None)
    return _bsd(objects) if kind is not None and kind.container == MACH_O else _gnu(objects)


def members(data: bytes) -> dict[str, bytes]:
    """The objects of a static library by name; names that occur again get a number. Raises ValueError for damaged ones."""
    if not data.startswith(MAGIC):
        raise ValueError("it does not begin as a static library does")
    found: dict[str, bytes] = {}
    long, at = b"", len(MAGIC)
    while at + 60 <= len(data):
        name, size = data[at : at + 16].rstrip(), data[at + 48 : at + 58].strip()
        if data[at + 58 : at + 60] != b"`\n" or not size.isdigit() or at + 60 + int(size) > len(data):
            raise ValueError(f"it is cut off or damaged at byte {at}")
        content = data[at + 60 : at + 60 + int(size)]
        at += 60 + int(size) + int(size) % 2
        if name == b"//":
            long = content
        if name in _TABLES:
            continue
        if name.startswith(b"#1/") and name[3:].isdigit():
            length = int(name[3:])
            name, content = content[:length].rstrip(b"\0"), content[length:]
        elif name.startswith(b"/") and name[1:].isdigit():
            name = long[int(name[1:]) :].split(b"\n", 1)[0]
        if not name.startswith(b"__.SYMDEF"):
            given = name.rstrip(b"/").decode("utf-8", "replace") or "object"
            found[given if given not in found else f"{len(found)}_{given}"] = content
    return found


def _symbols(name: str, data: bytes) -> list[str]:
    """The symbols by which linkers look an object up."""
    kind = ObjectKind.of(data)
    if kind is None or kind.container == WASM:
        return []
    try:
        return list(symbol_file(data).exported)
    except ValueError as error:
        raise TVMError(f"the object {name} cannot be put into a static library: {error}") from error


def _header(name: bytes, size: int) -> bytes:
    return b"%-16s%-12d%-6d%-6d%-8s%-10d`\n" % (name, 0, 0, 0, b"100644", size)


def _even(data: bytes) -> bytes:
    return data + b"\n" * (len(data) % 2)


def _gnu(objects: Mapping[str, bytes]) -> bytes:
    names, heads = b"", []
    for name in objects:
        raw = name.encode()
        if len(raw) > 15:
            heads.append(b"/%d" % len(names))
            names += raw + b"/\n"
        else:
            heads.append(raw + b"/")
    listed = [(s, k) for k, (name, data) in enumerate(objects.items()) for s in _symbols(name, data)]
    texts = b"".join([s.encode() + b"\0" for s, _ in listed])
    table_size = 4 + 4 * len(listed) + len(texts)
    names = _even(names)
    at = len(MAGIC) + 60 + table_size + table_size % 2 + (60 + len(names) if names else 0)
    places = []
    for data in objects.values():
        places.append(at)
        at += 60 + len(data) + len(data) % 2
    if at >= 1 << 32:
        raise TVMError(
            f"a static library holds less than 4 GiB, but the objects have {at} bytes; write a .so or a .tar"
        )
    table = struct.pack(f">{1 + len(listed)}I", len(listed), *[places[k] for _, k in listed]) + texts
    parts = [MAGIC, _header(b"/", table_size), _even(table)]
    if names:
        parts += [_header(b"//", len(names)), names]
    for head, data in zip(heads, objects.values(), strict=True):
        parts += [_header(head, len(data)), _even(data)]
    return b"".join(parts)


def _bsd(objects: Mapping[str, bytes]) -> bytes:
    """Names behind the headers; objects at multiples of eight bytes."""
    listed = [(s, k) for k, (name, data) in enumerate(objects.items()) for s in _symbols(name, data)]
    texts, starts = b"", []
    for symbol, _ in listed:
        starts.append(len(texts))
        texts += b"_" + symbol.encode() + b"\0"
    texts += b"\0" * (-len(texts) % 8)
    table_size = 8 + 8 * len(listed) + len(texts)

    def member(name: bytes, size: int, at: int) -> tuple[bytes, int]:
        """The header with the name, and the size of the content with what fills it up."""
        room = len(name) + 1
        room += -(at + 60 + room) % 8
        full = size + -size % 8
        return _header(b"#1/%d" % room, room + full) + name.ljust(room, b"\0"), full

    at, places, heads = len(MAGIC), [], []
    table_head, table_full = member(b"__.SYMDEF SORTED", table_size, at)
    at += len(table_head) + table_full
    for name, data in objects.items():
        head, full = member(name.encode(), len(data), at)
        places.append(at)
        heads.append((head, full))
        at += len(head) + full
    order = sorted(range(len(listed)), key=lambda i: listed[i][0])
    rows = b"".join([struct.pack("<II", starts[i], places[listed[i][1]]) for i in order])
    table = struct.pack("<I", len(rows)) + rows + struct.pack("<I", len(texts)) + texts
    parts = [MAGIC, table_head, table.ljust(table_full, b"\0")]
    for (head, full), data in zip(heads, objects.values(), strict=True):
        parts += [head, data.ljust(full, b"\0")]
    return b"".join(parts)


__all__ = ["MAGIC", "archive", "members"]
