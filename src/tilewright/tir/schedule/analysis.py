"""What primitives ask about blocks: where they stand, how they are bound, what they touch and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilewright.arith import Analyzer
from tilewright.arith.linear import LEAF, SPLIT
from tilewright.ir import IntImm
from tilewright.node import structural_equal
from tilewright.tir import (
    LT,
    And,
    Block,
    BlockRealize,
    Buffer,
    FloorDiv,
    FloorMod,
    For,
    IfThenElse,
    IterVar,
    While,
    arithmetic,
)
from tilewright.tir.schedule.effects import need_order_free
from tilewright.tir.schedule.enumeration import visits
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.forms import Forms, Lin, combine, same
from tilewright.tir.schedule.queries import has_block as has_block
from tilewright.tir.schedule.queries import is_output_block as is_output_block
from tilewright.tir.schedule.state import ScheduleState, StmtSRef, children
from tilewright.tir.stmt_functor import used_vars

DATA_PAR, REDUCE = IterVar.DataPar, IterVar.CommReduce


class Leaf:
    """A block as it stands in a loop nest: its realize and the loops around it, outermost first, up to a given statement.

    conditional: between them stands a condition, so that the block may not run in every iteration.
    """

    __slots__ = ("conditional", "loops", "realize")

    def __init__(self, realize: Any, loops: tuple[Any, ...], conditional: bool = False) -> None:
        self.realize, self.loops, self.conditional = realize, loops, conditional

    @property
    def block(self) -> Any:
        return self.realize.block


_leaves: dict[int, tuple[Any, list[Leaf]]] = {}
"""What was asked for last: between two changes of a program, primitives ask for the blocks of the same statements."""


def leaves(stmt: Any) -> list[Leaf]:
    """The blocks at and below `stmt` in program order, not those inside other blocks."""
    known = _leaves.get(id(stmt))
    if known is not None and known[0] is stmt:
        return list(known[1])
    if len(_leaves) > 256:
        _leaves.clear()
    found = _find_leaves(stmt)
    _leaves[id(stmt)] = stmt, found
    return list(found)


def _find_leaves(stmt: Any) -> list[Leaf]:
    out: list[Leaf] = []

    def walk(s: Any, loops: tuple[Any, ...], conditional: bool) -> None:
        kind = type(s)
        if kind is BlockRealize:
            out.append(Leaf(s, loops, conditional))
            return
        if kind is For:
            loops = (*loops, s)
        for child in children(s):
            walk(child, loops, conditional or kind is IfThenElse or kind is While)

    walk(stmt, (), False)
    return out


def scope_root(ref: StmtSRef) -> StmtSRef:
    """The block around a loop or block."""
    if ref.parent is None:
        refuse("{0} is the root block, which no primitive can move or change", ref.stmt)
    return next(up for up in ref.ancestors() if type(up.stmt) is Block)


def loops_above(ref: StmtSRef) -> list[StmtSRef]:
    """The loops around a block or loop within its scope, outermost first."""
    out = []
    for up in ref.ancestors():
        if type(up.stmt) is Block:
            break
        out.append(up)
    return out[::-1]


def scope_leaves(ref: StmtSRef) -> list[Leaf]:
    """All blocks of the scope of a block (itself among them)."""
    return leaves(scope_root(ref).stmt.body)


def realize_of(ref: StmtSRef) -> Any:
    """The BlockRealize of a block that is not the root."""
    if ref.parent is None:
        refuse("{0} is the root block, which has no bindings", ref.stmt)
    stack = list(children(ref.parent.stmt))
    while stack:
        s = stack.pop()
        if type(s) is BlockRealize:
            if s.block is ref.stmt:
                return s
        elif type(s) is not For:
            stack.extend(children(s))
    raise AssertionError


def leaf_of(ref: StmtSRef) -> Leaf:
    """The block with all the loops of its scope."""
    return Leaf(realize_of(ref), tuple([r.stmt for r in loops_above(ref)]), is_conditional(ref))


def is_conditional(ref: StmtSRef) -> bool:
    """Whether a condition stands between a loop or block and the root of its scope."""
    below = ref
    for up in ref.ancestors():
        if _under_condition(up.stmt.body, below.stmt, False):
            return True
        if type(up.stmt) is Block:
            break
        below = up
    return False


def _under_condition(stmt: Any, target: Any, conditional: bool) -> bool:
    if stmt is target:
        return conditional
    if type(stmt) is For:
        return False
    if type(stmt) is BlockRealize:
        return conditional and stmt.block is target
    conditional = conditional or type(stmt) is IfThenElse or type(stmt) is While
    return any([_under_condition(s, target, conditional) for s in children(stmt)])


def conjuncts(predicate: Any) -> list[Any]:
    """The conditions that a predicate joins by `and`; none for True."""
    return [c for c in arithmetic.conjuncts(predicate) if not (isinstance(c, IntImm) and c.value)]


def conjunction(conditions: Iterable[Any]) -> Any:
    out: Any = None
    for c in conditions:
        out = c if out is None else And(out, c)
    return IntImm("bool", 1) if out is None else out


def int_extent(loop: Any) -> int | None:
    return loop.extent.value if isinstance(loop.extent, IntImm) else None


# ---- bindings


class Binding:
    """How the loops reach the points of a block.

    covers: every point of the iteration domain is visited exactly once while all `loops` run.
    injective: different loop iterations reach different points, as far as loops are used at all.
    repeats: a loop or part of one is not used, so that points are visited again.
    gaps: the iteration variables whose domain the loops may not reach in full.
    predicated: a condition leaves out more than what lies outside the domain.
    uses: for each loop variable, the kinds of iteration variables that depend on it.
    """

    __slots__ = ("covers", "gaps", "injective", "predicated", "reason", "repeats", "uses", "values")

    def __init__(self) -> None:
        self.covers = self.injective = True
        self.repeats = self.predicated = False
        self.reason = ""
        self.uses: dict[Any, set[int]] = {}
        self.gaps: set[Any] = set()
        self.values: list[Lin] = []

    def fail(self, reason: str, injective: bool = False) -> None:
        self.covers = False
        self.injective = self.injective and injective
        self.reason = self.reason or reason


SYMBOLIC = 1000000007
"""Stands for a symbolic extent: no constant extent equals it, which keeps the digits of both kinds of loops apart."""

Digit = tuple[Any, int, int]
"""(source, lower, upper): the part (source % upper) // lower of a loop variable or of a fused number."""


Caps = Mapping[frozenset[Any], int]
"""Upper bounds that a predicate sets to forms, by the terms of these."""


def mixed_radix(
    forms: Forms, value: Lin, extents: Mapping[Any, int], caps: Caps
) -> tuple[list[Digit], int, dict[Any, Lin]] | None:
    """The digits of a number that is written in mixed radix, its extent, and the fused numbers it takes digits of."""
    digits: list[Digit] = []
    sources: dict[Any, Lin] = {}
    total = 1
    for atom, k in sorted(value.terms.items(), key=lambda t: t[1]):
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
    """The binding of a block to the loops of its scope (which `leaf.loops` lists all)."""
    forms = state.forms
    out = Binding()
    extents: dict[Any, int] = {}
    for loop in leaf.loops:
        extent = int_extent(loop)
        extents[loop.loop_var] = SYMBOLIC if extent is None else extent
        if not isinstance(loop.min, IntImm) or loop.min.value != 0:
            out.fail(f"loop {loop.loop_var.name} does not start at 0")
    conditions = conjuncts(leaf.realize.predicate)
    limits = {_limit_key(forms, c) for c in conditions}
    caps = {key[0]: -key[1] for key in limits if key is not None and key[1] < 0}
    used: dict[Any, list[tuple[int, int]]] = {}
    sources: dict[Any, Lin] = {}
    bound_conditions = 0
    pairs = _fused_pairs(leaf)
    for iv, value in zip(leaf.block.iter_vars, leaf.realize.iter_values, strict=True):
        form = forms.of(value)
        out.values.append(form)
        whole = pairs.get(iv.var)
        for v in forms.leaves(form if whole is None else forms.of(whole[0])):
            if v in extents:
                out.uses.setdefault(v, set()).add(iv.iter_type)
        if whole is not None:
            number, count, first = whole
            if first:
                form = forms.of(number)
                radix = mixed_radix(forms, form, extents, caps)
                beyond = combine(form, forms.of(count), -1)
                if radix is None or form.const:
                    out.gaps.add(iv.var)
                    out.fail(f"{number} is no mixed-radix number of the loops")
                    continue
                for source, lower, upper in radix[0]:
                    used.setdefault(source, []).append((lower, upper))
                sources.update(radix[2])
                if (frozenset(beyond.terms.items()), beyond.const) in limits:
                    bound_conditions += 1
                    if not _runs_to(leaf, form, count):
                        out.gaps.add(iv.var)
                        out.fail(f"{number} may take less than {count} values", True)
                elif not _is_loop_of(forms, leaf, number, count):
                    out.gaps.add(iv.var)
                    out.fail(f"{number} does not run over {count} numbers", True)
            continue
        if not isinstance(iv.dom.extent, IntImm):
            if any([value is lp.loop_var and lp.extent is iv.dom.extent for lp in leaf.loops]):
                used.setdefault(value, []).append((1, extents[value]))
                continue
            symbolic = _symbolic_digits(forms, leaf, iv, form, extents, limits, caps)
            if symbolic is None:
                out.gaps.add(iv.var)
                radix = mixed_radix(forms, combine(form, forms.of(iv.dom.min), -1), extents, caps)
                out.fail(
                    f"{iv.var.name} has a symbolic domain, which {value} does not cover digit by digit",
                    radix is not None,
                )
                if radix is None:
                    continue
                symbolic = radix[0]
                sources.update(radix[2])
            for source, lower, upper in symbolic:
                used.setdefault(source, []).append((lower, upper))
            continue
        low = forms.of(iv.dom.min)
        form = combine(form, low, -1)
        radix = mixed_radix(forms, form, extents, caps)
        if radix is None or form.const:
            out.gaps.add(iv.var)
            out.fail(f"{iv.var.name} = {value} is no mixed-radix number of the loops")
            continue
        digits, total, new_sources = radix
        sources.update(new_sources)
        for source, lower, upper in digits:
            used.setdefault(source, []).append((lower, upper))
        extent = iv.dom.extent.value
        if total > extent:
            if (frozenset(form.terms.items()), form.const - extent) in limits:
                bound_conditions += 1
                if not _reaches(forms, leaf, form, extent):
                    out.gaps.add(iv.var)
                    out.fail(f"{iv.var.name} = {value} may take less than its {extent} values", True)
            else:
                out.gaps.add(iv.var)
                out.fail(f"{iv.var.name} = {value} exceeds its domain of {extent} and no predicate stops it", True)
        elif total < extent:
            out.gaps.add(iv.var)
            out.fail(f"{iv.var.name} = {value} takes only {total} of its {extent} values", True)
    if out.injective:
        pending = list(sources.items())
        while pending:
            key, f = pending.pop()
            inner = mixed_radix(forms, f, extents, caps)
            assert inner is not None
            if caps.get(frozenset(f.terms.items()), inner[1]) < inner[1] and f.const == 0:
                bound_conditions += 1
            for source, lower, upper in inner[0]:
                used.setdefault(source, []).append((lower, upper))
            pending.extend(inner[2].items())
        for source, parts in used.items():
            parts.sort()
            total = extents[source] if source in extents else _extent_of(forms, sources.get(source), extents, caps)
            at = 1
            for lower, upper in parts:
                if lower < at:
                    out.fail("two iteration variables use the same part of a loop")
                elif lower > at:
                    out.repeats = True
                at = upper
            if at < total:
                out.repeats = True
        for v, extent in extents.items():
            if extent != 1 and v not in used:
                out.repeats = True
                out.reason = out.reason or f"loop {v.name} is not used by the block"
        if out.repeats:
            out.fail("part of a loop is not used", True)
    if len(conditions) > bound_conditions:
        known = [c for c in conditions if _limit_key(forms, c) is not None]
        if len(known) < len(conditions) or not _predicates_are_bounds(forms, leaf, out, conditions):
            out.predicated = True
            out.fail("its predicate is more than the bounds of its iteration variables", True)
    if not out.covers and (not out.injective or out.predicated or out.gaps):
        _try_all(forms, leaf, out, conditions)
    if leaf.conditional:
        out.predicated = True
        out.fail("it stands under a condition", True)
    return out


def _try_all(forms: Forms, leaf: Leaf, out: Binding, conditions: list[Any]) -> None:
    """What is found by trying all iterations, where the rules above do not understand a binding."""
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
    """Variables bound to the parts `f // (m * n)`, `f // n % m`, `f % n` of one number, where a divisor or the domain of the first
    is symbolic: (f, how many values they have together, is the first)."""
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


def _part(value: Any) -> tuple[Any, Any, Any] | None:
    """(f, s, e) of a value `f // s % e` (or `f % (s * e) // s`); s is 1 and e None where they are missing, one of them is not."""
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


def stays_in(loops: Iterable[Any], value: Any, iv: Any) -> bool:
    """Whether a value is a loop variable, or a part `f // s % e` of one, that never leaves the domain of an iteration variable:
    what the extents of the loops say, symbolic ones too."""
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
    """How many values the parts of a number have together, when each begins where another ends and fills its domain; else None."""
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


def _is_loop_of(forms: Forms, leaf: Leaf, number: Any, count: Any) -> bool:
    """Whether a number is just a loop variable, and the loop runs over so many values."""
    return any([number is lp.loop_var and same(forms.of(lp.extent), forms.of(count)) for lp in leaf.loops])


def _symbolic_digits(
    forms: Forms, leaf: Leaf, iv: Any, value: Lin, extents: Mapping[Any, int], limits: set[Any], caps: Caps
) -> list[Digit] | None:
    """The digits of a value that takes each number of a symbolic domain once; None where that is not known.

    So it is when its outermost digit is a loop of symbolic extent, all of the domain is reached, and
    nothing outside is: by the extents themselves, or by a predicate.
    """
    form = combine(value, forms.of(iv.dom.min), -1)
    radix = mixed_radix(forms, form, extents, caps)
    if radix is None or form.const or radix[2] or not form.terms:
        return None
    if not _runs_to(leaf, form, iv.dom.extent):
        return None
    beyond = combine(form, forms.of(iv.dom.extent), -1)
    if (frozenset(beyond.terms.items()), beyond.const) in limits:
        return radix[0]
    atom, stride = max(form.terms.items(), key=lambda t: t[1])
    outer = next(lp for lp in leaf.loops if lp.loop_var is atom.leaf)
    return radix[0] if Analyzer().can_prove(outer.extent * stride <= iv.dom.extent) else None


def _runs_to(leaf: Leaf, radix: Lin, count: Any) -> bool:
    """Whether a number in mixed radix, its outermost digit a loop, takes `count` values or more."""
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


def _extent_of(forms: Forms, f: Lin | None, extents: Mapping[Any, int], caps: Caps) -> int:
    inner = mixed_radix(forms, f, extents, caps) if f is not None else None
    return min(inner[1], caps.get(frozenset(f.terms.items()), inner[1])) if inner and f is not None else 0


def _limit_key(forms: Forms, condition: Any) -> Any:
    """`a < b` as the key of the form a - b."""
    if isinstance(condition, LT):
        d = combine(forms.of(condition.a), forms.of(condition.b), -1)
        return frozenset(d.terms.items()), d.const
    return None


def _predicates_are_bounds(forms: Forms, leaf: Leaf, binding: Binding, conditions: list[Any]) -> bool:
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


# ---- what a block computes


def written_buffers(block: Any) -> list[Buffer]:
    return [r.buffer for r in block.writes]


def is_update(block: Any) -> bool:
    """Whether the block reads what it writes: a reduction, or the update half of one."""
    own = {r.buffer for r in block.writes}
    return any([r.buffer in own for r in block.reads]) or block.init is not None


def need_simple_iters(block: Any, allow_reduce: bool = True) -> None:
    for iv in block.iter_vars:
        if iv.iter_type != DATA_PAR and not (allow_reduce and iv.iter_type == REDUCE):
            kinds = {DATA_PAR: "data parallel", REDUCE: "reduction"}
            wanted = "data parallel or reduction" if allow_reduce else "data parallel"
            refuse(
                f"the iteration variables of {{0}} must be {wanted}, but {iv.var.name} is {kinds.get(iv.iter_type, 'ordered or opaque')}",
                block,
            )


def need_complete(state: ScheduleState, ref: StmtSRef) -> None:
    """A complete block: data parallel, the only writer of its outputs in the scope, and not a reader of them."""
    block = ref.stmt
    need_simple_iters(block, allow_reduce=False)
    if is_update(block):
        refuse("{0} must be a complete block, but it reads what it writes", block)
    need_order_free(state, block)
    need_only_writer(state, ref)


def need_only_writer(state: ScheduleState, ref: StmtSRef) -> None:
    block = ref.stmt
    for leaf in scope_leaves(ref):
        if leaf.block is not block:
            for b in written_buffers(leaf.block):
                if b in written_buffers(block):
                    refuse("{0} must be the only writer of {1}, but {2} writes it too", block, b, leaf.block)


def need_complete_or_reduction(state: ScheduleState, ref: StmtSRef) -> None:
    block = ref.stmt
    need_simple_iters(block)
    if is_update(block):
        if block.init is None:
            refuse("{0} must hold its own initialisation, but it reads what it writes and has no init", block)
        need_reduction_writes(state.forms, block)
        leaf = leaf_of(ref)
        need_whole_reduction(binding_of(state, leaf), leaf)
    elif any([iv.iter_type == REDUCE for iv in block.iter_vars]):
        refuse("{0} has reduction variables but does not read what it writes", block)
    need_order_free(state, block)
    need_only_writer(state, ref)


def need_whole_reduction(binding: Binding, leaf: Leaf) -> None:
    """The reduction visits its whole domain, and so its first point, at which the block initialises."""
    for iv in leaf.block.iter_vars:
        if iv.iter_type == REDUCE and iv.var in binding.gaps:
            refuse(f"{{0}} must visit the whole domain of {iv.var.name}, but {binding.reason}", leaf.block)
    if binding.predicated:
        reduce_loops = {lp.loop_var for lp in leaf.loops if REDUCE in binding.uses.get(lp.loop_var, ())}
        for c in conjuncts(leaf.realize.predicate):
            if not reduce_loops.isdisjoint(used_vars(c)):
                refuse(f"the predicate {c} of {{0}} must not leave out steps of the reduction", leaf.block)
        if leaf.conditional:
            refuse("{0} must not stand under a condition", leaf.block)
    for lp in leaf.loops:
        if len(binding.uses.get(lp.loop_var, ())) > 1 and int_extent(lp) != 1:
            refuse("{0} must not drive spatial and reduction variables of {1} at once", lp, leaf.block)


def need_reduction_writes(forms: Forms, block: Any) -> None:
    reduce = {iv.var for iv in block.iter_vars if iv.iter_type == REDUCE}
    for region in block.writes:
        for r in region.region:
            if forms.leaves(forms.of(r.min)) & reduce:
                refuse("the outputs of {0} must not be indexed by its reduction variables", block)


# ---- order


def producers(ref: StmtSRef) -> list[Leaf]:
    """Blocks of the scope, before `ref` in program order, that write what it reads."""
    out: list[Leaf] = []
    wanted = {r.buffer for r in ref.stmt.reads} - {r.buffer for r in ref.stmt.writes}
    for leaf in scope_leaves(ref):
        if leaf.block is ref.stmt:
            break
        if any([b in wanted for b in written_buffers(leaf.block)]):
            out.append(leaf)
    return out


def consumers(ref: StmtSRef) -> list[Leaf]:
    """Blocks of the scope, after `ref` in program order, that read what it writes."""
    own = set(written_buffers(ref.stmt))
    out: list[Leaf] = []
    seen = False
    for leaf in scope_leaves(ref):
        if leaf.block is ref.stmt:
            seen = True
        elif seen and any([r.buffer in own for r in leaf.block.reads]):
            out.append(leaf)
    return out


def conflict(a: Any, b: Any) -> bool:
    """Whether two blocks touch a common buffer that one of them writes."""
    wa, wb = {r.buffer for r in a.writes}, {r.buffer for r in b.writes}
    return bool(wa & wb) or any([r.buffer in wa for r in b.reads]) or any([r.buffer in wb for r in a.reads])


def alloc_site(ref: StmtSRef, buffer: Buffer) -> StmtSRef | None:
    """The block around `ref` that allocates the buffer; None for a parameter of the function."""
    for up in (ref, *ref.ancestors()):
        if type(up.stmt) is Block and buffer in up.stmt.alloc_buffers:
            return up
    return None
