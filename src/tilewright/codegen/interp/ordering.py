"""What happens before what in a block of interpreted threads whose barriers have phases: vector clocks.

Agents are the threads, the warps' asynchronous products, and the barriers' asynchronous copies. Each thread knows of every agent up to
which of its events it has waited: `known[thread, agent]`. Two accesses of a chunk of shared memory, one of them a write, must be known
one to the other.
"""

from __future__ import annotations

import numpy as np

from tilewright.codegen.interp.values import Array, InterpError, Pointer, Storage

CHUNK = 16
"""Bytes that asynchronous copies and products access at a time."""
WARP = 32


class Chunks:
    """The last accesses of the chunks of a storage by asynchronous copies and products, and stores that these cannot see yet."""

    def __init__(self, count: int) -> None:
        self.writer = np.full(count, -1)
        self.written = np.zeros(count, np.int64)
        self.read: dict[int, Array] = {}
        """Agent -> when it last read each chunk."""
        self.stored = np.full(count, -1)
        """The thread that stored to a chunk without a fence since; -1: none."""


class Order:
    """The clocks of a block. threads: of the block; barriers: how many there are."""

    def __init__(self, threads: int, barriers: int) -> None:
        self.threads, self.warps = threads, -(-threads // WARP)
        self.known = np.zeros((threads, threads + self.warps + barriers), np.int64)
        self.known[np.arange(threads), np.arange(threads)] = 1
        self.storages: list[Storage] = []

    def of_products(self, thread: int) -> int:
        """The agent of the products of a thread's warp."""
        return self.threads + thread // WARP

    def of_copies(self, barrier: int) -> int:
        """The agent of the copies that a barrier counts."""
        return self.threads + self.warps + barrier

    def released(self, thread: int) -> Array:
        """What a thread lets others know of: all that it knows."""
        found: Array = self.known[thread].copy()
        self.known[thread, thread] += 1
        return found

    def acquire(self, thread: int, known: Array) -> None:
        """A thread gets to know what others released."""
        np.maximum(self.known[thread], known, out=self.known[thread])

    def join(self, threads: range) -> None:
        """Threads that wait for each other."""
        rows = slice(threads.start, threads.stop)
        self.known[rows] = self.known[rows].max(axis=0)
        at = np.arange(threads.start, threads.stop)
        self.known[at, at] += 1

    def _chunks(self, storage: Storage) -> Chunks:
        if storage.chunks is None:
            storage.chunks = Chunks(-(-storage.data.nbytes // CHUNK))
            self.storages.append(storage)
        found: Chunks = storage.chunks
        return found

    # --- accesses of threads

    def note(self, storage: Storage, at: int, thread: int, write: bool, name: str) -> None:
        """An access of a thread to an element at a byte. Raises InterpError for a race."""
        if storage.writer is None or storage.reader is None:
            storage.writer, storage.reader = {}, {}
        for table in (storage.writer, storage.reader) if write else (storage.writer,):
            other = table.get(at, 0)
            if other and self.known[thread, other & 0xFFFF] < other >> 16 and other & 0xFFFF != thread:
                raise InterpError(
                    f"race: threads {other & 0xFFFF} and {thread} both access byte {at} of {name}, one of them writing it, and neither"
                    " waits for the other"
                )
        mark = int(self.known[thread, thread]) << 16 | thread
        (storage.writer if write else storage.reader)[at] = mark
        chunks = self._chunks(storage)
        chunk = np.array([at // CHUNK])
        self._check(chunks, chunk, self.known[thread : thread + 1], write, f"thread {thread}", name)
        if write:
            chunks.stored[chunk] = thread

    def fence(self, thread: int) -> None:
        """What a thread stored is seen by asynchronous copies and products from now on."""
        for storage in self.storages:
            chunks = self._chunks(storage)
            chunks.stored[chunks.stored == thread] = -1

    # --- accesses of asynchronous units

    def begin(
        self, pointer: Pointer, chunk: Array, threads: range, agents: range, clock: int, write: bool, what: str
    ) -> None:
        """An asynchronous access of chunks that threads begin; it is known to those who know of its agents up to the clock."""
        storage = pointer.storage
        chunks = self._chunks(storage)
        stored = chunks.stored[chunk]
        if (stored >= 0).any():
            raise InterpError(
                f"{what} accesses {storage.name} from byte {int(chunk[stored >= 0][0]) * CHUNK} on, which thread {int(stored.max())} stored"
                " without a fence behind (ptx_fence_proxy_async)"
            )
        known = self.known[threads.start : threads.stop]
        self._check(chunks, chunk, known, write, what, storage.name)
        if storage.writer:
            self._check_threads(storage, chunk, known, write, what)
        for agent in agents:
            if write:
                chunks.writer[chunk], chunks.written[chunk] = agent, clock
            else:
                chunks.read.setdefault(agent, np.zeros(chunks.writer.size, np.int64))[chunk] = clock

    def _check(self, chunks: Chunks, chunk: Array, known: Array, write: bool, what: str, name: str) -> None:
        """Whether threads know of all that an access of chunks must come after."""
        writer, written = chunks.writer[chunk], chunks.written[chunk]
        late: Array = np.asarray((writer >= 0) & (known[:, writer] < written).any(axis=0))
        if late.any():
            self._fail(what, name, chunk[late], "a copy to it", "wait at the barrier that counts its bytes")
        for agent, when in chunks.read.items() if write else ():
            late = np.asarray((known[:, agent : agent + 1] < when[chunk]).any(axis=0))
            if late.any():
                self._fail(
                    what,
                    name,
                    chunk[late],
                    "products that read it",
                    "wait for them (ptx_wgmma_wait_group), and tell it by a barrier",
                )

    def _check_threads(self, storage: Storage, chunk: Array, known: Array, write: bool, what: str) -> None:
        wanted = set(chunk.tolist())
        for table in (storage.writer, storage.reader) if write else (storage.writer,):
            for at, mark in (table or {}).items():
                if at // CHUNK in wanted and (known[:, mark & 0xFFFF] < mark >> 16).any():
                    raise InterpError(
                        f"race: {what} and thread {mark & 0xFFFF} both access {storage.name} at byte {at}, and neither waits for the other"
                    )

    @staticmethod
    def _fail(what: str, name: str, chunk: Array, other: str, remedy: str) -> None:
        raise InterpError(
            f"race: {what} accesses {name} from byte {int(chunk[0]) * CHUNK} on, but nobody has waited for {other}; {remedy}"
        )


__all__ = ["CHUNK", "Order"]
