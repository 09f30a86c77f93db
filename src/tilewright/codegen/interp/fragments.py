"""The fragments of matrix units (CUDA's wmma) for interpreted programs. Uses that hardware does not allow raise InterpError.

A fragment has its elements one after the other, row by row, in the storage that it is a part of: where a matrix unit has them is not
defined. In lowered programs each thread of a warp has a copy of all fragments and computes it; the first one stores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.codegen.interp.values import Array, InterpError, Pointer, Races, note

ROWS = {"row_major": False, "col_major": True}
"""Layouts of matrices in memory, and whether they are transposed."""


class Fragments:
    """The operations on fragments. Each takes the shape of its fragment, (rows, columns)."""

    def __init__(self, races: Races) -> None:
        self.races = races

    def fill(self, fragment: Pointer, index: int, shape: tuple[int, int], value: Any) -> None:
        """All elements become a value."""
        self._part(fragment, index, shape, written=True)[:] = value

    def load(
        self,
        fragment: Pointer,
        index: int,
        shape: tuple[int, int],
        source: Pointer,
        stride: int,
        layout: str,
        leads: bool,
    ) -> None:
        """Loads a fragment from memory, whose rows, or columns, are `stride` elements apart. leads: whether this thread is the first of
        its warp, so that its accesses count."""
        part = self._part(fragment, index, shape, written=True)
        places = self._places(source, part.dtype, shape, stride, layout, leads, written=False)
        part[:] = source.storage.data.view(part.dtype)[places]

    def store(
        self, fragment: Pointer, index: int, shape: tuple[int, int], to: Pointer, stride: int, layout: str, leads: bool
    ) -> None:
        """Stores a fragment to memory."""
        values = self._part(fragment, index, shape)
        if leads:
            places = self._places(to, values.dtype, shape, stride, layout, leads, written=True)
            to.storage.data.view(values.dtype)[places] = values

    def multiply(self, *parts: tuple[Pointer, int]) -> None:
        """d = a * b + c. parts: (storage, index) of d, a, b and c. Floats are summed in 32 bits at least; integers
        wrap."""
        to, *operands = parts
        left, right, sums = [self._part(pointer, index, _shape(pointer)) for pointer, index in operands]
        if left.shape[1] != right.shape[0] or sums.shape != (left.shape[0], right.shape[1]):
            raise InterpError(
                f"fragments of shapes {left.shape}, {right.shape} and {sums.shape} cannot be multiplied and added"
            )
        wide = np.int64 if np.issubdtype(left.dtype, np.integer) else np.result_type(sums.dtype, np.float32)
        with np.errstate(all="ignore"):
            found = sums.astype(wide) + left.astype(wide) @ right.astype(wide)
            self._part(*to, sums.shape, written=True)[:] = found.astype(sums.dtype)

    def _part(self, fragment: Pointer, index: int, shape: tuple[int, ...], written: bool = False) -> Array:
        """The elements of a fragment. Raises InterpError outside of the storage, or where it was not written and is read."""
        storage, size = fragment.storage, shape[0] * shape[1]
        begin = fragment.offset // storage.data.itemsize + int(index) * size
        if begin < 0 or begin + size > storage.data.size:
            raise InterpError(
                f"fragment {index} of {storage.name} has {size} elements, but the storage ends at {storage.data.size}"
            )
        if written:
            storage.fragment = shape[0], shape[1]
        if storage.ready is not None:
            if written:
                storage.ready[begin : begin + size] = True
            elif not storage.ready[begin : begin + size].all():
                raise InterpError(f"uninitialised read: fragment {index} of {storage.name} was not written")
        found: Array = storage.data[begin : begin + size].reshape(shape)
        return found

    def _places(
        self,
        pointer: Pointer,
        dtype: np.dtype[Any],
        shape: tuple[int, int],
        stride: int,
        layout: str,
        leads: bool,
        written: bool,
    ) -> Array:
        """The numbers of the elements in memory, (rows, columns), counted in elements of `dtype`: the memory may be one of bytes. Raises
        InterpError out of bounds, and for reads of what was not written."""
        storage, (rows, columns) = pointer.storage, shape
        elements = storage.data.view(dtype).size
        first = pointer.offset // dtype.itemsize
        if layout not in ROWS:
            raise InterpError(f"the layout of a matrix is {' or '.join(ROWS)}, but {layout!r} was given")
        length = rows if ROWS[layout] else columns
        if stride < length:
            raise InterpError(f"rows of {length} elements of {storage.name} cannot be {stride} elements apart")
        i, j = np.indices((rows, columns))
        places: Array = first + (j * stride + i if ROWS[layout] else i * stride + j)
        low, high = int(places.min()), int(places.max())
        if low < 0 or high >= elements:
            raise InterpError(
                f"a matrix of elements {low} to {high} is outside of {storage.name}, which has {elements}"
            )
        # As for other accesses, nothing is known of elements of another size than the storage's.
        if storage.ready is not None and storage.data.itemsize == dtype.itemsize:
            if written:
                storage.ready[places] = True
            elif not storage.ready[places].all():
                raise InterpError(
                    f"uninitialised read: a part of {storage.name} that is loaded as a matrix was not written"
                )
        if leads and self.races.on and self.races.iteration >= 0:
            for k in places.reshape(-1).tolist():
                note(self.races, storage, k * dtype.itemsize, written, storage.name)
        return places


def _shape(fragment: Pointer) -> tuple[int, int]:
    """The shape of the fragments of a storage. Raises InterpError where none was loaded or filled."""
    if fragment.storage.fragment is None:
        raise InterpError(f"uninitialised read: no fragment of {fragment.storage.name} was loaded or filled")
    return fragment.storage.fragment
