"""Barriers with phases (mbarrier) of interpreted programs, and the asynchronous copies that they count.

A phase is complete when as many threads have arrived as the barrier was initialised for, and all bytes that they announced are there. A
copy arrives as late as possible: when a thread waits for it, so that nobody can read what he has not waited for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.codegen.interp.ordering import CHUNK, Order
from tilewright.codegen.interp.values import Array, InterpError, Pointer, Races
from tilewright.tir.warpgroups import SWIZZLE_BITS


class Barrier:
    """One barrier: its phase (how many are complete), the arrivals and bytes that are missing, and copies on the way."""

    def __init__(self, number: int) -> None:
        self.number, self.count = number, 0
        self.phase = self.missing = self.bytes = 0
        self.by, self.since, self.fenced = -1, 0, False
        self.clock: Array | None = None
        self.complete: Array | None = None
        self.flying: list[tuple[Pointer, Array, Array]] = []


class Phases:
    """The barriers of a block. threads: of the block."""

    def __init__(self, threads: int, count: int, races: Races) -> None:
        self.races = races
        self.order = Order(threads, count)
        self.barriers = [Barrier(k) for k in range(count)]

    def _of(self, number: int, thread: int, what: str) -> Barrier:
        if not 0 <= number < len(self.barriers):
            raise InterpError(f"{what} of barrier {number}, but create_barriers made {len(self.barriers)}")
        found = self.barriers[number]
        if not found.count:
            raise InterpError(f"{what} of barrier {number}, which was not initialised (ptx_init_barrier_thread_count)")
        if thread != found.by and self.order.known[thread, found.by] < found.since:
            raise InterpError(
                f"{what} of barrier {number} by thread {thread}, which has not waited for thread {found.by}, which initialised it"
            )
        return found

    def init(self, number: int, count: int, thread: int) -> None:
        if count < 1 or not 0 <= number < len(self.barriers):
            raise InterpError(f"barrier {number} of {len(self.barriers)} is initialised for {count} threads")
        barrier = self.barriers[number]
        barrier.count = barrier.missing = count
        barrier.by, barrier.since = thread, int(self.order.known[thread, thread])

    def fence_init(self, thread: int) -> None:
        for barrier in self.barriers:
            barrier.fenced |= barrier.by == thread

    def fence(self, thread: int) -> None:
        self.order.fence(thread)

    def arrive(self, number: int, thread: int, bytes: int = 0) -> None:
        """A thread arrives, and announces bytes of copies."""
        barrier = self._of(number, thread, "an arrival")
        if not barrier.missing:
            raise InterpError(
                f"more than the {barrier.count} threads of barrier {number} arrive in its phase {barrier.phase}"
            )
        known = self.order.released(thread)
        barrier.clock = known if barrier.clock is None else np.maximum(barrier.clock, known)
        barrier.missing -= 1
        barrier.bytes += bytes
        self._advance(barrier)

    def begin(self, number: int, to: Pointer, data: Array, chunk: Array, thread: int) -> None:
        """A copy to chunks of shared memory begins. data: (chunks, 16) bytes."""
        barrier = self._of(number, thread, "a copy")
        if not barrier.fenced:
            raise InterpError(
                f"a copy tells barrier {number}, of whose initialisation copies do not know yet (ptx_fence_barrier_init)"
            )
        agent = self.order.of_copies(number)
        what = f"a copy that thread {thread} begins"
        if self.races.on:
            self.order.begin(
                to, chunk, range(thread, thread + 1), range(agent, agent + 1), barrier.phase + 1, True, what
            )
        self._ready(to, chunk, False)
        barrier.flying.append((to, chunk, data))

    def waits(self, number: int, parity: int, thread: int) -> bool:
        """Whether a thread that waits for a phase of this parity may go on."""
        barrier = self._of(number, thread, "a wait")
        if parity not in (0, 1):
            raise InterpError(f"a thread waits for parity {parity} of barrier {number}; it is 0 or 1")
        if barrier.phase % 2 == parity:
            for to, chunk, data in barrier.flying:
                at = chunk[:, None] * CHUNK + np.arange(CHUNK)
                to.storage.data.view(np.uint8)[at] = data
                self._ready(to, chunk, True)
                barrier.bytes -= data.size
            barrier.flying.clear()
            self._advance(barrier)
        if barrier.phase % 2 == parity:
            return False
        if barrier.complete is not None:
            self.order.acquire(thread, barrier.complete)
        return True

    def _advance(self, barrier: Barrier) -> None:
        if barrier.missing or barrier.bytes or barrier.flying:
            return
        barrier.phase += 1
        barrier.missing = barrier.count
        assert barrier.clock is not None
        barrier.complete, barrier.clock = barrier.clock, None
        agent = self.order.of_copies(barrier.number)
        barrier.complete[agent] = max(barrier.complete[agent], barrier.phase)

    def stuck(self, waiting: list[Any]) -> str:
        """What threads wait for that nobody can bring about."""
        asked = sorted({(w[1], w[2]) for w in waiting if w is not None and w[0] == "phase"})
        told = []
        for number, parity in asked:
            b = self.barriers[number]
            told.append(
                f"phase {b.phase} of barrier {number} (parity {parity}), for which {b.missing} of {b.count} arrivals and {b.bytes} bytes"
                " are missing"
            )
        return "threads wait forever: for " + ", for ".join(told)

    @staticmethod
    def _ready(to: Pointer, chunk: Array, ready: bool) -> None:
        storage = to.storage
        if storage.ready is not None:
            per = max(CHUNK // storage.data.itemsize, 1)
            storage.ready[chunk[:, None] * per + np.arange(per)] = ready


class TensorMap:
    """A tensor in global memory from which boxes are copied to shared memory."""

    def __init__(self, kind: Any, data: Pointer, swizzle: int, *sizes: int) -> None:
        rank = (len(sizes) + 1) // 3
        if not 2 <= rank <= 5 or len(sizes) != 3 * rank - 1 or swizzle not in SWIZZLE_BITS:
            raise InterpError(
                f"a tensor map has 2 to 5 dimensions, and swizzles of 0, 32, 64 or 128 bytes: {sizes}, {swizzle}"
            )
        self.kind, self.data, self.swizzle = kind, data, swizzle
        self.shape, self.box = sizes[:rank], sizes[2 * rank - 1 :]
        self.strides = (*sizes[rank : 2 * rank - 1], 1)
        row = self.box[-1] * kind.itemsize
        wrong = [s * kind.itemsize % 16 for s in self.strides[:-1]]
        if any(wrong) or data.offset % 16:
            raise InterpError(f"strides {self.strides[:-1]} of a tensor map and its address are multiples of 16 bytes")
        if min(self.box) < 1 or max(self.box) > 256 or (row != swizzle if swizzle else row % 16):
            raise InterpError(
                f"a box {self.box} of {kind}: up to 256 along a dimension, and rows of {swizzle or 'a multiple of 16'} bytes"
            )

    def values(self, at: tuple[int, ...]) -> Array:
        """The box whose first element is at these coordinates, with zeros outside of the tensor."""
        if len(at) != len(self.box):
            raise InterpError(f"a box of a tensor map of {len(self.box)} dimensions is given {len(at)} coordinates")
        out = np.zeros(self.box, self.kind)
        storage = self.data.storage
        flat = storage.data.view(np.uint8)
        begin = [max(-a, 0) for a in at]
        end = [min(b, n - a) for a, b, n in zip(at, self.box, self.shape, strict=True)]
        if all([b < e for b, e in zip(begin, end, strict=True)]):
            place: Any = np.zeros((), np.int64)
            for a, b, e, step in zip(at, begin, end, self.strides, strict=True):
                place = place[..., None] + (np.arange(b, e) + a) * step
            whole = flat[
                self.data.offset : self.data.offset
                + (flat.size - self.data.offset) // self.kind.itemsize * self.kind.itemsize
            ]
            if place.max() >= whole.size // self.kind.itemsize:
                raise InterpError(f"a tensor map of shape {self.shape} is larger than {storage.name}")
            out[tuple([slice(b, e) for b, e in zip(begin, end, strict=True)])] = whole.view(self.kind)[place]
        return out

    def load(self, to: Pointer, phases: Phases | None, barrier: int, at: tuple[int, ...], thread: int) -> None:
        """Begins the copy of a box."""
        if phases is None:
            raise InterpError("a copy of a tensor map tells a barrier, but create_barriers made none")
        data = self.values(tuple(map(int, at))).reshape(-1).view(np.uint8)
        if to.offset % 128 or to.offset < 0 or to.offset + data.size > to.storage.data.nbytes:
            raise InterpError(
                f"a box of {data.size} bytes goes to byte {to.offset} of {to.storage.name}, which must be a multiple of 128 with room"
            )
        if data.size % CHUNK:
            raise InterpError(f"a box of {data.size} bytes is no multiple of {CHUNK}")
        chunk = to.offset // CHUNK + np.arange(data.size // CHUNK)
        phases.begin(int(barrier), to, data.reshape(-1, CHUNK), exchanged(chunk, self.swizzle), thread)


def exchanged(chunk: Array, swizzle: int) -> Array:
    """The numbers of chunks of shared memory after a swizzle: bits of the address from bit 4 on, changed by as many from bit 7 on."""
    moved: Array = chunk ^ (chunk >> 3 & (1 << SWIZZLE_BITS[swizzle]) - 1)
    return moved


def phases_of(shared: dict[Any, Any], count: int, races: Races) -> Phases:
    """The barriers of a block; the first thread that comes makes them."""
    found: Phases | None = shared.get("phases")
    if found is None:
        found = shared["phases"] = Phases(shared["threads"], int(count), races)
        races.order = found.order
    elif len(found.barriers) != count:
        raise InterpError(f"threads make {count} and {len(found.barriers)} barriers")
    return found


def fence_of(shared: dict[Any, Any], thread: int) -> None:
    """What a thread stored is seen by asynchronous copies and products."""
    found = shared.get("phases")
    if found is not None:
        found.fence(thread)


__all__ = ["Phases", "TensorMap", "exchanged", "fence_of", "phases_of"]
