"""Whether what a step of a loop reads of a buffer was written before in the same step, proved element by element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.arith import Analyzer
from tilewright.arith.iter_affine_map import detect_iter_map, inverse_affine_iter_map
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.node import Visitor, on, post_order_visit
from tilewright.tir.arithmetic import add, const_true, eq, logical_and, logical_not
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, IterVar, Let, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    While,
)
from tilewright.tir.stmt_functor import substitute

LOOP, CONDITION, BLOCK, UNKNOWN = range(4)


class Frame:
    """What stands around an access: a loop, a condition that holds there, a block, or something that decides at run time."""

    __slots__ = ("domain", "kind", "node", "var")

    def __init__(self, kind: int, node: Any, var: Var | None = None, domain: Range | None = None) -> None:
        self.kind, self.node, self.var, self.domain = kind, node, var, domain


class Access:
    """A read or write of the elements `places` (ranges of loop variables) below some frames; None: of any elements."""

    __slots__ = ("frames", "order", "places", "writes")

    def __init__(
        self, frames: tuple[Frame, ...], order: int, writes: bool, places: tuple[tuple[Any, Any], ...] | None
    ) -> None:
        self.frames, self.order, self.writes, self.places = frames, order, writes, places


def _plain(e: Any) -> bool:
    """Whether a value is a function of variables, the same whenever it is computed."""
    found: list[Any] = []
    post_order_visit(e, lambda x: found.append(x) if isinstance(x, (BufferLoad, Call, Let)) else None)
    return not found


class Accesses(Visitor):
    """The accesses of all buffers that blocks allocate, in program order, as functions of loop variables."""

    def __init__(self, func: PrimFunc) -> None:
        self.found: dict[Buffer, list[Access]] = {}
        self.by_data: dict[Var, list[Buffer]] = {}
        self.views: dict[Buffer, MatchBufferRegion] = {}
        self.frames: tuple[Frame, ...] = ()
        self.blocks: list[Block] = []
        self.env: dict[Var, PrimExpr] = {}
        self.visit(func.body)

    def _note(self, buffer: Buffer, places: Sequence[tuple[Any, Any]] | None, writes: bool) -> None:
        view = self.views.get(buffer)
        while view is not None and places is not None:
            region = view.source.region
            extra = len(region) - len(places)
            shifted = [(add(r.min, low), n) for r, (low, n) in zip(region[extra:], places, strict=True)]
            places = [*[(r.min, r.extent) for r in region[:extra]], *shifted]
            buffer = view.source.buffer
            view = self.views.get(buffer)
        known = self.found.get(buffer)
        if known is None:
            # Another name of the same storage: nothing is known of where it is.
            for other in self.by_data.get(buffer.data, ()):
                self._add(other, None, writes)
            return
        if places is not None and any([low.dtype.lanes != 1 for low, _ in places]):
            places = None
        self._add(buffer, places, writes)

    def _add(self, buffer: Buffer, places: Sequence[tuple[Any, Any]] | None, writes: bool) -> None:
        boxes = None
        if places is not None:
            boxes = tuple([(substitute(low, self.env), substitute(n, self.env)) for low, n in places])
        self.found[buffer].append(Access(self.frames, self.order, writes, boxes))
        self.order += 1

    order = 0

    def _under(self, frame: Frame, body: Any) -> None:
        outer = self.frames
        self.frames = (*outer, frame)
        self.visit(body)
        self.frames = outer

    def _where(self, condition: Any, body: Any) -> None:
        self._under(Frame(CONDITION, substitute(condition, self.env)), body)

    # --- accesses

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        for i in e.indices:
            self.visit(i)
        self._note(e.buffer, [(i, IntImm(i.dtype.element, 1)) for i in e.indices], False)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        for i in s.indices:
            self.visit(i)
        self.visit(s.value)
        places = [(i, IntImm(i.dtype.element, 1)) for i in s.indices]
        self._note(s.buffer, places if s.predicate is None else None, True)

    @on(Var)
    def _var(self, v: Var) -> None:
        """A pointer that is given away: the nearest block that says what it does with the buffer is believed."""
        for buffer in self.by_data.get(v, ()):
            for block in reversed(self.blocks):
                reads = [r for r in block.reads if self._source(r.buffer) is buffer]
                writes = [r for r in block.writes if self._source(r.buffer) is buffer]
                if reads or writes:
                    for r in reads:
                        self._note(r.buffer, [(x.min, x.extent) for x in r.region], False)
                    for r in writes:
                        self._note(r.buffer, [(x.min, x.extent) for x in r.region], True)
                    break
            else:
                self._note(buffer, None, False)

    def _source(self, buffer: Buffer) -> Buffer:
        while buffer in self.views:
            buffer = self.views[buffer].source.buffer
        return buffer

    # --- what stands around them

    @on(For)
    def _for(self, s: For) -> None:
        self.visit(s.min)
        self.visit(s.extent)
        domain = Range.from_min_extent(substitute(s.min, self.env), substitute(s.extent, self.env))
        self._under(Frame(LOOP, s, s.loop_var, domain), s.body)

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        axis = s.node
        self.visit(s.value)
        if s.attr_key in ("thread_extent", "virtual_thread") and isinstance(axis, IterVar):
            n = substitute(s.value, self.env)
            self._under(Frame(LOOP, s, axis.var, Range.from_min_extent(IntImm(axis.var.dtype, 0), n)), s.body)
        else:
            self.visit(s.body)

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> None:
        self.visit(s.condition)
        self._where(s.condition, s.then_case)
        if s.else_case is not None:
            self._where(logical_not(s.condition), s.else_case)

    @on(While)
    def _while(self, s: While) -> None:
        self._under(Frame(UNKNOWN, s), s.condition)
        self._under(Frame(UNKNOWN, s), s.body)

    @on(LetStmt, Let)
    def _let(self, s: Any) -> None:
        self.visit(s.value)
        value = substitute(s.value, self.env)
        if s.var.dtype.is_int and _plain(value):
            self.env[s.var] = value
            self.visit(s.body)
        else:
            self._under(Frame(UNKNOWN, s), s.body)

    @on(Call)
    def _call(self, e: Call) -> None:
        if getattr(e.op, "name", "") == "tir.if_then_else":
            condition, yes, no = e.args
            self.visit(condition)
            self._where(condition, yes)
            self._where(logical_not(condition), no)
            return
        for a in e.args:
            self.visit(a)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> None:
        self.visit(s.predicate)
        block = s.block
        for axis, value in zip(block.iter_vars, s.iter_values, strict=True):
            self.visit(value)
            self.env[axis.var] = substitute(value, self.env)
        if isinstance(s.predicate, IntImm) and s.predicate.value:
            self.visit(block)
        else:
            self._where(s.predicate, block)

    @on(Block)
    def _block(self, block: Block) -> None:
        for m in block.match_buffers:
            self.views[m.buffer] = m
            self.by_data.setdefault(m.buffer.data, []).append(self._source(m.buffer))
        for buffer in block.alloc_buffers:
            self.found[buffer] = []
            self.by_data.setdefault(buffer.data, []).append(buffer)
        self.blocks.append(block)
        outer = self.frames
        self.frames = (*outer, Frame(BLOCK, block))
        if block.init is not None:
            first: Any = const_true()
            for axis in block.iter_vars:
                if axis.iter_type == IterVar.CommReduce and axis.dom is not None:
                    first = logical_and(first, eq(axis.var, axis.dom.min))
            self._where(first, block.init)
        self.visit(block.body)
        self.frames = outer
        self.blocks.pop()

    # --- the question

    def settled(self, buffer: Buffer, node: Any) -> bool:
        """Whether each read of the buffer below a loop or block sees what the same step of all loops there wrote before."""
        found = self.found.get(buffer, [])
        writes = [a for a in found if a.writes and a.places is not None]
        return all([_covered(a, writes, node) for a in found if not a.writes])


def _covered(read: Access, writes: list[Access], node: Any) -> bool:
    """Whether one of the writes surely wrote each element that is read, before and in the same step of `node`."""
    depth = next((i + 1 for i, f in enumerate(read.frames) if f.node is node), None)
    if depth is None or read.places is None:
        return False
    analyzer = Analyzer()
    facts: list[PrimExpr] = []
    for f in read.frames:
        if f.kind == LOOP:
            analyzer.bind(f.var, f.domain)  # type: ignore[arg-type]
        elif f.kind == CONDITION:
            facts.append(f.node)
    target = []
    for low, extent in read.places:
        if isinstance(extent, IntImm) and extent.value == 1:
            target.append(low)
            continue
        inside = Var("element", low.dtype)
        analyzer.bind(inside, Range.from_min_extent(IntImm(low.dtype, 0), extent))
        target.append(add(low, inside))
    scopes = [analyzer.constraint_scope(fact) for fact in facts]
    for scope in scopes:
        scope.__enter__()
    try:
        for write in writes:
            if write.order < read.order and len(write.frames) >= depth and write.frames[depth - 1].node is node:
                shared = depth
                both = min(len(read.frames), len(write.frames))
                while shared < both and write.frames[shared] is read.frames[shared]:
                    shared += 1
                if _Wrote(analyzer, write, target, shared, shared).proved():
                    return True
                if shared > depth and _Wrote(analyzer, write, target, depth, shared).proved():
                    return True
        return False
    finally:
        for scope in reversed(scopes):
            scope.__exit__(None, None, None)


class _Wrote:
    """Looks for the step of a write's loops that wrote an element: below `own` frames any, above the reader's own step.

    Loops that the reader shares (up to `shared` frames) must be at that step already, or before.
    """

    def __init__(self, analyzer: Analyzer, write: Access, target: list[PrimExpr], own: int, shared: int) -> None:
        self.analyzer, self.target = analyzer, target
        self.places = write.places
        self.frames, self.common = write.frames[own:], write.frames[own:shared]

    def proved(self) -> bool:
        """Whether there is such a step for every element."""
        assert self.places is not None
        conditions = [f.node for f in self.frames if f.kind == CONDITION]
        if any([f.kind == UNKNOWN for f in self.frames]) or not all([_plain(c) for c in conditions]):
            return False
        fresh: dict[Var, PrimExpr] = {}
        domains: dict[Var, Range] = {}
        for f in self.frames:
            if f.kind == LOOP:
                assert f.var is not None and f.domain is not None
                low, extent = substitute(f.domain.min, fresh), substitute(f.domain.extent, fresh)
                if not (_plain(low) and _plain(extent)):
                    return False
                new = Var(f.var.name, f.var.dtype)
                fresh[f.var] = new
                domains[new] = Range.from_min_extent(low, extent)
        indices: list[PrimExpr] = []
        for low, extent in self.places:
            index = substitute(low, fresh)
            if not _plain(index):
                return False
            if not (isinstance(extent, IntImm) and extent.value == 1):
                inside = Var("element", index.dtype)
                domains[inside] = Range.from_min_extent(IntImm(index.dtype, 0), substitute(extent, fresh))
                index = add(index, inside)
            indices.append(index)
        values = self._solve(indices, domains)
        return values is not None and self._holds(values, indices, domains, conditions, fresh)

    def _solve(self, indices: list[PrimExpr], domains: Mapping[Var, Range]) -> dict[Var, PrimExpr] | None:
        """The variables' values at the step that writes the element; those that no index knows are at their first."""
        values: dict[Var, PrimExpr] = {}
        if domains:
            pairs = [(i, t) for i, t in zip(indices, self.target, strict=True) if _mentions(i, domains)]
            used = {v: r for v, r in domains.items() if any([_mentions(i, {v: r}) for i, _ in pairs])}
            if used:
                found = detect_iter_map([i for i, _ in pairs], used, analyzer=self.analyzer)
                if not found.indices:
                    return None
                try:
                    values = inverse_affine_iter_map(found.indices, [t for _, t in pairs])
                except ValueError:
                    return None
        for v, r in domains.items():
            if v not in values:
                values[v] = substitute(r.min, values)
        return values

    def _holds(
        self,
        values: dict[Var, PrimExpr],
        indices: list[PrimExpr],
        domains: Mapping[Var, Range],
        conditions: list[PrimExpr],
        fresh: Mapping[Var, PrimExpr],
    ) -> bool:
        prove = self.analyzer.can_prove
        for index, wanted in zip(indices, self.target, strict=True):
            if not self.analyzer.can_prove_equal(substitute(index, values), wanted):
                return False
        for v, r in domains.items():
            low = substitute(r.min, values)
            if not prove(values[v] >= low) or not prove(values[v] < add(low, substitute(r.extent, values))):
                return False
        for f in self.common:
            if f.kind == LOOP:
                assert f.var is not None
                # At the first step that both have, or at that of the reader: never after it.
                if not prove(substitute(fresh[f.var], values) <= f.var):
                    return False
        return all([prove(substitute(substitute(c, fresh), values)) for c in conditions])


def _mentions(e: PrimExpr, names: Mapping[Var, Any]) -> bool:
    found: list[Any] = []
    post_order_visit(e, lambda x: found.append(x) if isinstance(x, Var) and x in names else None)
    return bool(found)
