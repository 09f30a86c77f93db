"""Copies of tiles from global to shared memory by all threads of a block: who copies what.

A tile of rows x columns is a run of vectors, row after row. Thread t of n copies the vectors t, n + t, 2 * n + t, ..: neighbouring threads
read neighbouring memory, and each of its copies is the same number of rows after the last. docs/tile_iterators.md has pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.node import nodes_of, structural_equal
from tilewright.tir import Block, BufferLoad, BufferStore, Call, Var
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.tir.stmt_functor import substitute

VECTOR_BYTES = 16
"""The most bytes of an access of a thread."""
PERMUTED = "permuted_layout"
"""Annotation of blocks whose accesses of shared memory are permuted (InjectPermutedLayout), so that columns lie in all banks."""
PERMUTED_BYTES = 64
"""Rows of a multiple of so many bytes can be permuted: chunks of shorter rows cannot change places."""


class Threads(NamedTuple):
    """The threads of a block: warps along z and y, and lanes along x."""

    z: int
    y: int
    x: int


def copy_by_threads(sch: Schedule, copy: BlockRV, axes: int, threads: Threads, vector: int) -> LoopRV:
    """for i: for j: S   -->   unrolled for round: z, y, x over threads: vectorized for v: S

    axes: how many of the innermost loops make the tile. The tile must be a multiple of the vector; threads that have nothing left to copy
    in the last round do nothing. Returns the loop of rounds.
    """
    fused = sch.fuse(*sch.get_loops(copy)[-axes:])
    rounds, z, y, x, v = sch.split(fused, [None, threads.z, threads.y, threads.x, vector])
    _bind(sch, (z, y, x), v, vector, (rounds,))
    return rounds


def copy_rows_by_threads(sch: Schedule, copy: BlockRV, threads: Threads, vector: int) -> None:
    """Like `copy_by_threads`, for rows whose number of vectors is no power of two: as many neighbouring threads as a power of two that
    divides it copy a part of a row, so that no thread's row and column are found by a division with a remainder."""
    *_, row, column = sch.get_loops(copy)
    rows, columns = [int(sch.get(loop).extent.value) for loop in (row, column)]
    along = columns // vector & -(columns // vector)
    every = threads.z * threads.y * threads.x
    if along * vector == columns or every % along or rows % (every // along):
        copy_by_threads(sch, copy, 2, threads, vector)
        return
    down, row = sch.split(row, [None, every // along])
    across, column, v = sch.split(column, [None, along, vector])
    sch.reorder(down, across, row, column, v)
    z, y, x = sch.split(sch.fuse(row, column), [threads.z, threads.y, threads.x])
    _bind(sch, (z, y, x), v, vector, (down, across))


def _bind(sch: Schedule, threads: Sequence[LoopRV], elements: LoopRV, vector: int, rounds: Sequence[LoopRV]) -> None:
    """Binds loops to threads z, y and x; a thread's elements are a vector, and its rounds are unrolled."""
    for loop, axis in zip(threads, ("threadIdx.z", "threadIdx.y", "threadIdx.x"), strict=True):
        sch.bind(loop, axis)
    if vector > 1:
        sch.vectorize(elements)
    for loop in rounds:
        sch.unroll(loop)


def is_permuted(length: int, element: int) -> bool:
    """Whether chunks of the rows of a tile can change places (PERMUTED). length: of a row; element: bytes of one."""
    return length * element % PERMUTED_BYTES == 0


def vector_of(block: Block, bytes_of_element: int, length: int) -> int:
    """The elements of a vector in which a block can copy rows of a tile: so many neighbours, at places that are multiples of them, under
    conditions that are equal for all of them. length: of a row of the tile."""
    vector = VECTOR_BYTES // bytes_of_element
    while vector > 1 and (length % vector or not _is_vector(block, vector)):
        vector //= 2
    return max(vector, 1)


def _is_vector(block: Block, vector: int) -> bool:
    """Whether elements number * vector .. number * vector + vector - 1 along a block's last axis are a vector of memory."""
    store = block.body
    last = block.iter_vars[-1] if block.iter_vars else None
    if (
        not isinstance(store, BufferStore)
        or last is None
        or last.dom is None
        or not isinstance(last.dom.extent, IntImm)
    ):
        return False
    analyzer = Analyzer()
    for iv in block.iter_vars[:-1]:
        if iv.dom is not None:
            analyzer.bind(iv.var, iv.dom)
    number, lane = Var("number", last.var.dtype), Var("lane", last.var.dtype)
    analyzer.bind(number, Range.from_min_extent(0, -(-last.dom.extent.value // vector)))
    analyzer.bind(lane, Range.from_min_extent(0, vector))

    def at(e: PrimExpr, by: PrimExpr | int) -> PrimExpr:
        return analyzer.simplify(substitute(e, {last.var: number * vector + by}))

    def same(e: PrimExpr) -> bool:
        return structural_equal(at(e, lane), at(e, 0))

    for load in nodes_of(store.value, BufferLoad):
        if load.buffer.strides or not all([isinstance(n, IntImm) for n in load.buffer.shape]):
            return False
        flat: PrimExpr = IntImm(last.var.dtype, 0)
        for index, extent in zip(load.indices, load.buffer.shape, strict=True):
            flat = flat * extent + index
        begin = at(flat, 0)
        if not analyzer.can_prove_equal(at(flat, lane), begin + lane):
            return False
        if analyzer.modular_set(begin).coeff % vector or analyzer.modular_set(begin).base % vector:
            return False
    calls = [e for e in nodes_of(store.value, Call) if e.intrinsic == "if_then_else"]
    return all([same(e.args[0]) for e in calls])


__all__ = ["PERMUTED", "Threads", "copy_by_threads", "copy_rows_by_threads", "is_permuted", "vector_of"]
