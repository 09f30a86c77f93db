"""CompactBufferAllocation: reduces buffers to the region that is live inside the loops around their allocation."""

from __future__ import annotations

from math import inf
from typing import Any

from tilewright.arith import Analyzer
from tilewright.arith.intervals import IntervalSet, IntSet, eval_set, union
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, Visitor, mutate_tuple, on
from tilewright.tir.arithmetic import subtract
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, IterVar, Let, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    AttrStmt,
    Block,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
    MatchBufferRegion,
    Stmt,
)
from tilewright.tir.stmt_functor import used_vars
from tilewright.tir.transform.base import body_pass

SEEN_BY = {"shared": ("threadIdx", "vthread"), "warp": ("threadIdx.x",)}
"""Scope -> the thread axes that share one buffer of the scope."""
Ends = tuple[PrimExpr | None, PrimExpr | None]


class _Live:
    """Accesses to one allocated buffer: the loops above it, and for each access its indices and the loops below."""

    __slots__ = ("accesses", "depth", "opaque")

    def __init__(self, depth: int) -> None:
        self.depth, self.opaque = depth, False
        self.accesses: list[tuple[tuple[Any, ...], int]] = []


class _Collect(Visitor):
    """Accesses of allocated buffers. Chains of loops are kept as linked tuples (var, range, outer)."""

    def __init__(self) -> None:
        self.live: dict[Buffer, _Live] = {}
        self.by_data: dict[Var, Buffer] = {}
        self.loops: list[tuple[Var, Range]] = []
        self.chains: list[tuple[tuple[Var, Range], ...]] = []
        self.above: dict[Buffer, tuple[tuple[Var, Range], ...]] = {}
        self.aligned: dict[Buffer, dict[int, tuple[int, int]]] = {}
        self.threads: dict[int, str] = {}
        self._chain: int = -1

    def _note(self, buffer: Buffer, indices: tuple[PrimExpr | Range, ...]) -> None:
        live = self.live.get(buffer)
        if live is None:
            return
        if self._chain < 0:
            self.chains.append(tuple(self.loops))
            self._chain = len(self.chains) - 1
        live.accesses.append((indices, self._chain))

    @on(For)
    def _for(self, s: For) -> None:
        self.visit(s.min)
        self.visit(s.extent)
        if s.thread_binding is not None:
            self.threads[id(s.loop_var)] = s.thread_binding.thread_tag
        self.loops.append((s.loop_var, Range.from_min_extent(s.min, s.extent)))
        self._chain = -1
        self.visit(s.body)
        self.loops.pop()
        self._chain = -1

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        axis = s.node
        if s.attr_key not in ("thread_extent", "virtual_thread") or not isinstance(axis, IterVar):
            self.visit_children(s)
            return
        self.visit(s.value)
        self.threads[id(axis.var)] = axis.thread_tag
        self.loops.append((axis.var, Range.from_min_extent(IntImm(axis.var.dtype, 0), s.value)))
        self._chain = -1
        self.visit(s.body)
        self.loops.pop()
        self._chain = -1

    @on(LetStmt, Let)
    def _let(self, s: LetStmt | Let) -> None:
        self.visit(s.value)
        # The range of a value that is computed inside is unknown.
        self.loops.append((s.var, None))  # type: ignore[arg-type]
        self._chain = -1
        self.visit(s.body)
        self.loops.pop()
        self._chain = -1

    @on(Block)
    def _block(self, block: Block) -> None:
        pinned = "preserved_shape" in block.annotations
        for buffer in block.alloc_buffers:
            live = self.live[buffer] = _Live(len(self.loops))
            live.opaque = bool(buffer.strides) or pinned or buffer.axis_separators != ()
            self.above[buffer] = tuple(self.loops)
            self.by_data[buffer.data] = buffer
        for m in block.match_buffers:
            self._note(m.source.buffer, tuple(m.source.region))
        for output, axis, factor, offset in block.annotations.get("buffer_dim_align", ()):
            # Blocks after LowerMatchBuffer have no regions, so the buffer is unknown.
            if int(output) < len(block.writes):
                rules = self.aligned.setdefault(block.writes[int(output)].buffer, {})
                rules[int(axis)] = (int(factor), int(offset))
        self.visit(block.body)

    @on(DeclBuffer)
    def _decl(self, s: DeclBuffer) -> None:
        self._var(s.buffer.data)
        self.visit(s.body)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self._note(e.buffer, e.indices)
        for i in e.indices:
            self.visit(i)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> None:
        self._note(s.buffer, s.indices)
        self.visit(s.value)
        for i in s.indices:
            self.visit(i)

    @on(Var)
    def _var(self, v: Var) -> None:
        buffer = self.by_data.get(v)
        if buffer is not None:
            self.live[buffer].opaque = True


def _union(sets: list[IntervalSet], analyzer: Analyzer) -> Ends:
    whole = sets[0] if len(sets) == 1 else union(sets, analyzer)
    return (whole.min_value if whole.has_lower_bound() else None, whole.max_value if whole.has_upper_bound() else None)


def _uses_any(e: PrimExpr, names: set[int]) -> bool:
    return any([id(v) in names for v in used_vars(e)])


LARGE = 1 << 24
"""Bounds from here on come from the range of a type instead of the program."""


def _extent(low: PrimExpr, high: PrimExpr, dim: PrimExpr, analyzer: Analyzer, above: set[int]) -> PrimExpr | None:
    """high - low + 1 as an expression that is defined at the allocation, or a constant upper bound; None if neither is useful."""
    extent: PrimExpr = analyzer.simplify(high - low + 1)
    if isinstance(extent, IntImm):
        most = dim.value if isinstance(dim, IntImm) else LARGE
        return extent if 0 < extent.value <= most else None
    limit = analyzer.bound(extent)[1]
    if limit != inf and limit <= (dim.value if isinstance(dim, IntImm) else LARGE):
        return IntImm(extent.dtype, int(limit))
    # An extent that varies with an outer loop is not worth an allocation in each iteration.
    return None if _uses_any(extent, above) else extent


def _shrink(buffer: Buffer, live: _Live, collect: _Collect) -> tuple[tuple[PrimExpr, ...], tuple[PrimExpr, ...]] | None:
    """(offsets, shape) of the smaller buffer."""
    if live.opaque or not live.accesses or not buffer.shape:
        return None
    reach = _Reach(buffer, live, collect)
    parts = [reach.part(axis, dim) for axis, dim in enumerate(buffer.shape)]
    if not any(parts):
        return None
    kept = [part or (IntImm(dim.dtype, 0), dim) for part, dim in zip(parts, buffer.shape, strict=True)]
    return tuple([offset for offset, _ in kept]), tuple([size for _, size in kept])


class _Reach:
    """The region of one buffer that is accessed in one iteration of the loops above its allocation.

    above: the variables of those loops; domains: the ranges of the variables of each chain of loops below; inner: these variables.
    """

    def __init__(self, buffer: Buffer, live: _Live, collect: _Collect) -> None:
        self.analyzer = Analyzer()
        self.above: set[int] = set()
        for var, dom in collect.above[buffer]:
            self.above.add(id(var))
            if dom is not None:
                self.analyzer.bind(var, dom)
        seen_by = SEEN_BY.get(buffer.scope().split(".")[0], ())
        joint = [x for x in collect.above[buffer] if seen_by and collect.threads.get(id(x[0]), "").startswith(seen_by)]
        self.accesses = live.accesses
        self.domains: dict[int, dict[Var, Any]] = {}
        bound: dict[Var, Range] = {}
        for _, chain in live.accesses:
            if chain in self.domains:
                continue
            inner = (*joint, *collect.chains[chain][live.depth :])
            self.domains[chain] = {var: IntSet.everything() if dom is None else dom for var, dom in inner}
            for var, dom in inner:
                # Chains share their outer loops: binding a variable again would lose known facts.
                if dom is not None and bound.get(var) is not dom:
                    bound[var] = dom
                    self.analyzer.bind(var, dom, allow_override=True)
        self.inner = {id(v) for domain in self.domains.values() for v in domain}

    def part(self, axis: int, dim: PrimExpr) -> tuple[PrimExpr, PrimExpr] | None:
        """(offset, extent) of the accessed part of an axis; None if it is not smaller than the whole."""
        low, high = self._ends(axis)
        if low is None or high is None:
            return None
        if isinstance(low, IntImm) and low.value < 0:
            low = IntImm(dim.dtype, 0)
        extent = _extent(low, high, dim, self.analyzer, self.above)
        if extent is None or _uses_any(low, self.inner) or _uses_any(extent, self.inner):
            return None
        if isinstance(extent, IntImm):
            smaller = not isinstance(dim, IntImm) or extent.value < dim.value
        else:
            smaller = not isinstance(dim, IntImm) and self.analyzer.can_prove(extent < dim)
        if isinstance(low, IntImm) and low.dtype is not dim.dtype:
            low = IntImm(dim.dtype, low.value)
        return (low, extent) if smaller else None

    def _ends(self, axis: int) -> Ends:
        """The minimum and the maximum index along an axis."""
        sets: list[IntervalSet] = []
        seen: set[tuple[int, int]] = set()
        for indices, chain in self.accesses:
            index = indices[axis]
            if (id(index), chain) in seen:
                continue
            seen.add((id(index), chain))
            places = [index]
            if isinstance(index, Range):
                places = [index.min, index.min + index.extent - 1]
            sets += [eval_set(e, self.domains[chain], self.analyzer) for e in places]
        return _union(sets, self.analyzer)


class _Rewrite(Mutator):
    """Shifts accesses of shrunk buffers by the offsets of their regions."""

    def __init__(self, smaller: dict[Buffer, tuple[Buffer, tuple[PrimExpr, ...]]]) -> None:
        self.smaller = smaller
        self.analyzer = Analyzer()
        # Accesses may share an index. The cache also holds the index itself, so its id stays unique.
        self.moved: dict[tuple[int, int], tuple[PrimExpr, PrimExpr]] = {}

    def _moved(self, indices: tuple[PrimExpr, ...], offsets: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        out = []
        for i, o in zip(indices, offsets, strict=True):
            if isinstance(o, IntImm) and o.value == 0:
                out.append(i)
                continue
            found = self.moved.get((id(i), id(o)))
            if found is None:
                found = self.moved[id(i), id(o)] = i, self.analyzer.simplify(subtract(i, o))
            out.append(found[1])
        return tuple(out)

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> PrimExpr:
        found = self.smaller.get(e.buffer)
        indices = mutate_tuple(self.visit, e.indices)
        if found is None:
            return e if indices is e.indices else BufferLoad(e.buffer, indices, e.predicate, e.span)
        return BufferLoad(found[0], self._moved(indices, found[1]), e.predicate, e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Stmt:
        found = self.smaller.get(s.buffer)
        if found is None:
            return self.rebuild(s)
        indices = mutate_tuple(self.visit, s.indices)
        return BufferStore(found[0], self.visit(s.value), self._moved(indices, found[1]), s.predicate, s.span)

    @on(BufferRegion)
    def _region(self, r: BufferRegion) -> BufferRegion:
        found = self.smaller.get(r.buffer)
        if found is None:
            return self.rebuild(r)
        mins = self._moved(tuple([x.min for x in r.region]), found[1])
        ranges = tuple([Range.from_min_extent(m, x.extent) for m, x in zip(mins, r.region, strict=True)])
        return BufferRegion(found[0], ranges)

    @on(Block)
    def _block(self, block: Block) -> Block:
        new = self.rebuild(block)
        alloc = tuple([self.smaller[b][0] if b in self.smaller else b for b in block.alloc_buffers])
        matches = tuple([MatchBufferRegion(m.buffer, self.visit(m.source)) for m in block.match_buffers])
        return new.replace(alloc_buffers=alloc, match_buffers=matches) if alloc != block.alloc_buffers else new


def _aligned_strides(shape: tuple[PrimExpr, ...], rules: dict[int, tuple[int, int]]) -> tuple[PrimExpr, ...]:
    """Row-major strides of a buffer, with those of some dimensions raised to `offset` modulo `factor`."""
    step: PrimExpr = IntImm(shape[-1].dtype, 1)
    strides: list[PrimExpr] = []
    for axis in reversed(range(len(shape))):
        factor, offset = rules.get(axis, (0, 0))
        if factor:
            step = step + (factor + offset - step % factor) % factor
        step = Analyzer().simplify(step)
        strides.append(step)
        step = step * shape[axis]
    return tuple(reversed(strides))


def _compact(func: PrimFunc) -> Stmt:
    collect = _Collect()
    collect.visit(func.body)
    smaller: dict[Buffer, tuple[Buffer, tuple[PrimExpr, ...]]] = {}
    for buffer, live in collect.live.items():
        found = _shrink(buffer, live, collect)
        if found is not None:
            smaller[buffer] = (buffer.replace(shape=found[1]), found[0])
    for buffer, rules in collect.aligned.items():
        if buffer in collect.live and not buffer.strides:
            kept = (buffer, tuple([IntImm(d.dtype, 0) for d in buffer.shape]))
            now, offsets = smaller.get(buffer, kept)
            smaller[buffer] = (now.replace(strides=_aligned_strides(now.shape, rules)), offsets)
    if not smaller:
        return func.body
    out: Stmt = _Rewrite(smaller).visit(func.body)
    return out


def CompactBufferAllocation(is_strict: bool = True) -> Pass:
    """Reduce allocated buffers to the region that is accessed in one iteration of the loops around the allocation.

    Buffers whose writer has the annotation buffer_dim_align get the strides that the annotation requests.
    """
    return body_pass("CompactBufferAllocation", _compact, needs=("opaque_blocks",), gives=("compact_buffers",))
