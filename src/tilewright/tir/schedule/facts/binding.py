"""Analysis of how loops visit the points of a block: which points, how often, and by which digits of loop variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd
from typing import TYPE_CHECKING, Any

from tilewright.arith import Analyzer
from tilewright.arith.linear import LEAF, SPLIT, Atom
from tilewright.ir import IntImm, PrimExpr
from tilewright.ir.dtype import MOST_SCALE
from tilewright.node import any_node, structural_equal
from tilewright.tir import LT, FloorDiv, FloorMod
from tilewright.tir.schedule.facts.enumeration import visits
from tilewright.tir.schedule.facts.leaves import Leaf, conjuncts, int_extent
from tilewright.tir.schedule.facts.linear_forms import Forms, Lin, combine, same
from tilewright.tir.schedule.facts.places import known_at
from tilewright.tir.schedule.state import ScheduleState
from tilewright.tir.stmt_functor import used_vars
from tilewright.tir.transform.loop.scalable import FixedLanes, is_scalable

if TYPE_CHECKING:
    from tilewright.tir.expr import IterVar, Var
    from tilewright.tir.stmt import For


class Binding:
    """Facts about how the loops visit the points of a block.

    covers: every point of the iteration domain is visited exactly once while all `loops` run.

    injective: different iterations of the loops that are used visit different points.

    repeats: a loop or a part of one is not used, so that points are visited again.

    again: the loops of which a part is not used, if they are known.

    gaps: the iteration variables whose domain the loops may not reach in full.

    predicated: a condition excludes points inside the domain.

    uses: for each loop variable, the kinds of iteration variables that depend on it.
    """

    __slots__ = ("again", "covers", "gaps", "injective", "predicated", "reason", "repeats", "uses", "values")

    def __init__(self) -> None:
        self.covers = self.injective = True
        self.repeats = self.predicated = False
        self.reason = ""
        self.uses: dict[Any, set[int]] = {}
        self.gaps: set[Any] = set()
        self.again: set[Any] = set()
        self.values: list[Lin] = []

    def fail(self, reason: str, injective: bool = False) -> None:
        self.covers = False
        self.injective = self.injective and injective
        self.reason = self.reason or reason


SYMBOLIC = 1000000007
"""Represents a symbolic extent, or its remaining factor after its known one. It equals no constant extent, so the digits of symbolic
and constant loops stay distinct."""

Digit = tuple[Any, int, int]
"""(source, lower, upper): the part (source % upper) // lower of a loop variable or of a fused number."""


Caps = Mapping[frozenset[Any], int]
"""Upper bounds of forms by a predicate, keyed by the terms of the forms."""


def mixed_radix(
    forms: Forms, value: Lin, extents: Mapping[Any, int], caps: Caps
) -> tuple[list[Digit], int, dict[int, Lin]] | None:
    """The digits of a mixed-radix number, its extent, and the fused numbers whose digits it uses."""
    digits: list[Digit] = []
    sources: dict[int, Lin] = {}
    total = 1
    below: dict[Atom, int] = {}
    for atom, k in sorted(value.terms.items(), key=lambda t: t[1]):
        if k < total and caps.get(frozenset(below.items())) == k:
            # A predicate limits the number below this digit, which then has so many values.
            cut = Lin(dict(below), 0)
            digits, sources, total = [(id(cut), 1, k)], {id(cut): cut}, k
        below[atom] = k
        if atom.kind == LEAF:
            extent = extents.get(atom.leaf)
            if extent == 1:
                continue
            if extent is None or k != total:
                return None
            digits.append((atom.leaf, 1, extent))
        elif atom.kind == SPLIT:
            f, lower, upper = atom.args
            inner = mixed_radix(forms, f, extents, caps)
            if inner is None or f.const or k != total:
                return None
            most = min(inner[1], caps.get(frozenset(f.terms.items()), inner[1]))
            top = upper or most
            if top <= 0 or top % lower or most % top:
                return None
            extent = top // lower
            digits.append((id(f), lower, top))
            sources[id(f)] = f
        else:
            return None
        total *= extent
    return digits, total, sources


def binding_of(state: ScheduleState, leaf: Leaf) -> Binding:
    """The binding of a block to the loops of its scope. `leaf.loops` must have all of them. Not to be changed."""
    return known_at(state, leaf, leaf.loops, (binding_of,), lambda: _found(state, leaf))


def _found(state: ScheduleState, leaf: Leaf) -> Binding:
    out = _of_digits(state, leaf)
    if not (out.covers and out.injective) and _is_scalable(leaf):
        _for_all_scales(state, leaf, out)
    return out


def _is_scalable(leaf: Leaf) -> bool:
    """Whether the loops or the bindings of a block depend on the machine's vector length."""
    return any_node((*[lp.extent for lp in leaf.loops], *leaf.realize.iter_values), is_scalable)


def _for_all_scales(state: ScheduleState, leaf: Leaf, out: Binding) -> None:
    """Sets what holds of a binding with any number for vscale."""
    found = [_of_digits(state, _with_scale(state, leaf, scale)) for scale in range(1, MOST_SCALE + 1)]
    out.covers, out.injective = all([b.covers for b in found]), all([b.injective for b in found])
    out.repeats, out.predicated = any([b.repeats for b in found]), any([b.predicated for b in found])
    out.gaps, out.again = (set().union(*[getattr(b, name) for b in found]) for name in ("gaps", "again"))
    out.reason = next((b.reason for b in found if b.reason), "")


def _with_scale(state: ScheduleState, leaf: Leaf, scale: int) -> Leaf:
    """The loops around a block, and its bindings, with a number for vscale."""
    lanes = FixedLanes(scale)

    def fixed(e: PrimExpr) -> PrimExpr:
        made: PrimExpr = state.forms.simplify(lanes.visit(e))
        return made

    loops = tuple([lp.replace(extent=fixed(lp.extent)) for lp in leaf.loops])
    values, predicate = tuple([fixed(v) for v in leaf.realize.iter_values]), fixed(leaf.realize.predicate)
    return Leaf(leaf.realize.replace(iter_values=values, predicate=predicate), loops, leaf.conditional)


def _of_digits(state: ScheduleState, leaf: Leaf) -> Binding:
    digits = _Digits(state.forms, leaf)
    for iv, value in zip(leaf.block.iter_vars, leaf.realize.iter_values, strict=True):
        digits.bind(iv, value)
    out = digits.out
    if out.injective:
        digits.part_fused_numbers()
        digits.compare_parts()
    conditions = digits.conditions
    if len(conditions) > digits.met:
        known = [c for c in conditions if _limit_key(state.forms, c) is not None]
        if len(known) < len(conditions) or not _predicates_are_bounds(state.forms, leaf, out, conditions):
            out.predicated = True
            out.fail("its predicate is more than the bounds of its iteration variables", True)
    if not out.covers and (not out.injective or out.predicated or out.gaps):
        _try_all(state.forms, leaf, out, conditions)
    if leaf.conditional:
        out.predicated = True
        out.fail("it is under a condition", True)
    return out


class _Digits:
    """Collects the digits of loops that the iteration variables of a block use, and derives its binding, `out`.

    conditions: the conditions of its predicate; limits: the forms a - b of conditions `a < b`.

    used: the parts (lower, upper) that are used of each source, a loop variable or one of `sources`.

    met: the number of conditions that are the bound of an iteration variable.
    """

    def __init__(self, forms: Forms, leaf: Leaf) -> None:
        self.forms, self.leaf, self.out = forms, leaf, Binding()
        self.extents: dict[Any, int] = {}
        for loop in leaf.loops:
            extent = int_extent(loop)
            self.extents[loop.loop_var] = SYMBOLIC * _factor(forms.of(loop.extent)) if extent is None else extent
            if not isinstance(loop.min, IntImm) or loop.min.value != 0:
                self.out.fail(f"loop {loop.loop_var.name} does not start at 0")
        self.conditions = conjuncts(leaf.realize.predicate)
        self.limits = {_limit_key(forms, c) for c in self.conditions}
        self.caps: Caps = {key[0]: -key[1] for key in self.limits if key is not None and key[1] < 0}
        self.pairs = _fused_pairs(leaf)
        self.used: dict[Any, list[tuple[int, int]]] = {}
        self.sources: dict[Any, Lin] = {}
        self.met = 0

    def bind(self, iv: Any, value: Any) -> None:
        """Add the digits of an iteration variable's value."""
        form = self.forms.of(value)
        self.out.values.append(form)
        whole = self.pairs.get(iv.var)
        for v in self.forms.leaves(form if whole is None else self.forms.of(whole[0])):
            if v in self.extents:
                self.out.uses.setdefault(v, set()).add(iv.iter_type)
        if whole is not None:
            number, count, first = whole
            if first:
                self._bind_number(iv, number, count)
        elif isinstance(iv.dom.extent, IntImm):
            self._bind_constant(iv, value, form)
        else:
            self._bind_symbolic(iv, value, form)

    def _bind_number(self, iv: IterVar, number: PrimExpr, count: PrimExpr) -> None:
        """Add a number whose parts are the values of several variables, with `count` values in all."""
        form = self.forms.of(number)
        radix = self._radix(form)
        if radix is None or form.const:
            self._gap(iv, f"{number} is not a mixed-radix number of the loops", False)
            return
        self._take(radix[0], radix[2])
        if self._is_limit(combine(form, self.forms.of(count), -1)):
            self.met += 1
            if not _runs_to(self.leaf, form, count):
                self._gap(iv, f"{number} may take less than {count} values")
        elif not _is_loop_of(self.forms, self.leaf, number, count):
            self._gap(iv, f"{number} does not run over {count} numbers")

    def _bind_symbolic(self, iv: Any, value: Any, form: Lin) -> None:
        """Add a variable whose domain has a symbolic extent."""
        if any([value is lp.loop_var and lp.extent is iv.dom.extent for lp in self.leaf.loops]):
            self._take([(value, 1, self.extents[value])], {})
            return
        found = _symbolic_digits(self.forms, self.leaf, iv, form, self.extents, self.limits, self.caps)
        if found is None:
            radix = self._radix(combine(form, self.forms.of(iv.dom.min), -1))
            self._gap(
                iv,
                f"{iv.var.name} has a symbolic domain, which {value} does not cover digit by digit",
                radix is not None,
            )
            if radix is None:
                return
            found = radix[0], radix[2]
        self._take(*found)

    def _bind_constant(self, iv: Any, value: PrimExpr, form: Lin) -> None:
        """Add a variable whose domain has a constant extent."""
        form = combine(form, self.forms.of(iv.dom.min), -1)
        radix = self._radix(form)

        def gap(why: str, injective: bool = True) -> None:
            # The value is printed only here: most variables have no gap.
            self._gap(iv, f"{iv.var.name} = {value} {why}", injective)

        if radix is None:
            gap("is not a mixed-radix number of the loops", False)
            return
        if form.const:
            gap(f"does not start at {iv.dom.min}")
        digits, total, sources = radix
        self._take(digits, sources)
        extent = iv.dom.extent.value
        if total < extent:
            gap(f"takes only {total} of its {extent} values")
        elif total > extent and not self._is_limit(Lin(form.terms, form.const - extent)):
            gap(f"exceeds its domain of {extent} and no predicate stops it")
        elif total > extent:
            self.met += 1
            if not _reaches(self.forms, self.leaf, form, extent):
                gap(f"may take less than its {extent} values")

    def part_fused_numbers(self) -> None:
        """Add the digits of the fused numbers too, once for each number, even if several variables use digits of it."""
        pending = list(self.sources)
        while pending:
            f = self.sources[pending.pop()]
            inner = self._radix(f)
            assert inner is not None
            if self.caps.get(frozenset(f.terms.items()), inner[1]) < inner[1] and f.const == 0:
                self.met += 1
            pending += [key for key in inner[2] if key not in self.sources]
            self._take(inner[0], inner[2])

    def compare_parts(self) -> None:
        """Find parts of loops that are used twice, or not at all."""
        out = self.out
        for source, parts in self.used.items():
            parts.sort()
            if source in self.extents:
                total = self.extents[source]
            else:
                total = _extent_of(self.forms, self.sources.get(source), self.extents, self.caps)
            at = 1
            for lower, upper in [*parts, (total, total)]:
                if lower < at and lower < total:
                    out.fail("two iteration variables use the same part of a loop")
                elif lower > at:
                    out.repeats = True
                    out.again |= _loops_between(self.forms, source, self.sources, at, lower, self.extents, self.caps)
                at = upper
        for v, extent in self.extents.items():
            if extent != 1 and v not in self.used:
                out.repeats = True
                out.reason = out.reason or f"loop {v.name} is not used by the block"
        if out.repeats:
            out.fail("part of a loop is not used", True)

    def _radix(self, form: Lin) -> tuple[list[Digit], int, dict[int, Lin]] | None:
        return mixed_radix(self.forms, form, self.extents, self.caps)

    def _is_limit(self, form: Lin) -> bool:
        """Whether a condition says that this form is negative."""
        return (frozenset(form.terms.items()), form.const) in self.limits

    def _take(self, digits: Iterable[Digit], sources: Mapping[int, Lin]) -> None:
        self.sources.update(sources)
        for source, lower, upper in digits:
            self.used.setdefault(source, []).append((lower, upper))

    def _gap(self, iv: IterVar, reason: str, injective: bool = True) -> None:
        """Record that the loops may not reach all of the variable's domain."""
        self.out.gaps.add(iv.var)
        self.out.fail(reason, injective)


def _loops_between(
    forms: Forms, source: Any, sources: Mapping[int, Lin], low: int, high: int, extents: Mapping[Var, int], caps: Caps
) -> set[Var]:
    """The loops that make up the part (source % high) // low of a loop or of a fused number."""
    if source in extents:
        return {source}
    inner = mixed_radix(forms, sources[source], extents, caps)
    assert inner is not None
    found: set[Var] = set()
    at = 1
    for below, lower, upper in inner[0]:
        end = at * (upper // lower)
        if max(at, low) < min(end, high):
            found |= _loops_between(forms, below, inner[2], lower, upper, extents, caps)
        at = end
    return found


def _try_all(forms: Forms, leaf: Leaf, out: Binding, conditions: list[PrimExpr]) -> None:
    """The result of enumerating all iterations, for bindings that no rule handles."""
    counts = visits(forms, leaf.block, list(leaf.realize.iter_values), leaf.loops, conditions)
    if counts is None or counts.max() > 1:
        return
    out.injective = True
    used = set(out.uses)
    for c in conditions:
        used |= set(used_vars(c))
    out.repeats = any([lp.loop_var not in used and int_extent(lp) != 1 for lp in leaf.loops])
    if counts.min() == 1:
        out.gaps, out.predicated = set(), False
        out.covers = not out.repeats


def _fused_pairs(leaf: Leaf) -> dict[Any, tuple[Any, Any, bool]]:
    """Variables bound to the parts `f // (m * n)`, `f // n % m`, `f % n` of one number, where a divisor or the domain
    of the first is symbolic: (f, the number of values that they have together, whether it is the first).
    """
    out: dict[Any, tuple[Any, Any, bool]] = {}
    rest = [(iv, *part) for iv, part in [(iv, _part(v)) for iv, v in _bound(leaf)] if part is not None]
    while rest:
        number = rest[0][1]
        group = [p for p in rest if structural_equal(p[1], number)]
        rest = [p for p in rest if not structural_equal(p[1], number)]
        if all([isinstance(iv.dom.extent, IntImm) for iv, *_ in group]):
            continue
        count = _count_of_parts([p for p in group if len(group) > 1])
        if count is not None:
            for iv, *_ in group:
                out[iv.var] = (number, count, iv is group[0][0])
    return out


def _bound(leaf: Leaf) -> list[tuple[Any, Any]]:
    """Iteration variables from zero with their values."""
    pairs = zip(leaf.block.iter_vars, leaf.realize.iter_values, strict=True)
    return [(iv, v) for iv, v in pairs if isinstance(iv.dom.min, IntImm) and iv.dom.min.value == 0]


def _part(value: Any) -> tuple[PrimExpr, PrimExpr, PrimExpr | None] | None:
    """(f, s, e) of a value `f // s % e` (or `f % (s * e) // s`). A missing s is 1, a missing e is None; at most one is
    missing.
    """
    end = None
    if isinstance(value, FloorMod):
        value, end = value.a, value.b
    if isinstance(value, FloorDiv):
        whole, step = value.a, value.b
        if end is None and isinstance(whole, FloorMod) and isinstance(whole.b, IntImm) and isinstance(step, IntImm):
            return (
                (whole.a, step, IntImm(step.dtype, whole.b.value // step.value))
                if whole.b.value % step.value == 0
                else None
            )
        return whole, step, end
    return (value, IntImm(value.dtype, 1), end) if end is not None else None


def stays_in(loops: Iterable[For], value: PrimExpr, iv: Any) -> bool:
    """Whether a value is a loop variable, or a part `f // s % e` of one, that provably stays in the domain of an
    iteration variable.

    Uses the extents of the loops, including symbolic ones.
    """
    if not isinstance(iv.dom.min, IntImm) or iv.dom.min.value != 0:
        return False
    whole, step, end = _part(value) or (value, None, None)
    loop = next((lp for lp in loops if lp.loop_var is whole), None)
    if loop is None or not isinstance(loop.min, IntImm) or loop.min.value != 0:
        return False
    analyzer = Analyzer()
    if end is not None:
        return analyzer.can_prove_equal(end, iv.dom.extent)
    count = iv.dom.extent if step is None else iv.dom.extent * step
    return analyzer.can_prove_equal(loop.extent, count)


def _count_of_parts(parts: list[tuple[Any, Any, Any, Any]]) -> Any:
    """The number of values of all parts of a number, if each begins where another ends and fills its domain; else None."""
    analyzer = Analyzer()
    count: Any = None
    while parts:
        step = IntImm(parts[0][2].dtype, 1) if count is None else count
        found = next((p for p in parts if analyzer.can_prove_equal(p[2], step)), None)
        if found is None:
            return None
        iv, _, _, end = found
        if (end is None) != (len(parts) == 1) or not (end is None or analyzer.can_prove_equal(end, iv.dom.extent)):
            return None
        parts = [p for p in parts if p is not found]
        count = iv.dom.extent if count is None else iv.dom.extent * count
    return count


def _is_loop_of(forms: Forms, leaf: Leaf, number: PrimExpr, count: Any) -> bool:
    """Whether a number is a loop variable, and the loop has this extent."""
    return any([number is lp.loop_var and same(forms.of(lp.extent), forms.of(count)) for lp in leaf.loops])


def _symbolic_digits(
    forms: Forms, leaf: Leaf, iv: Any, value: Lin, extents: Mapping[PrimExpr, int], limits: set[Any], caps: Caps
) -> tuple[list[Digit], Mapping[int, Lin]] | None:
    """The digits of a value that takes each number of a symbolic domain once, and their fused numbers; None if not
    known.

    This holds if the outermost digit is a loop of symbolic extent, the whole domain is reached, and nothing outside is,
    by the extents or by a predicate. It also holds for the quotient of such a loop, if the loop has the same number of
    iterations for each number of the domain.
    """
    form = combine(value, forms.of(iv.dom.min), -1)
    radix = mixed_radix(forms, form, extents, caps)
    if radix is None or form.const or not form.terms:
        return None
    digits, _, sources = radix
    if sources:
        return (digits, sources) if _is_quotient(leaf, iv, form, extents) else None
    if not _runs_to(leaf, form, iv.dom.extent):
        return None
    beyond = combine(form, forms.of(iv.dom.extent), -1)
    if (frozenset(beyond.terms.items()), beyond.const) in limits:
        return digits, sources
    atom, stride = max(form.terms.items(), key=lambda t: t[1])
    outer = next(lp for lp in leaf.loops if lp.loop_var is atom.leaf)
    return (digits, sources) if Analyzer().can_prove(outer.extent * stride <= iv.dom.extent) else None


def _is_quotient(leaf: Leaf, iv: Any, form: Lin, extents: Mapping[Any, int]) -> bool:
    """Whether a value is `loop // n`, for a loop with n times as many iterations as the domain has numbers."""
    terms = [(a, k) for a, k in form.terms.items() if a.kind != LEAF or extents.get(a.leaf) != 1]
    if len(terms) != 1 or terms[0][0].kind != SPLIT or terms[0][1] != 1:
        return False
    fused, lower, upper = terms[0][0].args
    if upper or fused.const or len(fused.terms) != 1:
        return False
    ((atom, k),) = fused.terms.items()
    loop = next((lp for lp in leaf.loops if atom.kind == LEAF and lp.loop_var is atom.leaf), None)
    return loop is not None and k == 1 and Analyzer().can_prove_equal(loop.extent, iv.dom.extent * lower)


def _factor(extent: Lin) -> int:
    """The largest number that provably divides an extent."""
    return gcd(extent.const, *extent.terms.values()) or 1


def _runs_to(leaf: Leaf, radix: Lin, count: Any) -> bool:
    """Whether a mixed-radix number whose outermost digit is a loop takes at least `count` values."""
    atom, stride = max(radix.terms.items(), key=lambda t: t[1], default=(None, 0))
    outer = [lp for lp in leaf.loops if atom is not None and lp.loop_var is atom.leaf]
    return bool(outer) and Analyzer().can_prove(outer[0].extent * stride >= count)


def _reaches(forms: Forms, leaf: Leaf, form: Lin, extent: int) -> bool:
    """Whether loops of symbolic extent in a value have enough iterations for `extent` values."""
    symbolic = {lp.loop_var: lp.extent for lp in leaf.loops if int_extent(lp) is None}
    for atom, stride in form.terms.items():
        if not symbolic.keys().isdisjoint(forms.leaves(Lin({atom: 1}, 0))):
            steps = symbolic.get(atom.leaf)
            if steps is None or not Analyzer().can_prove(steps * stride >= extent):
                return False
    return True


def _extent_of(forms: Forms, f: Lin | None, extents: Mapping[Var, int], caps: Caps) -> int:
    inner = mixed_radix(forms, f, extents, caps) if f is not None else None
    return min(inner[1], caps.get(frozenset(f.terms.items()), inner[1])) if inner and f is not None else 0


def _limit_key(forms: Forms, condition: Any) -> Any:
    """`a < b` as the key of the form a - b."""
    if isinstance(condition, LT):
        d = combine(forms.of(condition.a), forms.of(condition.b), -1)
        return frozenset(d.terms.items()), d.const
    return None


def _predicates_are_bounds(forms: Forms, leaf: Leaf, binding: Binding, conditions: list[PrimExpr]) -> bool:
    """Whether each condition is `value < extent` for one of the bindings, or follows from the loops."""
    bounds = set()
    for iv, form in zip(leaf.block.iter_vars, binding.values, strict=False):
        d = combine(combine(form, forms.of(iv.dom.min), -1), forms.of(iv.dom.extent), -1)
        bounds.add((frozenset(d.terms.items()), d.const))
    for c in conditions:
        key = _limit_key(forms, c)
        if key in bounds:
            continue
        if key is not None:
            high = forms.const_bounds(Lin(dict(key[0]), key[1]))[1]
            if high is not None and high < 0:
                continue
        return False
    return True
