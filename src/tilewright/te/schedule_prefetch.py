"""Stage.prefetch: inserts software prefetch at the head of a loop, for the data that a later iteration reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.support.errors import ScheduleError
from tilewright.te.tensor import Tensor
from tilewright.tir import op as intrin
from tilewright.tir import schedule as tir_schedule
from tilewright.tir.arithmetic import const_true
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Var
from tilewright.tir.schedule.facts.leaves import leaves
from tilewright.tir.schedule.facts.regions import Region, swept, unite
from tilewright.tir.stmt import Block, BlockRealize, BufferRegion, Evaluate, For, ForKind, Stmt
from tilewright.tir.stmt_functor import substitute

CACHE_LINE = 64
"""Bytes that one prefetch loads."""
_READ, _KEEP, _DATA = 0, 3, 1
"""Arguments of the intrinsic: for reading, to be kept in all caches, data (not instructions)."""


def prefetches(
    sch: tir_schedule.Schedule,
    made: Iterable[Any],
    buffers: Mapping[Tensor, Buffer],
    current: Callable[[Tensor], Tensor],
) -> dict[int, list[Stmt]]:
    """The hints to insert at the head of loops, by the id of the loop."""
    found: dict[int, list[Stmt]] = {}
    for loops in made:
        for axis, loop in loops.leaves():
            for tensor, offset in loops.mark(axis).prefetches:
                buffer = buffers.get(current(tensor))
                stmt = None if buffer is None else _hint(sch, sch.get(loop), buffer, offset)
                if stmt is None:
                    raise ScheduleError(
                        f"stage {loops.stage.name}: prefetch: nothing inside {axis.var.name} reads {tensor.name}"
                    )
                found.setdefault(id(sch.get(loop)), []).append(stmt)
    return found


def _hint(sch: tir_schedule.Schedule, loop: For, buffer: Buffer, offset: Any) -> Stmt | None:
    """Loops over the cache lines of the buffer that the body reads `offset` iterations later."""
    state = sch.state
    box: Region | None = None
    root = buffer
    # Scopes and layouts have replaced the buffer by one of the same, unique, name.
    for leaf in leaves(loop.body):
        for read in leaf.block.reads:
            if read.buffer.name == buffer.name:
                root = read.buffer
                box = unite(state.forms, box, swept(state, read, leaf, leaf.loops))
    if box is None:
        return None
    later: dict[Var, PrimExpr] = {loop.loop_var: loop.loop_var + offset}
    lows, sizes = [], []
    for bounds, dim in zip(box, root.shape, strict=True):
        dtype = str(dim.dtype)
        low: PrimExpr = IntImm(dtype, 0)
        size = dim
        if bounds is not None:
            low = substitute(state.forms.emit(bounds[0], dtype), later)
            size = state.forms.simplify(state.forms.emit(bounds[1], dtype) - state.forms.emit(bounds[0], dtype) + 1)
        lows.append(low)
        sizes.append(size)
    step = max(1, CACHE_LINE * 8 // root.dtype.bits)
    counts = [*sizes[:-1], (sizes[-1] + step - 1) // step]
    names = [Var(f"p{k}", str(n.dtype)) for k, n in enumerate(counts)]
    at = [low + v for low, v in zip(lows[:-1], names, strict=False)] + [lows[-1] + names[-1] * step]
    # Prefetches past the end of the buffer fetch its last elements again.
    inside = [intrin.max(intrin.min(i, dim - 1), 0) for i, dim in zip(at, root.shape, strict=True)]
    call = Call("handle", "tir.prefetch", (intrin.address_of(BufferLoad(root, tuple(inside))), _READ, _KEEP, _DATA))
    nest: Stmt = Evaluate(call)
    for v, n in zip(reversed(names), reversed(counts), strict=True):
        nest = For(v, IntImm(str(n.dtype), 0), n, ForKind.SERIAL, nest)
    whole = tuple([Range.from_min_extent(IntImm(str(d.dtype), 0), d) for d in root.shape])
    block = Block((), (BufferRegion(root, whole),), (), f"{root.name}_prefetch", nest)
    return BlockRealize((), const_true(), block)
