"""Where buffers of a kernel are: arguments in DRAM, and memories on the chip, whose elements are given out as a stack."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tilewright.support.errors import TVMError
from tilewright.tir import Allocate, Buffer, PrimFunc, Var
from tilewright.vta.compiler.sharing import shared_buffers
from tilewright.vta.compiler.widening import widens
from tilewright.vta.configuration import Configuration
from tilewright.vta.names import SCOPES


class Place(NamedTuple):
    """memory None: the argument of this number; else elements of a memory, from `first` on."""

    memory: str | None
    first: int
    elements: int = 0


class Places:
    """The places of a kernel's buffers by their data."""

    def __init__(self, func: PrimFunc, config: Configuration) -> None:
        self.config = config
        self._found: dict[Var, Place] = {v: Place(None, n) for n, v in enumerate(func.params)}
        self._used = dict.fromkeys(SCOPES.values(), 0)
        self._threads: list[tuple[int, int]] = []
        """Virtual threads around, from outside: (extent, the one that runs)."""
        self._inside: dict[Var, int] = {}
        """By buffer, how many of them are around its allocation."""
        self._shares = shared_buffers(func)
        self._kept = {"wgt": int(widens(func))}
        """Elements at the end of a memory that are not given out: the identity, where values are widened."""

    def of_data(self, data: Var) -> Place:
        if data not in self._found:
            raise TVMError(f"`{data.name}` is neither an argument of the kernel nor in a memory of the accelerator")
        place, copy = self._found[data], 0
        for extent, running in self._threads[: self._inside.get(data, 0)]:
            copy = copy * extent + running
        return place._replace(first=place.first + copy * place.elements)

    def of(self, buffer: Buffer) -> Place:
        return self.of_data(buffer.data)

    @contextmanager
    def allocated(self, s: Allocate, numbers: int) -> Iterator[None]:
        """Elements of a memory for an allocation of so many numbers, until the end of the context. TVMError where they do not fit."""
        scope = str(getattr(s.buffer_var.type_annotation, "storage_scope", ""))
        memory = SCOPES.get(scope)
        if memory is None:
            raise TVMError(
                f"`{s.buffer_var.name}` is in the scope {scope or 'global'!r}; the accelerator has {', '.join(map(repr, SCOPES))}:"
                " set one with s[tensor].set_scope(...)"
            )
        width = self.config.width(memory)
        if s.dtype.bits != width and not (memory == "acc" and s.dtype.bits < width):
            raise TVMError(f"`{s.buffer_var.name}` has elements of {s.dtype}, but {memory} holds int{width}")
        shared = self._shares.get(s.buffer_var)
        self._inside[s.buffer_var] = len(self._threads)
        if shared in self._found:
            self._found[s.buffer_var] = self._found[shared]
            yield
            return
        lanes = self.config.element_bits(memory) // width
        count, first, depth = (
            -(-numbers // lanes),
            self._used[memory],
            self.config.depth(memory) - self._kept.get(memory, 0),
        )
        copies = math.prod([extent for extent, _ in self._threads])
        if first + count * copies > depth:
            size = self.config.element_bytes(memory)
            times = f"{copies} x " if copies > 1 else ""
            raise TVMError(
                f"`{s.buffer_var.name}` needs {times}{count * size} bytes of {memory}, but of its {depth * size} bytes {first * size} are"
                f" in use: {(first + count * copies - depth) * size} are missing; use smaller tiles"
            )
        self._found[s.buffer_var] = Place(memory, first, count)
        self._used[memory] += count * copies
        yield
        self._used[memory] -= count * copies

    @contextmanager
    def threads(self, extent: int) -> Iterator[None]:
        """Virtual threads, each of which has its own copy of what is allocated until the end of the context."""
        self._threads.append((extent, 0))
        yield
        self._threads.pop()

    def run_thread(self, level: int, number: int) -> None:
        """Chooses the virtual thread whose buffers `of` finds."""
        self._threads[level] = (self._threads[level][0], number)


__all__ = ["Place", "Places"]
