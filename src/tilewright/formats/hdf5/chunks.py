"""Elements that an HDF5 file keeps in chunks, which may be compressed."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewright.formats.hdf5.cursor import Cursor, Source, damaged, not_read
from tilewright.support.errors import said

DEFLATE, SHUFFLE = 1, 2
NODE_OF_CHUNKS = 1


def filters_of(c: Cursor) -> list[int]:
    """The filters that a message lists, in the order in which they were applied."""
    version, count = c.number(1), c.number(1)
    if version not in (1, 2):
        raise damaged(f"the filters before byte {c.at} are of version {version}")
    c.take(6 if version == 1 else 0)
    found = []
    for _ in range(count):
        found.append(c.number(2))
        name = c.number(2) if version == 1 or found[-1] >= 256 else 0
        c.take(2)
        values = c.number(2)
        c.take(-(-name // 8) * 8 if version == 1 else name)
        c.take(4 * (values + (values % 2 if version == 1 else 0)))
    strange = [f for f in found if f not in (DEFLATE, SHUFFLE)]
    if strange:
        raise not_read(f"weights packed by the filter {strange[0]}")
    return found


def chunked(
    source: Source,
    tree: int | None,
    chunk: tuple[int, ...],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    filters: list[int],
) -> np.ndarray[Any, Any]:
    """The elements of all chunks that a B-tree names."""
    count = math.prod([-(-n // s) for n, s in zip(shape, chunk, strict=True)])
    held = {} if tree is None else dict(_chunks(source, tree, len(shape), set()))
    if len(held) != count:
        raise damaged(f"it has {len(held)} of {count} chunks of a weight")
    found = np.empty(shape, dtype)
    for at, (place, size, mask) in held.items():
        data = bytes(source.cursor(place, size, "a chunk").take(size))
        for k in reversed(range(len(filters))):
            if not mask >> k & 1:
                data = _undone(filters[k], data, dtype.itemsize, math.prod(chunk) * dtype.itemsize)
        if len(data) != math.prod(chunk) * dtype.itemsize or any(
            [a % s or a >= n for a, s, n in zip(at, chunk, shape, strict=True)]
        ):
            raise damaged(f"the chunk at byte {place} is not one of {' x '.join(map(str, chunk))} elements")
        part = found[tuple([slice(a, a + s) for a, s in zip(at, chunk, strict=True)])]
        part[...] = np.frombuffer(data, dtype).reshape(chunk)[tuple([slice(0, n) for n in part.shape])]
    return found


def _chunks(
    source: Source, address: int, rank: int, seen: set[int]
) -> Iterator[tuple[tuple[int, ...], tuple[int, int, int]]]:
    """Place among the elements, and address, bytes and filters left out of each chunk."""
    if address in seen:
        raise damaged(f"the B-tree at byte {address} is in itself")
    seen.add(address)
    c = source.cursor(address)
    c.expect(b"TREE", NODE_OF_CHUNKS)
    level, count = c.number(1), c.number(2)
    c.take(2 * source.offset_size)
    for _ in range(count):
        size, mask, at = c.number(4), c.number(4), tuple([c.number(8) for _ in range(rank + 1)])
        child = c.place("a chunk")
        if level:
            yield from _chunks(source, child, rank, seen)
        else:
            yield at[:-1], (child, size, mask)


def _undone(kind: int, data: bytes, width: int, most: int) -> bytes:
    if kind == SHUFFLE:
        whole = len(data) // width * width
        return np.frombuffer(data[:whole], np.uint8).reshape(width, -1).T.tobytes() + data[whole:]
    unpack = zlib.decompressobj()
    try:
        return unpack.decompress(data, most + 1)
    except zlib.error as error:
        raise damaged(f"a chunk cannot be unpacked ({said(error)})") from None
