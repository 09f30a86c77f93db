"""Primitives that stage data in another buffer: cache_read and cache_write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IterVar,
    Var,
    decl_buffer,
)
from tilewright.tir.schedule.arguments import read_number, write_number
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.binding import binding_of
from tilewright.tir.schedule.facts.block_checks import alloc_site, need_whole_reduction
from tilewright.tir.schedule.facts.certain import surely
from tilewright.tir.schedule.facts.hazards import shared_loops
from tilewright.tir.schedule.facts.leaves import DATA_PAR, Leaf, leaf_of, leaves, scope_leaves, scope_root
from tilewright.tir.schedule.facts.linear_forms import ZERO, Forms, Lin, is_const, same, shift
from tilewright.tir.schedule.facts.point_effects import self_dependence
from tilewright.tir.schedule.facts.regions import contains, in_domain, needed, unite, unite_exact
from tilewright.tir.schedule.primitives.rewrite import ReplaceBuffers, body_list, with_statements
from tilewright.tir.schedule.state import ScheduleState, StmtSRef
from tilewright.tir.schedule.trace import BlockRV, recorded_as

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule
    from tilewright.tir.stmt import Stmt


def copy_block(state: ScheduleState, source: Buffer, target: Buffer, name: str, box: Any = None) -> tuple[Any, Any]:
    """Make a loop nest that copies one buffer into another of the same shape: (nest, block).

    box: the part to copy as (first, count) per dimension; None for a whole dimension.
    """
    loop_vars = [Var(f"ax{i}", n.dtype) for i, n in enumerate(source.shape)]
    iter_vars = [Var(f"v{i}", n.dtype) for i, n in enumerate(source.shape)]
    doms, values, extents = [], [], []
    for i, (v, n) in enumerate(zip(loop_vars, source.shape, strict=True)):
        zero = IntImm(v.dtype, 0)
        first, count = (zero, n) if box is None or box[i] is None else box[i]
        extents.append(count)
        doms.append(
            Range.from_min_extent(first, count) if isinstance(first, IntImm) else Range.from_min_extent(zero, n)
        )
        values.append(v if isinstance(first, IntImm) and first.value == 0 else v + first)
        state.note_range(v, zero, count)
    one = tuple([Range.from_min_extent(v, IntImm(v.dtype, 1)) for v in iter_vars])
    block = Block(
        tuple([IterVar(dom, v, DATA_PAR) for v, dom in zip(iter_vars, doms, strict=True)]),
        (BufferRegion(source, one),),
        (BufferRegion(target, one),),
        name,
        BufferStore(target, BufferLoad(source, tuple(iter_vars)), tuple(iter_vars)),
    )
    nest: Stmt = BlockRealize(tuple(values), IntImm("bool", 1), block)
    for v, n in reversed(list(zip(loop_vars, extents, strict=True))):
        nest = For(v, 0, n, ForKind.SERIAL, nest)
    return nest, block


def box_of(state: ScheduleState, region: list[tuple[Lin, ...]], buffer: Buffer) -> list[Any]:
    """A region that is constant over all iterations, as (first, count) per dimension; None for a whole dimension."""
    forms = state.forms
    out: list[tuple[PrimExpr, PrimExpr] | None] = []
    for b, n in zip(region, buffer.shape, strict=True):
        if b is None or (_is_zero(forms, b[0]) and same(shift(b[1], 1), forms.of(n))):
            out.append(None)
            continue
        # A predicate keeps the block inside of the buffer.
        low, high = forms.maximum(b[0], ZERO), forms.minimum(b[1], shift(forms.of(n), -1))
        size = forms.count((low, high))
        dtype = str(n.dtype)
        if is_const(size) and size.const <= 0:
            out.append((IntImm(dtype, 0), IntImm(dtype, 0)))
        elif _is_zero(forms, low) and same(size, forms.of(n)):
            out.append(None)
        else:
            out.append((forms.emit(low, dtype), forms.emit(size, dtype)))
    return out


def _is_zero(forms: Forms, form: Lin) -> bool:
    return is_const(form) and form.const == 0


def written_box(state: ScheduleState, found: list[Any], buffer: Any) -> Any:
    """A box of the buffer that the blocks provably write completely while all of their loops run; None if there is
    none.
    """
    box: Any = None
    for leaf in found:
        for r in leaf.block.writes:
            if r.buffer is buffer:
                box = unite_exact(state.forms, box, whole_region(state, leaf, r))
    return box


def whole_region(state: ScheduleState, leaf: Leaf, region: Any) -> Any:
    """The region that a block provably writes while all loops of its scope run."""
    box = surely(state, region, leaf, leaf.loops)
    if None not in box or not binding_of(state, leaf).covers:
        return in_domain(state, leaf, region, box)
    # The predicate only keeps the block in its domain, so all of the domain is visited.
    loops = tuple(
        [For(iv.var, iv.dom.min, iv.dom.extent, ForKind.SERIAL, leaf.block.body) for iv in leaf.block.iter_vars]
    )
    values = tuple([iv.var for iv in leaf.block.iter_vars])
    return surely(state, region, Leaf(BlockRealize(values, IntImm("bool", 1), leaf.block), loops), loops)


def need_written(
    state: ScheduleState, scope: StmtSRef, before: list[Stmt], buffer: Buffer, region: Any, reader: Stmt
) -> None:
    """Require that the copied part of a buffer has been written, as far as this can be proved.

    before: the statements of the scope that run before the copy. Parameters of the function are always written.
    """
    if alloc_site(scope, buffer) is None:
        return
    found = [leaf for st in before for leaf in leaves(st)]
    if not _is_written(state, scope, found, buffer, region):
        refuse("all of {0} that a copy for {1} takes must surely be written before", buffer, reader)


def _is_written(state: ScheduleState, scope: StmtSRef, found: list[Leaf], buffer: Any, region: Any) -> bool:
    """Whether the blocks, or others that run before their scope, write a region."""
    box = written_box(state, found, buffer)
    if box is not None and contains(state.forms, box, region, buffer.shape):
        return True
    if buffer in scope.stmt.alloc_buffers or scope.parent is None:
        return False
    forms, here, earlier = state.forms, leaf_of(scope), []
    env = {iv.var: forms.of(v) for iv, v in zip(here.block.iter_vars, here.realize.iter_values, strict=True)}
    outer = [None if b is None else (forms.of(forms.emit(b[0]), env), forms.of(forms.emit(b[1]), env)) for b in region]
    for leaf in scope_leaves(scope):
        if leaf.block is here.block:
            break
        earlier.append(Leaf(leaf.realize, leaf.loops[shared_loops(leaf.loops, here.loops) :], leaf.conditional))
    return _is_written(state, scope_root(scope), earlier, buffer, outer)


def touched_region(state: ScheduleState, found: list[Any], buffer: Any, writes: bool) -> Any:
    """The part of a buffer that blocks may access while all of their loops run."""
    region: Any = None
    for leaf in found:
        for r in leaf.block.writes if writes else leaf.block.reads:
            if r.buffer is buffer:
                region = unite(state.forms, region, needed(state, r, leaf, leaf.loops))
    return region


def need_touched(state: ScheduleState, found: list[Leaf], buffer: Buffer, writes: bool) -> Any:
    """`touched_region`; refused if no block accesses the buffer."""
    region = touched_region(state, found, buffer, writes)
    if region is None:
        refuse(f"at least one of the chosen blocks must {'write' if writes else 'read'} {{0}}", buffer)
    return region


def top_statement(scope: Block, block: Block) -> int:
    """The number of the statement in a scope's body that contains the block."""
    for i, st in enumerate(body_list(scope.body)):
        if any([leaf.block is block for leaf in leaves(st)]):
            return i
    raise AssertionError


def need_no_outer_init(scope: Block, buffer: Buffer) -> None:
    """Require that the block around does not initialise the buffer, since it would initialise the original."""
    if scope.init is not None and any([r.buffer is buffer for r in scope.writes]):
        refuse("{0} must not be initialised by {1}, the block around", buffer, scope)


def _need_fresh(state: ScheduleState, nest: Any, buffer: Any, block: Any) -> None:
    """Require that a nest writes the whole part of a buffer that it accesses, and reads none of it before writing it."""
    found = leaves(nest)
    box = written_box(state, found, buffer)
    touched = touched_region(state, found, buffer, True)
    if box is None or not contains(state.forms, box, touched, buffer.shape):
        refuse("the loops of {0} must surely write the whole part of {1} that is to be staged", block, buffer)
    for number, leaf in enumerate(found):
        if leaf.block.init is not None and any([r.buffer is buffer for r in leaf.block.writes]):
            need_whole_reduction(binding_of(state, leaf), leaf)
            reason = self_dependence(state, leaf.block)
            if reason:
                refuse(f"the points of {{0}} must not depend on each other, but {reason}", leaf.block)
        if all([r.buffer is not buffer for r in leaf.block.reads]):
            continue
        for source in found[:number]:
            shared = shared_loops(source.loops, leaf.loops)
            provided = [
                surely(state, r, source, source.loops[shared:]) for r in source.block.writes if r.buffer is buffer
            ]
            required = [needed(state, r, leaf, leaf.loops[shared:]) for r in leaf.block.reads if r.buffer is buffer]
            if provided and all([contains(state.forms, provided[0], r, buffer.shape) for r in required]):
                break
        else:
            refuse(
                "{0} must not read elements of {1} that were written before, or are written later", leaf.block, buffer
            )


def _need_staged(state: ScheduleState, writers: list[Leaf], buffer: Any, readers: list[Leaf]) -> None:
    """Require that readers of the staged buffer read no element that only the original has."""
    box = written_box(state, writers, buffer)
    for leaf in readers:
        required = touched_region(state, [leaf], buffer, False)
        if required is not None and not contains(state.forms, box, required, buffer.shape):
            refuse("{0} must read of {1} only what {2} surely writes", leaf.block, buffer, writers[0].block)


@recorded_as(read_number)
def cache_read(
    s: Schedule,
    block: BlockRV | str,
    read_buffer_index: int | str | Buffer,
    storage_scope: str,
    consumer_blocks: list[BlockRV | str] | None = None,
) -> BlockRV:
    """for i: C[i] = f(A[i])   -->   for i: A_local[i] = A[i];  for i: C[i] = f(A_local[i])

    The copy is inserted right after the producer of the buffer, or at the start of the scope. The blocks in
    `consumer_blocks` (default: all) read the copy. Returns the copying block.
    """
    state = s.state
    ref = s.block(block)
    old = ref.stmt
    buffer = old.reads[read_buffer_index].buffer
    scope = scope_root(ref)
    chosen = {id(s.block(b).stmt) for b in consumer_blocks or ()}
    copy = decl_buffer(buffer.shape, buffer.dtype, f"{buffer.name}_{storage_scope}", scope=storage_scope)
    statements = body_list(scope.stmt.body)
    readers = [x for st in statements for x in leaves(st) if not chosen or id(x.block) in chosen]
    region = need_touched(state, readers, buffer, writes=False)
    nest, copier = copy_block(state, buffer, copy, f"{buffer.name}_{storage_scope}", box_of(state, region, buffer))
    writers = [
        i for i, st in enumerate(statements) if any([r.buffer is buffer for x in leaves(st) for r in x.block.writes])
    ]
    first_reader = top_statement(scope.stmt, old)
    place = max([w + 1 for w in writers if w <= first_reader], default=0)
    if place > first_reader:
        refuse("{0} must be in its own loops, not in those of the writer of {1}", old, buffer)
    if any([w >= place for w in writers]):
        refuse("{0} must be written before {1} only, but is written later too", buffer, old)
    need_written(state, scope, statements[:place], buffer, region, old)
    rewriter = ReplaceBuffers({buffer: copy}, (lambda b: id(b) in chosen) if chosen else None)
    after = [rewriter.visit(st) for st in statements[place:]]
    body = with_statements(scope.stmt.body, [*statements[:place], nest, *after])
    new_scope = scope.stmt.replace(body=body, alloc_buffers=(*scope.stmt.alloc_buffers, copy))
    state.replace(scope, new_scope, rewriter.reuse)
    return s.block_rv(state.ref(copier))


@recorded_as(write_number)
def cache_write(
    s: Schedule,
    block: BlockRV | str,
    write_buffer_index: int | str | Buffer,
    storage_scope: str,
    consumer_blocks: list[BlockRV | str] | None = None,
) -> BlockRV:
    """for i: C[i] = f(A[i])   -->   for i: C_local[i] = f(A[i]);  for i: C[i] = C_local[i]

    The copy is inserted right after the loops of the block. The blocks in `consumer_blocks` read the staged buffer,
    other blocks the original one. Returns the copying block.
    """
    state = s.state
    ref = s.block(block)
    old = ref.stmt
    buffer = old.writes[write_buffer_index].buffer
    scope = scope_root(ref)
    chosen = {id(s.block(b).stmt) for b in consumer_blocks or ()}
    copy = decl_buffer(buffer.shape, buffer.dtype, f"{buffer.name}_{storage_scope}", scope=storage_scope)
    statements = body_list(scope.stmt.body)
    at = top_statement(scope.stmt, old)
    writers = [leaf for st in statements for leaf in leaves(st) if any([r.buffer is buffer for r in leaf.block.writes])]
    inside = {id(leaf.block) for leaf in leaves(statements[at])}
    for w in writers:
        if id(w.block) not in inside:
            refuse("{0} must be written in one loop nest, but {1} writes it too", buffer, w.block)
    need_no_outer_init(scope.stmt, buffer)
    _need_fresh(state, statements[at], buffer, old)
    region = need_touched(state, leaves(statements[at]), buffer, writes=True)
    nest, copier = copy_block(state, copy, buffer, f"{buffer.name}_{storage_scope}", box_of(state, region, buffer))
    rewriter = ReplaceBuffers({buffer: copy})
    replaced = rewriter.visit(statements[at])
    rest = statements[at + 1 :]
    if chosen:
        readers = [leaf for st in rest for leaf in leaves(st) if id(leaf.block) in chosen]
        _need_staged(state, leaves(statements[at]), buffer, readers)
        rewriter.wanted = lambda b: id(b) in chosen
        rest = [rewriter.visit(st) for st in rest]
    body = with_statements(scope.stmt.body, [*statements[:at], replaced, nest, *rest])
    new_scope = scope.stmt.replace(body=body, alloc_buffers=(*scope.stmt.alloc_buffers, copy))
    state.replace(scope, new_scope, rewriter.reuse)
    return s.block_rv(state.ref(copier))
