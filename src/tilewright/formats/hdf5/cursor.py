"""Bytes of an HDF5 file, from which nothing is read that is not there."""

from __future__ import annotations

from tilewright.support.errors import ModelError

REMEDY = "Compare its size with the original's, and copy or save it again"
SIGNATURE = b"\x89HDF\r\n\x1a\n"


def damaged(why: str) -> ModelError:
    """The error of a file that is not as the format has it."""
    return ModelError(f"the HDF5 file is damaged: {why}. {REMEDY}")


def not_read(what: str) -> ModelError:
    """The error of what the format has, but Keras does not write."""
    return ModelError(f"the HDF5 file has {what}, which is not read; save the model again with Keras")


class Source:
    """A file from the byte that its addresses count from. `offset_size`, `length_size`: bytes of an address and of a length.
    `heaps`: what has been read of global heaps, by address and number."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.offset_size = self.length_size = 8
        self.heaps: dict[int, dict[int, memoryview]] = {}

    def cursor(self, place: int, size: int | None = None, what: str = "a structure") -> Cursor:
        """The bytes from a place on."""
        end = len(self.data) if size is None else place + size
        if not 0 <= place <= end <= len(self.data):
            raise damaged(f"{what} of {size or 'some'} bytes at byte {place} is not within its {len(self.data)} bytes")
        return Cursor(self, place, end)


class Cursor:
    """A place in a file; reading goes on up to an end."""

    def __init__(self, source: Source, at: int, end: int) -> None:
        self.source, self.at, self.end = source, at, end

    @property
    def left(self) -> int:
        """How many bytes are still to be read."""
        return self.end - self.at

    def take(self, size: int) -> memoryview:
        """The next bytes. Raises ModelError."""
        if not 0 <= size <= self.left:
            raise damaged(f"{size} bytes from byte {self.at} on go on past their end at {self.end}")
        self.at += size
        return self.source.data[self.at - size : self.at]

    def part(self, size: int) -> Cursor:
        """The next bytes, to be read apart."""
        self.take(size)
        return Cursor(self.source, self.at - size, self.at)

    def number(self, size: int) -> int:
        """An integer without a sign."""
        return int.from_bytes(self.take(size), "little")

    def offset(self) -> int | None:
        """An address; None where it is none."""
        size = self.source.offset_size
        value = self.number(size)
        return None if value == (1 << 8 * size) - 1 else value

    def place(self, what: str) -> int:
        """An address of what must be there."""
        value = self.offset()
        if value is None:
            raise damaged(f"{what} is nowhere")
        return value

    def length(self) -> int:
        """A size in bytes."""
        return self.number(self.source.length_size)

    def expect(self, signature: bytes, *versions: int) -> int:
        """The version of a structure that begins so."""
        begin = self.at
        if bytes(self.take(len(signature))) != signature:
            raise damaged(f"at byte {begin} there is no {signature.decode()}")
        version = self.number(1)
        if version not in versions:
            raise damaged(f"{signature.decode()} at byte {begin} is of version {version}")
        return version

    def checked(self) -> Cursor:
        """The bytes up to the checksum at the end, which must be right."""
        inner = Cursor(self.source, self.at, self.end - 4)
        if self.left < 4 or checksum(self.source.data[self.at : self.end - 4]) != int.from_bytes(
            self.source.data[self.end - 4 : self.end], "little"
        ):
            raise damaged(f"the checksum of {self.left} bytes from byte {self.at} on is wrong")
        return inner


MASK = 0xFFFFFFFF


def _turned(x: int, by: int) -> int:
    return (x << by | x >> 32 - by) & MASK


def checksum(data: memoryview) -> int:
    """Bob Jenkins' lookup3 of 2006 ("hashlittle" from 0), which HDF5 has for its structures."""
    a = b = c = (0xDEADBEEF + len(data)) & MASK
    if not len(data):
        return c
    last = (len(data) - 1) // 12 * 12
    for at in range(0, last + 12, 12):
        words = bytes(data[at : at + 12]).ljust(12, b"\0")
        a = a + int.from_bytes(words[:4], "little") & MASK
        b = b + int.from_bytes(words[4:8], "little") & MASK
        c = c + int.from_bytes(words[8:], "little") & MASK
        if at < last:
            for by in (4, 6, 8, 16, 19, 4):
                a, b, c = b, c + b & MASK, (a - c & MASK) ^ _turned(c, by)
    for by in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - _turned(b, by) & MASK
        a, b, c = b, c, a
    return b
