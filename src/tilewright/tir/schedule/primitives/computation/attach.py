"""Primitives that move a block into the loops of another: compute_at and reverse_compute_at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tilewright.arith.linear import LEAF, SPLIT
from tilewright.ir import IntImm, PrimExpr
from tilewright.node import has_node
from tilewright.tir import GE, LT, BufferLoad, For, ForKind, Var
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.binding import binding_of, stays_in
from tilewright.tir.schedule.facts.block_checks import conflict, consumers, need_complete_or_reduction, producers
from tilewright.tir.schedule.facts.certain import reaches_domain, surely
from tilewright.tir.schedule.facts.hazards import need_own_elements, need_settled, shared_loops
from tilewright.tir.schedule.facts.leaves import (
    REDUCE,
    Leaf,
    conjunction,
    leaf_of,
    leaves,
    loops_above,
    scope_leaves,
    scope_root,
)
from tilewright.tir.schedule.facts.linear_forms import (
    ZERO,
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
from tilewright.tir.schedule.facts.regions import Region, contains, needed, swept, unite, unite_exact
from tilewright.tir.schedule.facts.threads import sharing
from tilewright.tir.schedule.primitives.computation.inline import inline_block, reverse_inline_block
from tilewright.tir.schedule.primitives.loop_nests.loop_kinds import need_kind_holds
from tilewright.tir.schedule.primitives.rewrite import ReplaceStmts, body_list, with_statements
from tilewright.tir.schedule.state import ScheduleState, StmtSRef
from tilewright.tir.schedule.trace import BlockRV, LoopRV, primitive

if TYPE_CHECKING:
    from tilewright.tir.buffer import Buffer, BufferRegion
    from tilewright.tir.expr import IterVar
    from tilewright.tir.schedule.schedule import Schedule
    from tilewright.tir.stmt import Block, BlockRealize, Stmt

Domain = dict[Any, Bounds]

COMPUTE_ROOT, COMPUTE_INLINE = -1, -2
"""Marks in place of a loop: leave the block where it is; inline it."""


@primitive
def compute_at(
    s: Schedule, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
) -> None:
    """for i: B[i];  for i: for j: C[i, j] uses B[i]   -->   for i: {B[i];  for j: C[i, j] uses B[i]}

    In each iteration the block computes only what its consumers below the loop need. index: the place among the
    statements of the loop; -1 is the last possible one (right before the first consumer), -2 the first possible one.
    """
    mark = s.location_mark(loop)
    if mark is None:
        move_producer(s.state, s.block(block), s.loop(loop), preserve_unit_loops, index)
    elif mark == COMPUTE_INLINE:
        inline_block(s.state, s.block(block))


@primitive
def reverse_compute_at(
    s: Schedule, block: BlockRV | str, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
) -> None:
    """for i: for j: B[i, j];  for i: C[i] uses B[i]   -->   for i: {for j: B[i, j];  C[i] uses B[i]}

    In each iteration the block computes only the points whose inputs its producers below the loop have completed.
    index: as for compute_at.
    """
    mark = s.location_mark(loop)
    if mark is None:
        move_consumer(s.state, s.block(block), s.loop(loop), preserve_unit_loops, index)
    elif mark == COMPUTE_INLINE:
        reverse_inline_block(s.state, s.block(block))


def _common(state: ScheduleState, ref: StmtSRef, loop: StmtSRef) -> StmtSRef:
    scope = scope_root(ref)
    if scope_root(loop) is not scope:
        refuse("{0} must be in the scope of {1}, but is in another block", loop.stmt, ref.stmt)
    need_complete_or_reduction(state, ref)
    if not reaches_domain(state, leaf_of(ref)):
        refuse("{0} must visit every point of its domain, but its loops may omit some", ref.stmt)
    return scope


def _under(stmt: Stmt) -> set[int]:
    return {id(leaf.block) for leaf in leaves(stmt)}


def _without_block(loop: For, ref: StmtSRef) -> For:
    """The loop without the block, if the block is inside it."""
    if id(ref.stmt) not in _under(loop):
        return loop
    body = ReplaceStmts({id(leaf_of(ref).realize): None}).run(loop.body)
    if body is None:
        refuse("{0} is the only block in {1}, so it cannot be moved there", ref.stmt, loop)
    return loop.replace(body=body)


def move_producer(
    state: ScheduleState, ref: StmtSRef, loop_ref: StmtSRef, preserve_unit_loops: bool, index: int
) -> None:
    block = ref.stmt
    scope = _common(state, ref, loop_ref)
    own = {r.buffer for r in block.writes}
    for buffer in own:
        if buffer not in scope.stmt.alloc_buffers:
            refuse("{0} must write only buffers of its scope, but {1} is an output of it", block, buffer)
    loop = _without_block(loop_ref.stmt, ref)
    under = _under(loop)
    users = consumers(ref)
    if not users:
        refuse("{0} must have a consumer below {1}, but has none at all", block, loop)
    for user in users:
        if id(user.block) not in under:
            refuse("all consumers of {0} must be below {1}, but {2} is not", block, loop, user.block)
    old_leaf = leaf_of(ref)
    for user in users:
        _need_final(state, old_leaf, old_leaf.loops[: shared_loops(old_leaf.loops, user.loops)], user.block)
    _need_inputs_stay(ref)
    need_settled(state, ref, old_leaf, set())
    statements = body_list(loop.body)
    sources = producers(ref)
    source_ids, user_ids = {id(x.block) for x in sources}, {id(x.block) for x in users}
    first = max([i + 1 for i, st in enumerate(statements) if _under(st) & source_ids], default=0)
    last = min([i for i, st in enumerate(statements) if _under(st) & user_ids])
    place = _place(index, first, last, block, loop)
    inner = [x for st in statements for x in leaves(st) if id(x.block) in user_ids]
    required: dict[Any, Region] = {}
    around = [r.stmt for r in loops_above(loop_ref)] + [loop_ref.stmt]
    for x in inner:
        for region in x.block.reads:
            if region.buffer in own:
                # All threads that share the buffer must have its data.
                shared = sharing(region.buffer.scope(), around)
                swept_region = swept(state, region, x, (*shared, *x.loops))
                required[region.buffer] = unite(state.forms, required.get(region.buffer), swept_region)
    domain: Domain = {}
    constrained: list[Domain] = []
    for region in block.writes:
        box = required.get(region.buffer)
        if box is None:
            continue
        constrained.append(_without_loads(state.forms, needed_domain(state.forms, block, region, box)))
    if constrained:
        for v in set.intersection(*[set(d) for d in constrained]):
            low, high = constrained[0][v]
            for d in constrained[1:]:
                low, high = state.forms.minimum(low, d[v][0]), state.forms.maximum(high, d[v][1])
            domain[v] = (low, high)
    outer = tuple([r.stmt for r in loops_above(loop_ref)]) + (loop_ref.stmt,)
    nest, realize, new_loops = build_nest(state, block, domain, preserve_unit_loops, around=outer)
    need_inputs_ready(state, Leaf(realize, outer + new_loops), sources, outer)
    _insert(state, ref, scope, loop_ref, loop, statements, place, nest)


def _without_loads(forms: Forms, domain: Domain) -> Domain:
    """The bounds that are known before the program runs. Loaded values do not count if the loop may exceed them."""
    return {
        v: bounds for v, bounds in domain.items() if not any([has_node(forms.emit(end), BufferLoad) for end in bounds])
    }


def _need_inputs_stay(ref: StmtSRef) -> None:
    """Require that the inputs of the block are not changed after its place."""
    inputs = {r.buffer for r in ref.stmt.reads} - {r.buffer for r in ref.stmt.writes}
    seen = False
    for leaf in scope_leaves(ref):
        if leaf.block is ref.stmt:
            seen = True
        elif seen:
            for r in leaf.block.writes:
                if r.buffer in inputs:
                    refuse(
                        "the inputs of {0} must stay as they are while it moves, but {1} writes {2}",
                        ref.stmt,
                        leaf.block,
                        r.buffer,
                    )


def need_inputs_ready(state: ScheduleState, moved: Leaf, sources: list[Leaf], outer: tuple[For, ...]) -> None:
    """Require that an iteration of the loops shared with a producer writes everything the moved block reads in it."""
    for source in sources:
        shared = shared_loops(source.loops, outer)
        if shared == 0:
            continue
        _need_final(state, source, outer[:shared], moved.block)
        for region in source.block.writes:
            reads = [r for r in moved.block.reads if r.buffer is region.buffer]
            if not reads:
                continue
            provided = surely(state, region, source, source.loops[shared:])
            for read in reads:
                required = needed(state, read, moved, moved.loops[shared:])
                if not contains(state.forms, provided, required, region.buffer.shape):
                    refuse(
                        f"in one iteration of {{0}}, {{1}} must write all that {{2}} reads of {region.buffer.name}, but does not",
                        outer[shared - 1], source.block, moved.block,
                    )  # fmt: skip


def _need_final(state: ScheduleState, source: Leaf, shared: tuple[Any, ...], reader: Block) -> None:
    """Require that the shared loops are not reduction loops of the values that the reader takes."""
    uses = binding_of(state, source).uses
    for loop in shared:
        if REDUCE in uses.get(loop.loop_var, ()):
            refuse(
                "{0} is a reduction loop of {1}, whose output is not complete inside it for {2}",
                loop,
                source.block,
                reader,
            )


def move_consumer(
    state: ScheduleState, ref: StmtSRef, loop_ref: StmtSRef, preserve_unit_loops: bool, index: int
) -> None:
    block = ref.stmt
    scope = _common(state, ref, loop_ref)
    loop = _without_block(loop_ref.stmt, ref)
    under = _under(loop)
    sources = producers(ref)
    inner_sources = [x for x in sources if id(x.block) in under]
    if not inner_sources:
        refuse("a producer of {0} must be below {1}, but none is", block, loop)
    outer = tuple([r.stmt for r in loops_above(loop_ref)]) + (loop_ref.stmt,)
    _need_order(ref, loop, under)
    statements = body_list(loop.body)
    source_ids = {id(x.block) for x in inner_sources}
    user_ids = {id(x.block) for x in consumers(ref)}
    first = max([i + 1 for i, st in enumerate(statements) if _under(st) & source_ids])
    last = min([i for i, st in enumerate(statements) if _under(st) & user_ids], default=len(statements))
    place = _place(index, first, last, block, loop)
    for source in inner_sources:
        _need_final(state, source, outer, block)
    for buffer in {r.buffer for r in block.reads}:
        need_own_elements(state, leaves(loop), buffer, list(outer), loop)
    inner = [x for st in statements for x in leaves(st)]
    provided: dict[Any, Region] = {}
    for x in inner:
        for region in x.block.writes:
            box = surely(state, region, x, x.loops)
            provided[region.buffer] = unite_exact(state.forms, provided.get(region.buffer), box)
    domain: Domain = {}
    for region in block.reads:
        if region.buffer in provided:
            for v, bounds in ready_domain(state.forms, block, region, provided[region.buffer], loop).items():
                _meet(state.forms, domain, v, bounds)
    if domain:
        _need_all_written(state, leaf_of(ref), inner, outer, provided, loop)
    nest, realize, new_loops = build_nest(state, block, domain, preserve_unit_loops, exact=True, around=outer)
    moved = Leaf(realize, outer + new_loops)
    need_inputs_ready(state, moved, [x for x in sources if id(x.block) not in under], outer)
    reduced = {iv.var for iv in block.iter_vars if iv.iter_type == REDUCE}
    if reduced & domain.keys():
        binding = binding_of(state, moved)
        if not binding.covers:
            refuse(
                f"{{0}} would reduce over a part of its domain in each iteration of {{1}}, and {binding.reason}",
                block,
                loop,
            )
    _insert(state, ref, scope, loop_ref, loop, statements, place, nest)


def _need_all_written(
    state: ScheduleState,
    moved: Leaf,
    inner: list[Leaf],
    outer: tuple[For, ...],
    provided: Mapping[Buffer, Region],
    loop: For,
) -> None:
    """Require that all iterations together write what the block reads. Otherwise some of its points would never run."""
    for region in moved.block.reads:
        if region.buffer not in provided:
            continue
        written: Region | None = None
        for x in inner:
            for w in x.block.writes:
                if w.buffer is region.buffer:
                    written = unite_exact(state.forms, written, surely(state, w, x, (*outer, *x.loops)))
        required = needed(state, region, moved, moved.loops)
        if written is None or not contains(state.forms, written, required, region.buffer.shape):
            refuse(
                f"all that {{0}} reads of {region.buffer.name} must be written below {{1}}, but it is not",
                moved.block,
                loop,
            )


def _need_order(ref: StmtSRef, loop: For, under: set[int]) -> None:
    """Require that no dependence, in the loop or between the loop and the block, prevents running the block earlier."""
    block = ref.stmt
    own = {r.buffer for r in block.writes}
    order = scope_leaves(ref)
    last = max([i for i, x in enumerate(order) if id(x.block) in under])
    at = next(i for i, x in enumerate(order) if x.block is block)
    if at < last and at < min([i for i, x in enumerate(order) if id(x.block) in under]):
        refuse("{0} must come after {1}, but is before it", block, loop)
    for leaf in order[last + 1 : at]:
        if conflict(leaf.block, block):
            refuse("{0} depends on {1}, which is between it and {2}", block, leaf.block, loop)
    for leaf in order:
        if id(leaf.block) in under and leaf.block is not block:
            touched = {r.buffer for r in (*leaf.block.reads, *leaf.block.writes)}
            if touched & own and order.index(leaf) < at:
                refuse("{0} must not write what {1}, in {2}, uses", block, leaf.block, loop)


def _place(index: int, first: int, last: int, block: Block, loop: For) -> int:
    if first > last:
        refuse(
            f"in {{1}}, {{0}} must come after its producers and before its consumers,"
            f" but statement {first - 1} is a producer and {last} a consumer",
            block,
            loop,
        )
    if index == -1:
        return last
    if index == -2:
        return first
    if not first <= index <= last:
        refuse(f"index must be -1, -2 or from {first} to {last} for {{0}} in {{1}}, but is {index}", block, loop)
    return index


def _insert(
    state: ScheduleState,
    ref: StmtSRef,
    scope: StmtSRef,
    loop_ref: StmtSRef,
    loop: For,
    statements: list[Stmt],
    place: int,
    nest: Stmt,
) -> None:
    new_loop = loop.replace(body=with_statements(loop.body, [*statements[:place], nest, *statements[place:]]))
    changes: dict[int, Stmt | None] = {id(loop_ref.stmt): new_loop}
    old_realize = leaf_of(ref).realize
    changes[id(old_realize)] = None
    body = ReplaceStmts(changes).run(scope.stmt.body)
    state.replace(scope, scope.stmt.replace(body=body))
    for r in [*loops_above(loop_ref), loop_ref]:
        need_kind_holds(state, r)


def build_nest(
    state: ScheduleState,
    block: Any,
    domain: Domain,
    preserve_unit_loops: bool,
    exact: bool = False,
    around: tuple[For, ...] = (),
) -> tuple[BlockRealize | For, Stmt, tuple[Stmt, ...]]:
    """Make loops that run a block over part of its domain: (outermost statement, the BlockRealize, the loops).

    A bound that may leave the domain of its variable gets a predicate. Unless `exact`, a part that may be as large as
    the domain becomes the domain. around: the loops that will contain the nest.
    """
    forms = state.forms
    values: list[Any] = []
    conditions: list[PrimExpr] = []
    headers: list[tuple[Var, PrimExpr | int]] = []
    for iv in block.iter_vars:
        dtype = iv.var.dtype
        dom_low, dom_extent = forms.of(iv.dom.min), forms.of(iv.dom.extent)
        low, extent = dom_low, dom_extent
        bounds = domain.get(iv.var)
        clip = None
        if bounds is not None:
            size = forms.count(bounds)
            most = size.const if is_const(size) else forms.const_bounds(size)[1]
            whole = most is None or is_const(dom_extent) and most >= dom_extent.const
            if exact and whole and not (same(bounds[0], dom_low) and same(size, dom_extent)):
                low, extent = bounds[0], dom_extent if most is None else constant(most)
                clip = None if same(size, extent) else size
            elif most is not None and most >= 1 and not whole:
                low, extent = bounds[0], constant(most)
                clip = None if is_const(size) else size
        number = extent.const if is_const(extent) else forms.emit(extent, dtype)
        loop_form = constant(0)
        if preserve_unit_loops or not (is_const(extent) and extent.const == 1):
            var = Var(f"ax{len(headers)}", dtype)
            state.note_range(var, IntImm(dtype, 0), IntImm(dtype, number) if isinstance(number, int) else number)
            headers.append((var, number))
            loop_form = forms.var(var)
        value = forms.merge_digits(combine(low, loop_form))
        values.append(forms.emit(value, dtype))
        if low is dom_low:
            continue
        if clip is not None:
            conditions.append(LT(forms.emit(loop_form, dtype), forms.emit(clip, dtype)))
        if stays_in(around, values[-1], iv):
            continue
        if not forms.nonneg(combine(value, dom_low, -1)):
            conditions.append(GE(values[-1], iv.dom.min))
        end = combine(dom_low, dom_extent)
        if not forms.nonneg(shift(combine(end, value, -1), -1)):
            conditions.append(LT(values[-1], forms.emit(end, dtype)))
    from tilewright.tir import BlockRealize

    realize = BlockRealize(tuple(values), conjunction(conditions), block)
    nest: BlockRealize | For = realize
    made: list[For] = []
    for var, number in reversed(headers):
        nest = For(var, 0, number, ForKind.SERIAL, nest)
        made.append(nest)
    return nest, realize, tuple(reversed(made))


# ---- from a region of a buffer to the points of a block


def _digits(form: Lin, own: dict[Var, IterVar]) -> list[tuple[int, Any, Any]] | None:
    """The terms of an index as (coefficient, variable, (lower, upper) or None) by rising coefficient; None if others occur."""
    out: list[tuple[int, Any, Any]] = []
    for t, k in sorted(form.terms.items(), key=lambda x: x[1]):
        if t.kind == LEAF and t.leaf in own:
            out.append((k, t.leaf, None))
        elif t.kind == SPLIT and len(t.args[0].terms) == 1 and t.args[0].const == 0:
            ((inner, inner_k),) = t.args[0].terms.items()
            if inner.kind != LEAF or inner_k != 1 or inner.leaf not in own:
                return None
            out.append((k, inner.leaf, (t.args[1], t.args[2])))
        else:
            return None
    return out


def _covers_dim(forms: Forms, bounds: Bounds | None, size: PrimExpr) -> bool:
    if bounds is None:
        return False
    return forms.nonneg(scale(bounds[0], -1)) and forms.nonneg(combine(shift(bounds[1], 1), forms.of(size), -1))


def _meet(forms: Forms, known: dict[Any, Bounds], key: Any, bounds: Bounds) -> None:
    """Intersect bounds with the known ones."""
    old = known.get(key)
    known[key] = bounds if old is None else (forms.maximum(old[0], bounds[0]), forms.minimum(old[1], bounds[1]))


class _Parts:
    """Known bounds of each variable or of its digits. `domain` joins the bounds of digits."""

    def __init__(self, forms: Forms) -> None:
        self.forms = forms
        self.whole: Domain = {}
        self.digits: dict[Any, dict[tuple[int, int], Bounds]] = {}

    def add(self, v: Any, part: Any, bounds: Bounds) -> None:
        if part is not None:
            _meet(self.forms, self.digits.setdefault(v, {}), part, bounds)
        else:
            _meet(self.forms, self.whole, v, bounds)

    def domain(self, exact: bool) -> tuple[Domain, set[Any]]:
        """Bounds of the variables, and the variables whose digits cannot be joined. `exact`: points outside must be
        left out.
        """
        out, loose, forms = dict(self.whole), set(), self.forms
        for v, parts in self.digits.items():
            # From the most significant digit down, as long as the digits above are single values.
            order = sorted(parts.items(), key=lambda p: -p[0][0])
            (lower, upper), (low, high) = order[0]
            if upper:
                loose.add(v)
                continue
            first, last = scale(low, lower), shift(scale(high, lower), lower - 1)
            at = lower
            for (l2, u2), (low2, high2) in order[1:]:
                # A digit beyond the radix would be an element of the next number.
                most = Lin({}, u2 // l2 - 1)
                digit = forms.nonneg(low2) and forms.nonneg(combine(most, high2, -1))
                if u2 != at or not same(low, high) or (exact and not digit):
                    loose.add(v)
                    break
                base = first
                first, last = combine(base, low2, l2), shift(combine(base, high2, l2), l2 - 1)
                low, high, at = low2, high2, l2
            _meet(forms, out, v, (forms.merge_digits(first), forms.merge_digits(last)))
        return out, loose


def needed_domain(forms: Forms, block: Block, region: BufferRegion, box: Region) -> Domain:
    """Bounds of the variables of a block such that it computes at least the box. Variables without bounds are omitted."""
    own = {iv.var: iv for iv in block.iter_vars}
    parts = _Parts(forms)
    for r, bounds, size in zip(region.region, box, region.buffer.shape, strict=True):
        if bounds is None or _covers_dim(forms, bounds, size):
            continue
        index, extent = forms.of(r.min), forms.of(r.extent)
        terms = _digits(index, own)
        if not terms or not is_const(extent):
            continue
        low, high = shift(bounds[0], -index.const - (extent.const - 1)), shift(bounds[1], -index.const)
        if len(terms) == 1:
            k, v, part = terms[0]
            if k >= 1:
                parts.add(v, part, (forms.div(shift(low, k - 1), k), forms.div(high, k)))
            continue
        if extent.const == 1:
            _mixed(forms, own, terms, low, high, parts.add)
    return parts.domain(exact=False)[0]


def _mixed(
    forms: Forms,
    own: dict[Any, Any],
    terms: list[tuple[int, Any, Any]],
    low: Lin,
    high: Lin,
    add: Callable[[Any, Any, Bounds], None],
) -> bool:
    """Adds bounds of the digits of a mixed-radix number in [low, high]. Returns False if the index is not such a number."""
    radix = 1
    for k, v, part in terms:
        if k != radix or part is not None or not isinstance(own[v].dom.extent, IntImm):
            return False
        if not same(forms.of(own[v].dom.min), ZERO):
            return False
        radix *= own[v].dom.extent.value
    for k, v, _ in reversed(terms):
        top_low, top_high = forms.div(low, k), forms.div(high, k)
        add(v, None, (top_low, top_high))
        if not same(top_low, top_high):
            return True
        low, high = forms.mod(low, k), forms.mod(high, k)
    return True


def ready_domain(forms: Forms, block: Any, region: Any, box: Region, loop: For) -> Domain:
    """Bounds of the variables of a block such that it reads only inside the box, and each point belongs to some box.

    Refused unless each point of the block reads from exactly one box.
    """
    own = {iv.var: iv for iv in block.iter_vars}
    parts = _Parts(forms)
    name = region.buffer.name
    everywhere = {
        v: (forms.of(iv.dom.min), shift(combine(forms.of(iv.dom.min), forms.of(iv.dom.extent)), -1))
        for v, iv in own.items()
    }

    def no(index: Lin) -> None:
        refuse(
            f"{{0}} must read of {name} only what one iteration of {{1}} has made ready, but it reads [{forms.emit(index)}]"
            " across iterations", block, loop,
        )  # fmt: skip

    for r, bounds, size in zip(region.region, box, region.buffer.shape, strict=True):
        if _covers_dim(forms, bounds, size):
            continue
        index, extent = forms.of(r.min), forms.of(r.extent)
        terms = _digits(index, own)
        if bounds is None or terms is None or not terms or not is_const(extent):
            no(index)
            continue
        whole = forms.bounds(index, everywhere)
        last = shift(forms.of(size), -extent.const)
        if whole is None or not forms.nonneg(whole[0]) or not forms.nonneg(combine(last, whole[1], -1)):
            no(index)
            continue
        low, high = shift(bounds[0], -index.const), shift(bounds[1], -index.const)
        k, v, part = terms[-1]
        if len(terms) == 1 and k == 1 and extent.const == 1:
            parts.add(v, part, (low, high))
            continue
        if part is not None:
            no(index)
        rest = Lin({t: c for t, c in index.terms.items() if t.kind != LEAF or t.leaf is not v}, 0)
        spread = forms.const_bounds(rest)
        step_low, step_high = forms.div(low, k), forms.div(shift(high, 1), k)
        aligned = same(scale(step_low, k), low) and same(scale(step_high, k), shift(high, 1))
        if spread[0] == 0 and spread[1] is not None and spread[1] + extent.const == k and aligned:
            parts.add(v, None, (step_low, shift(step_high, -1)))
        elif (
            extent.const != 1
            or not _mixed(forms, own, terms, low, high, parts.add)
            or not same(step_low, forms.div(high, k))
        ):
            no(index)
    domain, loose = parts.domain(exact=True)
    if loose:
        refuse(
            f"{{0}} must read of {name} whole numbers in {{1}}, but the digits of {sorted([v.name for v in loose])} do"
            " not join, or may reach past their radix",
            block,
            loop,
        )
    return domain
