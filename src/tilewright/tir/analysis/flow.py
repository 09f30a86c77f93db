"""Whether every element that an iteration reads of a buffer was written before in the same iteration, proved element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.arith import Analyzer
from tilewright.arith.iter_affine_map import IterMapLevel, detect_iter_map, inverse_affine_iter_map
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.node import Visitor, any_node, has_node, on
from tilewright.tir.arithmetic import add, cast_to, conjuncts, const_true, eq, logical_and, logical_not
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, IterVar, Let, Ramp, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    Allocate,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    Stmt,
    While,
)
from tilewright.tir.stmt_functor import substitute, used_vars

LOOP, CONDITION, BLOCK, UNKNOWN = range(4)


class Frame:
    """A scope around an access: a loop, a condition that holds there, a block, or a decision at run time."""

    __slots__ = ("domain", "kind", "node", "var")

    def __init__(self, kind: int, node: Any, var: Var | None = None, domain: Range | None = None) -> None:
        self.kind, self.node, self.var, self.domain = kind, node, var, domain


class Access:
    """A read or write of the elements `places` (ranges of loop variables) below some frames; None: of any elements."""

    __slots__ = ("frames", "node", "order", "places", "writes")

    def __init__(
        self, frames: tuple[Frame, ...], order: int, writes: bool, places: tuple[tuple[Any, Any], ...] | None, node: Any
    ) -> None:
        self.frames, self.order, self.writes, self.places, self.node = frames, order, writes, places, node


def _plain(e: PrimExpr) -> bool:
    """Whether a value is a function of variables, the same whenever it is computed."""
    return not has_node(e, BufferLoad, Call, Let)


def _places(buffer: Buffer, indices: Sequence[PrimExpr]) -> list[tuple[PrimExpr, IntImm]]:
    """Where each index begins and how far it goes: one element, or the neighbours that a vector takes of the last axis."""
    places = [(i, IntImm(i.dtype.element, 1)) for i in indices]
    last, width = indices[-1] if indices else None, buffer.shape[-1] if buffer.shape else None
    neighbours = isinstance(last, Ramp) and isinstance(last.stride, IntImm) and last.stride.value == 1
    # A vector longer than the axis goes on in the next row.
    if neighbours and isinstance(last, Ramp) and isinstance(width, IntImm) and last.lanes <= width.value:
        places[-1] = (last.base, IntImm(last.base.dtype, last.lanes))
    return places


class Accesses(Visitor):
    """The accesses of all buffers, in program order, as functions of loop variables; `made`: where those of blocks are; `waits`: the
    numbers of the accesses that follow a barrier of all threads of a launch."""

    def __init__(self, func: PrimFunc) -> None:
        self.found: dict[Buffer, list[Access]] = {}
        self.made: dict[Buffer, tuple[Frame, ...]] = {}
        self.waits: list[int] = []
        self.by_data: dict[Var, list[Buffer]] = {}
        self.allocated: dict[Var, tuple[Frame, ...]] = {}
        self.views: dict[Buffer, MatchBufferRegion] = {}
        self.frames: tuple[Frame, ...] = ()
        self.blocks: list[Block] = []
        self.env: dict[Var, PrimExpr] = {}
        for buffer in func.buffer_map.values():
            self._accesses_of(buffer)
        self.visit(func.body)

    def _accesses_of(self, buffer: Buffer) -> list[Access]:
        known = self.found.get(buffer)
        if known is None:
            known = self.found[buffer] = []
            if buffer.data in self.allocated:
                self.made[buffer] = self.allocated[buffer.data]
            others = self.by_data.setdefault(buffer.data, [])
            # Another name of the same storage: nothing is known of where it is.
            for other in others:
                known += [Access(a.frames, a.order, a.writes, None, a.node) for a in self.found.get(other, ())]
            others.append(buffer)
        return known

    def _note(self, buffer: Buffer, places: Sequence[tuple[PrimExpr, PrimExpr]] | None, writes: bool) -> None:
        view = self.views.get(buffer)
        while view is not None and places is not None:
            region = view.source.region
            extra = len(region) - len(places)
            shifted = [(add(r.min, low), n) for r, (low, n) in zip(region[extra:], places, strict=True)]
            places = [*[(r.min, r.extent) for r in region[:extra]], *shifted]
            buffer = view.source.buffer
            view = self.views.get(buffer)
        boxes = None
        if places is not None and all([low.dtype.lanes == 1 for low, _ in places]):
            boxes = tuple([(substitute(low, self.env), substitute(n, self.env)) for low, n in places])
        mine = self._accesses_of(buffer)
        for other in self.by_data[buffer.data]:
            if other is not buffer:
                self._accesses_of(other).append(Access(self.frames, self.order, writes, None, self.node))
        mine.append(Access(self.frames, self.order, writes, boxes, self.node))
        self.order += 1

    order = 0
    node: BufferLoad | BufferStore | None = None

    def _under(self, frame: Frame, body: Any) -> None:
        outer = self.frames
        self.frames = (*outer, frame)
        self.visit(body)
        self.frames = outer

    def _where(self, condition: PrimExpr, body: PrimExpr | Stmt) -> None:
        self._under(Frame(CONDITION, substitute(condition, self.env)), body)

    # --- accesses

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        for i in e.indices:
            self.visit(i)
        self.node = e
        self._note(e.buffer, _places(e.buffer, e.indices), False)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        for i in s.indices:
            self.visit(i)
        self.visit(s.value)
        self.node = s
        self._note(s.buffer, _places(s.buffer, s.indices) if s.predicate is None else None, True)

    @on(Var)
    def _var(self, v: Var) -> None:
        """A pointer that is given away: the nearest block that says what it does with the buffer is believed."""
        for buffer in tuple(self.by_data.get(v, ())):
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
                self._note(buffer, None, True)

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

    @on(Allocate)
    def _allocate(self, s: Allocate) -> None:
        for e in (*s.extents, s.condition):
            self.visit(e)
        self.allocated[s.buffer_var] = self.frames
        self.visit(s.body)

    @on(While)
    def _while(self, s: While) -> None:
        self._under(Frame(UNKNOWN, s), s.condition)
        self._under(Frame(UNKNOWN, s), s.body)

    @on(LetStmt, Let)
    def _let(self, s: LetStmt | Let) -> None:
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
        if e.intrinsic == "tvm_storage_sync" and getattr(e.args[0], "value", "") == "global":
            self.waits.append(self.order)
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
            self.found.pop(buffer, None)
            self.by_data.pop(buffer.data, None)
            self.made[buffer] = self.frames
            self._accesses_of(buffer)
        self.blocks.append(block)
        outer = self.frames
        self.frames = (*outer, Frame(BLOCK, block))
        if block.init is not None:
            first = const_true()
            for axis in block.iter_vars:
                if axis.iter_type == IterVar.CommReduce and axis.dom is not None:
                    first = logical_and(first, eq(axis.var, axis.dom.min))
            self._where(first, block.init)
        self.visit(block.body)
        self.frames = outer
        self.blocks.pop()

    # --- the question

    def settled(self, buffer: Buffer, node: Stmt) -> bool:
        """Whether each read of the buffer below a loop or block sees what the same step of all loops there wrote before."""
        found = self.found.get(buffer, [])
        writes = [a for a in found if a.writes and a.places is not None]
        return all([covered(a, writes, node) for a in found if not a.writes])

    def apart(self, outer: Var, inner: Var, seen_by_all: Callable[[Buffer], bool] = lambda b: False) -> bool:
        """Whether steps with different values of `inner`, a loop below `outer`, touch no element that one of them writes.

        Buffers allocated inside of both, and those that `seen_by_all` names, do not count.
        """
        for buffer, accesses in self.found.items():
            if seen_by_all(buffer) or any([f.var is inner for f in self.made.get(buffer, ())]):
                continue
            found = []
            for a in accesses:
                above = next((i for i, f in enumerate(a.frames) if f.var is outer), None)
                if above is not None and any([f.var is inner for f in a.frames[above:]]):
                    found.append((above, a))
            if not all([same_step(b, a, above, inner, inner) for above, a in found if a.writes for _, b in found]):
                return False
        return True


def covered(read: Access, writes: list[Access], node: Any) -> bool:
    """Whether one of the writes surely wrote each element that is read, before and in the same step of `node`."""
    depth = next((i + 1 for i, f in enumerate(read.frames) if f.node is node), None)
    if depth is None or read.places is None:
        return False
    with _At(read) as here:
        for write in writes:
            if write.order < read.order and len(write.frames) >= depth and write.frames[depth - 1].node is node:
                shared = depth
                both = min(len(read.frames), len(write.frames))
                while shared < both and write.frames[shared] is read.frames[shared]:
                    shared += 1
                # The innermost loops that both share may have been at another step.
                steps = [i for i in range(depth, shared) if write.frames[i].kind == LOOP]
                if any([_Wrote(here, write, own, shared).proved() for own in (shared, *reversed(steps))]):
                    return True
    return False


def same_step(read: Access, write: Access, above: int, one: Var, other: Var) -> bool:
    """Whether an element is read only at steps with the value of `one` that `other` has where it is written.

    above: how many frames, outermost ones, are at the same step for both.
    """
    if read.places is None or write.places is None:
        return False
    with _At(read) as here:
        wrote = _Wrote(here, write, above, above)
        return wrote.lay_out(all_known=False) and wrote.determines(other, one)


class _At:
    """An analyzer that knows what holds where a read is, and the elements that are read there."""

    def __init__(self, read: Access) -> None:
        self.analyzer = Analyzer()
        self.told = _told_by_data(read.frames)
        facts: list[PrimExpr] = []
        for f in read.frames:
            if f.kind == LOOP:
                assert f.var is not None and f.domain is not None
                self.analyzer.bind(f.var, f.domain)
                if not isinstance(f.domain.extent, IntImm):
                    facts.append(f.domain.extent > 0)  # the reader is at a step of it
            elif f.kind == CONDITION:
                facts.append(f.node)
        self.target: list[PrimExpr] = []
        assert read.places is not None
        for low, extent in read.places:
            inside = _element(low, extent)
            if inside is not None:
                self.analyzer.bind(inside, Range.from_min_extent(IntImm(low.dtype, 0), extent))
            self.target.append(low if inside is None else add(low, inside))
        self.scopes = [self.analyzer.constraint_scope(fact) for fact in facts]

    def __enter__(self) -> _At:
        for scope in self.scopes:
            scope.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for scope in reversed(self.scopes):
            scope.__exit__(None, None, None)


def _told_by_data(frames: Sequence[Frame]) -> set[Var]:
    """Variables that a let binds to data: at each step they may have another value."""
    return {f.node.var for f in frames if f.kind == UNKNOWN and isinstance(f.node, (LetStmt, Let))}


def _element(low: PrimExpr, extent: PrimExpr) -> Var | None:
    """A variable for the elements of a range; None for a single one."""
    return None if isinstance(extent, IntImm) and extent.value == 1 else Var("element", low.dtype)


class _Wrote:
    """Looks for the step of a write's loops that wrote an element: below `own` frames any, above the reader's own step.

    Loops that the reader shares (up to `shared` frames) must be at that step already, or before.
    """

    def __init__(self, here: _At, write: Access, own: int, shared: int) -> None:
        self.analyzer, self.target = here.analyzer, here.target
        self.places = write.places
        self.told = here.told | _told_by_data(write.frames)
        self.frames, self.common = write.frames[own:], write.frames[own:shared]
        self.conditions: list[PrimExpr] = [f.node for f in self.frames if f.kind == CONDITION]
        self.fresh: dict[Var, PrimExpr] = {}
        self.domains: dict[Var, Range] = {}
        self.indices: list[PrimExpr] = []

    def lay_out(self, all_known: bool = True) -> bool:
        """Gives the write's steps variables of their own; False where what it writes is not a function of them. all_known: whether it must
        be in all dimensions; else those in which it is count."""
        assert self.places is not None
        if all_known and any([f.kind == UNKNOWN for f in self.frames]):
            return False

        def known(e: PrimExpr) -> bool:
            return _plain(e) and self.told.isdisjoint(used_vars(e))

        for f in self.frames:
            if f.kind == LOOP:
                assert f.var is not None and f.domain is not None
                low, extent = substitute(f.domain.min, self.fresh), substitute(f.domain.extent, self.fresh)
                new = Var(f.var.name, f.var.dtype)
                self.fresh[f.var] = new
                if known(low) and known(extent):
                    self.domains[new] = Range.from_min_extent(low, extent)
                    self.analyzer.bind(new, self.domains[new])
                elif all_known:
                    return False
                else:
                    self.told.add(new)  # how far it goes, only data say
        targets, self.target = self.target, []
        for (low, extent), target in zip(self.places, targets, strict=True):
            # So that an index does not mention steps that it does not depend on: (16 * i + j) % 16.
            index = self.analyzer.simplify(substitute(low, self.fresh))
            if not known(index) or not (all_known or known(target)):
                if all_known:
                    return False
                continue
            self.target.append(target)
            inside = _element(index, extent)
            if inside is not None:
                self.domains[inside] = Range.from_min_extent(IntImm(index.dtype, 0), substitute(extent, self.fresh))
                index = add(index, inside)
            self.indices.append(index)
        return True

    def proved(self) -> bool:
        """Whether there is such a step for every element."""
        if not self.lay_out() or not all([_plain(c) for c in self.conditions]):
            return False
        values = self._solve()
        if values is None:
            return False
        for v, r in self.domains.items():
            if v not in values:
                values[v] = substitute(r.min, values)
        return self._holds(values)

    def determines(self, var: Var, value: Var) -> bool:
        """Whether the element is written only in steps in which the variable has that value."""
        values, mine = self._solve(IterMapLevel.Bijective), self.fresh.get(var)
        if values is None or not isinstance(mine, Var) or mine not in values:
            return False
        return self.analyzer.can_prove_equal(values[mine], value)

    def _solve(self, level: IterMapLevel = IterMapLevel.Surjective) -> dict[Var, PrimExpr] | None:
        """The variables' values at the step that writes the element, of those that the indices know."""
        pairs = [(i, t) for i, t in zip(self.indices, self.target, strict=True) if _mentions(i, self.domains)]
        used = {v: r for v, r in self.domains.items() if any([_mentions(i, {v: r}) for i, _ in pairs])}
        if not used:
            return {}
        indices = [i for i, _ in pairs]
        found = detect_iter_map(indices, used, self._where(used), level, analyzer=self.analyzer)
        if not found.indices:
            found = detect_iter_map(indices, used, check_level=level, analyzer=self.analyzer)
        if not found.indices:
            return None
        try:
            return inverse_affine_iter_map(found.indices, [cast_to(t, str(i.dtype)) for i, t in pairs])
        except ValueError:
            return None

    def _where(self, used: Mapping[Var, Range]) -> PrimExpr:
        """The conditions of the write that are about these variables alone."""
        where = const_true()
        for condition in [substitute(c, self.fresh) for c in self.conditions if _plain(c)]:
            for part in conjuncts(condition):
                if not any([v not in used for v in used_vars(part)]):
                    where = logical_and(where, part)
        return where

    def _holds(self, values: Mapping[Var, PrimExpr]) -> bool:
        prove = self.analyzer.can_prove
        for index, wanted in zip(self.indices, self.target, strict=True):
            if not self.analyzer.can_prove_equal(substitute(index, values), cast_to(wanted, str(index.dtype))):
                return False
        for v, r in self.domains.items():
            low = substitute(r.min, values)
            if not prove(values[v] >= low) or not prove(values[v] < add(low, substitute(r.extent, values))):
                return False
        for f in self.common:
            if f.kind == LOOP:
                assert f.var is not None
                # At the first step that both have, or at that of the reader: never after it.
                if not prove(substitute(self.fresh[f.var], values) <= f.var):
                    return False
        return all([prove(substitute(substitute(c, self.fresh), values)) for c in self.conditions])


def _mentions(e: PrimExpr, names: Mapping[Var, Range]) -> bool:
    return any_node(e, lambda x: isinstance(x, Var) and x in names)
