"""Heaps of an HDF5 file: global heaps, which hold strings, and fractal heaps, which hold links or attributes of large objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tilewright.formats.hdf5.cursor import Cursor, Source, checksum, damaged, not_read

LEAST_COLLECTION = 4096
LARGE_RECORDS, LINK_RECORDS, ATTRIBUTE_RECORDS = 1, 5, 8
"""Kinds of B-trees, by their records: address, size and number of an object that no block holds; hash of a link and its place in a heap; an
attribute's place and more."""


def heap_object(source: Source, address: int, index: int) -> memoryview:
    """An object of the global heap at an address."""
    if address not in source.heaps:
        source.heaps[address] = _collection(source, address)
    if index not in source.heaps[address]:
        raise damaged(f"the heap at byte {address} has no object {index}")
    return source.heaps[address][index]


def _collection(source: Source, address: int) -> dict[int, memoryview]:
    head = source.cursor(address, 8 + source.length_size, "a heap")
    head.expect(b"GCOL", 1)
    head.take(3)
    size = head.length()
    if size < LEAST_COLLECTION:
        raise damaged(f"the heap at byte {address} has {size} bytes")
    c = source.cursor(address, size, "a heap")
    c.take(8 + source.length_size)
    found: dict[int, memoryview] = {}
    while c.left >= 8 + source.length_size:
        index, _, length = c.number(2), c.take(6), c.length()
        if index == 0:
            # What is free, its own head included.
            if length != c.left + 8 + source.length_size:
                raise damaged(f"the heap at byte {address} has {length} free bytes at byte {c.at}")
            break
        if index in found:
            raise damaged(f"the heap at byte {address} has two objects {index}")
        found[index] = c.take(length)
        c.take(-length % 8)
    return found


class FractalHeap:
    """A heap with blocks of growing size: the blocks of the first two rows of a table have one size; in each further row the size
    doubles."""

    def __init__(self, source: Source, address: int) -> None:
        self.source = source
        c = source.cursor(address, 26 + 12 * source.length_size + 3 * source.offset_size, "a heap").checked()
        c.expect(b"FRHP", 0)
        self.id_size, filters, self.flags, largest = c.number(2), c.number(2), c.number(1), c.number(4)
        if filters:
            raise not_read("compressed heaps")
        c.take(source.length_size)
        self.large_tree = c.offset()
        c.take(9 * source.length_size + source.offset_size)
        self.width, self.first, self.most_direct, bits = c.number(2), c.length(), c.length(), c.number(2)
        c.take(2)
        self.root, self.rows = c.place("a heap"), c.number(2)
        if not self.width or not self.first or self.first & (self.first - 1) or self.most_direct < self.first:
            raise damaged(f"the heap at byte {address} has blocks of {self.first} bytes, {self.width} in a row")
        self.offset_bytes = -(-bits // 8)
        self.length_bytes = min(-(-(self.most_direct.bit_length() - 1) // 8), max(largest.bit_length() - 1, 0) // 8 + 1)
        self.blocks: dict[int, Cursor] = {}

    def object(self, place: Cursor) -> Cursor:
        """The object that a record's place names."""
        first = place.number(1)
        if first >> 4 == 2:
            size = first & 15
            return place.part((size if self.id_size <= 17 else size << 8 | place.number(1)) + 1)
        if first >> 4 == 1:
            return self._large(place)
        offset, size = place.number(self.offset_bytes), place.number(self.length_bytes)
        block, offset = self._block(offset)
        c = Cursor(self.source, block.at, block.end)
        c.take(offset)
        return c.part(size)

    def _large(self, place: Cursor) -> Cursor:
        """An object that no block holds."""
        source = self.source
        size = min(source.length_size, self.id_size - 1)
        if source.offset_size + source.length_size < self.id_size:
            return source.cursor(place.place("an object"), place.length(), "an object")
        number = place.number(size)
        for r in records(source, self.large_tree, LARGE_RECORDS) if self.large_tree is not None else ():
            address, length = r.place("an object"), r.length()
            if r.length() == number:
                return source.cursor(address, length, "an object")
        raise damaged(f"the heap has no object {number}")

    def _block(self, offset: int) -> tuple[Cursor, int]:
        """The direct block that an offset is in, and where in it."""
        address, rows = self.root, self.rows
        while rows:
            row = (offset // (self.first * self.width)).bit_length()
            size = self.first << max(row - 1, 0)
            column, offset = divmod(offset - (self.first * self.width << row - 1 if row else 0), size)
            if row >= rows:
                raise damaged(f"the heap's block at byte {address} has {rows} rows, but not row {row}")
            head = 5 + self.source.offset_size + self.offset_bytes
            c = self.source.cursor(address, head + rows * self.width * self.source.offset_size + 4, "a heap").checked()
            c.expect(b"FHIB", 0)
            c.take(head - 5 + (row * self.width + column) * self.source.offset_size)
            address = c.place("a heap's block")
            if size <= self.most_direct:
                return self._direct(address, size), offset
            # Blocks above the largest are tables again, with as many rows as fill their size.
            rows = (size // (self.first * self.width)).bit_length()
        return self._direct(address, self.first), offset

    def _direct(self, address: int, size: int) -> Cursor:
        if address not in self.blocks:
            c = self.source.cursor(address, size, "a heap's block")
            head = 5 + self.source.offset_size + self.offset_bytes
            if self.flags & 2:
                plain = bytearray(c.part(size).take(size))
                want = int.from_bytes(plain[head : head + 4], "little")
                plain[head : head + 4] = bytes(4)
                if checksum(memoryview(plain)) != want:
                    raise damaged(f"the checksum of the heap's block at byte {address} is wrong")
            self.blocks[address] = self.source.cursor(address, size)
            self.source.cursor(address, size).expect(b"FHDB", 0)
        return self.blocks[address]


def records(source: Source, address: int, kind: int) -> Iterator[Cursor]:
    """The places that a B-tree (of version 2) has, each where a record's place in a heap begins."""
    c = source.cursor(address, 22 + source.offset_size + source.length_size, "a B-tree").checked()
    c.expect(b"BTHD", 0)
    found, node, size, depth = c.number(1), c.number(4), c.number(2), c.number(2)
    c.take(2)
    root, count, total = c.offset(), c.number(2), c.length()
    sizes = {LARGE_RECORDS: source.offset_size + 2 * source.length_size, LINK_RECORDS: 11, ATTRIBUTE_RECORDS: 17}
    if found != kind or size != sizes[kind] or depth > 8:
        raise damaged(f"the B-tree at byte {address} holds records of kind {found} and {size} bytes")
    # Bytes that numbers of records take, in a node and below it, by level.
    most = (node - 10) // size
    own, below = _bytes_for(most), [0]
    for _ in range(depth):
        pointer = source.offset_size + own + below[-1]
        inner = (node - 10 - pointer) // (size + pointer)
        most = (inner + 1) * most + inner
        below.append(_bytes_for(most))
    if root is not None and total:
        yield from _Nodes(source, size, own, below, set()).records(root, count, depth)


def _bytes_for(most: int) -> int:
    return max(most.bit_length() - 1, 0) // 8 + 1


class _Nodes(NamedTuple):
    """The nodes of a B-tree. `size`: bytes of a record; `own`, `below`: of numbers of records in a node, and below it by level."""

    source: Source
    size: int
    own: int
    below: list[int]
    seen: set[int]

    def records(self, address: int, count: int, depth: int) -> Iterator[Cursor]:
        """The records of a node and those below it."""
        if address in self.seen:
            raise damaged(f"a B-tree has the node at byte {address} twice")
        self.seen.add(address)
        pointer = self.source.offset_size + self.own + self.below[depth - 1] if depth else 0
        bytes_of_node = 10 + count * self.size + (count + 1) * pointer
        c = self.source.cursor(address, bytes_of_node, "a node of a B-tree").checked()
        c.expect(b"BTIN" if depth else b"BTLF", 0)
        c.take(1)
        for _ in range(count):
            yield c.part(self.size)
        for _ in range(count + 1 if depth else 0):
            child, inside = c.place("a node of a B-tree"), c.number(self.own)
            c.take(self.below[depth - 1])
            yield from self.records(child, inside, depth - 1)
