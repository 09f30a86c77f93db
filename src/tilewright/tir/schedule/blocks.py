"""Primitives that make a loop nest one block, and that replace a block by a hardware instruction: blockize, tensorize."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm, Range
from tilewright.tir import LT, Block, BlockRealize, BufferRegion, For, ForKind, IterVar, Var
from tilewright.tir.schedule.analysis import DATA_PAR, conjunction, conjuncts, leaf_of, leaves, loops_above
from tilewright.tir.schedule.copies import copy_iters
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.forms import Lin, combine, constant, shift
from tilewright.tir.schedule.loops import replace_realize
from tilewright.tir.schedule.regions import swept, unite
from tilewright.tir.schedule.rewrite import ReplaceStmts, vars_in
from tilewright.tir.schedule.state import ScheduleState, StmtSRef
from tilewright.tir.schedule.tensor_intrin import TensorIntrin, match_intrinsic
from tilewright.tir.schedule.trace import BlockRV, LoopRV, primitive
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule


@primitive
def blockize(s: Schedule, target: LoopRV, preserve_unit_iters: bool = True) -> BlockRV:
    """for i0: for i1: block(vi = i0 * 4 + i1)   -->   for i0: block(vio = i0): for i1: block(vi = vio * 4 + i1)

    What `target` holds becomes the body of the new block, which is returned.
    """
    return s.block_rv(blockize_loop(s.state, s.loop(target), preserve_unit_iters))


def blockize_loop(state: ScheduleState, loop_ref: StmtSRef, preserve_unit_iters: bool = True) -> StmtSRef:
    loop = loop_ref.stmt
    found = leaves(loop)
    if len(found) != 1:
        refuse("{0} must hold exactly one block, but holds " + str(len(found)), loop)
    old = found[0].block
    forms = state.forms
    leaf = leaf_of(state.ref(old))
    outside = {r.stmt.loop_var for r in loops_above(loop_ref)}
    inner_loops = [lp for lp in leaf.loops if lp.loop_var not in outside]
    inside = {lp.loop_var for lp in inner_loops}
    outer_iters: list[Any] = []
    outer_values: list[Any] = []
    inner_values: list[Any] = []
    bounds: list[Any] = []
    for iv, value in zip(old.iter_vars, leaf.realize.iter_values, strict=True):
        dtype = iv.var.dtype
        form = forms.of(value)
        inner = Lin({t: k for t, k in form.terms.items() if forms.leaves(Lin({t: 1}, 0)) & inside}, 0)
        outer = combine(form, inner, -1)
        if forms.leaves(inner) & outside:
            refuse(
                f"{iv.var.name} of {{0}} must be bound to an outer part plus an inner part, but is bound to {value}",
                old,
            )
        high = forms.const_bounds(inner)[1]
        low = forms.const_bounds(inner)[0]
        if low != 0 or high is None or not isinstance(iv.dom.extent, IntImm):
            refuse(
                f"the inner part of {iv.var.name} of {{0}} must run from 0 to a constant, but is {forms.emit(inner)}",
                old,
            )
        size = high + 1
        if any([k % size for k in outer.terms.values()]) or outer.const % size:
            refuse(
                f"the outer part of {iv.var.name} of {{0}} must be a multiple of {size}, but is {forms.emit(outer)}",
                old,
            )
        base = forms.div(outer, size)
        extent = -(-iv.dom.extent.value // size)
        if not preserve_unit_iters and extent == 1 and not base.terms:
            inner_values.append(forms.emit(form, dtype))
            continue
        var = Var(f"{iv.var.name}_o", dtype)
        state.note_range(var, IntImm(dtype, 0), IntImm(dtype, extent))
        outer_iters.append(IterVar(Range.from_min_extent(IntImm(dtype, 0), IntImm(dtype, extent)), var, iv.iter_type))
        outer_values.append(forms.emit(base, dtype))
        if not forms.nonneg(combine(constant(extent - 1), base, -1)):
            bounds.append(LT(outer_values[-1], IntImm(dtype, extent)))
        inner_values.append(forms.emit(combine(inner, forms.var(var), size), dtype))
    outer_conditions, inner_conditions = bounds, []
    for c in conjuncts(leaf.realize.predicate):
        if inside.isdisjoint(vars_in(c)):
            outer_conditions.append(c)
            continue
        for value, inner_value in zip(leaf.realize.iter_values, inner_values, strict=True):
            d = combine(forms.of(c.a), forms.of(value), -1) if hasattr(c, "a") else None
            if d is not None and not d.terms and not d.const and isinstance(c.b, IntImm):
                inner_conditions.append(type(c)(inner_value, c.b))
                break
        else:
            refuse(f"the predicate {c} of {{0}} must be a bound of one iteration variable", old)
    init = None
    inner_block = old
    if old.init is not None:
        init = _inner_init(state, old, inner_values, inner_loops, inner_conditions)
        inner_block = old.replace(
            init=None,
            reads=(*[w for w in old.writes if all([w.buffer is not r.buffer for r in old.reads])], *old.reads),
        )
    inner_realize = BlockRealize(tuple(inner_values), conjunction(inner_conditions), inner_block)
    body = ReplaceStmts({id(leaf.realize): inner_realize}).run(loop)
    reads = _outer_regions(state, old.reads, inner_realize, inner_loops)
    writes = _outer_regions(state, old.writes, inner_realize, inner_loops)
    outer_block = Block(tuple(outer_iters), reads, writes, f"{old.name_hint}_o", body, init)
    outer_realize = BlockRealize(tuple(outer_values), conjunction(outer_conditions), outer_block)
    parent = loop_ref.parent
    assert parent is not None
    new_body = ReplaceStmts({id(loop): outer_realize}).run(parent.stmt.body)
    state.replace(parent, parent.stmt.replace(body=new_body), {old: inner_block})
    return state.ref(outer_block)


def _inner_init(
    state: ScheduleState, old: Any, values: list[Any], inner_loops: list[Any], conditions: list[Any]
) -> Any:
    """The initialisation of a whole tile: the spatial inner loops around the old init."""
    spatial = [iv for iv in old.iter_vars if iv.iter_type == DATA_PAR]
    iters, env = copy_iters(spatial, "_init")
    kept = [v for iv, v in zip(old.iter_vars, values, strict=True) if iv.iter_type == DATA_PAR]
    used: set[Any] = set()
    for v in kept:
        used |= vars_in(v)
    loops = [lp for lp in inner_loops if lp.loop_var in used]
    loop_env = {lp.loop_var: Var(lp.loop_var.name + "_init", lp.loop_var.dtype) for lp in loops}
    dropped = {lp.loop_var for lp in inner_loops} - used
    body = substitute(old.init, env)
    block = Block(iters, (), tuple([substitute(w, env) for w in old.writes]), f"{old.name_hint}_init", body)
    predicate = conjunction([substitute(c, loop_env) for c in conditions if dropped.isdisjoint(vars_in(c))])
    nest: Any = BlockRealize(tuple([substitute(v, loop_env) for v in kept]), predicate, block)
    for lp in reversed(loops):
        state.note_range(loop_env[lp.loop_var], lp.min, lp.extent)
        nest = For(loop_env[lp.loop_var], lp.min, lp.extent, ForKind.SERIAL, nest)
    return nest


def _outer_regions(state: ScheduleState, regions: Any, realize: Any, loops: list[Any]) -> tuple[Any, ...]:
    forms = state.forms
    boxes: dict[Any, Any] = {}
    for r in regions:
        boxes[r.buffer] = unite(forms, boxes.get(r.buffer), swept(state, r, realize, loops))
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

    tensor_intrin: the name of a registered TensorIntrin whose description is the computation of the block or loop.
    """
    state = s.state
    ref = s.get_sref(block_or_loop)
    intrin = TensorIntrin.get(tensor_intrin)
    assert intrin is not None
    if type(ref.stmt) is For:
        ref = blockize_loop(state, ref, preserve_unit_iters)
    old = ref.stmt
    new_body, matched = match_intrinsic(state, old, intrin)
    new = old.replace(body=new_body, match_buffers=(*old.match_buffers, *matched))
    from tilewright.tir.schedule.analysis import realize_of

    replace_realize(state, ref, realize_of(ref).replace(block=new))
