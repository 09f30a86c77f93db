"""The header of an object in an HDF5 file: its messages, in both forms."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.formats.hdf5.cursor import Cursor, Source, damaged, not_read

SPACE, LINKS, TYPE, LINK, OTHER_FILES, LAYOUT = 1, 2, 3, 6, 7, 8
FILTERS, ATTRIBUTE, CONTINUATION, SYMBOLS, ATTRIBUTES = 11, 12, 16, 17, 21
SHARED = 2
"""A flag: the message is in another header."""


class Message(NamedTuple):
    """The content of an object's header."""

    kind: int
    flags: int
    start: Cursor

    def body(self) -> Cursor:
        """Its bytes, from the first on."""
        if self.flags & SHARED:
            raise not_read("messages that several objects share")
        return Cursor(self.start.source, self.start.at, self.start.end)


def messages(source: Source, address: int) -> list[Message]:
    """All messages of the object at an address."""
    found = _new(source, address) if bytes(source.data[address : address + 4]) == b"OHDR" else _old(source, address)
    return [m for m in found if m.kind != CONTINUATION]


def _old(source: Source, address: int) -> list[Message]:
    head = source.cursor(address, 16, "the header of an object")
    if head.number(1) != 1:
        raise damaged(f"at byte {address} there is no header of an object")
    head.take(1)
    count = head.number(2)
    head.take(4)
    blocks = [source.cursor(address + 16, head.number(4), "the header of an object")]
    found: list[Message] = []
    for block in blocks:
        while block.left and len(found) < count:
            kind, size, flags = block.number(2), block.number(2), block.number(1)
            block.take(3)
            if size % 8:
                raise damaged(f"a message of {size} bytes before byte {block.at} is not aligned")
            found.append(Message(kind, flags, block.part(size)))
            if kind == CONTINUATION:
                _go_on(source, found[-1], blocks)
    if len(found) != count:
        raise damaged(f"the header at byte {address} has {len(found)} of {count} messages")
    return found


def _new(source: Source, address: int) -> list[Message]:
    head = source.cursor(address)
    head.expect(b"OHDR", 2)
    flags = head.number(1)
    head.take(16 * bool(flags & 0x20) + 4 * bool(flags & 0x10))
    size = head.number(1 << (flags & 3))
    whole = source.cursor(address, head.at - address + size + 4, "the header of an object").checked()
    whole.take(head.at - address)
    found: list[Message] = []
    blocks = [whole]
    for k, block in enumerate(blocks):
        if k:
            block = block.checked()
            if bytes(block.take(4)) != b"OCHK":
                raise damaged(f"the header at byte {address} continues in bytes that are no header")
        ordered = 2 * bool(flags & 0x04)
        while block.left >= 4 + ordered:
            kind, size, own = block.number(1), block.number(2), block.number(1)
            block.take(ordered)
            found.append(Message(kind, own, block.part(size)))
            if kind == CONTINUATION:
                _go_on(source, found[-1], blocks)
    return found


def _go_on(source: Source, message: Message, blocks: list[Cursor]) -> None:
    """Appends the block that a message of continuation names."""
    body = message.body()
    block = source.cursor(body.place("the rest of a header"), body.length(), "the rest of a header")
    if any([b.end == block.end for b in blocks]):
        raise damaged(f"the header at byte {block.at} continues in itself")
    blocks.append(block)
