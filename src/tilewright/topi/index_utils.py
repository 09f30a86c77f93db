"""Functions on extents, indices and layouts by which classic programs write computes and schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tilewright import te
from tilewright.arith import Analyzer
from tilewright.target import Target
from tilewright.tir.data_layout import bijective_layout, layout
from tilewright.topi.lang import compute, tir
from tilewright.topi.tag import is_broadcast
from tilewright.topi.utils import as_int


class InvalidShapeError(ValueError):
    """A compute does not take tensors of these shapes, such as Winograd's form for kernels that are not square."""


def simplify(expr: Any) -> Any:
    """An expression in its simplest form; a number as it is."""
    return Analyzer().simplify(expr) if isinstance(expr, tir.PrimExpr) else expr


def get_const_float(expr: Any) -> float:
    """The value of a constant float. Raises ValueError for other expressions."""
    if isinstance(expr, float):
        return expr
    known = simplify(expr)
    if not isinstance(known, tir.FloatImm):
        raise ValueError(f"a constant float is needed here, but it is {expr}")
    return float(known.value)


def get_float_tuple(in_tuple: Iterable[Any]) -> tuple[float, ...]:
    """The values of constant floats."""
    return tuple([get_const_float(v) for v in in_tuple])


def equal_const_int(expr: Any, value: int) -> bool:
    """Whether an expression is known to be this number."""
    known = as_int(simplify(expr))
    return isinstance(known, int) and known == value


def is_empty_shape(shape: Iterable[Any]) -> bool:
    """Whether a shape has an extent of 0, and so no elements."""
    return any([equal_const_int(d, 0) for d in shape])


def is_dynamic_shape(shape: Iterable[Any]) -> bool:
    """Whether an extent of a shape is known only at run time."""
    return any([not isinstance(as_int(d), int) for d in shape])


def get_max_power2_factor(n: int, max_value: int | None = None) -> int:
    """The largest power of two that divides n, and is at most `max_value`."""
    if n == 0:
        raise ValueError("get_max_power2_factor: every power of two divides 0")
    found = 1
    while n % (2 * found) == 0 and (max_value is None or 2 * found <= max_value):
        found *= 2
    return found


def ravel_index(indices: Sequence[Any], shape: Sequence[Any]) -> Any:
    """The position of an element in row-major order."""
    flat: Any = None
    for i, d in zip(indices, shape, strict=True):
        flat = i if flat is None else flat * d + i
    return 0 if flat is None else flat


def unravel_index(idx: Any, shape: Sequence[Any]) -> list[Any]:
    """The index along each axis of the element at a position in row-major order."""
    found = []
    for d in reversed(list(shape)):
        found.append(idx % d if isinstance(idx, int) and isinstance(d, int) else tir.indexmod(idx, d))
        idx = idx // d if isinstance(idx, int) and isinstance(d, int) else tir.indexdiv(idx, d)
    return found[::-1]


def const_matrix(matrix: np.ndarray[Any, Any], name: str = "const_matrix", attrs: Any = None) -> te.Tensor:
    """A small constant matrix, whose elements become constants of the code."""
    dtype = str(matrix.dtype)

    def element(*i: Any) -> Any:
        *others, last = np.ndindex(*matrix.shape)
        found = tir.const(matrix[last].item(), dtype)
        for place in reversed(others):
            here = tir.all(*[tir.EQ(a, k) for a, k in zip(i, place, strict=True)])
            found = tir.Select(here, tir.const(matrix[place].item(), dtype), found)
        return found

    stated = {"const_matrix": True, "schedule_rule": "None"} if attrs is None else attrs
    return compute(matrix.shape, element, name=name, attrs=stated)


def const_vector(vector: np.ndarray[Any, Any], name: str = "const_vector") -> te.Tensor:
    """A small constant vector, whose elements become constants of the code."""
    return const_matrix(vector, name, {})


def swap(arr: Sequence[Any], axis: int) -> list[Any]:
    """The order in which `axis` and the last axis are exchanged."""
    order = list(arr)
    return [*order[:axis], order[-1], *order[axis + 1 : -1], order[axis]] if axis != len(order) - 1 else order


def get_shape(src_shape: Sequence[Any], src_layout: Any, dst_layout: Any) -> tuple[Any, ...]:
    """The shape in another layout of data with this shape."""
    if src_layout == dst_layout:
        return tuple([as_int(d) for d in src_shape])
    source, target = (layout(v) if isinstance(v, str) else v for v in (src_layout, dst_layout))
    return tuple([as_int(simplify(d)) for d in bijective_layout(source, target).forward_shape(list(src_shape))])


def within_index(b: Any, e: Any, s: Any, i: Any) -> Any:
    """Whether the slice b:e:s, whose bounds are not negative except for the end of one that runs backwards, has index i."""
    inside = tir.Select(s < 0, tir.all(i <= b, i > e), tir.all(i >= b, i < e))
    return tir.all(inside, tir.EQ(tir.floormod(tir.abs(i - b), tir.abs(s)), 0))


def make_idx(b: Any, e: Any, s: Any, z: Any, i: Any) -> Any:
    """The place in the slice b:e:s of an axis of z elements that index i has; any number where the slice has not this index
    (`within_index`)."""
    first = tir.Select(z < b, z - 1, b)
    ahead = tir.if_then_else(s < 0, tir.floordiv(first - i, tir.abs(s)), tir.floordiv(i - first, tir.abs(s)))
    return tir.if_then_else(tir.Select(s < 0, tir.any(i <= e, i > first), tir.any(i < first, i >= e)), 0, ahead)


def is_target(names: str | Sequence[str]) -> bool:
    """Whether the current target has one of these keys."""
    target = Target.current(allow_none=False)
    assert target is not None
    return any([n in target.keys for n in ([names] if isinstance(names, str) else names)])


def traverse_inline(s: te.Schedule, final_op: te.Operation, callback: Callable[[te.Operation], None]) -> None:
    """Inlines the element-wise and broadcast operations that `final_op` needs, and calls `callback` with each operation on the way,
    producers first. Others stop the way, as placeholders do."""
    seen: set[te.Operation] = set()

    def visit(op: te.Operation) -> None:
        if op in seen:
            return
        seen.add(op)
        if is_broadcast(op.tag):
            if op not in s.outputs:
                s[op].compute_inline()
            for tensor in op.input_tensors:
                if isinstance(tensor.op, te.ComputeOp) or tensor.op.input_tensors:
                    visit(tensor.op)
        callback(op)

    visit(final_op)


def _blocks(layout_info: str, letters: str) -> str | None:
    """What follows these letters in a layout; None if it does not begin with them."""
    return layout_info.removeprefix(letters) if layout_info.startswith(letters) else None


def nchw_pack_layout(layout_info: str) -> bool:
    """Whether a layout is NCHW in blocks of images and of channels, such as NCHW1n16c."""
    blocks = _blocks(layout_info, "NCHW")
    return blocks is not None and "n" in blocks and "c" in blocks


def nchw_xc_layout(layout_info: str) -> bool:
    """Whether a layout is NCHW in blocks of channels, such as NCHW16c."""
    blocks = _blocks(layout_info, "NCHW")
    return blocks is not None and blocks.endswith("c") and blocks[:-1].isnumeric()


def ncw_pack_layout(layout_info: str) -> bool:
    """Whether a layout is NCW in blocks of rows and of channels, such as NCW1n16c."""
    blocks = _blocks(layout_info, "NCW")
    return blocks is not None and "n" in blocks and "c" in blocks


def ncw_xc_layout(layout_info: str) -> bool:
    """Whether a layout is NCW in blocks of channels, such as NCW16c."""
    blocks = _blocks(layout_info, "NCW")
    return blocks is not None and blocks.endswith("c") and blocks[:-1].isnumeric()
