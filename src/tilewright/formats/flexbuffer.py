"""The options of custom operators: flexbuffers whose root is a map of numbers and strings."""

from __future__ import annotations

import struct
from typing import Any

from tilewright.formats.flatbuffer import Damaged

INT, UINT, FLOAT, KEY, STRING, INDIRECT_INT, INDIRECT_UINT, INDIRECT_FLOAT, MAP, BOOL = 1, 2, 3, 4, 5, 6, 7, 8, 9, 26
_LETTERS = {INT: "bhiq", UINT: "BHIQ", FLOAT: " efd", BOOL: "BHIQ"}


def options_of(data: Any) -> dict[str, Any]:
    """The map's entries; those of other kinds are left out. Raises Damaged."""
    raw = bytes(data)
    if not raw:
        return {}
    try:
        width = raw[-1]
        kind, child = raw[-2] >> 2, 1 << (raw[-2] & 3)
        if kind != MAP:
            raise Damaged("its options are no map")
        return _map(raw, _jump(raw, len(raw) - 2 - width, width), child)
    except (IndexError, struct.error, ValueError, KeyError) as error:
        raise Damaged(f"its options are no flexbuffer ({error})") from None


def _number(raw: bytes, at: int, width: int, kind: int = UINT) -> Any:
    if at < 0:
        raise ValueError(f"a place {at}")
    return struct.unpack_from("<" + _LETTERS[kind][width.bit_length() - 1], raw, at)[0]


def _jump(raw: bytes, at: int, width: int) -> int:
    return at - int(_number(raw, at, width))


def _map(raw: bytes, at: int, width: int) -> dict[str, Any]:
    size = int(_number(raw, at - width, width))
    key_width = int(_number(raw, at - 2 * width, width))
    keys = _jump(raw, at - 3 * width, width)
    if size * (width + 1) > len(raw):
        raise ValueError(f"a map of {size} entries")
    found: dict[str, Any] = {}
    for k in range(size):
        begin = _jump(raw, keys + k * key_width, key_width)
        name = raw[begin : raw.index(b"\0", begin)].decode("utf-8", "replace")
        packed, place = raw[at + size * width + k], at + k * width
        kind, child = packed >> 2, 1 << (packed & 3)
        if kind in _LETTERS:
            found[name] = _number(raw, place, width, kind)
        elif kind in (INDIRECT_INT, INDIRECT_UINT, INDIRECT_FLOAT):
            found[name] = _number(raw, _jump(raw, place, width), child, kind - 5)
        elif kind == STRING:
            text = _jump(raw, place, width)
            found[name] = raw[text : text + int(_number(raw, text - child, child))].decode("utf-8", "replace")
    return found
