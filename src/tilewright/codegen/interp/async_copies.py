"""The PTX instruction cp.async for interpreted programs: what a thread copies is in shared memory when it has waited for it."""

from __future__ import annotations

import numpy as np

from tilewright.codegen.interp.values import Array, InterpError, Pointer, Races, note

SIZES = (4, 8, 16)
"""Bytes of a copy."""


class Copies:
    """The asynchronous copies of a thread. Until it has waited for a copy, its bytes in shared memory count as not written."""

    def __init__(self, races: Races) -> None:
        self.races = races
        self.open: list[tuple[Pointer, Array]] = []
        self.groups: list[list[tuple[Pointer, Array]]] = []

    def copy(self, to: Pointer, source: Pointer, size: int, holds: bool = True) -> None:
        """Begins a copy; of zeros, if a condition does not hold. Raises InterpError if it is not aligned to its size."""
        for pointer in (to, source) if holds else (to,):
            if size not in SIZES or pointer.offset % size or pointer.offset < 0:
                raise InterpError(
                    f"cp.async of {size} bytes at byte {pointer.offset} of {pointer.storage.name} is not aligned to them"
                )
            if pointer.offset + size > pointer.storage.data.nbytes:
                raise InterpError(
                    f"cp.async of {size} bytes at byte {pointer.offset} is outside of {pointer.storage.name}"
                )
        data = np.zeros(size, np.uint8)
        if holds:
            self._note(source, size, False)
            data[:] = source.storage.data.view(np.uint8)[source.offset : source.offset + size]
        self._note(to, size, True)
        self._ready(to, size, False)
        self.open.append((to, data))

    def commit(self) -> None:
        """Ends a group of copies."""
        self.groups.append(self.open)
        self.open = []

    def wait(self, most: int) -> None:
        """Waits until at most so many groups are unfinished."""
        while len(self.groups) > most:
            for to, data in self.groups.pop(0):
                self._note(to, data.size, True)
                to.storage.data.view(np.uint8)[to.offset : to.offset + data.size] = data
                self._ready(to, data.size, True)

    def _ready(self, to: Pointer, size: int, ready: bool) -> None:
        storage, item = to.storage, to.storage.data.itemsize
        if storage.ready is not None:
            storage.ready[to.offset // item : -(-(to.offset + size) // item)] = ready

    def _note(self, pointer: Pointer, size: int, write: bool) -> None:
        if self.races.on and self.races.iteration >= 0:
            for k in range(pointer.offset, pointer.offset + size, min(pointer.storage.data.itemsize, 2)):
                note(self.races, pointer.storage, k, write, pointer.storage.name)


__all__ = ["Copies"]
