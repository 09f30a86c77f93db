"""Upper bounds of the parts of buffers that blocks access while some of their loops run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewright.arith.linear import MAXIMUM, MINIMUM
from tilewright.ir import IntImm
from tilewright.node import Visitor, nodes_of, on
from tilewright.tir import (
    GE,
    LT,
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    For,
    IterVar,
    Let,
    LetStmt,
    Var,
)
from tilewright.tir.schedule.facts.leaves import Leaf, conjuncts
from tilewright.tir.schedule.facts.linear_forms import (
    Bounds,
    Forms,
    Lin,
    combine,
    constant,
    is_const,
    same,
    scale,
    shift,
)
from tilewright.tir.schedule.facts.places import known_at
from tilewright.tir.schedule.state import ScheduleState
from tilewright.tir.stmt_functor import substitute

Region = list[Bounds | None]
"""Inclusive bounds per dimension; None where nothing is known."""


def swept(state: ScheduleState, region: BufferRegion, leaf: Leaf, loops: Sequence[For], domain: bool = False) -> Region:
    """The region that a block may access while `loops` run, over the variables of outer loops.

    It can be too large if a predicate or the end of the block's domain cuts it; `certain.surely` gives a lower bound
    for writes. domain: also apply predicates that only keep an iteration variable in its domain.
    """
    forms = state.forms
    env = {iv.var: forms.of(v) for iv, v in zip(leaf.block.iter_vars, leaf.realize.iter_values, strict=True)}
    relaxed = loop_bounds(forms, loops)
    cuts = cuts_of(forms, leaf.realize, env, domain)
    out: Region = []
    for r in region.region:
        low, extent = forms.of(r.min, env), forms.of(r.extent, env)
        high = low if is_const(extent) and extent.const == 1 else combine(low, shift(extent, -1))
        first = forms.bounds(low, relaxed)
        last = first if high is low else forms.bounds(high, relaxed)
        bounds = None if first is None or last is None else (first[0], last[1])
        if bounds is not None and cuts:
            bounds = _cut_bounds(forms, cuts, low, high, bounds, relaxed)
        out.append(bounds)
    return out


def needed(state: ScheduleState, region: BufferRegion, leaf: Leaf, loops: Sequence[For]) -> Region:
    """`swept`, cut if the domain of the block ends inside the buffer. For comparisons, not for making loops."""

    def find() -> Region:
        return in_domain(state, leaf, region, swept(state, region, leaf, loops, True))

    return list(known_at(state, leaf, loops, (needed, region), find))


def in_domain(state: ScheduleState, leaf: Leaf, region: BufferRegion, box: Region) -> Region:
    """Cut a box by the block's domain, where the domain ends inside the buffer."""
    forms = state.forms
    relaxed: dict[Any, Bounds] = {}
    for iv in leaf.block.iter_vars:
        low = forms.of(iv.dom.min)
        relaxed[iv.var] = (low, shift(combine(low, forms.of(iv.dom.extent)), -1))
    loops = {lp.loop_var for lp in leaf.loops}
    out: Region = []
    for b, r, n in zip(box, region.region, region.buffer.shape, strict=True):
        first = forms.bounds(forms.of(r.min), relaxed)
        last = forms.bounds(shift(combine(forms.of(r.min), forms.of(r.extent)), -1), relaxed)
        if b is None or first is None or last is None or loops & (forms.leaves(first[0]) | forms.leaves(last[1])):
            out.append(b)
            continue
        low, high = b
        if not forms.nonneg(scale(first[0], -1)) and not forms.nonneg(combine(low, first[0], -1)):
            low = forms.maximum(low, first[0])
        if not forms.nonneg(combine(shift(last[1], 1), forms.of(n), -1)) and not forms.nonneg(
            combine(last[1], high, -1)
        ):
            high = forms.minimum(high, last[1])
        out.append((low, high))
    return out


def cuts_of(forms: Forms, realize: Any, env: Mapping[Any, Lin], domain: bool = False) -> list[Lin]:
    """Forms that the predicate bounds by 0 from above. With `domain`: without the bounds of the iteration variables."""
    cuts: list[Lin] = []
    for c in conjuncts(realize.predicate):
        if isinstance(c, LT):
            cut = shift(combine(forms.of(c.a), forms.of(c.b), -1), 1)
        elif isinstance(c, GE):
            cut = combine(forms.of(c.b), forms.of(c.a), -1)
        else:
            cuts.append(Lin({}, 1))
            continue
        high = forms.const_bounds(cut)[1]
        if high is not None and high <= 0:
            continue
        for iv in () if domain else realize.block.iter_vars:
            value, first = env[iv.var], forms.of(iv.dom.min)
            last = shift(combine(first, forms.of(iv.dom.extent)), -1)
            if same(cut, combine(value, last, -1)) or same(cut, combine(first, value, -1)):
                break
        else:
            cuts.append(cut)
    return cuts


def _cut_bounds(
    forms: Forms, cuts: list[Lin], low: Lin, high: Lin, bounds: Bounds, relaxed: Mapping[Any, Bounds]
) -> Bounds:
    """Bounds of an index under `cut <= 0`, if the cut is part of the index."""
    inside = forms.leaves(low) | forms.leaves(high)
    for cut in cuts:
        shared = inside & forms.leaves(cut) & relaxed.keys()
        k = min([high.terms.get(t, 0) // c for t, c in cut.terms.items()], default=0)
        if not shared or k < 1 or any([high.terms.get(t) != k * c for t, c in cut.terms.items()]):
            continue
        rest = combine(high, cut, -k)
        top = None if forms.leaves(rest) & shared else forms.bounds(rest, relaxed)
        if top is not None and same(forms.minimum(top[1], bounds[1]), top[1]):
            bounds = (bounds[0], top[1])
    return bounds


def loop_bounds(forms: Forms, loops: Iterable[Any]) -> dict[Any, Any]:
    """For each loop variable, bounds over variables outside these loops; None if there are none."""
    out: dict[Any, Any] = {}
    for loop in loops:
        low = forms.of(loop.min)
        high = shift(combine(low, forms.of(loop.extent)), -1)
        if out and not (forms.leaves(low) | forms.leaves(high)).isdisjoint(out):
            first, last = forms.bounds(low, out), forms.bounds(high, out)
            out[loop.loop_var] = None if first is None or last is None else (first[0], last[1])
        else:
            out[loop.loop_var] = (low, high)
    return out


def unite(forms: Forms, a: Region | None, b: Region) -> Region:
    """The smallest box around both."""
    if a is None:
        return b
    out: Region = []
    for x, y in zip(a, b, strict=True):
        out.append(None if x is None or y is None else (forms.minimum(x[0], y[0]), forms.maximum(x[1], y[1])))
    return out


def unite_exact(forms: Forms, a: Region | None, b: Region) -> Region:
    """A box that two boxes cover completely: their union if it is a box, otherwise one of them."""
    if a is None:
        return b
    joined: list[Any] = []
    for x, y in zip(a, b, strict=True):
        if x is None or y is None:
            return a if y is None else b
        if same(x[0], y[0]) and same(x[1], y[1]):
            continue
        low, high = forms.minimum(x[0], y[0]), forms.maximum(x[1], y[1])
        gap = forms.nonneg(shift(combine(x[1], y[0], -1), 1)) and forms.nonneg(shift(combine(y[1], x[0], -1), 1))
        joined.append((low, high) if gap else None)
    if not joined:
        return a
    if len(joined) == 1 and joined[0] is not None:
        return [
            x if x is not None and y is not None and same(x[0], y[0]) and same(x[1], y[1]) else joined[0]
            for x, y in zip(a, b, strict=True)
        ]
    for outer, inner in ((a, b), (b, a)):
        if all([
            forms.nonneg(combine(i[0], o[0], -1)) and forms.nonneg(combine(o[1], i[1], -1))
            for o, i in zip(outer, inner, strict=True)
            if o is not None and i is not None
        ]):  # fmt: skip
            return outer
    return a


def contains(forms: Forms, outer: Region, inner: Region, shape: Iterable[Any]) -> bool:
    """Whether `outer` provably contains the part of `inner` inside the buffer."""
    for a, b, n in zip(outer, inner, shape, strict=True):
        if a is None:
            return False
        low = scale(b[0], -1) if b is not None else None
        high = b[1] if b is not None else None
        if not _reaches(forms, scale(a[0], -1), low, constant(0)):
            return False
        if not _reaches(forms, a[1], high, shift(forms.of(n), -1)):
            return False
    return True


def _reaches(forms: Forms, a: Lin, b: Lin | None, end: Lin) -> bool:
    """Whether `a` is provably at least `b`, or at least the end of the buffer."""
    for t, k in a.terms.items():
        if t.kind in (MINIMUM, MAXIMUM):
            rest = Lin({x: c for x, c in a.terms.items() if x is not t}, a.const)
            least = (t.kind == MINIMUM) == (k > 0)
            parts = [_reaches(forms, combine(rest, arg, k), b, end) for arg in t.args]
            if any(parts) if not least else all(parts):
                return True
            break
    if forms.nonneg(combine(a, end, -1)):
        return True
    if b is None:
        return False
    for t, k in b.terms.items():
        if t.kind in (MINIMUM, MAXIMUM) and t not in a.terms:
            rest = Lin({x: c for x, c in b.terms.items() if x is not t}, b.const)
            least = (t.kind == MINIMUM) == (k > 0)
            parts = [_reaches(forms, a, combine(rest, arg, k), end) for arg in t.args]
            if any(parts) if least else all(parts):
                return True
            break
    return forms.nonneg(combine(a, b, -1))


class _Accesses(Visitor):
    """Collects the loads and stores of a block body, with the loops inside it."""

    def __init__(self, holder: Block | None = None) -> None:
        self.loads: list[tuple[Buffer, Any, tuple[Any, ...]]] = []
        self.stores: list[tuple[Buffer, Any, tuple[Any, ...]]] = []
        self.loops: tuple[Any, ...] = ()
        self.lets: dict[Var, Any] = {}
        self.inner: set[Var] = set()
        """Variables that are defined inside the body, with those of its own storage."""
        self.pointers: set[Var] = set()
        """Variables passed to calls, which may access all memory that they point to."""
        self.views: dict[Buffer, BufferRegion] = {}
        if holder is not None:
            self.inner.update([b.data for b in holder.alloc_buffers])
            self.views.update([(m.buffer, m.source) for m in holder.match_buffers])

    def _note(self, table: list[tuple[Buffer, Any, tuple[Any, ...]]], buffer: Buffer, indices: Any) -> None:
        source = self.views.get(buffer)
        if source is not None:
            table.append((source.buffer, source.region, self.loops))
        elif self.lets:
            table.append((buffer, tuple([substitute(i, self.lets) for i in indices]), self.loops))
        else:
            table.append((buffer, indices, self.loops))

    @on(BufferLoad)
    def _load(self, x: BufferLoad) -> None:
        self._note(self.loads, x.buffer, x.indices)
        for i in x.indices:
            self.visit(i)

    @on(BufferStore)
    def _store(self, x: BufferStore) -> None:
        self._note(self.stores, x.buffer, x.indices)
        self.visit(x.value)
        for i in x.indices:
            self.visit(i)

    @on(For)
    def _for(self, x: For) -> None:
        self.visit(x.min)
        self.visit(x.extent)
        ends = {"min": substitute(x.min, self.lets), "extent": substitute(x.extent, self.lets)} if self.lets else {}
        outer, self.loops = self.loops, (*self.loops, x.replace(**ends))
        self.visit(x.body)
        self.loops = outer

    @on(LetStmt, Let)
    def _let(self, x: LetStmt | Let) -> None:
        self.visit(x.value)
        self.inner.add(x.var)
        self.lets[x.var] = substitute(x.value, self.lets)
        self.visit(x.body)

    @on(Allocate, AllocateConst)
    def _allocate(self, x: Allocate | AllocateConst) -> None:
        self.inner.add(x.buffer_var)
        self.visit_children(x)

    @on(AttrStmt)
    def _attr(self, x: AttrStmt) -> None:
        if isinstance(x.node, IterVar):
            self.inner.add(x.node.var)
        self.visit(x.value)
        self.visit(x.body)

    @on(Call)
    def _call(self, x: Call) -> None:
        self.pointers.update([arg for arg in x.args if isinstance(arg, Var)])
        self.visit_children(x)

    @on(BlockRealize)
    def _realize(self, x: BlockRealize) -> None:
        # The accesses of an inner block are its declared regions.
        for value in (*x.iter_values, x.predicate):
            self.visit(value)
        env = {iv.var: v for iv, v in zip(x.block.iter_vars, x.iter_values, strict=True)}
        for regions, out in ((x.block.reads, self.loads), (x.block.writes, self.stores)):
            for region in regions:
                if region.buffer not in x.block.alloc_buffers:
                    self._note(out, region.buffer, substitute(region, env).region)


def access_regions(
    state: ScheduleState, body: Any, init: Any = None, holder: Block | None = None
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """The reads and writes of a block body as boxes, one for each buffer, in the order of first use.

    `holder`: the block, if it allocates storage or has views.
    """
    collected, first = _Accesses(holder), _Accesses(holder)
    collected.visit(body)
    if init is not None:
        first.visit(init)
    collected.inner |= first.inner
    stores = [*collected.stores, *first.stores]
    changed = {buffer for buffer, _, _ in stores}
    return _boxes(state, collected, collected.loads, changed), _boxes(state, collected, stores, changed)


def _boxes(
    state: ScheduleState, known: _Accesses, accesses: list[tuple[Buffer, Any, tuple[Any, ...]]], changed: set[Buffer]
) -> tuple[BufferRegion, ...]:
    from tilewright.ir import Range

    forms = state.forms
    boxes: dict[Buffer, Region] = {}
    for buffer, indices, loops in accesses:
        if buffer.data in known.inner:
            continue
        relaxed = loop_bounds(forms, loops)
        region: Region = []
        for i in indices:
            if isinstance(i, Range):
                low, high = forms.bounds(forms.of(i.min), relaxed), forms.of(i.min)
                top = forms.bounds(combine(high, shift(forms.of(i.extent), -1)), relaxed)
                region.append(None if low is None or top is None else (low[0], top[1]))
            else:
                region.append(forms.bounds(forms.of(i), relaxed))
        boxes[buffer] = unite(forms, boxes.get(buffer), region)
    out = []
    for buffer, region in boxes.items():
        ranges = []
        for b, n in zip(region, buffer.shape, strict=True):
            dtype = str(n.dtype)
            if b is None or buffer.data in known.pointers or _only_inside(forms, b, known.inner, changed):
                ranges.append(Range.from_min_extent(IntImm(dtype, 0), n))
            else:
                extent = forms.merge_digits(shift(combine(b[1], b[0], -1), 1))
                ranges.append(Range.from_min_extent(forms.emit(b[0], dtype), forms.emit(extent, dtype)))
        out.append(BufferRegion(buffer, tuple(ranges)))
    return tuple(out)


def _only_inside(forms: Forms, ends: Bounds, inner: set[Var], changed: set[Buffer]) -> bool:
    """Whether the bounds use variables or elements that exist or change only inside the body."""
    leaves = forms.leaves(ends[0]) | forms.leaves(ends[1])
    if not leaves.isdisjoint(inner):
        return True
    loaded = [load.buffer for leaf in leaves for load in nodes_of(leaf, BufferLoad)]
    return any([b in changed or b.data in inner for b in loaded])
