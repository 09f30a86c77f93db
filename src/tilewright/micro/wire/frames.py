"""Frames on a line of bytes: escapes, lengths, checks. native/c99/src/wire.c is the other side; docs/rooms/micro.md has the format."""

from __future__ import annotations

import binascii
import struct
from enum import IntEnum
from typing import NamedTuple

ESCAPE, FRAME = 0xFF, 0xFD
"""FRAME behind ESCAPE begins a frame; ESCAPE behind ESCAPE is one in it. Any other byte behind ESCAPE is dropped with it: such a byte is
sent before each frame, so that an ESCAPE which the line has left over does not take that of the frame."""
_HEADER = struct.Struct("<4B")
LONGEST = 1 << 14
"""Bytes of a frame's content, at most: what claims to be longer is damaged."""


class Kind(IntEnum):
    """Kinds of frames. START, END, PIECE, LAST and NEXT are the host's, and each is answered by one of the others but LOG and STOPPED."""

    START = 0x00
    STARTED = 0x01
    END = 0x02
    LOG = 0x03
    STOPPED = 0x04
    STRANGE = 0x05
    PIECE = 0x10
    LAST = 0x11
    NEXT = 0x12
    GOT = 0x13
    MORE = 0x14
    DONE = 0x15


class Frame(NamedTuple):
    """A frame: the nonces of both sides, by which they tell sessions apart; its kind and number; and bytes of a message."""

    host: int
    device: int
    kind: int
    number: int
    data: bytes = b""


def check(data: bytes) -> int:
    """CRC-16 with the polynomial 0x1021, beginning with 0xFFFF (ITU-T V.41's polynomial; "CCITT-FALSE")."""
    return binascii.crc_hqx(data, 0xFFFF)


def encode(frame: Frame) -> bytes:
    """The bytes of a frame on the line."""
    content = _HEADER.pack(frame.host, frame.device, frame.kind, frame.number) + frame.data
    whole = struct.pack("<H", len(content)) + content
    whole += struct.pack(">H", check(whole))
    return bytes([0, ESCAPE, FRAME]) + whole.replace(b"\xff", b"\xff\xff")


class Decoder:
    """Finds frames in what a line brings, whatever stands between them. damaged: frames that were begun and are not whole."""

    def __init__(self) -> None:
        self.damaged = 0
        self._escaped = False
        self._content: bytearray | None = None
        self._size = 0

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are whole with these bytes."""
        found: list[Frame] = []
        start, size = 0, len(data)
        while start < size:
            if self._escaped:
                self._escaped = False
                self._behind_escape(data[start], found)
                start += 1
                continue
            end = data.find(b"\xff", start)
            stop = size if end < 0 else end
            self._add(data[start:stop], found)
            self._escaped = end >= 0
            start = stop + (end >= 0)
        return found

    def _behind_escape(self, byte: int, found: list[Frame]) -> None:
        if byte == FRAME:
            if self._content is not None:
                self.damaged += 1
            self._content, self._size = bytearray(), 0
        elif byte == ESCAPE:
            self._add(b"\xff", found)

    def _add(self, data: bytes, found: list[Frame]) -> None:
        content = self._content
        if content is None:
            return
        content += data
        if not self._size and len(content) >= 2:
            self._size = struct.unpack_from("<H", content)[0]
            if not _HEADER.size <= self._size <= LONGEST:
                self._content = None
                self.damaged += 1
                return
        if not self._size or len(content) < 4 + self._size:
            return
        self._content = None
        whole = bytes(content[: 4 + self._size])
        if check(whole):
            self.damaged += 1
        else:
            host, device, kind, number = _HEADER.unpack_from(whole, 2)
            found.append(Frame(host, device, kind, number, whole[6:-2]))


__all__ = ["ESCAPE", "FRAME", "LONGEST", "Decoder", "Frame", "Kind", "check", "encode"]
