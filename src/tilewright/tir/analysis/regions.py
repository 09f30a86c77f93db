"""The regions of buffers that a block reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.arith import Analyzer
from tilewright.arith.intervals import IntervalSet, eval_set, union
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.node import Visitor, nodes_of, on
from tilewright.tir.arithmetic import add
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Let, Var
from tilewright.tir.stmt import Allocate, AllocateConst, Block, BlockRealize, BufferRegion, BufferStore, For, LetStmt


class _Regions(Visitor):
    """Collects accesses with the ranges of the loops inside of the block."""

    def __init__(self, by_data: Mapping[Var, Buffer]) -> None:
        self.by_data = by_data
        self.domains: dict[Var, Any] = {}
        self.analyzer = Analyzer()
        self.reads: dict[Buffer, list[list[IntervalSet]]] = {}
        self.writes: dict[Buffer, list[list[IntervalSet]]] = {}
        self.opaque: dict[Buffer, list[list[IntervalSet]]] = {}
        self.local: set[Buffer] = set()
        self.storage: set[Var] = set()

    def _box(self, indices: tuple[PrimExpr | Range, ...]) -> list[IntervalSet]:
        out = []
        for i in indices:
            if isinstance(i, Range):
                low = eval_set(i.min, self.domains, self.analyzer)
                high = eval_set(i.min + i.extent - 1, self.domains, self.analyzer)
                out.append(union([low, high], self.analyzer))
            else:
                out.append(eval_set(i, self.domains, self.analyzer))
        return out

    def _note(self, table: dict[Buffer, list[list[IntervalSet]]], buffer: Buffer, indices: Any) -> None:
        if buffer not in self.local and buffer.data not in self.storage:
            table.setdefault(buffer, []).append(self._box(indices))

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self._note(self.reads, e.buffer, e.indices)
        self.visit_children(e)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self._note(self.writes, s.buffer, s.indices)
        self.visit_children(s)

    @on(For)
    def _for(self, s: For) -> None:
        self.visit(s.min)
        self.visit(s.extent)
        domain = Range.from_min_extent(s.min, s.extent)
        self.domains[s.loop_var] = domain
        self.analyzer.bind(s.loop_var, domain, allow_override=True)
        self.visit(s.body)

    @on(Allocate, AllocateConst)
    def _allocate(self, s: Allocate | AllocateConst) -> None:
        self.storage.add(s.buffer_var)
        self.visit_children(s)

    @on(LetStmt, Let)
    def _let(self, s: LetStmt | Let) -> None:
        self.visit(s.value)
        if s.var.dtype.is_int:
            self.domains[s.var] = eval_set(s.value, self.domains, self.analyzer)
        self.visit(s.body)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> None:
        self.visit(s.predicate)
        for axis, value in zip(s.block.iter_vars, s.iter_values, strict=True):
            self.visit(value)
            self.domains[axis.var] = eval_set(value, self.domains, self.analyzer)
        for table, regions in ((self.reads, s.block.reads), (self.writes, s.block.writes)):
            for r in regions:
                self._note(table, r.buffer, r.region)

    @on(Call)
    def _call(self, e: Call) -> None:
        for arg in e.args:
            if isinstance(arg, Var) and arg in self.by_data:
                buffer = self.by_data[arg]
                whole = [Range.from_min_extent(IntImm(d.dtype, 0), d) for d in buffer.shape]
                self._note(self.opaque, buffer, whole)
        self.visit_children(e)


def _as_wide_as_its_type(s: IntervalSet) -> bool:
    """Whether all that is known are the limits of the type."""
    low, high = s.min_value, s.max_value
    return isinstance(low, IntImm) and isinstance(high, IntImm) and high.value - low.value >= 1 << (low.dtype.bits - 1)


def _only_inside(ends: IntervalSet, walk: _Regions) -> bool:
    """Whether the ends are elements that only the block knows, or that it changes."""
    loaded = [load.buffer for end in (ends.min_value, ends.max_value) for load in nodes_of(end, BufferLoad)]
    return any([b in walk.writes or b in walk.local or b.data in walk.storage for b in loaded])


def _merge(found: dict[Buffer, list[list[IntervalSet]]], walk: _Regions) -> tuple[BufferRegion, ...]:
    out, analyzer = [], walk.analyzer
    for buffer, boxes in found.items():
        region = []
        for axis, dim in enumerate(buffer.shape):
            sets = [box[axis] for box in boxes]
            whole = sets[0] if len(sets) == 1 else union(sets, analyzer)
            low: PrimExpr = IntImm(dim.dtype, 0)
            extent = dim
            known = whole.has_lower_bound() and whole.has_upper_bound() and not _as_wide_as_its_type(whole)
            if known and not _only_inside(whole, walk):
                low = whole.min_value
                extent = analyzer.simplify(add(whole.max_value - low, IntImm(low.dtype, 1)))
            region.append(Range.from_min_extent(low, extent))
        out.append(BufferRegion(buffer, tuple(region)))
    return tuple(out)


def get_block_access_region(
    block: Block, buffer_var_map: Mapping[Var, Buffer] | None = None
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """(reads, writes, opaque) of a block's body, as functions of its iteration variables.

    opaque: buffers of `buffer_var_map` (data variable -> buffer) whose pointer is passed to a call.
    """
    walk = _Regions(buffer_var_map or {})
    for axis in block.iter_vars:
        # An axis with one value stays in the regions: they are functions of all axes.
        if axis.dom is not None and not (isinstance(axis.dom.extent, IntImm) and axis.dom.extent.value == 1):
            walk.analyzer.bind(axis.var, axis.dom)
    walk.local.update(block.alloc_buffers)
    views = {m.buffer: m.source for m in block.match_buffers}
    if block.init is not None:
        walk.visit(block.init)
    walk.visit(block.body)
    for table in (walk.reads, walk.writes, walk.opaque):
        for view, source in views.items():
            if view in table:
                del table[view]
                walk._note(table, source.buffer, source.region)
    # What a block has written before it reads it (the running sum of a reduction) is still read.
    merged = tuple([_merge(t, walk) for t in (walk.reads, walk.writes, walk.opaque)])
    return merged[0], merged[1], merged[2]


def get_block_read_write_region(
    block: Block, buffer_var_map: Mapping[Var, Buffer] | None = None
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """(reads, writes) of a block; opaque accesses count as both."""
    reads, writes, opaque = get_block_access_region(block, buffer_var_map)
    return (*reads, *opaque), (*writes, *opaque)
