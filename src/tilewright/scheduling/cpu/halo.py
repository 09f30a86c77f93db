"""Kernels that write their result with its halo, so that a reader with padding needs no copy of it.

T = kernel(..);  for i: P[i] = T[i - before] if inside else 0
-->
for i outside: P[i] = 0
kernel writes T, which is a view of P: the part inside, with P's strides
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from tilewright.arith import Analyzer
from tilewright.ir import FloatImm, IntImm, PrimExpr, structural_equal
from tilewright.node import post_order_visit
from tilewright.scheduling.cpu.sharing import useful_threads
from tilewright.target import Target
from tilewright.tir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    For,
    ForKind,
    PrimFunc,
    SeqStmt,
    Stmt,
    Var,
    decl_buffer,
)
from tilewright.tir.schedule.facts.leaves import conjuncts
from tilewright.tir.schedule.primitives.rewrite import ReplaceBuffers


class Border(NamedTuple):
    """A result with its halo (`whole`), the result without it (`inside`), the number of halo elements before it on each
    axis, and the value of the halo.
    """

    whole: Buffer
    inside: Buffer
    before: tuple[int, ...]
    value: PrimExpr


def without_border(func: PrimFunc) -> tuple[PrimFunc, Border] | None:
    """The kernel without its last step, if that adds a halo to the result, and the halo; None for other kernels."""
    root = func.body
    if (
        not isinstance(root, BlockRealize)
        or not isinstance(root.block.body, SeqStmt)
        or len(func.params) > len(func.buffer_map)
    ):
        return None
    *steps, last = root.block.body.seq
    border = _border_of(last)
    if border is None or border.inside not in root.block.alloc_buffers or _mentions(steps, border.whole):
        return None
    if not any([b is border.whole for b in func.buffer_map.values()]):
        return None
    block = root.block.replace(
        body=steps[0] if len(steps) == 1 else SeqStmt(tuple(steps)),
        alloc_buffers=tuple([b for b in root.block.alloc_buffers if b is not border.inside]),
    )
    buffers = {p: border.inside if b is border.whole else b for p, b in func.buffer_map.items()}
    return func.replace(body=root.replace(block=block), buffer_map=buffers), border


def with_border(func: PrimFunc, scheduled: PrimFunc, border: Border, target: Target) -> PrimFunc:
    """Make a scheduled kernel, made without the halo, write the halo, too. `func`: the original kernel."""
    whole, inside = border.whole, border.inside
    steps = [prod(_sizes(whole)[axis + 1 :]) for axis in range(len(whole.shape))]
    view = decl_buffer(
        inside.shape,
        inside.dtype,
        inside.name,
        data=whole.data,
        strides=steps,
        elem_offset=sum([n * step for n, step in zip(border.before, steps, strict=True)]),
    )
    root: Any = scheduled.body
    body = ReplaceBuffers({inside: view}).visit(root.block.body)
    block = root.block.replace(body=SeqStmt((_fill(border, target), body)))
    return scheduled.replace(body=root.replace(block=block), buffer_map=func.buffer_map)


def _border_of(stmt: Stmt) -> Border | None:
    """The halo that a statement puts around a buffer: `P[i] = if_then_else(inside, T[i - before], constant)` over all
    of P.
    """
    while isinstance(stmt, For):
        stmt = stmt.body
    block: Any = stmt.block if isinstance(stmt, BlockRealize) else None
    store = block.body if isinstance(block, Block) else None
    if not isinstance(store, BufferStore) or not isinstance(store.value, Call):
        return None
    if getattr(store.value.op, "name", "") != "tir.if_then_else":
        return None
    condition, load, value = store.value.args
    axes = [iv.var for iv in block.iter_vars]
    plain = len(axes) == len(store.indices) and all([i is v for i, v in zip(store.indices, axes, strict=True)])
    if not plain or not isinstance(load, BufferLoad) or not isinstance(value, (IntImm, FloatImm)):
        return None
    sizes = [*store.buffer.shape, *load.buffer.shape]
    if len(sizes) != 2 * len(axes) or not all([isinstance(n, IntImm) for n in sizes]):
        return None
    shifts = [Analyzer().simplify(v - i) for v, i in zip(axes, load.indices, strict=True)]
    before = tuple([n.value for n in shifts if isinstance(n, IntImm)])
    border = Border(store.buffer, load.buffer, before, value)
    return border if len(before) == len(axes) and _is_inside(condition, axes, border) else None


def _is_inside(condition: Any, axes: Sequence[Var], border: Border) -> bool:
    """Whether a condition over all elements of the whole selects exactly the inside, and the whole has a place for all
    of it.
    """
    ranges = list(zip(border.before, _sizes(border.inside), _sizes(border.whole), strict=True))
    if any([low < 0 or low + n > whole for low, n, whole in ranges]):
        return False
    wanted: list[Any] = []
    for v, (low, n, whole) in zip(axes, ranges, strict=True):
        wanted += [v >= low] if low else []
        wanted += [v < low + n] if low + n < whole else []
    found, simplify = conjuncts(condition), Analyzer().simplify
    return 0 < len(found) == len(wanted) and all(
        [structural_equal(simplify(c), simplify(w)) for c, w in zip(found, wanted, strict=True)]
    )


def _fill(border: Border, target: Target) -> Stmt:
    """The loops that write the halo: for each axis the parts before and after the inside, the inside on earlier axes,
    and all of later axes.
    """
    whole = border.whole
    ranges = list(zip(border.before, _sizes(border.inside), _sizes(whole), strict=True))
    padded = [axis for axis, (_, n, size) in enumerate(ranges) if n < size]
    outer = [Var(f"b{axis}", "int32") for axis in range(padded[0])]
    parts = []
    for axis in padded:
        low, n, size = ranges[axis]
        for begin, end in ((0, low), (low + n, size)):
            if begin == end:
                continue
            spans = [
                (a, a + m) if k < axis else (begin, end) if k == axis else (0, s)
                for k, (a, m, s) in enumerate(ranges)
                if k >= padded[0]
            ]
            parts.append(_constant(border, outer, spans, target))
    nest: Stmt = SeqStmt(tuple(parts)) if len(parts) > 1 else parts[0]
    elements = prod(_sizes(whole)) - prod(_sizes(border.inside))
    shared = useful_threads(elements, target) > 1
    for v, (_, _, size) in reversed(list(zip(outer, ranges, strict=False))):
        nest = For(v, 0, size, ForKind.SERIAL, nest)
    if shared and isinstance(nest, For):
        nest = nest.replace(kind=ForKind.PARALLEL)
    return nest


def _constant(border: Border, outer: Sequence[Var], spans: Sequence[tuple[int, int]], target: Target) -> Stmt:
    loops = [Var(f"b{len(outer) + k}", "int32") for k in range(len(spans))]
    places = [v + begin if begin else v for v, (begin, _) in zip(loops, spans, strict=True)]
    nest: Stmt = BufferStore(border.whole, border.value, (*outer, *places))
    lanes = target.cpu.lanes(border.whole.dtype.bits)
    *_, (first, last) = spans
    for k, (v, (begin, end)) in reversed(list(enumerate(zip(loops, spans, strict=True)))):
        vector = k == len(spans) - 1 and last - first <= lanes
        nest = For(v, 0, end - begin, ForKind.VECTORIZED if vector and end - begin > 1 else ForKind.SERIAL, nest)
    return nest


def _sizes(b: Buffer) -> list[int]:
    return [n.value for n in b.shape]  # type: ignore[attr-defined]


def _mentions(stmts: Sequence[Stmt], buffer: Buffer) -> bool:
    """Whether statements read or write a buffer."""
    found: list[Any] = []
    for s in stmts:
        post_order_visit(s, lambda n: found.append(n) if getattr(n, "buffer", None) is buffer else None)
    return bool(found)
