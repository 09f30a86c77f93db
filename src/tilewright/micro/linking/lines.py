"""Lines of source by address: the line number programs of DWARF 2 to 5 (section 6.2 of the standard), as compilers write them for 32
bits."""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import NamedTuple

_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _CONST_ADD_PC, _FIXED_ADVANCE_PC = 1, 2, 3, 4, 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2


class Row(NamedTuple):
    """From an address on, code is of a line. file: 0 for the source itself, others for what it includes. line: 0 where nothing is known."""

    address: int
    line: int
    file: int


class _Program:
    """A line number program."""

    def __init__(self, data: bytes, at: int) -> None:
        length, self.version = struct.unpack_from("<IH", data, at)
        self.end = at + 4 + length
        k = at + 6 + (2 if self.version >= 5 else 0)
        (header,) = struct.unpack_from("<I", data, k)
        self.at: int = k + 4 + header
        k += 4
        self.least = data[k]
        k += 3 if self.version >= 4 else 2
        self.base = struct.unpack_from("<b", data, k)[0]
        self.range, self.opcodes = data[k + 1], data[k + 2]
        self.lengths = data[k + 3 : k + 2 + self.opcodes]
        self.data, self.tables = data, k + 2 + self.opcodes
        self.folders: list[bytes] = []
        # The source is file 0 from version 5 on, where 1 is usually the same again; before, the only one that is no header, or the first.
        sources = [n for n, (name, _) in enumerate(self._files(), 1) if not name.endswith(b".h")]
        self.own = {0, 1} if self.version >= 5 else {*sources} or {1}

    def _number(self, signed: bool = False) -> int:
        """A number of LEB128."""
        value = shift = 0
        while True:
            byte = int(self.data[self.at])
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value - (1 << shift) if signed and byte & 0x40 else value

    def _text(self) -> bytes:
        """The next text with a zero behind it."""
        begun, self.at = self.at, self.data.index(b"\0", self.at) + 1
        return self.data[begun : self.at - 1]

    def _files(self) -> list[tuple[bytes, int]]:
        """(name, number of the folder) of each file; none from version 5 on, whose tables have other forms."""
        if self.version >= 5:
            return []
        found: list[tuple[bytes, int]] = []
        program, self.at, self.folders = self.at, self.tables, [b""]
        while name := self._text():
            self.folders.append(name)
        while name := self._text():
            found.append((name, self._number()))
            self._number()
            self._number()
        self.at = program
        return found

    def source(self) -> str:
        """The path of the source; "" where it is not known."""
        name, number = next((f for n, f in enumerate(self._files(), 1) if n in self.own), (b"", 0))
        return (self.folders[number] + b"/" + name if number else name).decode(errors="replace")

    def rows(self) -> list[Row]:
        """The rows of the program."""
        found: list[Row] = []
        begun, address, line, file = 0, 0, 1, 1

        def add() -> None:
            # Line 0 marks code that belongs to no single line; the row before it tells a line near it.
            before = found[-1] if found and line == 0 else None
            found.append(
                before._replace(address=address) if before else Row(address, line, 0 if file in self.own else file)
            )

        while self.at < self.end:
            opcode = self.data[self.at]
            self.at += 1
            if opcode >= self.opcodes:
                step = opcode - self.opcodes
                address += step // self.range * self.least
                line += self.base + step % self.range
                add()
            elif opcode == 0:
                size = self._number()
                kind, following = self.data[self.at], self.at + size
                if kind == _SET_ADDRESS:
                    (address,) = struct.unpack_from("<I", self.data, self.at + 1)
                elif kind == _END_SEQUENCE:
                    found.append(Row(address, 0, 0))
                    if found[begun].address == 0:
                        # Linkers give this address to functions that they leave out; on boards vectors lie there.
                        del found[begun:]
                    begun, address, line, file = len(found), 0, 1, 1
                self.at = following
            elif opcode == _COPY:
                add()
            elif opcode == _ADVANCE_PC:
                address += self._number() * self.least
            elif opcode == _ADVANCE_LINE:
                line += self._number(signed=True)
            elif opcode == _SET_FILE:
                file = self._number()
            elif opcode == _CONST_ADD_PC:
                address += (255 - self.opcodes) // self.range * self.least
            elif opcode == _FIXED_ADVANCE_PC:
                address += struct.unpack_from("<H", self.data, self.at)[0]
                self.at += 2
            else:
                for _ in range(self.lengths[opcode - 1]):
                    self._number()
        return found


def line_rows(data: bytes) -> list[Row]:
    """The rows of a section .debug_line whose addresses are relocated. Empty for sections that are damaged."""
    found: list[Row] = []
    at = 0
    try:
        while at + 12 < len(data):
            program = _Program(data, at)
            found += program.rows()
            at = program.end
    except (struct.error, IndexError, ValueError, ZeroDivisionError):
        return []
    return found


def source_place(data: bytes, address: int) -> tuple[str, int] | None:
    """(path of the source, line) of an address of a linked program, from its section .debug_line; None where no part of it knows that."""
    at = 0
    try:
        while at + 12 < len(data):
            program = _Program(data, at)
            path = program.source()
            line = line_at(program.rows(), address)
            if line is not None:
                return path, line
            at = program.end
    except (struct.error, IndexError, ValueError, ZeroDivisionError):
        pass
    return None


def line_at(rows: list[Row], address: int, passed: Collection[int] = ()) -> int | None:
    """The line that an address belongs to. Where code is of something that was included, or of lines that are passed over, it is
    inlined; the line before that is told. None where the rows do not hold the address."""
    best: int | None = None
    for row, following in zip(rows, rows[1:], strict=False):
        if row.line == 0:
            best = None
            continue
        if row.file == 0 and row.line not in passed:
            best = row.line
        if row.address <= address < following.address:
            return best
    return None


__all__ = ["Row", "line_at", "line_rows", "source_place"]
