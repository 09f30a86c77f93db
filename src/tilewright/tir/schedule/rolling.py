"""rolling_buffer: rows that the next iteration needs again are kept in a ring instead of being computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm, Range
from tilewright.tir import GE, LT, BufferLoad, BufferRegion, BufferStore, ForKind, IterVar, Or, decl_buffer
from tilewright.tir.schedule.analysis import (
    conjunction,
    conjuncts,
    int_extent,
    leaf_of,
    leaves,
    loops_above,
    need_complete,
    scope_root,
)
from tilewright.tir.schedule.arguments import write_number
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.forms import Lin
from tilewright.tir.schedule.loops import replace_realize
from tilewright.tir.schedule.rewrite import RewriteAccesses
from tilewright.tir.schedule.trace import BlockRV, recorded_as

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule


@recorded_as(write_number)
def rolling_buffer(s: Schedule, block: BlockRV | str, write_buffer_index: int) -> None:
    """for i: {for a in 3: B[i + a] = f;  C[i] = B[i] + B[i + 2]}

    -->   for i: {for a in 3: if i == 0 or a >= 2: B[(i + a) % 3] = f;  C[i] = B[i % 3] + B[(i + 2) % 3]}

    The block has been moved by compute_at into the loop over which its rows overlap.
    """
    state = s.state
    forms = state.forms
    ref = s.block(block)
    old = ref.stmt
    need_complete(state, ref)
    buffer = old.writes[write_buffer_index].buffer
    scope = scope_root(ref)
    if buffer not in scope.stmt.alloc_buffers:
        refuse("{0} must be a buffer of this scope", buffer)
    leaf = leaf_of(ref)
    above = loops_above(ref)
    own = {iv.var: (iv, value) for iv, value in zip(old.iter_vars, leaf.realize.iter_values, strict=True)}
    shared = [r.stmt for r in above if len(leaves(r.stmt)) > 1]
    found: Any = None
    for axis, r in enumerate(old.body.indices if isinstance(old.body, BufferStore) else ()):
        if r not in own:
            continue
        form = forms.of(own[r][1])
        for lp in reversed(shared):
            step = form.terms.get(forms.tables.leaf(lp.loop_var), 0)
            inner = Lin({t: k for t, k in form.terms.items() if t is not forms.tables.leaf(lp.loop_var)}, 0)
            if step <= 0 or form.const:
                continue
            names = forms.leaves(inner)
            if len(names) != 1 or any([x.loop_var in names for x in shared]):
                continue
            size = forms.const_bounds(inner)[1]
            if size is not None and size + 1 > step and list(inner.terms.values()) == [1]:
                found = (axis, lp, step, inner, size + 1)
                break
        if found:
            break
    if found is None:
        refuse(
            "{0} must overlap its next iteration in one dimension: loop * step + inner with an inner extent above the step",
            old,
        )
    axis, loop, step, inner, window = found
    if loop.kind != ForKind.SERIAL:
        refuse("{0} must be serial, for each iteration builds on the one before", loop)
    if int_extent(loop) is None or loop is not shared[-1]:
        refuse("{0} must be the innermost loop that {1} shares with its consumers", loop, old)
    inside = {id(x.block) for x in leaves(loop)}
    for x in leaves(scope.stmt.body):
        if id(x.block) not in inside and any([r.buffer is buffer for r in (*x.block.reads, *x.block.writes)]):
            refuse("all uses of {0} must be in {1}, but {2} is outside", buffer, loop, x.block)
    dtype = str(buffer.shape[axis].dtype)
    shape = [*buffer.shape[:axis], IntImm(dtype, window), *buffer.shape[axis + 1 :]]
    ring = decl_buffer(shape, buffer.dtype, buffer.name, scope=buffer.scope())

    def wrap(indices: Any) -> tuple[Any, ...]:
        return (*indices[:axis], forms.simplify(indices[axis] % window), *indices[axis + 1 :])

    def region(r: Any) -> Any:
        ranges = list(r.region)
        one = isinstance(ranges[axis].extent, IntImm) and ranges[axis].extent.value == 1
        whole = Range.from_min_extent(IntImm(dtype, 0), IntImm(dtype, window))
        ranges[axis] = (
            Range.from_min_extent(forms.simplify(ranges[axis].min % window), ranges[axis].extent) if one else whole
        )
        return BufferRegion(ring, tuple(ranges))

    first = LT(loop.loop_var, IntImm(loop.loop_var.dtype, 1))
    fresh = GE(forms.emit(inner, dtype), IntImm(dtype, window - step))
    realize = leaf.realize.replace(predicate=conjunction([*conjuncts(leaf.realize.predicate), Or(first, fresh)]))
    replace_realize(state, ref, realize)
    # Rows live on from one iteration to the next: the axis is none whose points may run in any order.
    rolls = old.body.indices[axis]
    axes = tuple([iv.replace(iter_type=IterVar.Opaque) if iv.var is rolls else iv for iv in ref.stmt.iter_vars])
    state.replace(ref, ref.stmt.replace(iter_vars=axes))
    scope = scope_root(ref)
    rewriter = RewriteAccesses(
        buffer,
        lambda x: BufferLoad(ring, wrap(x.indices)),
        lambda x: BufferStore(ring, x.value, wrap(x.indices)),
        region,
    )
    body = rewriter.visit(scope.stmt.body)
    allocs = tuple([ring if b is buffer else b for b in scope.stmt.alloc_buffers])
    state.replace(scope, scope.stmt.replace(body=body, alloc_buffers=allocs), rewriter.reuse)
