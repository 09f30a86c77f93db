"""Primitives that change buffers: scope, alignment, data type, layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm
from tilewright.tir.schedule.arguments import either, number_of, write_number
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.block_checks import alloc_site
from tilewright.tir.schedule.primitives.rewrite import ReplaceBuffers, fresh_buffer
from tilewright.tir.schedule.state import ScheduleState, StmtSRef
from tilewright.tir.schedule.trace import BlockRV, primitive, recorded_as

if TYPE_CHECKING:
    from tilewright.tir.buffer import Buffer
    from tilewright.tir.schedule.schedule import Schedule


def replace_buffer(state: ScheduleState, ref: StmtSRef, old: Buffer, new: Buffer) -> None:
    """Replace an intermediate buffer in the block that allocates it and everywhere below."""
    site = alloc_site(ref, old)
    if site is None:
        refuse("{0} must be an intermediate buffer, but is a parameter of the function", old)
    rewriter = ReplaceBuffers({old: new})
    block = site.stmt
    body = rewriter.visit(block.body)
    allocs = tuple([new if b is old else b for b in block.alloc_buffers])
    state.replace(site, block.replace(body=body, alloc_buffers=allocs), rewriter.reuse)


@recorded_as(write_number)
def set_scope(s: Schedule, block: BlockRV | str, buffer_index: int | str, storage_scope: str) -> None:
    """alloc B in "global"   -->   alloc B in `storage_scope`   (the buffer_index-th output of the block)"""
    ref = s.block(block)
    buffer = ref.stmt.writes[buffer_index].buffer
    if buffer.scope() == storage_scope:
        return
    replace_buffer(s.state, ref, buffer, fresh_buffer(buffer, scope=storage_scope))


@primitive
def unsafe_set_dtype(s: Schedule, block: BlockRV | str, buffer_index: int, dtype: str) -> None:
    """alloc B: float32; B[i] = f; C[i] = B[i]   -->   alloc B: dtype; B[i] = cast(f); C[i] = cast(B[i])

    Unsafe: it changes the numbers that the program computes.
    """
    from tilewright.tir.schedule.primitives.storage.element_type import set_buffer_dtype

    ref = s.block(block)
    set_buffer_dtype(
        s.state, ref, ref.stmt.writes[number_of(ref.stmt.writes, buffer_index, ref.stmt, "write")].buffer, dtype
    )


@primitive
def storage_align(s: Schedule, block: BlockRV | str, buffer_index: int, axis: int, factor: int, offset: int) -> None:
    """Set the stride of dimension `axis` of an output to k * factor + offset elements, for some k (a block annotation)."""
    ref = s.block(block)
    old = ref.stmt
    buffer = old.writes[number_of(old.writes, buffer_index, old, "write")].buffer
    if factor <= 0:
        refuse(f"factor must be positive, but is {factor}", old)
    rank = len(buffer.shape)
    if not -rank <= axis < rank:
        refuse(f"axis must be from {-rank} to {rank - 1} for {{0}}, but is {axis}", buffer)
    if alloc_site(ref, buffer) is None:
        refuse("{0} must be an intermediate buffer, but is a parameter of the function", buffer)
    entry = tuple([IntImm("int32", v) for v in (buffer_index, axis % rank, factor, offset)])
    kept = [
        e for e in old.annotations.get("buffer_dim_align", ()) if (int(e[0]), int(e[1])) != (buffer_index, axis % rank)
    ]
    s.state.replace(ref, old.replace(annotations={**old.annotations, "buffer_dim_align": (*kept, entry)}))


@recorded_as(either)
def set_axis_separator(s: Schedule, block: BlockRV | str, buffer: Any, axis_separators: list[int] | None) -> None:
    """Divide the dimensions of a buffer into groups. Each group is flattened to one physical dimension."""
    ref = s.block(block)
    kind, index = buffer
    old = (ref.stmt.writes if kind == "write" else ref.stmt.reads)[index].buffer
    separators = tuple([IntImm("int32", int(a)) for a in axis_separators or ()])
    new = old.replace(axis_separators=separators)
    if alloc_site(ref, old) is not None:
        replace_buffer(s.state, ref, old, new)
    else:
        replace_parameter(s.state, ref, old, new)


def replace_parameter(state: ScheduleState, ref: StmtSRef, old: Any, new: Any) -> None:
    """Replace a buffer that is a parameter of the function."""
    gvar = state.function_of(ref)
    func = state.function(gvar)
    root = state.roots[gvar]
    rewriter = ReplaceBuffers({old: new})
    state.replace(root, root.stmt.replace(body=rewriter.visit(root.stmt.body)), rewriter.reuse)
    func = state.function(gvar)
    state.set_function(gvar, func.replace(buffer_map={p: new if b is old else b for p, b in func.buffer_map.items()}))
