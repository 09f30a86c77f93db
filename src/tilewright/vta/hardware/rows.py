"""The bytes of a matrix in DRAM, row by row, in pieces that end at the ends of rows."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal

ADDRESS, COUNT = 32, 16


class Rows:
    """A walk over rows. begin: loads the matrix (base, rows, bytes of a row, bytes from row to row). advance: goes on by `step` bytes, at
    most to the end of the row. address: of the next byte; left: bytes of the row from there; more: whether there is any."""

    def __init__(self, element_bytes: int) -> None:
        bits = COUNT + element_bytes.bit_length()
        self.begin = Signal()
        self.base = Signal(ADDRESS)
        self.rows = Signal(COUNT)
        self.row_bytes = Signal(bits)
        self.stride_bytes = Signal(bits)
        self.advance = Signal()
        self.step = Signal(bits)
        self.address = Signal(ADDRESS)
        self.left = Signal(bits)
        self.more = Signal()
        self.module = m = Module()
        rows = Signal(COUNT)
        row = Signal(ADDRESS)
        width = Signal(bits)
        stride = Signal(bits)
        m.d.comb += self.more.eq(rows != 0)
        with m.If(self.begin):
            m.d.sync += [
                row.eq(self.base), self.address.eq(self.base), self.left.eq(self.row_bytes), width.eq(self.row_bytes),
                stride.eq(self.stride_bytes), rows.eq(Mux(self.row_bytes == 0, 0, self.rows)),
            ]  # fmt: skip
        with m.Elif(self.advance):
            with m.If(self.step == self.left):
                m.d.sync += [
                    row.eq(row + stride),
                    self.address.eq(row + stride),
                    self.left.eq(width),
                    rows.eq(rows - 1),
                ]
            with m.Else():
                m.d.sync += [self.address.eq(self.address + self.step), self.left.eq(self.left - self.step)]


def to_next(address: Any, size: int) -> Any:
    """Bytes from an address to the next multiple of a power of two."""
    bits = (size - 1).bit_length()
    return size - address[:bits] if bits else 1


def least(a: Any, b: Any) -> Any:
    return Mux(a < b, a, b)


__all__ = ["ADDRESS", "COUNT", "Rows", "least", "to_next"]
