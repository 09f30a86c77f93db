"""Primitives that stage data in another buffer: cache_read and cache_write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm, Range
from tilewright.tir import (
    Block,
    BlockRealize,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    IterVar,
    Var,
    decl_buffer,
)
from tilewright.tir.schedule.analysis import DATA_PAR, leaves, scope_root
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.forms import combine, is_const, shift
from tilewright.tir.schedule.regions import swept, unite
from tilewright.tir.schedule.rewrite import ReplaceBuffers, body_list
from tilewright.tir.schedule.state import ScheduleState, seq_of
from tilewright.tir.schedule.trace import BlockRV, primitive

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule


def copy_block(state: ScheduleState, source: Any, target: Any, name: str, box: Any = None) -> tuple[Any, Any]:
    """A loop nest that copies one buffer into another of the same shape: (nest, block).

    box: (first, count) per dimension where only a part is to be copied; None for a whole dimension.
    """
    loop_vars = [Var(f"ax{i}", n.dtype) for i, n in enumerate(source.shape)]
    iter_vars = [Var(f"v{i}", n.dtype) for i, n in enumerate(source.shape)]
    doms, values, extents = [], [], []
    for i, (v, n) in enumerate(zip(loop_vars, source.shape, strict=True)):
        part = box[i] if box is not None else None
        first, count = part if part is not None else (0, n)
        extents.append(count)
        size = IntImm(v.dtype, count) if isinstance(count, int) else count
        doms.append(
            Range.from_min_extent(IntImm(v.dtype, first), size)
            if isinstance(first, int)
            else Range.from_min_extent(IntImm(v.dtype, 0), n)
        )
        values.append(v if isinstance(first, int) and first == 0 else v + first)
        state.note_range(v, IntImm(v.dtype, 0), size)
    one = tuple([Range.from_min_extent(v, IntImm(v.dtype, 1)) for v in iter_vars])
    block = Block(
        tuple([IterVar(dom, v, DATA_PAR) for v, dom in zip(iter_vars, doms, strict=True)]),
        (BufferRegion(source, one),),
        (BufferRegion(target, one),),
        name,
        BufferStore(target, BufferLoad(source, tuple(iter_vars)), tuple(iter_vars)),
    )
    nest: Any = BlockRealize(tuple(values), IntImm("bool", 1), block)
    for v, n in reversed(list(zip(loop_vars, extents, strict=True))):
        nest = For(v, 0, n, ForKind.SERIAL, nest)
    return nest, block


def touched_box(state: ScheduleState, found: list[Any], buffer: Any, writes: bool) -> list[Any]:
    """The part of a buffer that blocks touch: (first, count) per dimension, None for a whole one."""
    region: Any = None
    for leaf in found:
        for r in leaf.block.writes if writes else leaf.block.reads:
            if r.buffer is buffer:
                region = unite(state.forms, region, swept(state, r, leaf.realize, leaf.loops))
    out: list[Any] = []
    for b, n in zip(region, buffer.shape, strict=True):
        if b is not None and state.forms.leaves(b[0]):
            # Inside another block: the part depends on that block's variables.
            size = state.forms.merge_digits(shift(combine(b[1], b[0], -1), 1))
            rest = combine(shift(state.forms.of(n), -1), b[1], -1)
            if is_const(size) and state.forms.nonneg(b[0]) and state.forms.nonneg(rest):
                out.append((state.forms.emit(b[0], str(n.dtype)), size.const))
                continue
        low = None if b is None else state.forms.const_bounds(b[0])[0]
        high = None if b is None else state.forms.const_bounds(b[1])[1]
        if low is None or high is None or not isinstance(n, IntImm):
            out.append(None)
            continue
        low, high = max(low, 0), min(high, n.value - 1)
        out.append(None if low == 0 and high == n.value - 1 or high < low else (low, high - low + 1))
    return out


def named_buffer(regions: Any, index: Any, block: Any, what: str) -> Any:
    """The buffer of a region list by number, by name, or by itself."""
    if isinstance(index, str):
        found = [r.buffer for r in regions if r.buffer.name == index]
        if not found:
            refuse(f"{{0}} must {what} a buffer named {index!r}, but {what}s {[r.buffer.name for r in regions]}", block)
        return found[0]
    if not isinstance(index, int):
        if any([r.buffer is index for r in regions]):
            return index
        refuse(f"{{0}} must {what} {getattr(index, 'name', index)}", block)
    if not 0 <= index < len(regions):
        refuse(f"{{0}} {what}s {len(regions)} buffers, so there is no number {index}", block)
    return regions[index].buffer


def top_statement(scope: Any, block: Any) -> int:
    """The number of the statement of a scope's body that holds the block."""
    for i, st in enumerate(body_list(scope.body)):
        if any([leaf.block is block for leaf in leaves(st)]):
            return i
    raise AssertionError


def need_no_outer_init(scope: Any, buffer: Any) -> None:
    """The buffer is not initialised by the block around, which would go on initialising the original."""
    if scope.init is not None and any([r.buffer is buffer for r in scope.writes]):
        refuse("{0} must not be initialised by {1}, the block around", buffer, scope)


@primitive
def cache_read(
    s: Schedule,
    block: BlockRV | str,
    read_buffer_index: int | str,
    storage_scope: str,
    consumer_blocks: list[BlockRV | str] | None = None,
) -> BlockRV:
    """for i: C[i] = f(A[i])   -->   for i: A_local[i] = A[i];  for i: C[i] = f(A_local[i])

    The copy stands right after the producer of the buffer, or first in the scope. Readers in `consumer_blocks`
    (all by default) take the copy. Returns the copying block.
    """
    state = s.state
    ref = s.block(block)
    old = ref.stmt
    buffer = named_buffer(old.reads, read_buffer_index, old, "read")
    scope = scope_root(ref)
    chosen = {id(s.block(b).stmt) for b in consumer_blocks or ()}
    copy = decl_buffer(buffer.shape, buffer.dtype, f"{buffer.name}_{storage_scope}", scope=storage_scope)
    statements = body_list(scope.stmt.body)
    readers = [x for st in statements for x in leaves(st) if not chosen or id(x.block) in chosen]
    box = touched_box(state, readers, buffer, writes=False)
    nest, copier = copy_block(state, buffer, copy, f"{buffer.name}_{storage_scope}", box)
    writers = [
        i for i, st in enumerate(statements) if any([r.buffer is buffer for x in leaves(st) for r in x.block.writes])
    ]
    first_reader = top_statement(scope.stmt, old)
    place = max([w + 1 for w in writers if w <= first_reader], default=0)
    if place > first_reader:
        refuse("{0} must stand in loops of its own, apart from the writer of {1}", old, buffer)
    if any([w >= place for w in writers]):
        refuse("{0} must be written before {1} only, but is written later too", buffer, old)
    rewriter = ReplaceBuffers({buffer: copy}, (lambda b: id(b) in chosen) if chosen else None)
    after = [rewriter.visit(st) for st in statements[place:]]
    body = seq_of([*statements[:place], nest, *after])
    new_scope = scope.stmt.replace(body=body, alloc_buffers=(*scope.stmt.alloc_buffers, copy))
    state.replace(scope, new_scope, rewriter.reuse)
    return s.block_rv(state.ref(copier))


@primitive
def cache_write(
    s: Schedule,
    block: BlockRV | str,
    write_buffer_index: int | str,
    storage_scope: str,
    consumer_blocks: list[BlockRV | str] | None = None,
) -> BlockRV:
    """for i: C[i] = f(A[i])   -->   for i: C_local[i] = f(A[i]);  for i: C[i] = C_local[i]

    The copy back stands right after the block's loops. Readers in `consumer_blocks` take the staged buffer, others
    the original. Returns the copying block.
    """
    state = s.state
    ref = s.block(block)
    old = ref.stmt
    buffer = named_buffer(old.writes, write_buffer_index, old, "write")
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
    box = touched_box(state, leaves(statements[at]), buffer, writes=True)
    nest, copier = copy_block(state, copy, buffer, f"{buffer.name}_{storage_scope}", box)
    rewriter = ReplaceBuffers({buffer: copy})
    replaced = rewriter.visit(statements[at])
    rest = statements[at + 1 :]
    if chosen:
        rewriter.wanted = lambda b: id(b) in chosen
        rest = [rewriter.visit(st) for st in rest]
    body = seq_of([*statements[:at], replaced, nest, *rest])
    new_scope = scope.stmt.replace(body=body, alloc_buffers=(*scope.stmt.alloc_buffers, copy))
    state.replace(scope, new_scope, rewriter.reuse)
    return s.block_rv(state.ref(copier))
