"""Lower bounds of what blocks do while some of their loops run: the elements that they provably write, the points they
visit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from tilewright.arith.linear import LEAF, SPLIT
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.tir import Block, Buffer, BufferRegion, For
from tilewright.tir.schedule.facts.binding import binding_of
from tilewright.tir.schedule.facts.enumeration import fills, visits
from tilewright.tir.schedule.facts.leaves import REDUCE, Leaf, conjuncts, leaves
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
from tilewright.tir.schedule.facts.point_effects import effects_of
from tilewright.tir.schedule.facts.regions import Region, contains, cuts_of, loop_bounds
from tilewright.tir.schedule.state import ScheduleState

if TYPE_CHECKING:
    from tilewright.tir.expr import IterVar, Var


_ENDLESS = 1 << 62


def writes_exactly(state: ScheduleState, block: Block, buffer: Buffer) -> bool:
    """Whether each point of the block provably writes every element of the region that it declares."""
    effects = effects_of(state, block)
    if effects.body.nested and buffer not in effects.exact:
        declared = [r for r in block.writes if r.buffer is buffer]
        effects.exact[buffer] = len(declared) == 1 and _nest_writes_exactly(state, block, declared[0])
    return effects.exact.get(buffer, False)


def _nest_writes_exactly(state: ScheduleState, block: Block, region: BufferRegion) -> bool:
    """Like `writes_exactly`, from the declarations of the inner blocks."""
    forms = state.forms
    wanted = [(forms.of(r.min), shift(combine(forms.of(r.min), forms.of(r.extent)), -1)) for r in region.region]
    for leaf in leaves(block.body):
        for inner in leaf.block.writes:
            if inner.buffer is region.buffer:
                box = surely(state, inner, leaf, leaf.loops)
                if contains(forms, box, list(wanted), region.buffer.shape):
                    return True
    return False


def surely(state: ScheduleState, region: BufferRegion, leaf: Leaf, loops: Sequence[For]) -> Region:
    """A box over the variables of outer loops, such that the block provably writes all of it that is inside the buffer.

    This holds in every iteration of the outer loops, while `loops` run. None: nothing is known of a dimension. If the
    domain is smaller than what the loops reach, the bounds of the box contain minima and maxima.
    """
    return list(known_at(state, leaf, loops, (surely, region), lambda: _surely(state, region, leaf, loops)))


def _surely(state: ScheduleState, region: BufferRegion, leaf: Leaf, loops: Sequence[For]) -> Region:
    forms = state.forms
    nothing: Region = [None] * len(region.region)
    if leaf.conditional or not writes_exactly(state, leaf.block, region.buffer):
        return nothing
    env = {iv.var: forms.of(v) for iv, v in zip(leaf.block.iter_vars, leaf.realize.iter_values, strict=True)}
    relaxed = loop_bounds(forms, loops)
    dims = [_Dimension(forms, r, n, env, relaxed) for r, n in zip(region.region, region.buffer.shape, strict=True)]
    placed: set[PrimExpr] = set().union(*[d.leaves for d in dims])
    cuts = cuts_of(forms, leaf.realize, env)
    for cut in cuts:
        mine = forms.leaves(cut) & relaxed.keys()
        if not mine or not mine <= placed:
            return nothing
    if not _all_run(forms, leaf, loops, dims) or not _is_rectangular(forms, loops):
        return nothing
    named: set[PrimExpr] = set().union(*[d.named for d in dims])
    clips = _clips(forms, leaf, env, relaxed, named, cuts)
    if clips is None:
        return nothing
    for d in dims:
        d.limit([c for c in cuts if forms.leaves(c) & d.mine], [c for c in clips if c.var in d.named])
    if _fill_a_box(forms, dims, loops, bool(cuts or clips)):
        return [d.bounds for d in dims]
    return [None if d.mine else d.bounds for d in dims]


class _Clip:
    """An iteration variable whose loops run beyond its domain. The block does not run there."""

    def __init__(self, iv: IterVar, value: Lin, first: Lin, last: Lin) -> None:
        self.var, self.value, self.first, self.last = iv.var, value, first, last


class _Dimension:
    """One dimension of a region: the index of its first element over loop variables, and the known bounds."""

    def __init__(
        self, forms: Forms, r: Range, size: PrimExpr, env: Mapping[Var, Lin], relaxed: Mapping[Any, Bounds]
    ) -> None:
        self.forms, self.range, self.size, self.env, self.relaxed = forms, r, forms.of(size), env, relaxed
        self.low, self.extent = forms.of(r.min, env), forms.of(r.extent, env)
        self.named = forms.leaves(forms.of(r.min)) | forms.leaves(forms.of(r.extent))
        self.leaves = forms.leaves(self.low) | forms.leaves(self.extent)
        self.mine = self.leaves & relaxed.keys()
        self.bounds: Bounds | None = None
        if relaxed.keys().isdisjoint(forms.leaves(self.extent)):
            first = forms.bounds(self.low, relaxed)
            last = forms.bounds(shift(combine(self.low, self.extent), -1), relaxed)
            self.bounds = None if first is None or last is None else (first[0], last[1])

    def is_empty_without(self, v: Var) -> bool:
        """Whether the bounds enclose nothing if the loop of the variable has no iterations."""
        for t, k in self.low.terms.items():
            if t.kind == LEAF and t.leaf is v and k >= 1:
                rest = Lin({x: c for x, c in self.low.terms.items() if x is not t}, 0)
                reach = span(self.forms, rest, self.relaxed, self.extent)
                return reach is not None and reach <= k
        return False

    def limit(self, cuts: list[Lin], clips: list[_Clip]) -> None:
        """Apply a condition or the end of a domain to the bounds. After more than one, nothing is known."""
        if self.bounds is None or not (cuts or clips):
            return
        if len(cuts) + len(clips) > 1:
            self.bounds = None
        elif cuts:
            self.bounds = self._cut(self.bounds, cuts[0])
        else:
            self.bounds = self._clipped(self.bounds, clips[0])

    def _highest(self, part: Lin, k: int) -> Lin | None:
        """The remainder of the index, if `k * part` is its highest digit. An end of the part then ends the box."""
        rest = combine(self.low, part, -k)
        forms, relaxed = self.forms, self.relaxed
        own = forms.leaves(part) & relaxed.keys()
        if own & forms.leaves(rest) or span(forms, part, relaxed, constant(1)) is None:
            return None
        steps = span(forms, rest, relaxed, self.extent)
        return rest if steps is not None and steps >= k else None

    def _cut(self, bounds: Bounds, cut: Lin) -> Bounds | None:
        """Bounds under `cut <= 0`."""
        forms = self.forms
        k = min([self.low.terms.get(t, 0) // c for t, c in cut.terms.items()], default=0)
        if k < 1 or any([self.low.terms.get(t) != k * c for t, c in cut.terms.items()]):
            return None
        rest = self._highest(cut, k)
        top = None if rest is None else forms.bounds(shift(combine(rest, self.extent), -1), self.relaxed)
        if top is None:
            return None
        least = forms.minimum(top[1], bounds[1])
        if not forms.nonneg(combine(least, bounds[0], -1)) or not (same(least, top[1]) or same(least, bounds[1])):
            return None
        return bounds[0], least

    def _clipped(self, bounds: Bounds, clip: _Clip) -> Bounds | None:
        """Bounds inside the domain of a variable, unless points outside the domain are outside the buffer, too."""
        forms = self.forms
        index = forms.of(self.range.min)
        (k, *more) = [c for t, c in index.terms.items() if t.kind == LEAF and t.leaf is clip.var] or [0]
        others = Lin({t: c for t, c in index.terms.items() if t.leaf is not clip.var}, index.const)
        if k < 1 or more or clip.var in forms.leaves(others) | forms.leaves(forms.of(self.range.extent)):
            return None
        rest = self._highest(clip.value, k)
        ends = None if rest is None else forms.bounds(rest, self.relaxed)
        if ends is None or not is_const(self.extent):
            return None
        begin = combine(ends[0], scale(clip.first, k))
        end = shift(combine(ends[1], scale(clip.last, k)), self.extent.const - 1)
        low, high = bounds
        if not forms.nonneg(scale(begin, -1)):
            low = forms.maximum(low, begin)
        if not forms.nonneg(combine(shift(end, 1), self.size, -1)):
            high = forms.minimum(high, end)
        return low, high


def span(forms: Forms, form: Lin, relaxed: Mapping[Any, Bounds], extent: Lin) -> int | None:
    """The number of consecutive elements that a sum of loops reaches, with `extent` elements at each place; None if
    there are gaps.
    """
    reach: int = extent.const if is_const(extent) else 0
    for t, k in sorted(form.terms.items(), key=lambda x: abs(x[1])):
        if relaxed.keys().isdisjoint(forms.leaves(Lin({t: 1}, 0))):
            continue
        if t.kind != LEAF or t.leaf not in relaxed or relaxed[t.leaf] is None:
            return None
        least, size = forms.const_bounds(combine(relaxed[t.leaf][1], relaxed[t.leaf][0], -1))
        if size == 0:
            continue
        if reach >= _ENDLESS or abs(k) > reach:
            return None
        # A loop of symbolic extent: allowed if it is the highest digit.
        reach = reach + size * abs(k) if size is not None and size == least else _ENDLESS
    return reach


def _fill_a_box(forms: Forms, dims: list[_Dimension], loops: Sequence[Any], limited: bool) -> bool:
    """Whether the loops reach every element of the box, not only its corners."""
    seen: set[PrimExpr] = set()
    plain = True
    for d in dims:
        own = forms.leaves(d.low) & d.relaxed.keys()
        plain = plain and not own & seen and span(forms, d.low, d.relaxed, d.extent) is not None
        seen |= own
    if plain:
        return True
    if limited or any([not is_const(d.extent) or d.extent.const != 1 for d in dims]):
        return False
    own_loops = [lp for lp in loops if lp.loop_var in seen]
    parts = [Lin({t: k for t, k in d.low.terms.items() if forms.leaves(Lin({t: 1}, 0)) & seen}, 0) for d in dims]
    heights = [forms.count(d.bounds) if d.bounds is not None else constant(0) for d in dims]
    if not all([is_const(h) for h in heights]):
        return False
    return fills(forms, parts, own_loops, [h.const for h in heights]) or _tile(forms, parts, own_loops)


def _tile(forms: Forms, indices: list[Lin], loops: Sequence[Any]) -> bool:
    """Whether the indices use all digits of the loop variables, each once, without gaps. Digits that are always 0 do not count."""
    extents = {lp.loop_var: lp.extent.value for lp in loops if isinstance(lp.extent, IntImm) and str(lp.min) == "0"}
    digits: dict[Any, list[tuple[int, int]]] = {}
    for index in indices:
        reach = 1
        for t, k in sorted(index.terms.items(), key=lambda x: x[1]):
            v, lower, upper = t.leaf, 1, 0
            if t.kind == SPLIT and len(t.args[0].terms) == 1 and not t.args[0].const:
                ((inner, inner_k),) = t.args[0].terms.items()
                v, lower, upper = inner.leaf if inner_k == 1 else None, t.args[1], t.args[2]
            if v not in extents:
                return False
            top = upper or extents[v]
            if lower < 1 or top % lower:
                return False
            if top == lower:
                continue
            if k != reach:
                return False
            digits.setdefault(v, []).append((lower, top))
            reach *= top // lower
    for v, parts in digits.items():
        at = 1
        for lower, upper in sorted(parts):
            if lower != at:
                return False
            at = upper
        if at != extents[v]:
            return False
    return True


def _clips(
    forms: Forms,
    leaf: Leaf,
    env: Mapping[Var, Lin],
    relaxed: Mapping[Any, Bounds],
    named: Set[PrimExpr],
    cuts: list[Lin],
) -> list[_Clip] | None:
    """The variables that leave their domains; None if this may keep other variables from a value."""
    found: list[_Clip] = []
    for iv in leaf.block.iter_vars:
        first = forms.of(iv.dom.min)
        last = shift(combine(first, forms.of(iv.dom.extent)), -1)
        value = forms.bounds(env[iv.var], relaxed)
        inside = value is not None and forms.nonneg(combine(value[0], first, -1))
        if not (inside and value is not None and forms.nonneg(combine(last, value[1], -1))):
            found.append(_Clip(iv, env[iv.var], first, last))
    conditions = [forms.leaves(c) & relaxed.keys() for c in cuts]
    for c in found:
        mine = forms.leaves(c.value) & relaxed.keys()
        if (forms.leaves(c.first) | forms.leaves(c.last)) & relaxed.keys():
            return None
        if any([mine & x for x in (*conditions, *[forms.leaves(e) for v, e in env.items() if v is not c.var])]):
            return None
        if c.var not in named:
            # The region does not depend on it, so the first step of its loops must be inside the domain.
            start = forms.bounds(c.value, {v: (b[0], b[0]) for v, b in relaxed.items() if b is not None})
            if start is None or not same(*start):
                return None
            if not forms.nonneg(combine(start[0], c.first, -1)) or not forms.nonneg(combine(c.last, start[0], -1)):
                return None
    return found


def _all_run(forms: Forms, leaf: Leaf, loops: Sequence[Any], dims: list[_Dimension]) -> bool:
    """Whether every loop has iterations, or the box is empty otherwise.

    A symbolic number of reduction steps counts as at least one: the result of a reduction without steps is undefined.
    """
    reducing: set[PrimExpr] = set()
    for iv, value in zip(leaf.block.iter_vars, leaf.realize.iter_values, strict=True):
        if iv.iter_type == REDUCE and leaf.block.init is not None:
            reducing |= forms.leaves(forms.of(value))
    for lp in loops:
        if forms.nonneg(shift(forms.of(lp.extent), -1)):
            continue
        if isinstance(lp.extent, IntImm):
            return False
        if not any([d.is_empty_without(lp.loop_var) for d in dims]) and (
            lp.loop_var not in reducing or any([lp.loop_var in d.leaves for d in dims])
        ):
            return False
    return True


def _is_rectangular(forms: Forms, loops: Sequence[For]) -> bool:
    """Whether no loop bound depends on another loop."""
    seen: set[Any] = set()
    for loop in loops:
        if seen and not (forms.leaves(forms.of(loop.min)) | forms.leaves(forms.of(loop.extent))).isdisjoint(seen):
            return False
        seen.add(loop.loop_var)
    return True


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
    if cuts_of(forms, leaf.realize, env) or not _is_rectangular(forms, leaf.loops):
        return False
    dims = []
    whole: Region = []
    sizes = [iv.dom.extent for iv in leaf.block.iter_vars]
    for iv in leaf.block.iter_vars:
        number = Range.from_min_extent(iv.var - iv.dom.min, IntImm(iv.var.dtype, 1))
        dims.append(_Dimension(forms, number, iv.dom.extent, env, relaxed))
        whole.append((constant(0), shift(forms.of(iv.dom.extent), -1)))
    if not _all_run(forms, leaf, leaf.loops, dims):
        return False
    box: Region = [d.bounds for d in dims]
    return _fill_a_box(forms, dims, leaf.loops, False) and contains(forms, box, whole, sizes)
