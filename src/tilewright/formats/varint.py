"""Integers as protobuf and LevelDB write them: seven bits a byte, the least first, the eighth bit set where more follow."""

from __future__ import annotations


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, position after it). Raises ValueError where it does not end within 64 bits and the data."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number extends past the end")
