"""Primitives that change only metadata: annotations, and the declared reads and writes of a block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import DataType, FloatImm, IntImm, Range
from tilewright.tir import BufferRegion, Var
from tilewright.tir.schedule.arguments import range_map
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.trace import BlockRV, ExprRV, LoopRV, primitive, recorded_as
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule
    from tilewright.tir.stmt import Block


@primitive
def annotate(s: Schedule, block_or_loop: BlockRV | LoopRV, ann_key: str, ann_val: ExprRV | Any) -> None:
    """for i: S   -->   for i (annotated key = value): S"""
    ref = s.find(block_or_loop)
    if ann_key in ref.stmt.annotations:
        refuse(
            f"{{0}} must not have the annotation {ann_key!r} yet, but has it with the value {ref.stmt.annotations[ann_key]!r}",
            ref.stmt,
        )
    s.state.replace(ref, ref.stmt.replace(annotations={**ref.stmt.annotations, ann_key: annotation_value(s, ann_val)}))


def annotation_value(s: Schedule, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple([annotation_value(s, v) for v in value])
    if isinstance(value, dict):
        return {k: annotation_value(s, v) for k, v in value.items()}
    if isinstance(value, Var):
        value = s.get(value)
    if isinstance(value, bool):
        return IntImm("bool", int(value))
    if isinstance(value, int):
        return IntImm("int32", value)
    return FloatImm(DataType("float32"), value) if isinstance(value, float) else value


@primitive
def unannotate(s: Schedule, block_or_loop: BlockRV | LoopRV, ann_key: str) -> None:
    """for i (annotated key = value): S   -->   for i: S"""
    ref = s.find(block_or_loop)
    if ann_key not in ref.stmt.annotations:
        refuse(f"{{0}} must have the annotation {ann_key!r}, but has {sorted(ref.stmt.annotations)}", ref.stmt)
    left = {k: v for k, v in ref.stmt.annotations.items() if k != ann_key}
    s.state.replace(ref, ref.stmt.replace(annotations=left))


@primitive
def unsafe_hide_buffer_access(s: Schedule, block: BlockRV, buf_type: str, buf_index_array: list[int]) -> None:
    """block(reads A, B; writes C): S   -->   block(reads A; writes C): S   (with "read", [1])

    buf_type: "read" or "write". Unsafe: other primitives do not consider the hidden accesses.
    """
    ref = s.block(block)
    old = ref.stmt
    regions = _regions(old, buf_type)
    for i in buf_index_array:
        if not 0 <= i < len(regions):
            refuse(f"{{0}} {buf_type}s {len(regions)} buffers, so there is no number {i}", old)
    kept = tuple([r for i, r in enumerate(regions) if i not in buf_index_array])
    s.state.replace(ref, old.replace(**{f"{buf_type}s": kept}))


@recorded_as(range_map)
def annotate_buffer_access(s: Schedule, block: BlockRV, buffer_index: int, buf_type: str, gen_new_ranges: Any) -> None:
    """block(reads A[vi, vj]): S   -->   block(reads A[vi - 1:vi + 1, vj], attrs explicit_read_region = 0): S

    gen_new_ranges: a function from the iteration variables to one entry per dimension, an index or (begin, end) with
    end excluded. Other primitives rely on these regions, so they must contain all accesses of the block.
    """
    ref = s.block(block)
    old = ref.stmt
    regions = _regions(old, buf_type)
    if not 0 <= buffer_index < len(regions):
        refuse(f"{{0}} {buf_type}s {len(regions)} buffers, so there is no number {buffer_index}", old)
    buffer = regions[buffer_index].buffer
    env = dict(zip(gen_new_ranges.initial_indices, [iv.var for iv in old.iter_vars], strict=True))
    ends = [s.state.forms.simplify(substitute(e, env)) for e in gen_new_ranges.final_indices]
    if len(ends) != 2 * len(buffer.shape):
        refuse(
            f"there must be one range for each of the {len(buffer.shape)} dimensions of {{1}}, but there are {len(ends) // 2}",
            old,
            buffer,
        )
    ranges = [
        Range.from_min_extent(low, s.state.forms.simplify(high - low))
        for low, high in zip(ends[::2], ends[1::2], strict=True)
    ]
    new = tuple([BufferRegion(buffer, tuple(ranges)) if i == buffer_index else r for i, r in enumerate(regions)])
    key = f"explicit_{buf_type}_region"
    notes = {**old.annotations, key: IntImm("int32", buffer_index)}
    s.state.replace(ref, old.replace(**{f"{buf_type}s": new}, annotations=notes))


def _regions(block: Block, buf_type: str) -> tuple[BufferRegion, ...]:
    if buf_type not in ("read", "write"):
        refuse(f'buf_type must be "read" or "write", but is {buf_type!r}', block)
    return block.reads if buf_type == "read" else block.writes
