"""Groups, datasets and attributes of an HDF5 file (format specification, version 3), as far as Keras and h5py write them. Elements are
views of the file's bytes. The file may hold anything: a damaged one raises ModelError."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.formats.hdf5 import header
from tilewright.formats.hdf5.chunks import chunked, filters_of
from tilewright.formats.hdf5.cursor import SIGNATURE, Cursor, Source, damaged, not_read
from tilewright.formats.hdf5.datatype import array_of, attribute, datatype, shape_of, size_of, value_of
from tilewright.formats.hdf5.header import Message, messages
from tilewright.formats.hdf5.heaps import ATTRIBUTE_RECORDS, LINK_RECORDS, FractalHeap, records

Array = np.ndarray[Any, Any]
COMPACT, CONTIGUOUS, CHUNKED = 0, 1, 2
HARD, SOFT = 0, 2
"""A kind of links, and what an older entry says of a link that is none."""
NODE_OF_GROUPS = 0


def opened(data: memoryview) -> Group:
    """The outermost group of a file."""
    begin = 0
    while bytes(data[begin : begin + 8]) != SIGNATURE:
        begin = begin * 2 or 512
        if begin >= len(data):
            raise damaged("it does not begin as one")
    source = Source(data[begin:])
    c = source.cursor(8)
    version = c.number(1)
    if version > 3:
        raise not_read(f"version {version} of the format")
    if version > 1:
        source.offset_size, source.length_size = _widths(c)
        c = source.cursor(0, 16 + 4 * source.offset_size, "the head of the file").checked()
        c.take(12)
    else:
        c.take(4)
        source.offset_size, source.length_size = _widths(c)
        c.take(9 + 4 * version)
    c.take(2 * source.offset_size)
    end = c.place("the end of the file")
    if end > len(data):
        raise damaged(f"it has {len(data)} of {end} bytes")
    # Before version 2 the drivers' block follows, then an entry as groups have them: its name, then its address.
    c.take(2 * source.offset_size if version < 2 else 0)
    return Group(source, c.place("the outermost group"))


def _widths(c: Cursor) -> tuple[int, int]:
    found = c.number(1), c.number(1)
    if any([w not in (2, 4, 8) for w in found]):
        raise damaged(f"its addresses and lengths have {found[0]} and {found[1]} bytes")
    return found


class Object:
    """An object with a header: a group or a dataset."""

    def __init__(self, source: Source, address: int) -> None:
        self.source, self.address = source, address

    @cached_property
    def messages(self) -> list[Message]:
        """The content of its header."""
        return messages(self.source, self.address)

    def said(self, kind: int) -> Cursor | None:
        """The message of a kind; None where there is none."""
        return next((m.body() for m in self.messages if m.kind == kind), None)

    def kept(self, kind: int, info: int, counter: int, tree: int) -> Iterator[Cursor]:
        """Messages of a kind: those of the header, and those in a heap, which a message of kind `info` names, perhaps after a
        counter of so many bytes; a B-tree of the kind `tree` lists them."""
        yield from [m.body() for m in self.messages if m.kind == kind]
        body = self.said(info)
        if body is None:
            return
        if body.number(1) != 0:
            raise damaged(f"the object at byte {self.address} keeps its messages in another version")
        flags = body.number(1)
        body.take(counter * bool(flags & 1))
        heap, names = body.offset(), body.offset()
        if heap is None or names is None:
            return
        blocks = FractalHeap(self.source, heap)
        for r in records(self.source, names, tree):
            r.take(4 if tree == LINK_RECORDS else 0)
            yield blocks.object(r.part(blocks.id_size))

    @cached_property
    def attrs(self) -> Attributes:
        """Values by name."""
        return Attributes(
            dict(attribute(c) for c in self.kept(header.ATTRIBUTE, header.ATTRIBUTES, 2, ATTRIBUTE_RECORDS))
        )


class Attributes(Mapping[str, Any]):
    """Attributes, each read when it is asked for."""

    def __init__(self, places: dict[str, Cursor]) -> None:
        self.places = places

    def __getitem__(self, name: str) -> Any:
        c = self.places[name]
        return value_of(Cursor(c.source, c.at, c.end))

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


class Group(Object, Mapping[str, Any]):
    """Groups and datasets by name, or by names with slashes between them."""

    @cached_property
    def links(self) -> dict[str, int | None]:
        """Addresses by name; None of what is not an object of this file."""
        found: dict[str, int | None] = {}
        for name, address in self._all_links():
            if name in found or not name or "/" in name:
                raise damaged(
                    f"the group at byte {self.address} has {name!r} {'twice' if name in found else 'as a name'}"
                )
            found[name] = address
        return found

    def _all_links(self) -> Iterator[tuple[str, int | None]]:
        yield from [_link(c) for c in self.kept(header.LINK, header.LINKS, 8, LINK_RECORDS)]
        body = self.said(header.SYMBOLS)
        if body is not None:
            tree, heap = body.place("a group's B-tree"), body.place("a group's heap")
            yield from _symbols(self.source, tree, _names(self.source, heap), set())

    def __getitem__(self, path: str) -> Any:
        found: Any = self
        for name in path.split("/"):
            if name:
                found = found.child(name) if isinstance(found, Group) else None
            if found is None:
                raise KeyError(path)
        return found

    def child(self, name: str) -> Group | Dataset | None:
        """The object of a name; None where there is none."""
        if name not in self.links:
            return None
        address = self.links[name]
        if address is None:
            raise not_read(f"{name!r} in another place or file")
        found = Group(self.source, address)
        return Dataset(self.source, address) if found.said(header.LAYOUT) is not None else found

    def __iter__(self) -> Iterator[str]:
        return iter(self.links)

    def __len__(self) -> int:
        return len(self.links)

    def datasets(self) -> Iterator[tuple[str, Dataset]]:
        """All datasets, at any depth, each once, and their paths."""
        seen, left = {self.address}, [("", self)]
        while left:
            path, group = left.pop()
            for name, item in group.items():
                if item.address not in seen:
                    seen.add(item.address)
                    if isinstance(item, Dataset):
                        yield path + name, item
                    else:
                        left.append((f"{path}{name}/", item))


def _link(c: Cursor) -> tuple[str, int | None]:
    """Name and address of a message of a link."""
    if c.number(1) != 1:
        raise damaged(f"the link before byte {c.at} is of another version")
    flags = c.number(1)
    kind = c.number(1) if flags & 8 else HARD
    c.take(8 * bool(flags & 4) + bool(flags & 16))
    name = bytes(c.take(c.number(1 << (flags & 3)))).decode(errors="surrogateescape")
    return name, c.place("an object") if kind == HARD else None


def _names(source: Source, address: int) -> bytes:
    """The names of a group's objects."""
    c = source.cursor(address)
    c.expect(b"HEAP", 0)
    c.take(3)
    size = c.length()
    c.length()
    return bytes(source.cursor(c.place("the names of a group"), size, "the names of a group").take(size))


def _symbols(source: Source, address: int, names: bytes, seen: set[int]) -> Iterator[tuple[str, int | None]]:
    """Names and addresses below a node of a group's B-tree (of version 1)."""
    if address in seen:
        raise damaged(f"the B-tree of a group has the node at byte {address} twice")
    seen.add(address)
    c = source.cursor(address, None, "a B-tree")
    if bytes(source.data[address : address + 4]) == b"SNOD":
        c.expect(b"SNOD", 1)
        c.take(1)
        for _ in range(c.number(2)):
            place, target, kind = c.place("a name"), c.offset(), c.number(4)
            c.take(20)
            end = names.find(b"\0", place)
            if end < 0:
                raise damaged(f"the name at byte {place} of a group's heap does not end")
            yield names[place:end].decode(errors="surrogateescape"), None if kind == SOFT else target
        return
    c.expect(b"TREE", NODE_OF_GROUPS)
    c.take(1)
    count = c.number(2)
    c.take(2 * source.offset_size)
    for _ in range(count):
        c.length()
        yield from _symbols(source, c.place("a part of a B-tree"), names, seen)


class Dataset(Object):
    """A tensor."""

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type of its elements."""
        return datatype(self._must(header.TYPE, "type")).dtype

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""
        found = shape_of(self._must(header.SPACE, "shape"))
        if found is None:
            raise not_read("a weight without elements")
        return found

    def _must(self, kind: int, what: str) -> Cursor:
        body = self.said(kind)
        if body is None:
            raise damaged(f"the weight at byte {self.address} has no {what}")
        return body

    def array(self) -> Array:
        """Its elements: those of the file, not copied, unless they are in chunks."""
        kind, shape, c = datatype(self._must(header.TYPE, "type")), self.shape, self._must(header.LAYOUT, "layout")
        if kind.text:
            raise not_read("strings in place of a weight")
        if self.said(header.OTHER_FILES) is not None:
            raise not_read("weights in other files")
        size = size_of(kind, shape)
        version = c.number(1)
        if version not in (3, 4):
            raise not_read(f"weights in the layout of version {version}")
        form = c.number(1)
        if form == COMPACT:
            data = c.take(c.number(2))
        elif form == CONTIGUOUS:
            place, held = c.offset(), c.length()
            if place is None and size:
                raise damaged(f"the weight at byte {self.address} was never written")
            data = self.source.cursor(place or 0, held if size else 0, "a weight").take(held if size else 0)
        elif form == CHUNKED and version == 3:
            rank, tree = c.number(1) - 1, c.offset()
            chunk = tuple([c.number(4) for _ in range(rank)])
            if rank != len(shape) or not all(chunk):
                raise damaged(
                    f"the chunks of the weight at byte {self.address} have {rank} axes, and the weight {len(shape)}"
                )
            pipeline = self.said(header.FILTERS)
            filters = [] if pipeline is None else filters_of(pipeline)
            return chunked(self.source, tree, chunk, shape, kind.dtype, filters)
        else:
            raise not_read("weights in such chunks as version 1.10 of its library introduced")
        if len(data) < size:
            raise damaged(f"the weight at byte {self.address} has {len(data)} of {size} bytes")
        return array_of(kind, shape, data[:size])
