"""The global heaps of an HDF5 file, where attributes keep texts: the library never returns from some that are damaged.

As the HDF5 file format has them (version 3, III.E): "GCOL", a version, the size of the collection; then objects, each with an index, a
count of references and its size, filled up to eight bytes; the object of index 0 is what is free, its own head included.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

SIGNATURE = b"GCOL\x01\0\0\0"
LEAST = 4096
"""Bytes of the smallest collection."""
HEAD = 16


def damaged_heap(path: Path) -> str:
    """What is wrong with a file's global heaps; "" where nothing is."""
    with path.open("rb") as file:
        if path.stat().st_size < LEAST:
            return ""
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = data.find(SIGNATURE)
            while at >= 0:
                why = _collection(data, at)
                if why:
                    return f"its heap at byte {at} {why}"
                at = data.find(SIGNATURE, at + 1)
    return ""


def _collection(data: mmap.mmap, at: int) -> str:
    (size,) = struct.unpack_from("<Q", data, at + 8) if at + HEAD <= len(data) else (0,)
    if at % 8 or size < LEAST or at + size > len(data):
        return ""  # Such a head the library refuses; or these bytes are a number.
    place, end = at + HEAD, at + size
    while place + HEAD <= end:
        index, _, _, length = struct.unpack_from("<HHIQ", data, place)
        if index == 0:
            return "" if place + length == end else f"has {length} free bytes at its end, where there are {end - place}"
        place += HEAD + -(-length // 8) * 8
    return "" if place <= end else "has an object that goes on behind its end"
