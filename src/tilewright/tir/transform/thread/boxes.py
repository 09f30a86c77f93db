"""Copies of boxes of tensors in global memory to shared memory, as tensor maps make them: which loops and conditions are one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from tilewright.arith import Analyzer
from tilewright.arith.pattern import constant_step
from tilewright.ir import FloatImm, IntImm, PrimExpr, Range
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.tir.arithmetic import conjuncts
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import LT, BufferLoad, Call
from tilewright.tir.stmt import BlockRealize, BufferStore, For, Stmt
from tilewright.tir.stmt_functor import substitute
from tilewright.tir.transform.base import call_name
from tilewright.tir.transform.thread.staging import nest_of

SWIZZLE = "tensor_map_swizzle"
"""Annotation of the block of a copy: bytes of the swizzle in which its tile lies in shared memory."""
MOST_BOX = 256
"""Elements of a box along a dimension, at most."""


class Copy(NamedTuple):
    """A copy of a box. loops: around it; to: element of the shared buffer; shape: of the tensor, whose outer dimensions may be one; at:
    coordinates of the first element."""

    loops: tuple[For, ...]
    shared: Buffer
    to: PrimExpr
    source: Buffer
    shape: tuple[int, ...]
    box: tuple[int, ...]
    at: tuple[PrimExpr, ...]
    swizzle: int


def refused(text: str, node: Any) -> TVMError:
    """The error for a program that the pass cannot divide, with the place of a node."""
    return TVMError(located(f"InjectWarpSpecialization: {text}", node))


def sizes_text(sizes: Sequence[Any]) -> str:
    """Sizes as they are written."""
    return f"({', '.join(map(str, sizes))})"


def inside(s: Stmt) -> tuple[Stmt, int, tuple[Buffer, ...]]:
    """What blocks hold, the swizzle that they name, and their buffers."""
    swizzle = 0
    buffers: tuple[Buffer, ...] = ()
    while isinstance(s, BlockRealize):
        swizzle = int(s.block.annotations.get(SWIZZLE, swizzle))
        buffers = (*buffers, *s.block.alloc_buffers)
        if s.block.match_buffers or not (isinstance(s.predicate, IntImm) and s.predicate.value):
            raise refused(
                f"the copy {s.block.name_hint} has a view of a buffer or a condition of its block, which no copy of a box has; make the"
                " tiles whole (pad_einsum), and match no buffers",
                s,
            )
        s = s.block.body
    return s, swizzle, buffers


def box_copy(s: Stmt, analyzer: Analyzer) -> Copy:
    """A nest of loops that copies, as a box."""
    loops, body = nest_of(s)
    store, swizzle, _ = inside(body)
    if not isinstance(store, BufferStore):
        raise refused(
            "a statement before the products is no copy of elements; compute what it computes before the loop, or copy it unchanged",
            s,
        )
    load, conditions = store.value, []
    if isinstance(load, Call) and call_name(load) == "if_then_else":
        conditions, other = conjuncts(load.args[0]), load.args[2]
        if not (isinstance(other, (IntImm, FloatImm)) and other.value == 0):
            raise refused(
                f"the copy to {store.buffer.name} writes {other} where its condition is false, but copies of boxes write zeros there; pad"
                " with zeros",
                s,
            )
        load = load.args[1]
    if not isinstance(load, BufferLoad) or load.buffer.dtype != store.buffer.dtype or load.buffer.scope() != "global":
        raise refused(
            f"what is written to {store.buffer.name} is no element of a buffer of its type in global memory; compute it in a kernel"
            " before this one, and copy the result",
            s,
        )
    if load.buffer.strides or not all([isinstance(n, IntImm) for n in (*load.buffer.shape, *store.buffer.shape)]):
        raise refused(
            f"{load.buffer.name} {sizes_text(load.buffer.shape)} or {store.buffer.name} {sizes_text(store.buffer.shape)} has strides, or"
            " sizes that are not constant; copy the tensor to a compact one of constant sizes, or leave out the annotation",
            s,
        )
    for f in loops:
        analyzer.bind(f.loop_var, Range.from_min_extent(f.min, f.extent), allow_override=True)
    indices, shape = _view(load, loops, analyzer)
    for condition in conditions:
        _need_bound(condition, indices, shape, analyzer, s)
    zero = {f.loop_var: IntImm(f.loop_var.dtype, 0) for f in loops}
    flat: PrimExpr = IntImm("int32", 0)
    for index, n in zip(store.indices, store.buffer.shape, strict=True):
        flat = flat * n + index
    flat = analyzer.simplify(flat)
    box = [1] * len(indices)
    taken, size = len(loops), 1
    # From the innermost loop out: a dimension each, rows after rows in shared memory.
    for f in reversed(loops):
        steps = [constant_step(i, f.loop_var, analyzer) for i in indices]
        used = [d for d, step in enumerate(steps) if step != 0]
        extent = f.extent.value if isinstance(f.extent, IntImm) else 0
        if extent == 1:
            taken -= 1
            continue
        if (
            len(used) != 1
            or steps[used[0]] != 1
            or box[used[0]] != 1
            or extent > MOST_BOX
            or constant_step(flat, f.loop_var, analyzer) != size
        ):
            break
        if any([box[d] != 1 for d in range(used[0])]):
            break
        box[used[0]] = extent
        size *= extent
        taken -= 1
    outer = {f.loop_var for f in loops[:taken]}
    inner = {v: z for v, z in zero.items() if v not in outer}
    at = tuple([analyzer.simplify(substitute(i, inner)) for i in indices])
    return Copy(
        tuple(loops[:taken]),
        store.buffer,
        analyzer.simplify(substitute(flat, inner)),
        load.buffer,
        shape,
        tuple(box),
        at,
        swizzle,
    )


def _view(load: BufferLoad, loops: list[For], analyzer: Analyzer) -> tuple[list[PrimExpr], tuple[int, ...]]:
    """(indices, shape) of a load, in which each loop has a constant step: of the tensor as it is, else with all outer dimensions as one, as
    rows that are numbered through (places of images) need it."""
    indices = [analyzer.simplify(i) for i in load.indices]
    shape = tuple([int(n) for n in load.buffer.shape])  # type: ignore[call-overload]
    if all([constant_step(i, f.loop_var, analyzer) is not None for i in indices for f in loops]):
        return indices, shape
    rows: PrimExpr = IntImm("int32", 0)
    for index, n in zip(load.indices[:-1], shape[:-1], strict=True):
        rows = rows * n + index
    return [analyzer.simplify(rows), indices[-1]], (prod(shape[:-1]), shape[-1])


def _need_bound(
    condition: PrimExpr, indices: list[PrimExpr], shape: tuple[int, ...], analyzer: Analyzer, s: Stmt
) -> None:
    """Refuses conditions other than those of the end of the tensor, which a copy of a box has by itself."""
    if isinstance(condition, LT):
        for index, n in zip(indices, shape, strict=True):
            if analyzer.can_prove_equal(condition.a - condition.b, index - n):
                return
    raise refused(
        f"a copy writes zeros where {condition} is false, but copies of boxes do so only at the end of the tensor, {sizes_text(shape)};"
        " pad the tensor in a kernel before this one",
        s,
    )


__all__ = ["MOST_BOX", "SWIZZLE", "Copy", "box_copy", "inside", "refused", "sizes_text"]
