"""Helpers of computes: extents (ints if they are static), axes, window arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tilewright import te
from tilewright.arith import Analyzer
from tilewright.ir import DataType, PrimExpr, PrimExprLike
from tilewright.support import lazy
from tilewright.topi.lang import tir

# What only programs use.
_OF_PROGRAMS = (
    "InvalidShapeError", "const_matrix", "const_vector", "equal_const_int", "get_const_float", "get_float_tuple", "get_max_power2_factor",
    "get_shape", "is_dynamic_shape", "is_empty_shape", "is_target", "make_idx", "nchw_pack_layout", "nchw_xc_layout", "ncw_pack_layout",
    "ncw_xc_layout", "ravel_index", "simplify", "swap", "traverse_inline", "unravel_index", "within_index",
)  # fmt: skip
lazy.declare(__name__, {name: f"tilewright.topi.index_utils:{name}" for name in _OF_PROGRAMS})
__getattr__, __dir__ = lazy.late(__name__)

Dim = Any
"""An extent or index: an int if it is static, else an integer PrimExpr."""


def as_int(value: PrimExprLike) -> Dim:
    """A constant as an int; other expressions unchanged."""
    if isinstance(value, tir.IntImm):
        return int(value.value)
    return value


def get_const_int(expr: PrimExprLike) -> int:
    """The int value of a constant. Raises ValueError for other expressions."""
    known = as_int(expr)
    if not isinstance(known, int):
        raise ValueError(f"a constant integer is needed here, but the expression {expr} is symbolic")
    return known


def get_const_tuple(in_tuple: Iterable[Any]) -> tuple[Any, ...]:
    """A shape with ints for static extents. Dynamic extents are unchanged."""
    return tuple(as_int(v) for v in in_tuple)


def shape_of(tensor: te.Tensor) -> list[Dim]:
    """The extents of a tensor, as ints if they are static."""
    return [as_int(d) for d in tensor.shape]


def prod(x: Iterable[Dim]) -> Dim:
    """The product of extents; 1 for an empty sequence."""
    result: Dim = 1
    for v in x:
        result = v if isinstance(result, int) and result == 1 else result * v
    return result


def ceil_div(a: Dim, b: Dim) -> Dim:
    """ceil(a / b) of non-negative extents."""
    if isinstance(b, int) and b == 1:
        return a
    return as_int((a + b - 1) // b)


def known_equal(a: Dim, b: Dim) -> bool:
    """Whether two extents are known to be equal."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return a is b


def holds(extent: Dim, other: Dim) -> bool:
    """Whether an extent is known to be at least as large as another."""
    return extent >= other if isinstance(extent, int) and isinstance(other, int) else known_equal(extent, other)


def whole(index: Any) -> Any:
    """An index from data, converted to int32 if its type has fewer bits."""
    return to(index, "int32") if DataType(index.dtype).bits < 32 else index


def inside(index: Any, extent: Dim) -> PrimExpr:
    """The condition that an index is within an extent."""
    index = whole(index)
    return tir.And(index >= 0, index < to(extent, index.dtype))


def normalize_axis(axis: int, ndim: int) -> int:
    """The axis, counted from the front. Raises ValueError for axes outside [-ndim, ndim)."""
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis must lie in [{-ndim}, {ndim}), but is {axis}")
    return axis + ndim if axis < 0 else axis


def normalize_axes(axis: int | Sequence[int] | None, ndim: int, exclude: bool = False) -> list[int]:
    """The sorted axes, counted from the front. None means all; `exclude` means all others."""
    if axis is None:
        axes = [] if exclude else list(range(ndim))
        return axes
    given = [axis] if isinstance(axis, int) else [get_const_int(a) for a in axis]
    axes = sorted({normalize_axis(a, ndim) for a in given})
    return [a for a in range(ndim) if a not in axes] if exclude else axes


def pair(value: int | Sequence[int]) -> tuple[int, int]:
    """(height, width) from one or two numbers."""
    height, width = numbers(value, 2)
    return height, width


def numbers(value: int | Sequence[int], count: int) -> list[int]:
    """One number for each spatial axis, from a single number or from `count` numbers. Raises ValueError for any other count."""
    given = [value] if isinstance(value, int) else [get_const_int(v) for v in value]
    if len(given) not in (1, count):
        raise ValueError(
            f"there must be one number, or one for each of {count} axes, but there are {len(given)}: {given}"
        )
    return given * count if len(given) == 1 else given


def get_pad_tuple(
    padding: int | str | Sequence[int], kernel: Sequence[int], ndim: int = 2
) -> tuple[list[int], list[int]]:
    """(before, after) of `ndim` spatial axes from classic padding: one number, one per axis, before+after, "SAME" or "VALID"."""
    if isinstance(padding, str):
        if padding == "VALID":
            return [0] * ndim, [0] * ndim
        if padding == "SAME":
            total = [k - 1 for k in kernel]
            before = [(t + 1) // 2 for t in total]
            return before, [t - b for t, b in zip(total, before, strict=True)]
        raise ValueError(f'padding must be numbers, "SAME" or "VALID", but is {padding!r}')
    numbers = [padding] if isinstance(padding, int) else [get_const_int(p) for p in padding]
    if len(numbers) == 1:
        numbers = numbers * (2 * ndim)
    elif len(numbers) == ndim:
        numbers = numbers * 2
    if len(numbers) != 2 * ndim:
        raise ValueError(f"padding must have 1, {ndim} or {2 * ndim} numbers, but has {len(numbers)}")
    return numbers[:ndim], numbers[ndim:]


def window_extent(
    extent: Dim, kernel: int, before: int, after: int, stride: int, dilation: int, ceil_mode: bool = False
) -> Dim:
    """The number of windows along an axis. ceil_mode: the last window may be partial, but must begin inside the data or its leading
    padding."""
    room = extent + (before + after - ((kernel - 1) * dilation + 1))
    if not ceil_mode:
        return as_int(room // stride + 1) if stride != 1 else as_int(room + 1)
    count, begun = (room + stride - 1) // stride + 1, (extent + before - 1) // stride + 1
    return min(count, begun) if isinstance(extent, int) else as_int(tir.min(count, begun))


def moved(at: Any, stride: int, offset: Any, dilation: int) -> Any:
    """The position that a kernel offset of a window reads: at * stride + offset * dilation."""
    first = at if stride == 1 else at * stride
    return first + (offset if dilation == 1 else offset * dilation)


def symbolic_slice(extent: Any, begin: Any, end: Any, stride: int) -> tuple[Any, Any]:
    """(start, number of elements) of begin:end:stride along an axis, clipped as in NumPy. All except the stride may be dynamic."""
    back = stride < 0
    low, high = (-1, extent - 1) if back else (0, extent)

    def clamped(v: Any) -> Any:
        if not isinstance(v, int):
            v = to(v, extent.dtype)
            if Analyzer().const_int_bound(v).min_value < 0:
                v = tir.Select(v < 0, v + extent, v)
            return tir.max(tir.min(v, high), low)
        if v >= 0:
            return high if v >= 2**31 - 1 else tir.min(high, v)
        return low if v <= -(2**31) + 1 else tir.max(extent + v, low)

    start, stop = clamped(begin), clamped(end)
    span = start - stop if back else stop - start
    count = span if abs(stride) == 1 else (span + (abs(stride) - 1)) // abs(stride)
    sure = isinstance(begin, int) and isinstance(end, int) and not back and begin == 0 and end >= 2**31 - 1
    return to(start, extent.dtype), as_int(count if sure else tir.max(count, tir.const(0, extent.dtype)))


def load(tensor: te.Tensor, index: Sequence[Any]) -> Any:
    """The element of `tensor` at `index`."""
    return tensor(*index)


def accumulator(dtype: str) -> str:
    """The type for sums of many values of `dtype`: float32 for 16-bit floats, else `dtype`."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def sum_type(dtype: str, number: Any) -> str:
    """The type in which `number` values of `dtype` are added: for integers one that holds the sum, as far as there is one."""
    kind = DataType(dtype)
    if kind.is_float or kind.is_bool or dtype == "uint64":
        return dtype
    bits = kind.bits + (number.bit_length() if isinstance(number, int) else 32)
    return "int32" if bits < 32 else "int64"


def to(value: Any, dtype: str) -> Any:
    """An expression or int converted to `dtype`; no cast if it has that type."""
    if isinstance(value, (int, float)):
        return tir.const(value, dtype)
    return value if value.dtype == dtype else tir.Cast(dtype, value)


def in_own_layout(name: str, rewritten_layout: str, original_shape: Any) -> None:
    """Raises ValueError for weights that a tuner has put into a layout of its own: here computes choose layouts before they are built."""
    if rewritten_layout or original_shape:
        raise ValueError(
            f"{name} takes weights in their own layout, but they are in {rewritten_layout or 'another'}, of {original_shape or 'another'}"
            " shape: transform the weights back, or compute with the rewritten layout by te.compute"
        )
