"""The part of a buffer that a statement accesses."""

from __future__ import annotations

from tilewright.arith.analyzer import Analyzer
from tilewright.arith.intervals import IntervalSet, eval_set, interval_of_range, union
from tilewright.ir import PrimExpr, Range
from tilewright.node import Visitor, on
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, IterVar, Var
from tilewright.tir.stmt import AttrStmt, BufferStore, For, Stmt


class _Touched(Visitor):
    def __init__(self, buffer: Buffer, loads: bool, stores: bool) -> None:
        self.buffer, self.loads, self.stores = buffer, loads, stores
        self.domains: dict[Var, Range] = {}
        self.analyzer = Analyzer()
        self.found: list[list[IntervalSet]] = [[] for _ in buffer.shape]

    @on(For)
    def _for(self, loop: For) -> None:
        self.visit(loop.min)
        self.visit(loop.extent)
        self.domains[loop.loop_var] = Range.from_min_extent(loop.min, loop.extent)
        self.visit(loop.body)
        del self.domains[loop.loop_var]

    @on(AttrStmt)
    def _attr(self, attr: AttrStmt) -> None:
        if attr.attr_key in ("thread_extent", "virtual_thread") and isinstance(attr.node, IterVar):
            self.domains[attr.node.var] = Range.from_min_extent(0, attr.value)
        self.visit_children(attr)

    @on(BufferLoad)
    def _load(self, load: BufferLoad) -> None:
        if self.loads and load.buffer is self.buffer:
            self._touch(load.indices)
        self.visit_children(load)

    @on(BufferStore)
    def _store(self, store: BufferStore) -> None:
        if self.stores and store.buffer is self.buffer:
            self._touch(store.indices)
        self.visit_children(store)

    def _touch(self, indices: tuple[PrimExpr, ...]) -> None:
        for sets, index in zip(self.found, indices, strict=True):
            sets.append(eval_set(index, self.domains, self.analyzer))


def domain_touched(stmt: Stmt, buffer: Buffer, consider_loads: bool, consider_stores: bool) -> list[Range]:
    """One range for each dimension of `buffer`, which contains all elements that loads or stores in `stmt` access.

    [] without accesses. A dimension with unknown indices gives its whole extent.
    """
    touched = _Touched(buffer, consider_loads, consider_stores)
    touched.visit(stmt)
    if not all(touched.found):
        return []
    out = []
    for sets, extent in zip(touched.found, buffer.shape, strict=True):
        whole = interval_of_range(Range.from_min_extent(0, extent))
        around = union(sets, touched.analyzer).cover_range(whole.cover_range(Range(0, extent)))
        out.append(
            Range.from_min_extent(
                touched.analyzer.simplify(around.min),
                touched.analyzer.simplify(around.extent),
            )
        )
    return out
