"""The tile registers of Intel's AMX for interpreted programs. Uses that trap in hardware, or give wrong results, raise InterpError."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.codegen.interp.values import Array, InterpError, Pointer, Races, RawPointer, note

TILES, MOST_ROWS, MOST_BYTES = 8, 16, 64
_SMALLEST = np.float32(2.0**-126)


class Tiles:
    """The tile registers of one thread: a configuration (rows, bytes of a row), and bytes. Semantics: Intel's manual, volume 2, TDPBF16PS
    and related instructions."""

    def __init__(self, races: Races | None = None) -> None:
        self.races = races
        self.shapes: dict[int, tuple[int, int]] = {}
        self.data: dict[int, Array] = {}
        self.configured = False

    def configure(self, pointer: Pointer) -> None:
        """ldtilecfg: sets the shapes of all registers, and fills them with zeros. A palette of 0 releases them."""
        given = self._bytes(pointer, 64, "the configuration of tiles")
        if given[0] == 0:
            self.release()
            return
        rows, widths = given[48:64], given[16:48].view("<u2")
        if given[0] != 1 or given[1:16].any() or rows[TILES:].any() or widths[TILES:].any():
            raise InterpError(
                "a configuration of tiles must be of palette 1, begin at row 0, name eight tiles at most and be zero elsewhere,"
                f" but is {given.tolist()}"
            )
        shapes = {}
        for n, (r, w) in enumerate(zip(rows.tolist(), widths.tolist(), strict=True)):
            if r > MOST_ROWS or w > MOST_BYTES or (r == 0) != (w == 0):
                raise InterpError(
                    f"tile {n} cannot have {r} rows of {w} bytes: at most {MOST_ROWS} rows of {MOST_BYTES} bytes fit, or none of"
                    " none"
                )
            if r:
                shapes[n] = (r, w)
        self.shapes, self.configured = shapes, True
        self.data = {n: np.zeros(shape, np.uint8) for n, shape in shapes.items()}

    def release(self) -> None:
        """tilerelease: no register may be used until the next configuration."""
        self.shapes, self.data, self.configured = {}, {}, False

    def zero(self, n: int) -> None:
        self._tile(n, "tilezero")[:] = 0

    def load(self, n: int, pointer: Pointer, stride: int) -> None:
        """Loads the rows of a register from memory, `stride` bytes apart."""
        tile = self._tile(n, "tileloadd")
        for row in range(len(tile)):
            tile[row] = self._bytes(pointer.moved(row * stride), tile.shape[1], f"row {row} of tile {n}")

    def store(self, n: int, pointer: Pointer, stride: int) -> None:
        """Stores the rows of a register to memory, `stride` bytes apart."""
        tile = self._tile(n, "tilestored")
        for row in range(len(tile)):
            what = f"row {row} of tile {n}"
            self._bytes(pointer.moved(row * stride), tile.shape[1], what, written=True)[:] = tile[row]

    def dot_bfloats(self, c: int, a: int, b: int) -> None:
        """c += a * b on pairs of bfloat16. Even and odd products have separate sums; each product is added with one rounding. Denormal
        operands and results are zeros."""
        sums, left, right = self._operands(c, a, b, "tdpbf16ps")
        parts: list[Array] = []
        with np.errstate(all="ignore"):
            for odd in (0, 1):
                x, y = _bfloats(left)[:, odd::2], _bfloats(right)[:, odd::2]
                part = np.zeros(sums.shape, np.float32)
                for k in range(x.shape[1]):
                    product = x[:, k, None].astype(np.float64) * y[k].astype(np.float64)
                    part = _flushed((part + product).astype(np.float32))
                parts.append(part)
            now = _flushed(sums.view(np.float32))
            sums.view(np.float32)[:] = _flushed(now + _flushed(parts[0] + parts[1]))

    def dot_bytes(self, c: int, a: int, b: int) -> None:
        """c += a * b on groups of four bytes, unsigned in a and signed in b. The 32-bit sums wrap around."""
        self._bytes_dot(c, a, b, np.uint8, "tdpbusd")

    def dot_signed_bytes(self, c: int, a: int, b: int) -> None:
        self._bytes_dot(c, a, b, np.int8, "tdpbssd")

    def _bytes_dot(self, c: int, a: int, b: int, kind: Any, name: str) -> None:
        sums, left, right = self._operands(c, a, b, name)
        x = left.view(kind).astype(np.int64)
        y = right.view(np.int8).reshape(len(right), -1, 4).transpose(0, 2, 1).reshape(-1, sums.shape[1])
        sums += (x @ y.astype(np.int64)).astype(np.uint32)

    def _operands(self, c: int, a: int, b: int, name: str) -> tuple[Array, Array, Array]:
        """The sums as unsigned 32-bit integers, and the bytes of both operands. Raises InterpError if their shapes do not fit."""
        if len({c, a, b}) != 3:
            raise InterpError(f"{name} takes three tiles, but is given {c}, {a} and {b}")
        sums, left, right = (self._tile(n, name) for n in (c, a, b))
        shapes = left.shape, right.shape, sums.shape
        if left.shape[1] != 4 * len(right) or sums.shape != (len(left), right.shape[1]) or right.shape[1] % 4:
            raise InterpError(
                f"{name}: tiles {a}, {b} and {c} of {', '.join([f'{r} rows of {w} bytes' for r, w in shapes])} do not meet"
            )
        return sums.view(np.uint32), left, right

    def _tile(self, n: int, name: str) -> Array:
        if not self.configured or n not in self.data:
            state = f"tile {n} has no rows" if self.configured else "no configuration is loaded"
            raise InterpError(f"{name} uses tile {n}, but {state}")
        return self.data[n]

    def _bytes(self, pointer: Pointer, count: int, what: str, written: bool = False) -> Array:
        """The bytes at a pointer. Raises InterpError if they are out of bounds, or are read and were never written."""
        pointer = pointer.sized(count) if isinstance(pointer, RawPointer) else pointer
        storage, first = pointer.storage, pointer.offset
        if first < 0 or first + count > storage.data.nbytes:
            raise InterpError(
                f"{what}: bytes {first} to {first + count - 1} are outside of {storage.name}, which has {storage.data.nbytes}"
            )
        size = storage.data.itemsize
        elements = slice(first // size, -(-(first + count) // size))
        if storage.ready is not None:
            if written:
                storage.ready[elements] = True
            elif not storage.ready[elements].all():
                raise InterpError(f"uninitialised read: {what} lies in {storage.name}, which was not all written")
        if self.races is not None and self.races.on and self.races.iteration >= 0:
            for k in range(elements.start, elements.stop):
                note(self.races, storage, k * size, written, storage.name)
        return storage.data.reshape(-1).view(np.uint8)[first : first + count]


def _bfloats(data: Array) -> Array:
    """Bytes as bfloat16 values, converted to float32."""
    return _flushed((data.view("<u2").astype(np.uint32) << 16).view(np.float32))


def _flushed(x: Array) -> Array:
    """x with denormal numbers replaced by zeros of their sign."""
    return np.where(np.abs(x) < _SMALLEST, np.copysign(np.float32(0), x), x).astype(np.float32)


TILE_INSTRUCTIONS = {
    "llvm.x86.ldtilecfg": "configure",
    "llvm.x86.tilerelease": "release",
    "llvm.x86.tilezero": "zero",
    "llvm.x86.tileloadd64": "load",
    "llvm.x86.tilestored64": "store",
    "llvm.x86.tdpbf16ps": "dot_bfloats",
    "llvm.x86.tdpbusd": "dot_bytes",
    "llvm.x86.tdpbssd": "dot_signed_bytes",
}
"""LLVM's name of the instruction -> method of `Tiles`."""
