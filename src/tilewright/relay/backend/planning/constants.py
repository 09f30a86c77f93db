"""Constants of a compiled program in one aligned array of bytes. Equal ones are stored once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tilewright.node.field_values import equal_arrays
from tilewright.relay.backend.planning.memory_plan import align
from tilewright.relay.expr import Constant
from tilewright.tir.buffer import DATA_ALIGNMENT

Array = np.ndarray

PARALLEL_BYTES = 1 << 24
"""The fewest bytes of constants that two threads copy."""

SMALL = 256
"""The most bytes of an array that is looked for among arrays of other types."""


class ConstantPool:
    """The arrays, and their offsets (multiples of `alignment`) in the array of `bytes` bytes."""

    def __init__(self, alignment: int = DATA_ALIGNMENT) -> None:
        self.alignment = alignment
        self.arrays: list[Array] = []
        self.offsets: list[int] = []
        self.homes: list[int] = []
        """The number of the device of each array."""
        self.bytes = 0
        self._known: dict[Any, list[int]] = {}
        self._owners: dict[int, list[Constant]] = {}

    def add(self, value: Array, home: int = 0) -> int:
        """Adds an array, and returns its number. An array with the same bits on the same device is used again."""
        alike = self._known.setdefault((home, _sample(value)), [])
        index = next((i for i in alike if _same_bits(self.arrays[i], value)), -1)
        if index < 0:
            index = len(self.arrays)
            alike.append(index)
            self.arrays.append(value)
            self.offsets.append(self.bytes)
            self.homes.append(home)
            self.bytes += align(value.nbytes, self.alignment)
        return index

    def arrange(self) -> None:
        """Places small arrays first, where they are near the beginning, so that their addresses take less code; of small ones with the same
        bytes, one is stored. Arrays of several devices stay where they are."""
        if len({*self.homes}) > 1:
            return
        self.bytes, known = 0, dict[bytes, int]()
        for index in sorted(range(len(self.arrays)), key=lambda i: self.arrays[i].nbytes):
            size = self.arrays[index].nbytes
            offset = known.setdefault(self.arrays[index].tobytes(), self.bytes) if size <= SMALL else self.bytes
            self.offsets[index] = offset
            if offset == self.bytes:
                self.bytes += align(size, self.alignment)

    def move(self, constant: Constant, index: int) -> None:
        """Makes a constant read its values from the array of all constants once it exists, which frees the constant's own memory."""
        self._owners.setdefault(index, []).append(constant)

    def blob(self) -> Array:
        """All constants in one array of bytes. Transposed views are copied here, so that packed weights are moved once."""
        blob = aligned_bytes(self.bytes)

        def copy(index: int) -> None:
            array, offset = self.arrays[index], self.offsets[index]
            placed = blob[offset : offset + array.nbytes].view(array.dtype).reshape(array.shape)
            placed[...] = array
            self.arrays[index] = placed
            for constant in self._owners.pop(index, ()):
                constant.rehouse(placed)

        if self.bytes < PARALLEL_BYTES:
            for index in range(len(self.arrays)):
                copy(index)
        else:
            # Copies release the interpreter's lock, and most of their time is the first access to new pages.
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(copy, range(len(self.arrays))))
        return blob


def aligned_bytes(size: int) -> Array:
    """Zeroed bytes whose address is a multiple of 64."""
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


def _sample(value: Array) -> Any:
    """A key that is equal for equal constants, and rarely for others: dtype, shape, and a few values."""
    if not value.size:
        return value.dtype, value.shape
    chosen = np.linspace(0, value.size - 1, min(value.size, 64)).astype(np.int64)
    return value.dtype, value.shape, value.flat[chosen].tobytes()


def _same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays of one dtype and shape hold the same bits."""
    if a.ctypes.data == b.ctypes.data and a.strides == b.strides:
        return True
    bits = f"u{a.dtype.itemsize}"
    return equal_arrays(a, b) if bits not in ("u1", "u2", "u4", "u8") else bool((a.view(bits) == b.view(bits)).all())
