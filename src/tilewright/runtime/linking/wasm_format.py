"""The binary format of WebAssembly modules: numbers, names and sections, written and read."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

CUSTOM, IMPORTS, GLOBALS, EXPORTS, CODE, DATA = 0, 2, 6, 7, 10, 11
"""Numbers of sections."""


SEAL = b"tilewright.seal"
"""The custom section at the end of a module with the two checksums of all bytes before it. The loader in JavaScript compares them."""


def uleb(value: int) -> bytes:
    """A natural number: groups of seven bits, the lowest first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def name(text: bytes) -> bytes:
    """A name with its length."""
    return uleb(len(text)) + text


def section(number: int, content: bytes) -> bytes:
    """A section, or a part of one that has the same form."""
    return bytes([number]) + uleb(len(content)) + content


class Reader:
    """Reads numbers and names of a module, from a place up to an end. Raises ValueError where they do not end there."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data, self.at, self.end = data, at, end
        if end > len(data):
            raise ValueError("a section of the module ends after the file does")

    def byte(self) -> int:
        """The next byte."""
        if self.at >= self.end:
            raise ValueError("a section of the module is shorter than what it holds")
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        """The next natural number."""
        value, shift = 0, 0
        while True:
            b = self.byte()
            value |= (b & 127) << shift
            shift += 7
            if b < 128:
                return value

    def name(self) -> str:
        """The next name."""
        start = self.skip(self.number())
        return self.data[start : self.at].decode("utf-8", "replace")

    def skip(self, count: int) -> int:
        """Passes over bytes; returns where they begin."""
        if count > self.end - self.at:
            raise ValueError("a section of the module is shorter than what it holds")
        self.at += count
        return self.at - count

    def constant(self) -> int:
        """The next constant expression, as a distance from the base of memory, or a number."""
        value = 0
        while (op := self.byte()) != 0x0B:  # end
            if op == 0x23:  # global.get: the base
                self.number()
            elif op in (0x41, 0x42):  # i32.const, i64.const
                value = self.number()
            elif op in (0x43, 0x44):  # f32.const, f64.const
                self.skip(4 if op == 0x43 else 8)
        return value

    def parts(self) -> Iterator[tuple[int, Reader]]:
        """(number, content) of sections that follow each other up to the end."""
        while self.at < self.end:
            number = self.byte()
            size = self.number()
            start = self.skip(size)
            yield number, Reader(self.data, start, start + size)


__all__ = ["CODE", "CUSTOM", "DATA", "EXPORTS", "GLOBALS", "IMPORTS", "Reader", "name", "section", "uleb"]


def seal_module(path: str) -> None:
    """Writes its seal behind a module."""
    data = np.memmap(path, np.uint8, "r")
    seal = section(CUSTOM, name(SEAL) + struct.pack("<II", *checksums(data)))
    del data
    with open(path, "ab") as file:
        file.write(seal)


def checksums(data: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> tuple[int, int]:
    """The sum of little-endian words of four bytes, the last one filled up with zeros, and the sum of all sums on the way; modulo 2^32."""
    first, second, piece = 0, 0, 1 << 22
    for at in range(0, len(data), piece):
        part = data[at : at + piece]
        words = np.pad(part, (0, -len(part) % 4)).view("<u4").astype(np.uint64)
        later = np.arange(len(words), 0, -1, dtype=np.uint64)
        second = (second + first * len(words) + int((words * later).sum())) & 0xFFFFFFFF
        first = (first + int(words.sum())) & 0xFFFFFFFF
    return first, second
