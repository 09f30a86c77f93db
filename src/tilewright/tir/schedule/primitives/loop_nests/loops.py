"""Primitives that change the shape of loop nests: split, fuse, reorder, merge, unit loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm, PrimExpr
from tilewright.node import post_order_visit
from tilewright.tir import LT, Block, FloorDiv, FloorMod, For, ForKind, Max, Var
from tilewright.tir.arithmetic import cast_to
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.binding import Binding, binding_of
from tilewright.tir.schedule.facts.block_checks import need_simple_iters
from tilewright.tir.schedule.facts.hazards import need_same_iteration, private_buffers
from tilewright.tir.schedule.facts.leaves import DATA_PAR, REDUCE, Leaf, int_extent, leaves, loops_above, realize_of
from tilewright.tir.schedule.facts.linear_forms import combine, shift
from tilewright.tir.schedule.facts.loop_checks import need_plain_loop
from tilewright.tir.schedule.facts.point_effects import need_order_free
from tilewright.tir.schedule.primitives.copies import copy_statement, rename_blocks
from tilewright.tir.schedule.primitives.loop_nests.merging import merge_loops
from tilewright.tir.schedule.primitives.rewrite import ReplaceStmts, substitute_loops, vars_in
from tilewright.tir.schedule.state import ScheduleState, StmtSRef, seq_of
from tilewright.tir.schedule.trace import BlockRV, ExprRV, LoopRV, primitive
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule
    from tilewright.tir.stmt import Stmt


@primitive
def split(
    s: Schedule,
    loop: LoopRV,
    factors: list[int | ExprRV | None],
    preserve_unit_iters: bool = True,
    disable_predication: bool = False,
) -> list[LoopRV]:
    """for i in n: S   -->   for i_0 in n / (f * g): for i_1 in f: for i_2 in g: S[i := (i_0 * f + i_1) * g + i_2]

    One factor can be None; it is computed from the others. If the product of the factors can exceed n, blocks get a
    predicate. disable_predication: no predicate; the caller guarantees that the factors divide n. preserve_unit_iters:
    keep loops of one iteration in the bindings of blocks.
    """
    ref = s.loop(loop)
    numbers = [s.number(f) for f in factors]
    return [s.loop_rv(r) for r in split_loop(s.state, ref, numbers, preserve_unit_iters, disable_predication)]


def split_loop(
    state: ScheduleState,
    ref: StmtSRef,
    factors: list[Any],
    preserve_unit_iters: bool = True,
    disable_predication: bool = False,
) -> list[StmtSRef]:
    stmt = ref.stmt
    need_plain_loop(stmt)
    dtype, extent = stmt.loop_var.dtype, stmt.extent
    need_positive(stmt, factors)
    known = 1
    symbolic: Any = None
    for f in factors:
        if isinstance(f, int):
            known *= f
        elif f is not None:
            symbolic = f if symbolic is None else symbolic * f
    sizes = list(factors)
    if None in factors:
        chunk = known if symbolic is None else symbolic * known
        if isinstance(extent, IntImm) and isinstance(chunk, int):
            rest: Any = -(-extent.value // chunk)
        else:
            rest = state.forms.simplify((extent + chunk - 1) // chunk)
        sizes[factors.index(None)] = rest
    exact = False
    total: Any = 1
    for n in sizes:
        total = total * n
    if isinstance(extent, IntImm) and isinstance(total, int):
        exact = total == extent.value
        if total < extent.value:
            refuse(
                f"the product of the factors must reach the extent {extent.value} of {{0}}, but {factors} gives {total}",
                stmt,
            )
        if disable_predication and not exact:
            refuse(
                f"without a predicate the factors must divide the extent {extent.value} of {{0}}, but {factors} gives {total}",
                stmt,
            )
    elif None not in factors and not _reaches(state, IntImm(dtype, total) if isinstance(total, int) else total, extent):
        refuse(
            f"the product of the factors must surely reach the extent {extent} of {{0}}, but {total} is not known to",
            stmt,
        )
    new_vars = [Var(f"{stmt.loop_var.name}_{i}", dtype) for i in range(len(sizes))]
    index: Any = None
    for var, n in zip(new_vars, sizes, strict=True):
        state.note_range(var, IntImm(dtype, 0), IntImm(dtype, n) if isinstance(n, int) else n)
        term: Any = IntImm(dtype, 0) if not preserve_unit_iters and n == 1 else var
        index = term if index is None else index * n + term
    index = state.forms.simplify(index)
    conditions = [] if exact or disable_predication else [LT(index, extent)]
    if conditions and all([isinstance(n, int) for n in sizes]):
        need_no_quotients(stmt)
    body = substitute_loops(state.forms, stmt.body, {stmt.loop_var: index}, conditions)
    for var, n in reversed(list(zip(new_vars, sizes, strict=True))):
        body = For(var, 0, n, ForKind.SERIAL, body, span=stmt.span)
    state.replace(ref, body)
    out = []
    for _ in sizes:
        out.append(state.ref(body))
        body = body.body
    return out


def need_no_quotients(loop: Any) -> None:
    """Require that nothing divides by 0 in a loop that had no iterations before and has some now, excluded by a
    predicate.
    """
    if isinstance(loop.extent, IntImm):
        return
    found: list[Any] = []

    def look(e: Any) -> None:
        if isinstance(e, (FloorDiv, FloorMod)) and not isinstance(e.b, IntImm):
            found.append(e)

    for leaf in leaves(loop):
        for e in (*leaf.realize.iter_values, leaf.realize.predicate, *[lp.extent for lp in leaf.loops]):
            post_order_visit(e, look)
    if found:
        refuse(f"{{0}} may have no iterations, and then {found[0]} divides by 0 where a predicate ends its parts", loop)


def _reaches(state: ScheduleState, total: Any, extent: Any) -> bool:
    return state.forms.nonneg(combine(state.forms.of(total), state.forms.of(extent), -1))


@primitive
def loop_partition(
    s: Schedule, loop: LoopRV, factors: list[int | ExprRV | None], preserve_unit_iters: bool = True
) -> list[LoopRV]:
    """for i in n: S   -->   for i_0 in f: S[i := i_0]; for i_1 in g: S[i := f + i_1]; for i_2 in n - f - g: ...

    One factor can be None; it is computed from the others. Without None, a last loop runs the remaining iterations. The
    block `B` becomes `B_i0`, `B_i1`, ... If n is symbolic and may be too small for a part, that part gets a predicate.
    """
    ref = s.loop(loop)
    parts = partition_loop(s.state, ref, [s.number(f) for f in factors], preserve_unit_iters)
    return [s.loop_rv(s.state.ref(p)) for p in parts]


def partition_loop(
    state: ScheduleState, ref: StmtSRef, factors: list[int | None], preserve_unit_iters: bool
) -> list[Any]:
    stmt = ref.stmt
    need_plain_loop(stmt)
    need_positive(stmt, factors)
    simplify, dtype = state.forms.simplify, stmt.loop_var.dtype
    extent, known = int_extent(stmt), [f for f in factors if f is not None]
    total = sum(known) if all([isinstance(f, int) for f in known]) else None
    if extent is not None and total is not None:
        left: PrimExpr | int = extent - total
        if left < 0 or (left == 0 and None in factors):
            refuse(f"the factors must add up to at most the extent {extent} of {{0}}, but are {factors}", stmt)
    else:
        taken: PrimExpr = IntImm(dtype, 0)
        for f in known:
            taken = taken + f
        left = simplify(Max(stmt.extent - taken, IntImm(dtype, 0)))
    if extent is None:
        need_no_quotients(stmt)
    sizes = [left if f is None else f for f in factors]
    if None not in factors and not (isinstance(left, int) and left == 0):
        sizes.append(left)
    parts: list[Stmt] = []
    low: PrimExpr = IntImm(dtype, 0)
    for i, n in enumerate(sizes):
        var = Var(f"{stmt.loop_var.name}_{i}", dtype)
        state.note_range(var, IntImm(dtype, 0), IntImm(dtype, n) if isinstance(n, int) else n)
        single = isinstance(n, int) and n == 1 and not preserve_unit_iters
        index = simplify(low if single else low + var)
        end = combine(state.forms.of(index), state.forms.of(stmt.extent), -1)
        high = state.forms.const_bounds(end)[1]
        sure = extent is not None and total is not None
        conditions = [] if sure or (high is not None and high < 0) else [LT(index, stmt.extent)]
        body = substitute_loops(state.forms, stmt.body, {stmt.loop_var: index}, conditions)
        suffix = f"_{stmt.loop_var.name}{i}"
        parts.append(For(var, 0, n, ForKind.SERIAL, copy_statement(body, suffix) if i else rename_blocks(body, suffix)))
        low = simplify(low + n)
    replace_with_sequence(state, ref, parts)
    return parts


def need_positive(stmt: Any, factors: list[Any]) -> None:
    """Require at least one factor, at most one None, and no number below 1."""
    if not factors:
        refuse("at least one factor is needed for {0}", stmt)
    if sum([f is None for f in factors]) > 1:
        refuse(f"only one factor may be None, but the factors are {factors}", stmt)
    if any([isinstance(f, int) and f <= 0 for f in factors]):
        refuse(f"factors must be positive, but are {factors}", stmt)


def replace_with_sequence(state: ScheduleState, ref: StmtSRef, parts: list[Stmt]) -> None:
    """Replace a loop by several statements."""
    parent = ref.parent
    assert parent is not None
    old = parent.stmt
    body = ReplaceStmts({id(ref.stmt): seq_of(parts)}).run(old.body)
    state.replace(parent, old.replace(body=body))


@primitive
def fuse(s: Schedule, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
    """for i in n: for j in m: S   -->   for f in n * m: S[i := f // m, j := f % m]

    Each loop must hold only the next one. preserve_unit_iters: keep loops of one iteration in the bindings of blocks.
    """
    refs = [s.loop(rv) for rv in loops]
    return s.loop_rv(fuse_loops(s.state, refs, preserve_unit_iters))


def fuse_loops(state: ScheduleState, refs: list[StmtSRef], preserve_unit_iters: bool = True) -> StmtSRef:
    if not refs:
        refuse("at least one loop is needed")
    stmts = [r.stmt for r in refs]
    for outer, inner in zip(stmts, stmts[1:], strict=False):
        if outer.body is not inner:
            refuse("{0} must hold only {1}, but it does not", outer, inner)
    for i, stmt in enumerate(stmts):
        need_plain_loop(stmt)
        outside = {x.loop_var for x in stmts[:i]}
        if not isinstance(stmt.extent, IntImm) and not outside.isdisjoint(vars_in(stmt.extent)):
            refuse(f"the extent {stmt.extent} of {{0}} must not depend on a loop that it is fused with", stmt)
    dtype = stmts[0].loop_var.dtype
    for stmt in stmts:
        if stmt.loop_var.dtype.bits > dtype.bits:
            dtype = stmt.loop_var.dtype
    name = "_".join([x.loop_var.name for x in stmts]) + "_fused"
    var = Var(name, dtype)
    total: PrimExpr = IntImm(dtype, 1)
    for stmt in stmts:
        total = state.forms.simplify(total * cast_to(stmt.extent, dtype))
    state.note_range(var, IntImm(dtype, 0), total)
    env: dict[PrimExpr, PrimExpr] = {}
    below: Any = 1
    for k in range(len(stmts) - 1, -1, -1):
        stmt = stmts[k]
        value: PrimExpr
        if int_extent(stmt) == 0 or (isinstance(below, IntImm) and below.value == 0):
            env[stmt.loop_var], below = IntImm(dtype, 0), IntImm(dtype, 0)
            continue
        value = var if isinstance(below, int) and below == 1 else var // below
        if k > 0:
            value = value % cast_to(stmt.extent, dtype)
        if not preserve_unit_iters and int_extent(stmt) == 1:
            value = IntImm(dtype, 0)
        env[stmt.loop_var] = state.forms.simplify(value)
        extent = cast_to(stmt.extent, dtype)
        below = extent if isinstance(below, int) and below == 1 else below * extent
    body = substitute_loops(state.forms, stmts[-1].body, env)
    new = For(var, 0, total, ForKind.SERIAL, body, span=stmts[0].span)
    state.replace(refs[0], new)
    return state.ref(new)


@primitive
def merge(s: Schedule, *loops: LoopRV) -> LoopRV:
    """for i in n: S; for j in n: T   -->   for m in n: S[i := m]; T[j := m]

    The nests must follow one another directly. Loops around the given ones in their own nests are merged, too. Refused
    if an iteration of T reads what a later iteration of S writes.
    """
    return s.loop_rv(merge_loops(s.state, [s.loop(rv) for rv in loops]))


@primitive
def reorder(s: Schedule, *ordered_loops: LoopRV) -> None:
    """for i: for j: S   -->   for j: for i: S

    The loops must be nested, and each must hold only the next one. Loops between them that are not named keep their
    place.
    """
    reorder_loops(s.state, [s.loop(rv) for rv in ordered_loops])


def reorder_loops(state: ScheduleState, refs: list[StmtSRef]) -> None:
    if not refs:
        refuse("at least one loop is needed")
    named = {id(r): r for r in refs}
    if len(named) != len(refs):
        twice = next(r for i, r in enumerate(refs) if r in refs[:i])
        refuse("each loop may be named once, but {0} is named twice", twice.stmt)
    # The deepest named loop is the one no other named loop has as an ancestor chain through.
    chains = [loops_above(r) + [r] for r in refs]
    longest = max(chains, key=len)
    positions = [i for i, r in enumerate(longest) if id(r) in named]
    if len(positions) != len(refs):
        stray = next(r for r in refs if all([r is not x for x in longest]))
        refuse("the loops must be of one chain, but {0} is not around or inside {1}", stray.stmt, longest[-1].stmt)
    top, bottom = positions[0], positions[-1]
    chain = longest[top : bottom + 1]
    for outer, inner in zip(chain, chain[1:], strict=False):
        if outer.stmt.body is not inner.stmt:
            refuse("{0} must hold only {1}, but it holds more", outer.stmt, inner.stmt)
    order = iter(refs)
    new_chain = [next(order) if id(r) in named else r for r in chain]
    if all([a is b for a, b in zip(chain, new_chain, strict=True)]):
        return
    seen: set[Var] = set()
    for r in reversed(new_chain):
        for e in (r.stmt.min, r.stmt.extent):
            if not isinstance(e, IntImm) and not seen.isdisjoint(vars_in(e)):
                refuse(f"{{0}} runs to {r.stmt.extent}, so it must stay inside the loops that this depends on", r.stmt)
        seen.add(r.stmt.loop_var)
    inner_body = chain[-1].stmt.body
    need_reorderable(state, longest, inner_body, chain, new_chain)
    body = inner_body
    for r in reversed(new_chain):
        body = r.stmt.replace(body=body)
    state.replace(chain[0], body)


def need_reorderable(
    state: ScheduleState, above: list[StmtSRef], body: Stmt, chain: list[StmtSRef], new_chain: list[StmtSRef]
) -> None:
    """Require that blocks below can run in any order: their iterations are independent, or one reduction."""
    outer = tuple([r.stmt for r in above])
    found = leaves(body)
    moved = [a for a, b in zip(chain, new_chain, strict=True) if a is not b]
    at = above.index(chain[0])
    for leaf in found:
        need_simple_iters(leaf.block)
        need_order_free(state, leaf.block)
        full = Leaf(leaf.realize, outer + leaf.loops, leaf.conditional)
        binding = binding_of(state, full)
        if not binding.injective and not _is_pure(leaf.block) and not reaches_once(state, full, at)[0]:
            refuse(f"{{0}} must be bound one to one to its loops, but {binding.reason}", leaf.block)
        if leaf.block.init is not None and (binding.repeats or not binding.injective):
            order = (*outer[:at], *[r.stmt for r in new_chain], *outer[at + len(chain) :], *leaf.loops)
            need_single_pass(state, Leaf(leaf.realize, order, leaf.conditional), binding)
        for r in moved:
            kinds = binding.uses.get(r.stmt.loop_var, ())
            if leaf.block.init is not None and len(kinds) > 1:
                refuse(
                    "{0} drives spatial and reduction variables of {1}, so another order would initialise it late",
                    r.stmt,
                    leaf.block,
                )
            if len(found) > 1 and REDUCE in kinds:
                refuse(
                    "{0} is a reduction loop of {1} and holds other blocks too, so it cannot move", r.stmt, leaf.block
                )
    if len(found) > 1:
        need_same_iteration(state, found, outer, [r.stmt for r in chain], private_buffers(chain[0], found))


def need_single_pass(state: ScheduleState, leaf: Leaf, binding: Binding) -> None:
    """Require that nothing is repeated within the reduction loops of a reduction that starts again each time it runs."""
    first = next((i for i, lp in enumerate(leaf.loops) if REDUCE in binding.uses.get(lp.loop_var, ())), None)
    if first is not None:
        once, reason = reaches_once(state, leaf, first)
        if not once:
            refuse(
                "{0} would reach points of {1} again before its reduction is complete, since " + reason,
                leaf.loops[first],
                leaf.block,
            )


def _is_pure(block: Block) -> bool:
    """Whether a block is data parallel and does not read what it writes. Running a point twice then gives the same
    values.
    """
    own = {r.buffer for r in block.writes}
    return (
        all([iv.iter_type == DATA_PAR for iv in block.iter_vars])
        and block.init is None
        and all([r.buffer not in own for r in block.reads])
    )


def reaches_once(state: ScheduleState, leaf: Leaf, at: int) -> tuple[bool, str]:
    """Whether the loops from number `at` inwards reach each point of the block once for given outer loops; if not, the
    reason.
    """
    fixed = {lp.loop_var: IntImm(lp.loop_var.dtype, 0) for lp in leaf.loops[:at]}
    values: list[Any] = []
    for v in leaf.realize.iter_values:
        form = state.forms.of(substitute(v, fixed) if fixed else v)
        values.append(state.forms.emit(shift(form, -form.const), v.dtype))
    inner = binding_of(state, Leaf(leaf.realize.replace(iter_values=tuple(values)), leaf.loops[at:]))
    return inner.injective and not inner.repeats, inner.reason


@primitive
def reorder_block_iter_var(s: Schedule, block: BlockRV, new_order: list[int]) -> None:
    """block(vi, vj): S   -->   block(vj, vi): S"""
    ref = s.block(block)
    old = ref.stmt
    if sorted(new_order) != list(range(len(old.iter_vars))):
        refuse(f"new_order must be a permutation of 0..{len(old.iter_vars) - 1}, but is {new_order}", old)
    realize = realize_of(ref)
    new = old.replace(iter_vars=tuple([old.iter_vars[i] for i in new_order]))
    replace_realize(
        s.state, ref, realize.replace(iter_values=tuple([realize.iter_values[i] for i in new_order]), block=new)
    )


def replace_realize(state: ScheduleState, ref: StmtSRef, new: Any) -> None:
    """Replace the realization of a block (bindings, predicate, and the block itself)."""
    parent = ref.parent
    assert parent is not None
    old_block = ref.stmt
    old = parent.stmt
    rebuilt = old.replace(body=ReplaceStmts({id(realize_of(ref)): new}).run(old.body))
    reuse = {}
    block = new if type(new) is Block else _block_in(new)
    if block is not None and block is not old_block:
        reuse[old_block] = block
    state.replace(parent, rebuilt, reuse)


def _block_in(stmt: Stmt) -> Any:
    found = leaves(stmt)
    return found[0].block if found else None


@primitive
def add_unit_loop(s: Schedule, block_or_loop: BlockRV | LoopRV) -> LoopRV:
    """S   -->   for u in 1: S"""
    ref = s.find(block_or_loop)
    var = Var("u", "int32")
    if type(ref.stmt) is For:
        new = For(var, 0, 1, ForKind.SERIAL, ref.stmt)
        s.state.replace(ref, new)
    else:
        realize = realize_of(ref)
        new = For(var, 0, 1, ForKind.SERIAL, realize)
        replace_realize(s.state, ref, new)
    return s.loop_rv(s.state.ref(new))
