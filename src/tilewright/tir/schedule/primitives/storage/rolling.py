"""rolling_buffer: keeps rows for the next iteration in a ring buffer, so that they are not computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.tir import GE, LE, LT, BufferLoad, BufferRegion, BufferStore, For, ForKind, IterVar, Or, decl_buffer
from tilewright.tir.schedule.arguments import write_number
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.block_checks import need_complete_or_reduction
from tilewright.tir.schedule.facts.hazards import takes_only_from
from tilewright.tir.schedule.facts.leaves import conjunction, conjuncts, leaf_of, leaves, loops_above, scope_root
from tilewright.tir.schedule.facts.linear_forms import Lin, combine
from tilewright.tir.schedule.primitives.loop_nests.loops import replace_realize
from tilewright.tir.schedule.primitives.rewrite import RewriteAccesses, vars_in
from tilewright.tir.schedule.state import ScheduleState
from tilewright.tir.schedule.trace import BlockRV, recorded_as

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule


class _Overlap:
    """A dimension of the buffer whose window has `window` elements and moves by `step` with each iteration of a loop."""

    def __init__(self, axis: int, loop: For, step: int, inner: Lin, window: int) -> None:
        self.axis, self.loop, self.step, self.inner, self.window = axis, loop, step, inner, window


@recorded_as(write_number)
def rolling_buffer(s: Schedule, block: BlockRV | str, write_buffer_index: int) -> None:
    """for i: {for a in 3: B[i + a] = f;  C[i] = B[i] + B[i + 2]}

    -->   for i: {for a in 3: if i == 0 or a >= 2: B[(i + a) % 3] = f;  C[i] = B[i % 3] + B[(i + 2) % 3]}

    Move the block with compute_at first, into a loop whose iterations compute overlapping parts of the buffer. In the
    dimension of the outermost such loop the buffer becomes a ring buffer; its other dimensions keep their size. No
    element is computed twice.
    """
    state = s.state
    forms = state.forms
    ref = s.block(block)
    old = ref.stmt
    need_complete_or_reduction(state, ref)
    buffer = old.writes[write_buffer_index].buffer
    scope = scope_root(ref)
    if buffer not in scope.stmt.alloc_buffers:
        refuse("{0} must be a buffer of this scope", buffer)
    leaf = leaf_of(ref)
    shared = [r.stmt for r in loops_above(ref) if len(leaves(r.stmt)) > 1]
    common = {lp.loop_var for lp in shared}
    for iv, value in zip(old.iter_vars, leaf.realize.iter_values, strict=True):
        if iv.iter_type == IterVar.CommReduce and vars_in(value) & common:
            refuse(
                f"the reduction of {{0}} must be done in one iteration, but {iv.var.name} runs with a loop around other blocks",
                old,
            )
    overlaps = _overlaps(state, old, buffer, leaf, shared)
    if not overlaps:
        refuse(
            "{0} must overlap its next iteration in one dimension: loop * step + inner with an inner extent above the step",
            old,
        )
    roll = min(overlaps, key=lambda o: shared.index(o.loop))
    loop, axis, window = roll.loop, roll.axis, roll.window
    for lp in shared[shared.index(loop) :]:
        if lp.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            refuse("{0} must be serial, for each iteration builds on the one before", lp)
    _need_bounds_only(state, leaf)
    inside = {id(x.block) for x in leaves(loop)}
    computed = False
    for x in leaves(scope.stmt.body):
        if x.block is old:
            computed = True
        elif any([r.buffer is buffer for r in (*x.block.reads, *x.block.writes)]):
            if id(x.block) not in inside:
                refuse("all uses of {0} must be in {1}, but {2} is outside", buffer, loop, x.block)
            if not computed or not takes_only_from(state, x, leaf, buffer):
                refuse("{0} must read of {1} only what {2} computes for the same iteration", x.block, buffer, old)
    dtype = str(buffer.shape[axis].dtype)
    shape = [*buffer.shape[:axis], IntImm(dtype, window), *buffer.shape[axis + 1 :]]
    ring = decl_buffer(shape, buffer.dtype, buffer.name, scope=buffer.scope())

    def wrap(indices: tuple[PrimExpr, ...]) -> tuple[Any, ...]:
        return (*indices[:axis], forms.simplify(indices[axis] % window), *indices[axis + 1 :])

    def region(r: Any) -> Any:
        ranges = list(r.region)
        one = isinstance(ranges[axis].extent, IntImm) and ranges[axis].extent.value == 1
        whole = Range.from_min_extent(IntImm(dtype, 0), IntImm(dtype, window))
        ranges[axis] = (
            Range.from_min_extent(forms.simplify(ranges[axis].min % window), ranges[axis].extent) if one else whole
        )
        return BufferRegion(ring, tuple(ranges))

    conditions = conjuncts(leaf.realize.predicate)
    for o in overlaps:
        first = LT(o.loop.loop_var, IntImm(o.loop.loop_var.dtype, 1))
        fresh = LE(IntImm(dtype, o.window - o.step), forms.emit(o.inner, dtype))
        conditions.append(Or(first, fresh))
    # The block uses elements of earlier iterations, so these variables are no longer data parallel.
    ordered = {old.body.indices[o.axis] for o in overlaps}
    iters = tuple([
        IterVar(iv.dom, iv.var, IterVar.Opaque, iv.thread_tag) if iv.var in ordered else iv for iv in old.iter_vars
    ])  # fmt: skip
    realize = leaf.realize.replace(predicate=conjunction(conditions), block=old.replace(iter_vars=iters))
    replace_realize(state, ref, realize)
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


def _overlaps(state: ScheduleState, block: Any, buffer: Any, leaf: Any, shared: list[Any]) -> list[_Overlap]:
    """The dimensions in which an iteration of a shared loop needs elements that the iteration before computed."""
    forms = state.forms
    own = {iv.var: value for iv, value in zip(block.iter_vars, leaf.realize.iter_values, strict=True)}
    common = {lp.loop_var: lp for lp in shared}
    store = block.body
    if not isinstance(store, BufferStore) or store.buffer is not buffer:
        refuse("the body of {0} must be one plain store", block)
    out: list[_Overlap] = []
    for axis, r in enumerate(store.indices):
        if r not in own:
            continue
        form = forms.of(own[r])
        outer = {t: k for t, k in form.terms.items() if t.leaf is not None and t.leaf in common}
        inner = Lin({t: k for t, k in form.terms.items() if t not in outer}, 0)
        if len(outer) != 1 or forms.leaves(inner) & common.keys():
            continue
        ((atom, step),) = outer.items()
        loop = common[atom.leaf]
        low, high = forms.const_bounds(inner)
        if step <= 0 or low != 0 or high is None or high + 1 <= step or str(loop.min) != "0":
            continue
        if any([o.loop is loop for o in out]):
            continue
        out.append(_Overlap(axis, loop, step, inner, high + 1))
    return out


def _need_bounds_only(state: ScheduleState, leaf: Any) -> None:
    """Require that the predicate depends only on the element, so that it is the same in every iteration."""
    forms = state.forms
    for c in conjuncts(leaf.realize.predicate):
        d = combine(forms.of(c.a), forms.of(c.b), -1) if isinstance(c, (LT, GE)) else None
        known = d is not None and any(
            [
                d.terms == combine(Lin({}, 0), forms.of(v), sign).terms
                for v in leaf.realize.iter_values
                for sign in (1, -1)
            ]
        )
        if not known or leaf.conditional:
            refuse(f"the predicate {c} of {{0}} must be a bound of one iteration variable", leaf.block)
    if leaf.conditional:
        refuse("{0} must not be under a condition", leaf.block)
