"""Primitives that make one block of a loop nest (blockize), and that replace a block by an instruction (tensorize)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.tir import GE, LT, Block, BlockRealize, BufferRegion, For, ForKind, IterVar, Var
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.binding import binding_of
from tilewright.tir.schedule.facts.block_checks import need_simple_iters, need_whole_reduction
from tilewright.tir.schedule.facts.leaves import (
    DATA_PAR,
    REDUCE,
    Leaf,
    conjunction,
    conjuncts,
    leaf_of,
    leaves,
    loops_above,
    realize_of,
    scope_root,
)
from tilewright.tir.schedule.facts.linear_forms import Lin, combine, same, shift
from tilewright.tir.schedule.facts.point_effects import need_order_free
from tilewright.tir.schedule.facts.regions import swept, unite
from tilewright.tir.schedule.primitives.copies import copy_iters
from tilewright.tir.schedule.primitives.loop_nests.loops import reaches_once, replace_realize
from tilewright.tir.schedule.primitives.rewrite import ReplaceStmts, body_list, vars_in, with_statements
from tilewright.tir.schedule.state import ScheduleState, StmtSRef, seq_of
from tilewright.tir.schedule.tensor_intrin import TensorIntrin, match_intrinsic
from tilewright.tir.schedule.trace import BlockRV, LoopRV, primitive
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule
    from tilewright.tir.stmt import Stmt


@primitive
def blockize(s: Schedule, target: LoopRV | list[BlockRV], preserve_unit_iters: bool = True) -> BlockRV:
    """for i0: for i1: block(vi = i0 * 4 + i1)   -->   for i0: block(vi_o = i0): for i1: block(vi_i = i1)[vi := vi_o * 4 + vi_i]

    Wraps `target` in a new block, which is returned. target: a loop that holds one block, or a list of blocks. For a
    list, the new block holds the statements directly below the innermost loop around all of them. preserve_unit_iters:
    keep iteration variables of extent one in the new block.
    """
    if isinstance(target, (list, tuple)):
        return s.block_rv(blockize_blocks(s.state, [s.block(b) for b in target], preserve_unit_iters))
    return s.block_rv(blockize_loop(s.state, s.loop(target), preserve_unit_iters))


class _Inside(NamedTuple):
    """A block inside the new one, with iteration variables of its own, their bindings, and the conditions that remain."""

    block: Block
    values: list[Any]
    conditions: list[Any]


class _Division:
    """The bindings of blocks, each divided into an outer part over the outer loops and an inner part over the inner
    ones.
    """

    def __init__(self, state: ScheduleState, outside: set[Var], preserve_unit_iters: bool) -> None:
        self.state, self.outside, self.preserve = state, outside, preserve_unit_iters
        self.iters: list[Any] = []
        self.values: list[Any] = []
        self.conditions: list[Any] = []
        self.single: dict[Var, Any] = {}
        """Outer variables with one value -> this value."""
        self._known: list[tuple[Lin, int, int, Any]] = []

    def divide(self, old: Block, realize: BlockRealize, inside: set[Var]) -> _Inside:
        """What a block becomes inside the new one."""
        forms = self.state.forms
        values = [
            self._value(old, iv, value, inside) for iv, value in zip(old.iter_vars, realize.iter_values, strict=True)
        ]
        conditions = []
        for c in conjuncts(realize.predicate):
            if inside.isdisjoint(vars_in(c)):
                if all([str(c) != str(d) for d in self.conditions]):
                    self.conditions.append(c)
                continue
            for k, value in enumerate(realize.iter_values):
                d = combine(forms.of(c.a), forms.of(value), -1) if hasattr(c, "a") else None
                if d is not None and not d.terms and not d.const and not vars_in(c.b) & (inside | self.outside):
                    whole = values[k][3]
                    conditions.append(type(c)(whole, c.b))
                    # The bound is a fact about the whole variable, which accesses are known by.
                    iv = old.iter_vars[k]
                    values[k] = (iv, whole, iv.var, whole)
                    break
            else:
                refuse(f"the predicate {c} of {{0}} must be a bound of one iteration variable", old)
        kept = [(iv, bound) for iv, bound, _, _ in values if iv is not None]
        env = {iv.var: new for iv, (_, _, new, _) in zip(old.iter_vars, values, strict=True) if new is not iv.var}
        block = substitute(old.replace(iter_vars=()), env).replace(iter_vars=tuple([iv for iv, _ in kept]))
        return _Inside(block, [bound for _, bound in kept], conditions)

    def _value(self, old: Block, iv: Any, value: PrimExpr, inside: set[Var]) -> tuple[Any, Any, Any, Any]:
        """(the iteration variable inside, None if all of it is outside; its binding; what stands for the old variable in the block; the
        value of the old variable by loops inside and variables outside)."""
        forms = self.state.forms
        dtype = iv.var.dtype
        form = forms.of(value)
        inner = Lin({t: k for t, k in form.terms.items() if forms.leaves(Lin({t: 1}, 0)) & inside}, 0)
        outer = combine(form, inner, -1)
        if forms.leaves(inner) & self.outside:
            refuse(
                f"{iv.var.name} of {{0}} must be bound to an outer part plus an inner part, but is bound to {value}",
                old,
            )
        low, high = forms.const_bounds(inner)
        if vars_in(forms.emit(outer, dtype)) & inside:
            # A value of another form must be inside as a whole.
            if vars_in(value) & self.outside:
                refuse(
                    f"{iv.var.name} of {{0}} must be bound to an outer part plus an inner part, but is bound to {value}",
                    old,
                )
            return iv, value, iv.var, value
        if not inner.terms:
            base = self._outer_value(iv, outer, 1)
            return None, None, base, base
        if high is None and not outer.terms and not outer.const:
            # A symbolic domain is inside as a whole.
            return iv, value, iv.var, value
        if low != 0 or high is None or high < 0:
            refuse(
                f"the inner part of {iv.var.name} of {{0}} must run from 0 to a constant, but is {forms.emit(inner)}",
                old,
            )
        size = high + 1
        for what, number in (("outer part", outer), ("first value", forms.of(iv.dom.min))):
            if any([k % size for k in (*number.terms.values(), number.const)]):
                refuse(
                    f"the {what} of {iv.var.name} of {{0}} must be a multiple of {size}, but is {forms.emit(number)}",
                    old,
                )
        base = self._outer_value(iv, forms.div(outer, size), size, guarded=True)
        var = Var(f"{iv.var.name}_i", dtype)
        count = IntImm(dtype, size)
        self.state.note_range(var, IntImm(dtype, 0), count)
        new = IterVar(Range.from_min_extent(IntImm(dtype, 0), count), var, iv.iter_type)
        bound, first = forms.emit(inner, dtype), forms.of(base)
        if isinstance(base, Var) and base in self.single:
            first = forms.of(self.single[base])
        moved = forms.emit(first, dtype) * size + var if first.terms or first.const else var
        return new, bound, moved, forms.emit(combine(inner, first, size), dtype)

    def _outer_value(self, iv: Any, base: Lin, size: int, guarded: bool = False) -> Any:
        """The outer iteration variable for `base`: a new one, or an existing one with the same value and domain.

        guarded: a predicate that bounds the domain was moved inside, so there must be one outside, too.
        """
        forms = self.state.forms
        dtype = iv.var.dtype
        extent = iv.dom.extent
        if isinstance(extent, IntImm):
            count: PrimExpr = IntImm(dtype, -(-extent.value // size))
        else:
            count = extent if size == 1 else forms.simplify((extent + size - 1) // size)
        low = iv.dom.min if size == 1 else forms.emit(forms.div(forms.of(iv.dom.min), size), dtype)
        if not self.preserve and isinstance(count, IntImm) and count.value == 1 and not base.terms:
            return forms.emit(base, dtype)
        for known, kind, known_size, var in self._known:
            if base.terms and same(known, base) and kind == iv.iter_type and known_size == size:
                dom = next(x.dom for x in self.iters if x.var is var)
                if same(forms.of(dom.extent), forms.of(count)) and same(forms.of(dom.min), forms.of(low)):
                    return var
        var = Var(f"{iv.var.name}_o", dtype)
        self.state.note_range(var, low, count)
        self.iters.append(IterVar(Range.from_min_extent(low, count), var, iv.iter_type))
        self.values.append(forms.emit(base, dtype))
        if isinstance(count, IntImm) and count.value == 1:
            self.single[var] = low
        self._known.append((base, iv.iter_type, size, var))
        if guarded and not forms.nonneg(combine(base, forms.of(low), -1)):
            self.conditions.append(GE(self.values[-1], low))
        if guarded and not forms.nonneg(shift(combine(combine(forms.of(low), forms.of(count)), base, -1), -1)):
            self.conditions.append(LT(self.values[-1], forms.emit(combine(forms.of(low), forms.of(count)), dtype)))
        return var


def blockize_loop(state: ScheduleState, loop_ref: StmtSRef, preserve_unit_iters: bool = True) -> StmtSRef:
    loop = loop_ref.stmt
    found = leaves(loop)
    if len(found) != 1:
        refuse("{0} must hold exactly one block, but holds " + str(len(found)), loop)
    if found[0].conditional:
        refuse("{0} must not be under a condition", found[0].block)
    old = found[0].block
    leaf = leaf_of(state.ref(old))
    outside = {r.stmt.loop_var for r in loops_above(loop_ref)}
    inner_loops = [lp for lp in leaf.loops if lp.loop_var not in outside]
    division = _Division(state, outside, preserve_unit_iters)
    if old.init is not None:
        need_simple_iters(old)
        need_whole_reduction(binding_of(state, leaf), leaf)
        need_order_free(state, old)
        once, reason = reaches_once(state, leaf, len(outside))
        if not once:
            refuse(f"{{0}} must reach each point of {{1}} once, but {reason}", loop, old)
    inner = division.divide(old, leaf.realize, {lp.loop_var for lp in inner_loops})
    init, inner_block = None, inner.block
    if inner_block.init is not None:
        init = _inner_init(state, inner_block, inner.values, inner_loops, inner.conditions)
        written = [w for w in inner_block.writes if all([w.buffer is not r.buffer for r in inner_block.reads])]
        inner_block = inner_block.replace(init=None, reads=(*written, *inner_block.reads))
    inner_realize = BlockRealize(tuple(inner.values), conjunction(inner.conditions), inner_block)
    body = ReplaceStmts({id(leaf.realize): inner_realize}).run(loop)
    inside = [Leaf(inner_realize, tuple(inner_loops))]
    reads = _outer_regions(state, inside, [inner.block.reads])
    writes = _outer_regions(state, inside, [inner.block.writes])
    outer_block = Block(tuple(division.iters), reads, writes, f"{old.name_hint}_o", body, init)
    outer_realize = BlockRealize(tuple(division.values), conjunction(division.conditions), outer_block)
    parent = loop_ref.parent
    assert parent is not None
    new_body = ReplaceStmts({id(loop): outer_realize}).run(parent.stmt.body)
    state.replace(parent, parent.stmt.replace(body=new_body), {old: inner_block})
    return state.ref(outer_block)


def blockize_blocks(state: ScheduleState, refs: list[StmtSRef], preserve_unit_iters: bool = True) -> StmtSRef:
    if not refs:
        refuse("at least one block is needed")
    scope = scope_root(refs[0])
    chains = [[scope, *loops_above(r)] for r in refs]
    for r in refs:
        if scope_root(r) is not scope:
            refuse("{0} must be in the scope of {1}, but is in another block", r.stmt, refs[0].stmt)
    depth = 0
    while all([len(c) > depth and c[depth] is chains[0][min(depth, len(chains[0]) - 1)] for c in chains]):
        depth += 1
    lca = chains[0][depth - 1]
    named = {id(r.stmt) for r in refs}
    statements = body_list(lca.stmt.body)
    places = [i for i, st in enumerate(statements) if any([id(x.block) in named for x in leaves(st)])]
    chosen = statements[places[0] : places[-1] + 1]
    found = [x for st in chosen for x in leaves(st)]
    for x in found:
        if id(x.block) not in named:
            refuse("{0} is in the same loops or between the blocks, so it must be named too", x.block)
        if x.conditional:
            refuse("{0} must not be under a condition", x.block)
    outside = {r.stmt.loop_var for r in chains[0][1:depth]}
    division = _Division(state, outside, preserve_unit_iters)
    changes: dict[int, Stmt] = {}
    inside = []
    renewed: dict[Any, Any] = {}
    for x in found:
        inner = division.divide(x.block, x.realize, {lp.loop_var for lp in x.loops})
        realize = BlockRealize(tuple(inner.values), conjunction(inner.conditions), inner.block)
        changes[id(x.realize)] = realize
        renewed[x.block] = inner.block
        inside.append(Leaf(realize, x.loops))
    for iv in division.iters:
        if iv.iter_type == REDUCE and str(iv.dom.extent) != "1":
            refuse(
                f"the loops around {{0}} must not be reduction loops of the blocks, but {iv.var.name} is",
                *[r.stmt for r in refs],
            )
    if division.conditions and len(found) > 1:
        refuse("the blocks must have no predicate over the loops around them", *[r.stmt for r in refs])
    body = ReplaceStmts(changes).run(seq_of(chosen))
    reads = _outer_regions(state, inside, [x.block.reads for x in inside])
    writes = _outer_regions(state, inside, [x.block.writes for x in inside])
    name = "_".join([x.block.name_hint for x in found]) + "_o"
    block = Block(tuple(division.iters), reads, writes, name, body)
    outer = BlockRealize(tuple(division.values), conjunction(division.conditions), block)
    new_body = with_statements(lca.stmt.body, [*statements[: places[0]], outer, *statements[places[-1] + 1 :]])
    state.replace(lca, lca.stmt.replace(body=new_body), renewed)
    return state.ref(block)


def _inner_init(
    state: ScheduleState, old: Any, values: Sequence[PrimExpr], inner_loops: list[For], conditions: list[Any]
) -> Any:
    """The initialisation of a whole tile: the spatial inner loops around the old init."""
    spatial = [iv for iv in old.iter_vars if iv.iter_type == DATA_PAR]
    iters, env = copy_iters(spatial, "_init")
    kept = [v for iv, v in zip(old.iter_vars, values, strict=True) if iv.iter_type == DATA_PAR]
    used: set[Var] = set()
    for v in kept:
        used |= vars_in(v)
    loops = [lp for lp in inner_loops if lp.loop_var in used]
    loop_env = {lp.loop_var: Var(lp.loop_var.name + "_init", lp.loop_var.dtype) for lp in loops}
    dropped = {lp.loop_var for lp in inner_loops} - used
    body = substitute(old.init, env)
    block = Block(iters, (), tuple([substitute(w, env) for w in old.writes]), f"{old.name_hint}_init", body)
    predicate = conjunction([substitute(c, loop_env) for c in conditions if dropped.isdisjoint(vars_in(c))])
    nest: Stmt = BlockRealize(tuple([substitute(v, loop_env) for v in kept]), predicate, block)
    for lp in reversed(loops):
        state.note_range(loop_env[lp.loop_var], lp.min, lp.extent)
        nest = For(loop_env[lp.loop_var], lp.min, lp.extent, ForKind.SERIAL, nest, span=lp.span)
    return nest


def _outer_regions(
    state: ScheduleState, inside: list[Leaf], regions: list[tuple[BufferRegion, ...]]
) -> tuple[Any, ...]:
    """For each buffer, one box around the accesses of the blocks inside."""
    forms = state.forms
    boxes: dict[Any, Any] = {}
    for leaf, own in zip(inside, regions, strict=True):
        for r in own:
            boxes[r.buffer] = unite(forms, boxes.get(r.buffer), swept(state, r, leaf, leaf.loops))
    out = []
    for buffer, box in boxes.items():
        ranges = []
        for b, n in zip(box, buffer.shape, strict=True):
            dtype = str(n.dtype)
            if b is None:
                ranges.append(Range.from_min_extent(IntImm(dtype, 0), n))
            else:
                extent = shift(combine(b[1], b[0], -1), 1)
                ranges.append(
                    Range.from_min_extent(forms.emit(b[0], dtype), forms.emit(forms.merge_digits(extent), dtype))
                )
        out.append(BufferRegion(buffer, tuple(ranges)))
    return tuple(out)


@primitive
def tensorize(
    s: Schedule, block_or_loop: BlockRV | LoopRV, tensor_intrin: str, preserve_unit_iters: bool = True
) -> None:
    """for i in 4: for j in 4: C[...] += ...   -->   block: intrinsic(C, A, B)

    tensor_intrin: the name of a registered TensorIntrin. Its description must be the computation of the block or loop.
    """
    state = s.state
    ref = s.find(block_or_loop)
    intrin = TensorIntrin.get(tensor_intrin)
    assert intrin is not None
    if type(ref.stmt) is For:
        ref = blockize_loop(state, ref, preserve_unit_iters)
    old = ref.stmt
    new_body, matched = match_intrinsic(state, old, intrin)
    new = old.replace(body=new_body, match_buffers=(*old.match_buffers, *matched))
    replace_realize(state, ref, realize_of(ref).replace(block=new))
