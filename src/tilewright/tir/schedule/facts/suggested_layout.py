"""The layout of a buffer that follows the loops which read it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.arith import Analyzer, normalize_to_iter_sum
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.tir.arithmetic import floordiv, floormod
from tilewright.tir.expr import Var
from tilewright.tir.schedule.index_map import IndexMap

if TYPE_CHECKING:
    from tilewright.tir.buffer import Buffer
    from tilewright.tir.stmt import For


class Digit(NamedTuple):
    """A digit of an element's number in row-major order, number // scale % extent, and the loop that it follows.

    lower: what the loop's variable is divided by.
    """

    scale: int
    extent: int
    loop: int
    lower: int


def suggested(
    buffer: Buffer, indices: Sequence[PrimExpr], loops: Sequence[For], predicate: PrimExpr
) -> IndexMap | None:
    """As `suggest_index_map`."""
    shape = [int(n.value) for n in buffer.shape if isinstance(n, IntImm)]
    holds = Analyzer().simplify(predicate)
    if len(shape) != len(buffer.shape) or not (isinstance(holds, IntImm) and holds.value):
        return None
    digits = _digits(shape, indices, loops)
    if digits is None:
        return None
    digits.sort(key=lambda d: (d.loop, -d.lower))
    names = [Var(f"i{n}", index.dtype) for n, index in enumerate(indices)]
    return IndexMap(tuple(names), tuple([_part(d, names, shape) for d in digits]))


def _digits(shape: list[int], indices: Sequence[PrimExpr], loops: Sequence[For]) -> list[Digit] | None:
    """The digits of the number of an element that loops read; None unless they reach each element, and each by one place of the loops that
    the digits name."""
    flat: Any = IntImm("int32", 0)
    for size, index in zip(shape, indices, strict=True):
        flat = flat * size + index
    ranges = {loop.loop_var: Range.from_min_extent(loop.min, loop.extent) for loop in loops}
    places = {loop.loop_var: n for n, loop in enumerate(loops)}
    total = normalize_to_iter_sum(flat, ranges)
    if not (isinstance(total.base, IntImm) and total.base.value == 0):
        return None
    found = []
    for split in total.args:
        source, parts = split.source.source, (split.scale, split.extent, split.lower_factor)
        numbers = [int(p.value) for p in parts if isinstance(p, IntImm)]
        if not isinstance(source, Var) or source not in places or len(numbers) != 3:
            return None
        scale, extent, lower = numbers
        found.append(Digit(scale, extent, places[source], lower))
    found.sort(key=lambda d: -d.scale)
    expected = prod(shape)
    for digit in found:
        if digit.scale * digit.extent != expected:
            return None
        expected = digit.scale
    return found if expected == 1 else None


def _part(digit: Digit, names: Sequence[Any], shape: Sequence[int]) -> PrimExpr:
    """A digit as an expression of the old indices."""
    stride = prod(shape)
    for name, size in zip(names, shape, strict=True):
        whole, stride = stride, stride // size
        if stride <= digit.scale and digit.scale * digit.extent <= whole and digit.scale % stride == 0:
            part = name if digit.scale == stride else floordiv(name, digit.scale // stride)
            return part if digit.scale * digit.extent == whole else floormod(part, digit.extent)
    # It reaches over several dimensions.
    analyzer = Analyzer()
    flat: Any = IntImm(str(names[0].dtype), 0)
    for name, size in zip(names, shape, strict=True):
        analyzer.bind(name, Range.from_min_extent(0, size))
        flat = flat * size + name
    return analyzer.simplify(floormod(floordiv(flat, digit.scale), digit.extent))
