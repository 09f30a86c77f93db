"""Copies of tiles from global to shared memory by all threads of a block: who copies what.

A tile of rows x columns is a run of vectors, row after row. Thread t of n copies the vectors t, n + t, 2 * n + t, ..: neighbouring threads
read neighbouring memory, and each of its copies is the same number of rows after the last. docs/tile_iterators.md has pictures.
"""

from __future__ import annotations

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
    sch.bind(z, "threadIdx.z")
    sch.bind(y, "threadIdx.y")
    sch.bind(x, "threadIdx.x")
    if vector > 1:
        sch.vectorize(v)
    sch.unroll(rounds)
    return rounds


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


__all__ = ["PERMUTED", "Threads", "copy_by_threads", "vector_of"]
