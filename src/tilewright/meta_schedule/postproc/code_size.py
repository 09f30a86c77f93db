"""The post-processor that refuses schedules whose unrolled code is too long."""

from __future__ import annotations

from math import ceil
from typing import Any

from tilewright.ir import IntImm, PrimExpr
from tilewright.meta_schedule.postproc.postproc import Postproc
from tilewright.node import Visitor, nodes_of, on
from tilewright.tir import BufferLoad, BufferStore, For, ForKind, PrimFunc
from tilewright.tir.schedule import Schedule

CACHE = 32 << 10
"""Bytes of a first-level instruction cache: 32 KB in most CPUs."""
BYTES = 20
"""Of code for each access of a vector: the access, its address and its share of the arithmetic (x86, random schedules of five kernels)."""
DEPTH = 8
"""Nested loops that a pragma unrolls at most: the default of the pass UnrollLoop."""


class VerifyCodeSize(Postproc):
    """Refuses schedules whose code does not fit into the instruction cache of a CPU: it comes from the second cache all the time, and takes
    seconds to compile. Of random schedules with pragmas for unrolling, these are a quarter."""

    def apply(self, sch: Schedule) -> bool:
        target = self.context.target if self.context is not None else None
        on_cpu = target is not None and target.kind.name in ("llvm", "c")
        vector = max(target.cpu.vector_bits, 32) if target is not None and on_cpu else 128
        functions = [f for f in sch.mod.functions.values() if isinstance(f, PrimFunc)]
        return all([_accesses(f, vector) * BYTES <= CACHE for f in functions])


def _accesses(func: PrimFunc, vector: int) -> int:
    """Accesses of vectors in the code of a scheduled function. vector: bits."""
    code = _Code(vector)
    code.visit(func.body)
    return code.accesses


class _Code(Visitor):
    """Counts what remains of statements once loops are unrolled, as the pass UnrollLoop decides it."""

    def __init__(self, vector: int) -> None:
        self.vector = vector
        self.accesses = 0
        self._limit = 0
        self._lanes = 1
        self._steps = 0
        self._depth = 0

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> None:
        """Expressions have no loops."""

    @on(For)
    def _for(self, s: For) -> None:
        count = s.extent.value if isinstance(s.extent, IntImm) else 1
        if s.kind == ForKind.VECTORIZED:
            self._lanes *= count
            self.visit(s.body)
            self._lanes //= count
            return
        limit, accesses, steps, depth = self._limit, self.accesses, self._steps, self._depth
        self.accesses = self._steps = self._depth = 0
        self._limit = _number(s.annotations.get("pragma_auto_unroll_max_step"), limit)
        self.visit(s.body)
        below = max(self._steps, 1) * count
        by_pragma = s.kind == ForKind.SERIAL and self._depth < DEPTH and below <= self._limit
        copies = count if by_pragma or s.kind == ForKind.UNROLLED else 1
        self._limit, self.accesses, self._steps = limit, accesses + copies * self.accesses, steps + below
        self._depth = max(depth, self._depth + 1)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self._steps += 1
        vectors = ceil(self._lanes * s.value.dtype.bits / self.vector)
        self.accesses += vectors * (1 + len(nodes_of(s.value, BufferLoad)))


def _number(value: Any, missing: int) -> int:
    return missing if value is None else int(getattr(value, "value", value))
