"""The PTX instruction wgmma for interpreted programs: products of warpgroups, whose sums are known when a thread waited for them.

What hardware leaves undefined raises InterpError: registers that change without a fence, or before the products that use them are
finished, and operands in shared memory that are not known to be there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tilewright.codegen.interp.ordering import CHUNK
from tilewright.codegen.interp.phases import exchanged
from tilewright.codegen.interp.values import Array, InterpError, Pointer, Races, np_type
from tilewright.codegen.interp.warp_registers import TF32_BITS, TYPES, registers
from tilewright.ir import DataType

WARP, WARPGROUP, ROWS = 32, 128, 64


class _Flying(NamedTuple):
    """Sums on the way. last: the group of the last product; held: what the registers were meanwhile."""

    pointer: Pointer
    data: Array
    last: int
    held: Array


class Products:
    """The products of a thread. committed: groups of them; done: how many of these it has waited for."""

    def __init__(self) -> None:
        self.committed = self.done = 0
        self.begun = False
        self.fenced: dict[tuple[int, int], tuple[Any, Array]] = {}
        self.flying: dict[tuple[int, int], _Flying] = {}

    def fence(self, pointer: Pointer, kind: Any, count: int) -> None:
        """Registers are as products may use them."""
        key = (id(pointer.storage), pointer.offset)
        if key not in self.flying:
            # The storage is kept, so that no other one gets its number.
            self.fenced[key] = pointer.storage, registers(pointer, kind, int(count)).copy()

    def used(self, pointer: Pointer, kind: Any, count: int, what: str) -> Array:
        """The values of registers that a product uses."""
        key = (id(pointer.storage), pointer.offset)
        if key in self.flying:
            return self.flying[key].data
        found = self.fenced.get(key)
        if found is None:
            raise InterpError(
                f"wgmma uses {what} {pointer.storage.name}, behind whose last change there is no ptx_wgmma_fence"
            )
        now = registers(pointer, kind, count)
        if now.tobytes() != found[1].tobytes():
            raise InterpError(
                f"wgmma uses {what} {pointer.storage.name}, which changed behind the last ptx_wgmma_fence"
            )
        return now.copy()

    def begin(self, pointer: Pointer, data: Array) -> None:
        """Sums that a product of the open group makes."""
        key = (id(pointer.storage), pointer.offset)
        held = self.flying[key].held if key in self.flying else registers(pointer, data.dtype, data.size).copy()
        self.flying[key] = _Flying(pointer, data, self.committed + 1, held)
        self.begun = True
        _ready(pointer, data, False)

    def commit(self) -> None:
        """Ends a group."""
        self.committed += 1
        self.begun = False

    def wait(self, most: int) -> None:
        """Waits until at most so many groups are unfinished."""
        self.done = max(self.done, self.committed - int(most))
        for key, (pointer, data, last, held) in list(self.flying.items()):
            if last > self.done:
                continue
            now = registers(pointer, data.dtype, data.size, written=True)
            if now.tobytes() != held.tobytes():
                raise InterpError(f"the sums {pointer.storage.name} of a product were changed before it was finished")
            now[:] = data
            del self.flying[key]
            self.fenced[key] = pointer.storage, data

    def end(self) -> None:
        """Raises InterpError for products that nobody waited for."""
        if self.flying:
            name = next(iter(self.flying.values())).pointer.storage.name
            raise InterpError(
                f"a thread ends before the products that write {name} are finished (ptx_wgmma_wait_group)"
            )


def _ready(pointer: Pointer, data: Array, ready: bool) -> None:
    storage, size = pointer.storage, pointer.storage.data.itemsize
    if storage.ready is not None:
        storage.ready[pointer.offset // size : (pointer.offset + data.nbytes) // size] = ready


def _operand(pointer: Pointer, layout: Sequence[int], rows: int, k: int, kind: Any, what: str) -> tuple[Array, Array]:
    """An operand (rows, k) in shared memory, rows along m or n, and the chunks in which it is. layout: as of ptx_wgmma."""
    lead, stride, swizzle, across = map(int, layout)
    size, begin, storage = kind.itemsize, pointer.offset, pointer.storage
    if any([x % CHUNK for x in (begin, lead, stride)]) or swizzle not in (0, 32, 64, 128):
        raise InterpError(
            f"{what} of wgmma at byte {begin} of {storage.name}, offsets {lead} and {stride}: all are multiples of 16"
        )
    if swizzle and begin % (8 * swizzle) >= swizzle:
        raise InterpError(
            f"{what} of wgmma at byte {begin} of {storage.name}: a swizzle of {swizzle} bytes begins at a multiple of {8 * swizzle}"
        )
    i, j = np.arange(rows)[:, None], np.arange(k)[None, :]
    if across:
        row = (swizzle or CHUNK) // size
        steps = (lead, stride) if swizzle else (stride, lead)
        at = i % row * size + i // row * steps[0] + j % 8 * row * size + j // 8 * steps[1]
    elif swizzle:
        at = i % 8 * swizzle + i // 8 * stride + j * size
        if begin % swizzle + k * size > swizzle:
            raise InterpError(f"{what} of wgmma at byte {begin} of {storage.name} leaves its row of {swizzle} bytes")
    else:
        at = i % 8 * CHUNK + i // 8 * stride + j * size // CHUNK * lead + j * size % CHUNK
    at = at + begin
    chunk = exchanged(at // CHUNK, swizzle)
    at = chunk * CHUNK + at % CHUNK
    if at.min() < 0 or at.max() + size > storage.data.nbytes:
        raise InterpError(
            f"{what} of wgmma reaches byte {at.max() + size} of {storage.name}, which has {storage.data.nbytes}"
        )
    if storage.ready is not None and not storage.ready[at // storage.data.itemsize].all():
        raise InterpError(
            f"uninitialised read: {what} of wgmma from byte {begin} of {storage.name} on was not all written"
        )
    found: Array = storage.data.view(np.uint8)[: storage.data.nbytes // size * size].view(kind)[at // size]
    return found, np.unique(chunk)


@cache
def _sums(n: int) -> tuple[Array, Array]:
    """(rows, columns) of the registers of 128 threads in the sums, 64 x n."""
    thread, e = np.arange(WARPGROUP)[:, None], np.arange(n // 2)[None, :]
    return thread // WARP * 16 + thread % WARP // 4 + e % 4 // 2 * 8, e // 4 * 8 + thread % 4 * 2 + e % 2


@cache
def _first(k: int, bits: int) -> tuple[Array, Array]:
    """(rows, columns) of the registers of 128 threads in the first operand, 64 x k."""
    per = 32 // bits
    thread, e = np.arange(WARPGROUP)[:, None], np.arange(k // 2)[None, :]
    register = e // per
    rows = thread // WARP * 16 + thread % WARP // 4 + register % 2 * 8
    return rows, register // 2 * 4 * per + thread % 4 * per + e % per


def wgmma(lanes: Sequence[tuple[Any, ...]], first: int, races: Races) -> None:
    """c += a * b of a warpgroup. lanes: (shape, types, first operand, its layout or None for registers, second operand, its layout,
    registers of c, whether they are added, products) of each thread."""
    shape, names, a, a_layout, b, b_layout, _, adds, _ = lanes[0]
    found = re.fullmatch(r"m64n(\d+)k(\d+)", shape)
    kinds = [np_type(DataType(TYPES.get(name, name))) for name in names]
    if found is None or int(found[1]) % 8 or not 8 <= int(found[1]) <= 256 or int(found[2]) * kinds[0].itemsize != 32:
        raise InterpError(
            f"wgmma has no shape {shape} for {names[0]}: m64nNkK, N a multiple of 8 up to 256, K of 32 bytes"
        )
    n, k = int(found[1]), int(found[2])
    if any([(x[4].offset, bool(x[7])) != (b.offset, bool(adds)) for x in lanes]):
        raise InterpError("the threads of a warpgroup give wgmma different operands")
    if any([layout is not None and layout[3] and kinds[0].itemsize != 2 for layout in (a_layout, b_layout)]):
        raise InterpError(f"wgmma takes operands of {names[0]} whose rows run along k only")
    products = [x[8] for x in lanes]
    if a_layout is None:
        left = np.zeros((ROWS, k), kinds[0])
        held = [p.used(x[2], kinds[0], k // 2, "the first operand") for p, x in zip(products, lanes, strict=True)]
        left[_first(k, kinds[0].itemsize * 8)] = np.stack(held)
    else:
        if any([x[2].offset != a.offset for x in lanes]):
            raise InterpError("the threads of a warpgroup give wgmma different first operands")
        left, chunks = _operand(a, a_layout, ROWS, k, kinds[0], "the first operand")
        _reads(a, chunks, first, products, races)
    right, chunks = _operand(b, b_layout, n, k, kinds[1], "the second operand")
    _reads(b, chunks, first, products, races)
    if names[0] == "tf32":
        left, right = [(x.view(np.uint32) & TF32_BITS).view(np.float32) for x in (left.copy(), right.copy())]
    rows, columns = _sums(n)
    wide: Any = np.int64 if np.issubdtype(kinds[2], np.integer) else np.result_type(kinds[2], np.float32)
    with np.errstate(all="ignore"):
        product = left.astype(wide) @ right.astype(wide).T
        for t, (p, x) in enumerate(zip(products, lanes, strict=True)):
            old = p.used(x[6], kinds[2], n // 2, "sums")
            part = product[rows[t], columns[t]]
            p.begin(x[6], ((old.astype(wide) if adds else 0) + part).astype(kinds[2]))


def wait_for_products(products: Products, most: int, races: Races, thread: int) -> None:
    """Waits until at most so many groups of a thread's products are unfinished, and lets the thread know of their reads."""
    products.wait(most)
    if races.order is not None:
        agent = races.order.of_products(thread)
        races.order.known[thread, agent] = max(races.order.known[thread, agent], products.done)


def _reads(pointer: Pointer, chunks: Array, first: int, products: Sequence[Products], races: Races) -> None:
    if races.on and races.order is not None:
        warp = races.order.of_products(first)
        threads = range(first, first + WARPGROUP)
        what = f"a product of the threads {first} to {threads.stop - 1}"
        clock = products[0].committed + 1
        races.order.begin(pointer, chunks, threads, range(warp, warp + 4), clock, False, what)


__all__ = ["Products", "wait_for_products", "wgmma"]
