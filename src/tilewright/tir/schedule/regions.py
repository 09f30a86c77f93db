"""Which part of a buffer blocks touch while some of their loops run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from tilewright.arith.linear import LEAF, SPLIT
from tilewright.ir import IntImm
from tilewright.node import Visitor, on
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
from tilewright.tir.schedule.analysis import REDUCE, Leaf, binding_of, conjuncts
from tilewright.tir.schedule.effects import writes_exactly
from tilewright.tir.schedule.enumeration import visits
from tilewright.tir.schedule.forms import Bounds, Forms, Lin, combine, constant, is_const, same, scale, shift
from tilewright.tir.schedule.state import ScheduleState
from tilewright.tir.stmt_functor import post_order_visit, substitute, used_vars

Region = list[Bounds | None]
"""Inclusive bounds per dimension; None where nothing is known."""


def swept(state: ScheduleState, region: BufferRegion, leaf: Leaf, loops: Sequence[Any], exact: bool = False) -> Region:
    """The region that a block touches while `loops` run, over the variables of the loops further out.

    It may be too large where a predicate cuts it; with `exact` (for writes) such dimensions, and those of which it is
    not known that every element is written, are None. What lies outside the domain of the block counts as touched:
    there is nothing there.
    """
    forms = state.forms
    realize = leaf.realize
    if exact and (leaf.conditional or not writes_exactly(state, leaf.block, region.buffer)):
        return [None] * len(region.region)
    env = {iv.var: forms.of(v) for iv, v in zip(realize.block.iter_vars, realize.iter_values, strict=True)}
    relaxed = loop_bounds(forms, loops)
    cuts = _cuts(forms, realize, env)
    if exact and any([relaxed.keys().isdisjoint(forms.leaves(cut)) for cut in cuts]):
        return [None] * len(region.region)
    if exact:
        placed: set[Any] = set()
        for r in region.region:
            placed |= forms.leaves(forms.of(r.min, env)) | forms.leaves(forms.of(r.extent, env))
        if any([not (forms.leaves(cut) & relaxed.keys()) <= placed for cut in cuts]):
            return [None] * len(region.region)
        if not (_all_run(forms, leaf, loops, placed) and is_rectangular(forms, loops)):
            return [None] * len(region.region)
    if exact and any([_idle(forms, iv, region, env[iv.var], relaxed) for iv in realize.block.iter_vars]):
        return [None] * len(region.region)
    out: Region = []
    lows: list[tuple[Lin, Lin]] = []
    for r in region.region:
        low = forms.of(r.min, env)
        extent = forms.of(r.extent, env)
        high = low if is_const(extent) and extent.const == 1 else combine(low, shift(extent, -1))
        lows.append((low, extent))
        low_bounds = forms.bounds(low, relaxed)
        high_bounds = low_bounds if high is low else forms.bounds(high, relaxed)
        bounds = None if low_bounds is None or high_bounds is None else (low_bounds[0], high_bounds[1])
        if bounds is not None and cuts:
            bounds = _cut_bounds(forms, cuts, low, high, bounds, relaxed, exact)
        if exact and bounds is not None:
            bounds = _in_domain(forms, leaf, env, r, region.buffer.shape[len(out)], bounds, relaxed)
        out.append(bounds)
    if exact and not _is_box(forms, lows, out, relaxed, bool(cuts)):
        return [
            b if b is not None and not relaxed.keys() & forms.leaves(x[0]) else None
            for b, x in zip(out, lows, strict=True)
        ]
    return out


def reaches_domain(state: ScheduleState, leaf: Leaf) -> bool:
    """Whether a block visits every point of its domain at least once while all of its loops run."""
    if leaf.conditional:
        return False
    if binding_of(state, leaf).covers:
        return True
    forms = state.forms
    counts = visits(forms, leaf.block, list(leaf.realize.iter_values), leaf.loops, conjuncts(leaf.realize.predicate))
    if counts is not None:
        return bool(counts.min() >= 1)
    env = {iv.var: forms.of(v) for iv, v in zip(leaf.block.iter_vars, leaf.realize.iter_values, strict=True)}
    relaxed = loop_bounds(forms, leaf.loops)
    placed: set[Any] = set()
    for form in env.values():
        placed |= forms.leaves(form)
    if _cuts(forms, leaf.realize, env) or not _all_run(forms, leaf, leaf.loops, placed):
        return False
    if not is_rectangular(forms, leaf.loops):
        return False
    lows = [(env[iv.var], constant(1)) for iv in leaf.block.iter_vars]
    box = [forms.bounds(low, relaxed) for low, _ in lows]
    whole: Region = []
    for iv in leaf.block.iter_vars:
        low = forms.of(iv.dom.min)
        whole.append((low, shift(combine(low, forms.of(iv.dom.extent)), -1)))
    sizes = [iv.dom.min + iv.dom.extent for iv in leaf.block.iter_vars]
    return _is_box(forms, lows, box, relaxed, False) and contains(forms, box, whole, sizes)


def _all_run(forms: Forms, leaf: Leaf, loops: Sequence[Any], placed: Set[Any]) -> bool:
    """Whether no loop other than the `placed` ones may have no iterations.

    A symbolic number of steps of a reduction counts as one or more: what is reduced over nothing is undefined.
    """
    reducing: set[Any] = set()
    for iv, value in zip(leaf.block.iter_vars, leaf.realize.iter_values, strict=True):
        if iv.iter_type == REDUCE and leaf.block.init is not None:
            reducing |= forms.leaves(forms.of(value))
    for lp in loops:
        if lp.loop_var in placed or forms.nonneg(shift(forms.of(lp.extent), -1)):
            continue
        if isinstance(lp.extent, IntImm) or lp.loop_var not in reducing:
            return False
    return True


def _idle(forms: Forms, iv: Any, region: BufferRegion, value: Lin, relaxed: Mapping[Any, Bounds]) -> bool:
    """Whether iterations of loops further out may leave the domain of a variable, which the region does not show."""
    if forms.leaves(value) <= relaxed.keys():
        return False
    single = isinstance(iv.dom.extent, IntImm) and iv.dom.extent.value == 1
    if not single and any([iv.var in used_vars(r.min) for r in region.region]):
        return False
    bounds = forms.bounds(value, relaxed)
    first = forms.of(iv.dom.min)
    last = shift(combine(first, forms.of(iv.dom.extent)), -1)
    return (
        bounds is None
        or not forms.nonneg(combine(bounds[0], first, -1))
        or not forms.nonneg(combine(last, bounds[1], -1))
    )


def _in_domain(
    forms: Forms, leaf: Leaf, env: Mapping[Any, Lin], r: Any, size: Any, bounds: Bounds, relaxed: Mapping[Any, Bounds]
) -> Bounds | None:
    """Bounds without what loops reach only outside of the block's domain, where that is not outside of the buffer too."""
    beyond: dict[Any, Bounds] = {}
    for iv in leaf.block.iter_vars:
        if not forms.leaves(env[iv.var]) <= relaxed.keys():
            continue  # other iterations of the loops further out may reach nothing of the domain
        first = forms.of(iv.dom.min)
        last = shift(combine(first, forms.of(iv.dom.extent)), -1)
        value = forms.bounds(env[iv.var], relaxed)
        inside = value is not None and forms.nonneg(combine(value[0], first, -1))
        if not (inside and value is not None and forms.nonneg(combine(last, value[1], -1))):
            beyond[iv.var] = (first, last)
    if beyond.keys().isdisjoint(forms.leaves(forms.of(r.min)) | forms.leaves(forms.of(r.extent))):
        return bounds
    known = {v: e for v, e in env.items() if v not in beyond}
    ranges = {**relaxed, **beyond}
    low = forms.bounds(forms.of(r.min, known), ranges)
    high = forms.bounds(shift(combine(forms.of(r.min, known), forms.of(r.extent, known)), -1), ranges)
    if low is None or high is None:
        return None
    begin: Any = None
    end: Any = None
    if forms.nonneg(combine(low[0], bounds[0], -1)):
        begin = low[0]
    elif forms.nonneg(combine(bounds[0], low[0], -1)) or forms.nonneg(scale(low[0], -1)):
        begin = bounds[0]
    if forms.nonneg(combine(bounds[1], high[1], -1)):
        end = high[1]
    elif forms.nonneg(combine(high[1], bounds[1], -1)) or forms.nonneg(combine(shift(high[1], 1), forms.of(size), -1)):
        end = bounds[1]
    return None if begin is None or end is None else (begin, end)


def _is_box(
    forms: Forms, indices: list[tuple[Lin, Lin]], box: Region, relaxed: Mapping[Any, Bounds], cut: bool
) -> bool:
    """Whether the relaxed loops reach every element of the box, not only its corners."""
    seen: set[Any] = set()
    digits: dict[Any, list[tuple[int, int]]] = {}
    plain = True
    for low, extent in indices:
        span: int = extent.const if is_const(extent) else 0
        mine: set[Any] = set()
        endless = False
        for t, k in sorted(low.terms.items(), key=lambda x: abs(x[1])):
            here = relaxed.keys() & forms.leaves(Lin({t: 1}, 0))
            if not here:
                continue
            mine |= here
            if endless:
                return False
            if t.kind != LEAF:
                plain = False
                if t.kind != SPLIT:
                    return False
                digits.setdefault(id(t.args[0]), []).append((t.args[1], t.args[2] or 1 << 62))
                continue
            if t.leaf not in relaxed:
                return False  # an opaque expression of a loop
            digits.setdefault(t.leaf, []).append((1, 1 << 62))
            size = forms.const_bounds(combine(relaxed[t.leaf][1], relaxed[t.leaf][0], -1))[1]
            if size == 0:
                continue
            if abs(k) > span:
                return False
            if size is None:
                # A loop of symbolic extent: right when nothing stands above it in this dimension.
                endless = True
                continue
            span += size * abs(k)
        plain = plain and not (mine & seen)
        seen |= mine
    if plain:
        return True
    if cut or any([not is_const(extent) or extent.const != 1 for _, extent in indices]):
        return False
    for parts in digits.values():
        parts.sort()
        if any([a[1] > b[0] for a, b in zip(parts, parts[1:], strict=False)]):
            return False
    volume, points = 1, 1
    for b in box:
        height = None if b is None else forms.merge_digits(combine(b[1], b[0], -1))
        if height is None or not is_const(height):
            return False
        volume *= height.const + 1
    for v in seen:
        width = combine(relaxed[v][1], relaxed[v][0], -1)
        if not is_const(width):
            return False
        points *= width.const + 1
    return volume == points


def _cuts(forms: Forms, realize: Any, env: Mapping[Any, Lin]) -> list[Lin]:
    """Forms that the predicate keeps at or below 0, other than the bounds of the iteration variables."""
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
        for iv in realize.block.iter_vars:
            value, first = env[iv.var], forms.of(iv.dom.min)
            last = shift(combine(first, forms.of(iv.dom.extent)), -1)
            if same(cut, combine(value, last, -1)) or same(cut, combine(first, value, -1)):
                break
        else:
            cuts.append(cut)
    return cuts


def _cut_bounds(
    forms: Forms, cuts: list[Lin], low: Lin, high: Lin, bounds: Bounds, relaxed: Mapping[Any, Bounds], exact: bool
) -> Bounds | None:
    """Bounds of an index under `cut <= 0`, where the cut is part of the index."""
    inside = forms.leaves(low) | forms.leaves(high)
    for cut in cuts:
        shared = inside & forms.leaves(cut) & relaxed.keys()
        if not shared:
            continue
        k = min([high.terms.get(t, 0) // c for t, c in cut.terms.items()], default=0)
        rest = combine(high, cut, -k) if k >= 1 else high
        if (
            k >= 1
            and not forms.leaves(rest) & shared
            and all([high.terms.get(t) == k * c for t, c in cut.terms.items()])
        ):
            top = forms.bounds(rest, relaxed)
            if top is not None:
                least = forms.minimum(top[1], bounds[1])
                if not exact or (
                    forms.nonneg(combine(least, bounds[0], -1)) and (same(least, top[1]) or same(least, bounds[1]))
                ):
                    bounds = (bounds[0], least if same(least, top[1]) else bounds[1])
                    continue
        if exact:
            return None
    return bounds


def loop_bounds(forms: Forms, loops: Iterable[Any]) -> dict[Any, Any]:
    """For each loop variable the bounds over variables outside of these loops; None where there are none to be had."""
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


def is_rectangular(forms: Forms, loops: Iterable[Any]) -> bool:
    """Whether no loop runs to a value of another one."""
    seen: set[Any] = set()
    for loop in loops:
        if seen and not (forms.leaves(forms.of(loop.min)) | forms.leaves(forms.of(loop.extent))).isdisjoint(seen):
            return False
        seen.add(loop.loop_var)
    return True


def unite(forms: Forms, a: Region | None, b: Region) -> Region:
    """The smallest box around both."""
    if a is None:
        return b
    out: Region = []
    for x, y in zip(a, b, strict=True):
        out.append(None if x is None or y is None else (forms.minimum(x[0], y[0]), forms.maximum(x[1], y[1])))
    return out


def unite_exact(forms: Forms, a: Region | None, b: Region) -> Region:
    """A box all of which is in one of two boxes: both together where they are one, otherwise one of them."""
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
    """Whether `outer` provably holds all of `inner` that lies inside the buffer."""
    for a, b, n in zip(outer, inner, shape, strict=True):
        if a is None:
            return False
        size = forms.of(n)
        full = forms.nonneg(combine(constant(0), a[0], -1)) and forms.nonneg(combine(shift(a[1], 1), size, -1))
        if full:
            continue
        if b is None or not forms.nonneg(combine(b[0], a[0], -1)):
            return False
        if not forms.nonneg(combine(a[1], b[1], -1)) and not forms.nonneg(combine(shift(a[1], 1), size, -1)):
            return False
    return True


class _Accesses(Visitor):
    """Collects the loads and stores of a block body, with the loops inside it."""

    def __init__(self, holder: Block | None = None) -> None:
        self.loads: list[tuple[Buffer, Any, tuple[Any, ...]]] = []
        self.stores: list[tuple[Buffer, Any, tuple[Any, ...]]] = []
        self.loops: tuple[Any, ...] = ()
        self.lets: dict[Var, Any] = {}
        self.inner: set[Var] = set()
        """Variables that only the body knows, those of its own storage too."""
        self.pointers: set[Var] = set()
        """Variables given to calls, which may use all of what they point to."""
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
    def _let(self, x: Any) -> None:
        self.visit(x.value)
        self.inner.add(x.var)
        self.lets[x.var] = substitute(x.value, self.lets)
        self.visit(x.body)

    @on(Allocate, AllocateConst)
    def _allocate(self, x: Any) -> None:
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
        # An inner block answers for itself by its declared regions.
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
    """The reads and writes of a block body as boxes, one per buffer, in the order of first use.

    `holder`: the block, where it has storage of its own or views.
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
    """Whether the ends are made of what only the body knows: its variables, or elements that it changes."""
    leaves = forms.leaves(ends[0]) | forms.leaves(ends[1])
    if not leaves.isdisjoint(inner):
        return True
    loaded: list[Any] = []
    for leaf in leaves:
        if not isinstance(leaf, Var):
            post_order_visit(leaf, lambda x: loaded.append(x.buffer) if isinstance(x, BufferLoad) else None)
    return any([b in changed or b.data in inner for b in loaded])
