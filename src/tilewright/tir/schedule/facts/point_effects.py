"""Effects of single points of a block: whether each point writes all declared elements, whether it writes elements of its
own, and whether points can run in any order.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

from tilewright.arith.linear import LEAF, SPLIT, Atom
from tilewright.ir import IntImm, PrimExpr
from tilewright.node import Visitor, on
from tilewright.tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    Ramp,
    While,
)
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.linear_forms import Forms, Lin, combine, is_const, same, shift
from tilewright.tir.schedule.state import ScheduleState

if TYPE_CHECKING:
    from tilewright.tir.buffer import BufferRegion
    from tilewright.tir.expr import Var


REDUCE = IterVar.CommReduce


class _Body(Visitor):
    """The stores and loads of a block's body. Stores under a condition are marked."""

    def __init__(self) -> None:
        self.stores: list[tuple[Buffer, Any, tuple[Any, ...], bool]] = []
        self.loads: list[tuple[Buffer, Any]] = []
        self.loops: tuple[Any, ...] = ()
        self.conditional = False
        self.opaque = self.nested = self.lets = False

    @on(BufferStore)
    def _store(self, x: BufferStore) -> None:
        self.stores.append((x.buffer, x.indices, self.loops, self.conditional))
        self.visit_children(x)

    @on(BufferLoad)
    def _load(self, x: BufferLoad) -> None:
        self.loads.append((x.buffer, x.indices))
        self.visit_children(x)

    @on(For)
    def _for(self, x: For) -> None:
        outer, self.loops = self.loops, (*self.loops, x)
        self.visit_children(x)
        self.loops = outer

    @on(IfThenElse, While)
    def _condition(self, x: IfThenElse | While) -> None:
        before, self.conditional = self.conditional, True
        self.visit_children(x)
        self.conditional = before

    @on(LetStmt)
    def _let(self, x: LetStmt) -> None:
        self.lets = True
        self.visit_children(x)

    @on(BlockRealize)
    def _realize(self, x: BlockRealize) -> None:
        self.nested = True

    @on(Evaluate)
    def _evaluate(self, x: Evaluate) -> None:
        self.opaque = self.opaque or isinstance(x.value, Call)
        self.visit_children(x)


class Effects:
    """Properties of a block, computed once. A block is immutable.

    exact: by buffer, whether each point writes every element of the region that it declares. `certain` finds it for blocks
    that hold other blocks.
    """

    __slots__ = ("block", "body", "exact")

    def __init__(self, state: ScheduleState, block: Block) -> None:
        self.block = block
        self.body = _Body()
        self.body.visit(block.body)
        self.exact = (
            {} if self.body.nested else {r.buffer: _writes_exactly(state, block, self.body, r) for r in block.writes}
        )


_known: dict[int, Effects] = {}


def effects_of(state: ScheduleState, block: Block) -> Effects:
    found = _known.get(id(block))
    if found is None or found.block is not block:
        if len(_known) > 4096:
            _known.clear()
        found = _known[id(block)] = Effects(state, block)
    return found


def _writes_exactly(state: ScheduleState, block: Any, body: _Body, region: BufferRegion) -> bool:
    if sum([r.buffer is region.buffer for r in block.writes]) > 1:
        return False
    views = {
        m.buffer
        for m in block.match_buffers
        if m.source.buffer is region.buffer and _same_region(state.forms, m.source, region)
    }
    stores = [s for s in body.stores if s[0] is region.buffer or s[0] in views]
    if not stores:
        # An instruction writes what its block declares.
        return body.opaque
    forms = state.forms
    # Declared regions have the point of an axis with one point; the body may still have its variable.
    points = {iv.var: forms.of(iv.dom.min) for iv in block.iter_vars if _is_one(iv.dom.extent)}
    for buffer, indices, loops, conditional in stores:
        if conditional:
            continue
        wanted = (
            [(forms.of(r.min, points), forms.of(r.extent, points)) for r in region.region]
            if buffer is region.buffer
            else [(Lin({}, 0), forms.of(n)) for n in buffer.shape]
        )
        if _sweeps(forms, [_span(forms, i, points) for i in indices], loops, wanted):
            return True
    return False


def _span(forms: Forms, index: PrimExpr, points: dict[Var, Lin]) -> tuple[Lin, int]:
    """The first value and the number of consecutive elements of an index; unknown for other vectors."""
    if isinstance(index, Ramp) and is_const(forms.of(index.stride)) and forms.of(index.stride).const == 1:
        return forms.of(index.base, points), int(index.dtype.lanes)
    return forms.of(index, points), 1


def _is_one(extent: PrimExpr) -> bool:
    return isinstance(extent, IntImm) and extent.value == 1


def _sweeps(
    forms: Forms, indices: list[tuple[Lin, int]], loops: tuple[Any, ...], wanted: list[tuple[Lin, Lin]]
) -> bool:
    """Whether the indices take every value of the box while the loops run: each index is one loop with step 1, or a
    vector.
    """
    free = {lp.loop_var: lp for lp in loops}
    if any([not forms.nonneg(shift(forms.of(lp.extent), -1)) for lp in loops]):
        return False
    seen: set[Any] = set()
    for (index, lanes), (low, extent) in zip(indices, wanted, strict=True):
        mine = forms.leaves(index) & free.keys()
        if not mine:
            if not same(index, low) or not (is_const(extent) and extent.const == lanes):
                return False
            continue
        if len(mine) != 1 or mine & seen or lanes != 1:
            return False
        (v,) = mine
        seen |= mine
        lp = free[v]
        start = combine(combine(index, forms.var(v), -1), forms.of(lp.min))
        if forms.leaves(start) & free.keys() or not same(start, low) or not same(forms.of(lp.extent), extent):
            return False
    return True


# ---- one element, one point


def clashes(state: ScheduleState, block: Any) -> str:
    """The reason why two data parallel points of the block may write the same element; empty if they never do."""
    forms = state.forms
    spatial = {
        iv.var for iv in block.iter_vars if iv.iter_type != REDUCE and forms.ranges.get(iv.var, (0, 1)) != (0, 0)
    }
    varying = {iv.var for iv in block.iter_vars}
    for region in block.writes:
        places = [(forms.of(r.min), forms.of(r.extent)) for r in region.region]
        lacking = undetermined(forms, places, spatial, varying)
        if lacking:
            names = sorted([v.name for v in lacking])
            return f"its points write the same elements of {region.buffer.name} for different {', '.join(names)}"
    return ""


def undetermined(forms: Forms, places: Sequence[tuple[Lin, Lin]], wanted: Set[Var], varying: Set[Var]) -> set[Var]:
    """The `wanted` variables for whose different values two boxes (first, extent) may overlap.

    varying: all variables that change, including those not in `wanted`.
    """
    digits: dict[PrimExpr, list[tuple[int, int | None]]] = {}
    for low_form, extent in places:
        span = extent.const if is_const(extent) else None
        found: list[tuple[PrimExpr, tuple[int, int | None]]] = []
        for atom, k in sorted(low_form.terms.items(), key=lambda t: abs(t[1])):
            mine = forms.leaves(Lin({atom: 1}, 0)) & varying
            if not mine:
                continue
            digit = _digit_of(forms, atom)
            if digit is None or not mine <= wanted or span is None or abs(k) < span:
                found = []
                break
            found.append(digit)
            low, high = forms.const_bounds(Lin({atom: 1}, 0))
            span = None if low is None or high is None else span + (high - low) * abs(k)
        for v, part in found:
            digits.setdefault(v, []).append(part)
    out: set[Var] = set()
    for v in wanted:
        at: int | None = 1
        for lower, upper in sorted(digits.get(v, ()), key=lambda p: p[0]):
            if at is not None and lower <= at:
                at = None if upper is None else max(at, upper)
        low_value, high_value = forms.ranges.get(v, (None, None))
        if at is not None and (high_value is None or at <= high_value or low_value is None or low_value < 0):
            out.add(v)
    return out


def _digit_of(forms: Forms, atom: Atom) -> tuple[Any, tuple[int, int | None]] | None:
    if atom.kind == LEAF:
        return atom.leaf, (1, None)
    if atom.kind == SPLIT and len(atom.args[0].terms) == 1 and atom.args[0].const == 0:
        ((inner, k),) = atom.args[0].terms.items()
        if inner.kind == LEAF and k == 1:
            return inner.leaf, (atom.args[1], atom.args[2] or None)
    return None


# ---- any order


def need_order_free(state: ScheduleState, block: Block) -> None:
    """Refuse a block whose points cannot run in any order.

    They can if each writes elements of its own, loads only those elements of what the block writes, and reduction
    variables run over an update. By definition, the updates of a reduction can be done in any order.
    """
    if not state.enable_check:
        return
    reason = clashes(state, block)
    if reason:
        refuse(f"the points of {{0}} must write different elements, but {reason}", block)
    reason = self_dependence(state, block)
    if reason:
        refuse(f"the points of {{0}} must not depend on each other, but {reason}", block)


def self_dependence(state: ScheduleState, block: Any) -> str:
    """The reason why a point may load an element that another point of the block writes, except to reduce it; empty if none does."""
    forms = state.forms
    effects = effects_of(state, block).body
    own = {r.buffer: r for r in block.writes}
    views = {m.buffer: m.source.buffer for m in block.match_buffers}
    for r in block.reads:
        if r.buffer in own and not _same_region(forms, r, own[r.buffer]):
            return f"it reads {_text(r)} where it writes {_text(own[r.buffer])}"
    reduce = [iv for iv in block.iter_vars if iv.iter_type == REDUCE and forms.ranges.get(iv.var, (0, 1)) != (0, 0)]
    if effects.nested or effects.opaque:
        return ""
    places: dict[Buffer, Sequence[PrimExpr]] = {}
    for buffer, indices, loops, _ in effects.stores:
        if loops:
            continue
        known = places.setdefault(buffer, indices)
        if not _same_place(forms, known, indices) and (reduce or block.init is not None):
            return f"it updates several elements of {buffer.name}"
    loaded = set()
    for buffer, indices in effects.loads:
        if views.get(buffer, buffer) not in own:
            continue
        loaded.add(buffer)
        if buffer in places and (reduce or block.init is not None):
            if not _same_place(forms, places[buffer], indices):
                return f"it loads {buffer.name} at another place than it stores"
        elif views.get(buffer) in own and not any([r.buffer is views[buffer] for r in block.reads]):
            return f"it loads {buffer.name}, which it declares only to write"
    if reduce and not effects.lets:
        for buffer in places:
            if buffer not in loaded and not any([b in loaded for b in places]):
                return f"{reduce[0].var.name} reduces nothing: {buffer.name} is overwritten"
    return ""


def _same_place(forms: Forms, a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    """Whether indices, including vectors of indices, are the same."""
    return all([_same_index(forms, x, y) for x, y in zip(a, b, strict=True)])


def _same_index(forms: Forms, a: PrimExpr, b: PrimExpr) -> bool:
    if isinstance(a, Ramp) and isinstance(b, Ramp):
        return (
            a.dtype == b.dtype
            and same(forms.of(a.base), forms.of(b.base))
            and same(forms.of(a.stride), forms.of(b.stride))
        )
    return same(forms.of(a), forms.of(b))


def _same_region(forms: Forms, a: BufferRegion, b: BufferRegion) -> bool:
    return all(
        [
            same(forms.of(x.min), forms.of(y.min)) and same(forms.of(x.extent), forms.of(y.extent))
            for x, y in zip(a.region, b.region, strict=True)
        ]
    )


def _text(region: BufferRegion) -> str:
    ranges = [str(r.min) if str(r.extent) == "1" else f"{r.min}:{r.min + r.extent}" for r in region.region]
    return f"{region.buffer.name}[{', '.join(ranges)}]"
