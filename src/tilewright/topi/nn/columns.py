"""Windows along a plain last axis, in a form in which vectors run along this axis.

Windows of stride 1 already read adjacent elements. For other strides, padded data is split into phases, `phases[.., x % stride, x
// stride]`: then the elements that one kernel offset reads for adjacent outputs are adjacent. Windows that read each element only
once or twice (pooling) select elements from whole vectors instead. If a row of outputs does not fill whole vectors, more outputs
are computed and cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.pad import pad
from tilewright.topi.planner import planner
from tilewright.topi.stages import MATERIALIZE
from tilewright.topi.utils import shape_of

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr, PrimExprLike


Read = Callable[..., Any]
"""read(i, x, k): the element that kernel offset k of output column x reads. i: the leading indices."""


def computed_columns(count: Any, dtype: str) -> Any:
    """The number of output columns to compute: rounded up to whole vectors as the planner decides, if it is known."""
    return planner().pooled_columns(count, dtype) if planner().lanes(dtype) and isinstance(count, int) else count


def window_columns(
    data: te.Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int],
    columns: Any,
    kernel: int,
    stride: int,
    dilation: int,
    pad_value: PrimExprLike = 0.0,
    near: bool = False,
) -> Read:
    """A function that reads padded data at kernel offsets, for windows along the last axis. The data is padded once, into memory.
    near: keep the order of elements for small strides, in rows of whole vectors."""
    *before, left = pad_before
    *after, right = pad_after
    width = shape_of(data)[-1]
    known = isinstance(width, int) and isinstance(columns, int)
    reach = (columns - 1) * stride + (kernel - 1) * dilation + 1 if known else 0
    right = max(right, reach - left - width) if known else right
    lanes = planner().lanes(data.dtype)
    if near and known and lanes and (left or right):
        right += -(left + width + right) % lanes
    if stride == 1 or not known or not lanes or (near and planner().in_vectors(stride)):
        padded = pad(data, [*before, left], [*after, right], pad_value, name="pad_temp")
        return lambda i, x, k: padded(*i, (x if stride == 1 else x * stride) + (k if dilation == 1 else k * dilation))
    tall = pad(data, [*before, 0], [*after, 0], pad_value, name="pad_rows")
    value = tir.const(pad_value, data.dtype) if isinstance(pad_value, (int, float)) else pad_value

    def element(*i: PrimExpr) -> Any:
        x = i[-1] * stride + i[-2] - left
        return tir.if_then_else(tir.all(x >= 0, x < width), tall(*i[:-2], x), value)

    shape = [*shape_of(tall)[:-1], stride, -(-reach // stride)]
    phases = compute(shape, element, name="pad_temp", tag="injective,pad", attrs={MATERIALIZE: 1})

    def read(i: Sequence[Any], x: Any, k: Any) -> Any:
        at = k if dilation == 1 else k * dilation
        return phases(*i, tir.floormod(at, stride), x + tir.floordiv(at, stride))

    return read


def first_columns(tensor: te.Tensor, columns: Any) -> te.Tensor:
    """The first `columns` columns of a tensor; the tensor itself if it has no more."""
    *lead, last = shape_of(tensor)
    if last is columns or (isinstance(last, int) and last == columns):
        return tensor
    return compute([*lead, columns], lambda *i: tensor(*i), name="T_columns", tag="injective")
