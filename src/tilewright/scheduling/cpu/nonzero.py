"""Products of padded zeros are left out near the border of small images: which loops leave out steps, and which tiles products, is decided
here; `tir.transform.KeepNonzeroSteps` shortens the loops and leaves out the products.

A convolution of 3 x 3 over 7 x 7 pixels multiplies zeros in a tenth of its steps over rows of the kernel, one of 11 x 11 over 6 x 6
pixels in almost a half. Medians on an AMD EPYC with AVX-512, one thread, beside the same kernel with all steps: 0.65 for that one, 0.84
for 5 x 5 over 7 x 7, 0.93 to 0.97 for 3 x 3 over 7 x 7 or 14 x 14. Where the weights of a tile are larger than half of the second
cache, the first tile that reads them in part leaves the next one without their prefetch: 1.06. Products within tiles, beside steps alone
(AMD EPYC, Zen 5, one thread): 0.91 for 3 x 3 over 7 x 7, 0.96 over 14 x 14; 0.85 and 0.91 for 5 x 5; 0.79 and 0.88 for 7 x 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from tilewright.arith import detect_clip_bound, detect_linear_equation
from tilewright.ir import FloatImm, IntImm, PrimExpr
from tilewright.scheduling.block_views import BlockView, KernelView
from tilewright.tir import Add, BufferLoad, BufferStore, Call, ForKind, IterVar, Mul
from tilewright.tir.schedule import LoopRV
from tilewright.tir.transform.block.nonzero_steps import NONZERO, without_casts

WORTH = 1 / 128
"""The least part of the steps that is worth bounds of a loop that change."""
FAR_WORTH = 1 / 8
"""The same where weights that are read in part come from beyond the second cache."""


PRODUCT_WORTH = 1 / 32
"""The least part of the products of a tile that is worth loops over the kernel that are unrolled: with 1 / 41 (3 x 3 over 28 x 28 pixels),
nothing was gained, and 1.05 lost in bfloat16."""
MOST_UNROLLED = 2048
"""Multiply-adds of a loop body in which loops over the kernel are unrolled, at most."""


Mark = list[str | int]
"""What `KeepNonzeroSteps` needs to know of a dimension of padded data."""


class _Padded(NamedTuple):
    """A dimension of padded data, in which only indices from `first` to `last` may hold something else than zeros."""

    name: str
    dimension: int
    place: PrimExpr
    """Where the contraction reads."""
    first: int
    last: int

    @property
    def mark(self) -> Mark:
        return [self.name, self.dimension, self.first, self.last]


def mark_nonzero_steps(
    view: KernelView, block: BlockView, steps: Mapping[IterVar, LoopRV], tiles: Mapping[IterVar, int], weights: int
) -> None:
    """Mark the loops of a reduction over products of padded data that leave out steps, as the plan decides.

    steps: the loops over whole reduction axes, outside of the tile. tiles: the elements of spatial axes in a tile, where they are not
    one. weights: bytes of the weights of a tile.
    """
    if not adds_products(block):
        return
    for padded in _padded_dimensions(view, block):
        for axis, loop in steps.items():
            left_out = _left_out(padded, axis, block, tiles)
            if not left_out:
                continue
            near = 2 * weights <= view.plan.target.cpu.l2_bytes
            model = "skip" if left_out >= (WORTH if near else FAR_WORTH) else "add"
            if view.plan.choose(f"{block.name}.zeros.{axis.var.name}", model, lambda: ("skip", "add")) == "skip":
                view.sch.annotate(loop, NONZERO, padded.mark)


def nonzero_products(view: KernelView, block: BlockView, tiles: Mapping[IterVar, int]) -> dict[IterVar, Mark]:
    """The reduction axes along which tiles read enough zeros at single places, and have all places, so that it is known when the kernel is
    compiled which ones read zeros, if loops over these axes are unrolled."""
    found: dict[IterVar, Mark] = {}
    extents = dict(zip(block.block.iter_vars, block.extents, strict=True))
    for padded in _padded_dimensions(view, block) if adds_products(block) else []:
        places = [a for a in block.spatial if _coefficient(padded.place, a)]
        if not places or any([tiles.get(a) != extents[a] for a in places]):
            continue
        for axis in block.reduction:
            if _left_out(padded, axis, block, {}) >= PRODUCT_WORTH:
                found[axis] = padded.mark
    return found


def unroll_nonzero_products(
    view: KernelView, block: BlockView, steps: Mapping[IterVar, LoopRV], found: Mapping[IterVar, Mark], body: int
) -> dict[IterVar, Mark]:
    """Unroll loops over the axes of `nonzero_products`, as the plan decides. Returns the marks of the block that multiplies, by these axes.

    steps: as of `mark_nonzero_steps`; body: the multiply-adds of a step.
    """
    marks: dict[IterVar, Mark] = {}
    extents = dict(zip(block.block.iter_vars, block.extents, strict=True))
    for axis in [a for a in found if a in steps]:
        unrolled = view.sch.get(steps[axis]).kind == ForKind.UNROLLED
        longer = body if unrolled else body * extents[axis]
        if longer > MOST_UNROLLED:
            continue
        if view.plan.choose(f"{block.name}.zeros.{axis.var.name}", "skip", lambda: ("skip", "add")) == "skip":
            marks[axis], body = found[axis], longer
            if not unrolled:
                view.sch.unroll(steps[axis])
    return marks


def adds_products(block: BlockView) -> bool:
    """Whether a contraction adds products of two elements, which may be converted."""
    store = block.block.body
    if not isinstance(store, BufferStore) or not isinstance(store.value, Add) or len(block.operands) != 2:
        return False
    terms = [without_casts(t) for t in (store.value.a, store.value.b)]
    product = next((t for t in terms if isinstance(t, Mul)), None)
    return product is not None and all([isinstance(without_casts(f), BufferLoad) for f in (product.a, product.b)])


def _padded_dimensions(view: KernelView, block: BlockView) -> list[_Padded]:
    """What is known of zeros in the data of a contraction from the blocks that pad it."""
    found = []
    for rv in view.sch.get_producers(block.rv):
        producer = BlockView(view.sch, rv)
        store = producer.block.body
        if not producer.is_injective or not isinstance(store, BufferStore) or not isinstance(store.value, Call):
            continue
        if getattr(store.value.op, "name", "") != "tir.if_then_else":
            continue
        condition, _, other = store.value.args
        reads = [r for r in block.operands if r.buffer is store.buffer]
        if not isinstance(other, (IntImm, FloatImm)) or other.value != 0 or len(reads) != 1:
            continue
        bounds = detect_clip_bound(condition, [a.var for a in producer.spatial])
        for i, axis in enumerate(producer.spatial if bounds else ()):
            dimension = next((d for d, index in enumerate(store.indices) if index is axis.var), None)
            first, last = bounds[2 * i], bounds[2 * i + 1]
            if dimension is None or (first is None and last is None):
                continue
            first = IntImm("int32", 0) if first is None else first
            last = store.buffer.shape[dimension] - 1 if last is None else last
            if isinstance(first, IntImm) and isinstance(last, IntImm):
                place = reads[0].region[dimension].min
                found.append(_Padded(store.buffer.name, dimension, place, first.value, last.value))
    return found


def _left_out(padded: _Padded, axis: IterVar, block: BlockView, tiles: Mapping[IterVar, int]) -> float:
    """The part of the steps over a reduction axis in which whole tiles read zeros; 0 if it is not known."""
    extents = dict(zip(block.block.iter_vars, block.extents, strict=True))
    spatial = [a for a in block.spatial if _coefficient(padded.place, a)]
    step = _coefficient(padded.place, axis)
    others = [a for a in block.reduction if a is not axis and _coefficient(padded.place, a)]
    if step < 1 or extents[axis] < 2 or len(spatial) > 1 or others:
        return 0.0
    (row,) = spatial or (None,)
    count, apart = (extents[row], _coefficient(padded.place, row)) if row is not None else (1, 0)
    origin = detect_linear_equation(padded.place, [a.var for a in (axis, row) if a is not None])[-1]
    if not isinstance(origin, IntImm) or prod((count, extents[axis])) > 1 << 16:
        return 0.0
    size = tiles.get(row, 1) if row is not None else 1
    zeros = total = 0
    for begin in range(0, count, size):
        rows = range(begin, min(begin + size, count))
        for k in range(extents[axis]):
            places = [origin.value + apart * r + step * k for r in rows]
            zeros += max(places) < padded.first or min(places) > padded.last
            total += 1
    return zeros / total


def _coefficient(index: PrimExpr, axis: IterVar) -> int:
    """How far a step along an axis moves an index; 0 if it does not, or differently each time."""
    form = detect_linear_equation(index, [axis.var])
    return form[0].value if form and isinstance(form[0], IntImm) else 0


__all__ = [
    "MOST_UNROLLED",
    "Mark",
    "adds_products",
    "mark_nonzero_steps",
    "nonzero_products",
    "unroll_nonzero_products",
]
