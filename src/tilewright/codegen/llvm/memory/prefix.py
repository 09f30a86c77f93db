"""Accesses to the first lanes of vectors on processors without masks for lanes of their size: in pieces of 1, 2, 4, ... elements.

LLVM would make a branch for each lane of such an access.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tilewright.codegen.llvm.expressions.expr import ExprEmitter
from tilewright.codegen.llvm.expressions.operands import Operands
from tilewright.codegen.llvm.expressions.types import llvm_type
from tilewright.codegen.llvm.functions.frame import Frame
from tilewright.codegen.llvm.memory.addresses import common_alignment
from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.tir import LT, Broadcast, Ramp
from tilewright.tir.arithmetic import cast_to

Place = Callable[[int], str]
"""place(bytes): the pointer to the byte at this distance from the first element."""


class Prefix(NamedTuple):
    """The first lanes of a vector: lane k is set if base + k < bound."""

    base: PrimExpr
    bound: PrimExpr

    @property
    def known(self) -> int | None:
        """The number of set lanes, if it is a constant."""
        if isinstance(self.base, IntImm) and isinstance(self.bound, IntImm):
            return self.bound.value - self.base.value
        return None


def prefix_of(predicate: PrimExpr) -> Prefix | None:
    """The lanes of a mask, if they are the first ones; None for others."""
    if not isinstance(predicate, LT):
        return None
    counter, bound = predicate.a, predicate.b
    if not isinstance(counter, Ramp) or not isinstance(bound, Broadcast):
        return None
    if not isinstance(counter.stride, IntImm) or counter.stride.value != 1:
        return None
    return Prefix(counter.base, bound.value)


class PrefixEmitter:
    """Emits accesses to the first lanes of vectors. dtype: the type of the vector in memory."""

    def __init__(self, frame: Frame, operands: Operands, expressions: ExprEmitter) -> None:
        self.frame, self.b, self.operands, self.expressions = frame, frame.b, operands, expressions

    def lanes(self, predicate: PrimExpr, bits: int) -> Prefix | None:
        """The lanes of a mask, if they are the first ones and the processor has no masks for lanes of `bits` bits; None for others."""
        return None if self.frame.target.cpu.masks(bits) else prefix_of(predicate)

    def load(self, place: Place, align: int, dtype: DataType, prefix: Prefix) -> str:
        """Loads the first elements, with zeros in the other lanes."""
        n, size, t = dtype.lanes, dtype.bytes, llvm_type(dtype)
        whole = "zeroinitializer"
        if prefix.known is not None:
            for first, p in _pieces(prefix.known, n):
                part = self._load(place(first * size), common_alignment(align, first * size), dtype.with_lanes(p))
                lanes = [n + k - first if first <= k < first + p else k for k in range(n)]
                whole = self.operands.shuffled(whole, self._widened(part, dtype, p), t, lanes)
            return whole
        live = self._count(prefix, n)
        for p in reversed(_powers(n)):
            bit, at = self._piece(live, p, size, place)
            one = dtype.with_lanes(p)
            part = self.expressions.lazy(bit, partial(self._load, at, size, one), lambda: "zeroinitializer", one)
            moved = [k if k < p else n + k - p for k in range(n)]
            whole = self._chosen(bit, self.operands.shuffled(self._widened(part, dtype, p), whole, t, moved), whole, t)
        return whole

    def store(self, value: str, place: Place, align: int, dtype: DataType, prefix: Prefix) -> None:
        """Stores the first elements of a vector."""
        n, size, t = dtype.lanes, dtype.bytes, llvm_type(dtype)
        if prefix.known is not None:
            for first, p in _pieces(prefix.known, n):
                part = self._part(value, dtype, first, p)
                self._store(part, place(first * size), common_alignment(align, first * size), dtype.with_lanes(p))
            return
        live = self._count(prefix, n)
        for p in _powers(n):
            bit, at = self._piece(live, p, size, place)
            self.b.push(self.b.label("set"))
            self._store(self._part(value, dtype, 0, p), at, size, dtype.with_lanes(p))
            self.b.branch(bit, self.b.pop(), None, self.b.label("next"), [])
            if p > 1:
                rest = self.operands.shuffled(value, "poison", t, [k + p if k + p < n else None for k in range(n)])
                value = self._chosen(bit, rest, value, t)

    def _count(self, prefix: Prefix, n: int) -> str:
        """The number of set lanes among n."""
        base, bound = [self.expressions.expr(cast_to(e, "int64")) for e in prefix]
        value = self.b.call("i64(i64, i64)", "llvm.ssub.sat.i64", f"i64 {bound}, i64 {base}", bound, base)
        value = self.b.call("i64(i64, i64)", "llvm.smax.i64", f"i64 {value}, i64 0", value)
        return self.b.call("i64(i64, i64)", "llvm.smin.i64", f"i64 {value}, i64 {n}", value)

    def _piece(self, live: str, p: int, size: int, place: Place) -> tuple[str, str]:
        """(whether there is a piece of p elements, its address). It follows all larger pieces."""
        digit = self.b.pure(f"and i64 {live}, {p}", live)
        bit = self.b.pure(f"icmp ne i64 {digit}, 0", digit)
        before = self.b.pure(f"and i64 {live}, {-2 * p}", live)
        distance = self.b.pure(f"mul i64 {before}, {size}", before)
        base = place(0)
        return bit, self.b.pure(f"getelementptr i8, ptr {base}, i64 {distance}", base, distance)

    def _load(self, at: str, align: int, dtype: DataType) -> str:
        return self.b.here(f"load {llvm_type(dtype)}, ptr {at}, align {align}")

    def _store(self, value: str, at: str, align: int, dtype: DataType) -> None:
        self.b.effect(f"store {llvm_type(dtype)} {value}, ptr {at}, align {align}")

    def _part(self, value: str, dtype: DataType, first: int, p: int) -> str:
        """Lanes first, ..., first + p - 1 of a vector."""
        if p == dtype.lanes:
            return value
        if p == 1:
            return self.operands.lane(value, dtype, first)
        return self.operands.shuffled(value, "poison", llvm_type(dtype), range(first, first + p))

    def _widened(self, part: str, dtype: DataType, p: int) -> str:
        """A vector whose first p lanes are those of a part."""
        if p == dtype.lanes:
            return part
        if p == 1:
            return self.operands.gather([part], dtype)
        lanes = [k if k < p else None for k in range(dtype.lanes)]
        return self.operands.shuffled(part, "poison", llvm_type(dtype.with_lanes(p)), lanes)

    def _chosen(self, bit: str, a: str, b: str, t: str) -> str:
        return self.b.pure(f"select i1 {bit}, {t} {a}, {t} {b}", bit, a, b)


def _powers(n: int) -> list[int]:
    """Powers of two up to n, the largest first."""
    return [1 << k for k in reversed(range(n.bit_length()))]


def _pieces(count: int, n: int) -> list[tuple[int, int]]:
    """(first element, elements) of the pieces of the first `count` of n elements, each as large as possible."""
    found, first = [], 0
    for p in _powers(n):
        if max(0, min(count, n)) & p:
            found.append((first, p))
            first += p
    return found
