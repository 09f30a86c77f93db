"""Values of programs: operators on them, and what becomes a region, a store, the domain of a loop."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir import IntImm, PrimExpr, Range, as_prim_expr
from tilewright.ir.span import Span
from tilewright.node import Node
from tilewright.script.parser import PYTHON_OPERATORS
from tilewright.tir import arithmetic as A
from tilewright.tir.arithmetic import EqualOp
from tilewright.tir.buffer import Buffer, extent_of, vector_indices
from tilewright.tir.expr import BufferLoad, IterVar, StringImm, Var, element_dtype
from tilewright.tir.stmt import BufferRegion, BufferStore

LAZY = (EqualOp, BufferRegion)


NUMBERS = (int, float, np.number, np.bool_)


def plain(value: Any) -> Any:
    """A region as the load that it is, a comparison as an expression; anything else unchanged. Buffers are not values."""
    if type(value) is Buffer:
        index = ", ".join("ijklmnuvw"[: len(value.shape)])
        raise TypeError(f"buffer {value.name} has elements, and is not a value itself; write {value.name}[{index}]")
    return value.asobject() if isinstance(value, LAZY) else value


def _comparison(build: Callable[[Any, Any], PrimExpr], python: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compare(a: Any, b: Any) -> Any:
        if isinstance(a, LAZY) or isinstance(b, LAZY):
            a, b = plain(a), plain(b)
        if not isinstance(a, PrimExpr) and not isinstance(b, PrimExpr):
            return python(a, b)
        if (isinstance(a, IterVar | PrimExpr | int | float)) and isinstance(b, IterVar | PrimExpr | int | float):
            made = build(a, b)
            # Constants are compared now, so that `if` can choose among statements.
            return bool(made.value) if isinstance(made, IntImm) else made
        return python(a, b)

    return compare


def _operator(python: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*values: Any) -> Any:
        return python(*[plain(v) for v in values])

    return apply


_COMPARISONS: dict[type, Callable[[Any, Any], PrimExpr]] = {
    ast.Eq: A.eq,
    ast.NotEq: A.ne,
    ast.Lt: A.less,
    ast.LtE: A.less_equal,
    ast.Gt: A.greater,
    ast.GtE: A.greater_equal,
}


class ProducerRegion:
    """A part of a tensor that a computation produces, as a realization names it."""

    def __init__(self, producer: Any, bounds: tuple[Range, ...]) -> None:
        self.producer, self.bounds = producer, bounds


def is_producer(value: Any) -> bool:
    """Whether a value is a tensor of the layer above, an output of an operation."""
    return (
        isinstance(value, Node) and hasattr(value, "op") and hasattr(value, "shape") and hasattr(value, "value_index")
    )


def is_program(*values: Any) -> bool:
    return any([isinstance(v, (PrimExpr, *LAZY)) for v in values])


def renewed(buffer: Buffer, name: str) -> Buffer:
    """A buffer like one that stands outside of the program, with storage of its own."""
    offset = buffer.elem_offset
    data = Var(name, buffer.data.type_annotation)
    if isinstance(offset, Var):
        offset = Var(f"{name}_elem_offset", offset.dtype)
    return buffer.replace(data=data, name=name, elem_offset=offset)


class _Setters(dict[type, "Callable[[Any, Any], None] | None"]):
    """How to set the span of a new expression; None for those that are shared, and for what is not an expression."""

    def __missing__(self, kind: type) -> Callable[[Any, Any], None] | None:
        shared = not issubclass(kind, PrimExpr) or issubclass(kind, (Var, IntImm)) or not hasattr(kind, "span")
        setter = self[kind] = None if shared else kind.span.__set__  # type: ignore[attr-defined]
        return setter


SPAN_SETTERS = _Setters()


def set_span(node: Any, span: Span | None) -> None:
    """Gives a node that nothing has seen yet its place in the user's text."""
    type(node).span.__set__(node, span)


def loop_domain(start: Any, stop: Any = None) -> tuple[PrimExpr, PrimExpr]:
    """(first value, extent) of a loop over start, ..., stop - 1; from 0 when there is only one number."""
    first = as_prim_expr(start, "the bound of a loop")
    if stop is None:
        low: PrimExpr = IntImm("int32", 0)
        extent = first
    else:
        last = as_prim_expr(stop, "the bound of a loop")
        low, last = A.match_types(first, last)
        extent = extent_of(low, last)
    if not (extent.dtype.is_int or extent.dtype.is_uint) or extent.dtype.lanes != 1:
        raise TypeError(f"the bound of a loop must be a scalar integer, but is {extent.dtype}: {extent!r}")
    return (IntImm(extent.dtype, 0) if stop is None else low), extent


def store_to(buffer: Buffer, index: Any, value: Any) -> BufferStore:
    """A store; the value becomes one of the buffer's dtype. What an integer buffer cannot hold of it is a warning."""
    indices = vector_indices(buffer, index if isinstance(index, (tuple, list)) else (index,))
    expected = element_dtype(buffer, indices)
    value = plain(value)
    if isinstance(value, (str, StringImm)):
        raise TypeError(f"a store to buffer {buffer.name} takes {expected}, but was given the string {value!r}")
    if isinstance(value, NUMBERS):
        whole = not isinstance(value, (float, np.floating)) or expected.is_float
        value = A.const(value, expected) if whole else A.const(value)
    value = as_prim_expr(value, f"the value stored to {buffer.name}")
    if value.dtype.lanes not in (1, expected.lanes):
        raise TypeError(
            f"{expected.lanes} lanes of buffer {buffer.name} are stored to, but the value has {value.dtype.lanes}: {value!r}"
        )
    if value.dtype.lanes == 1 and expected.lanes > 1:
        value = A.cast_to(value, value.dtype.with_lanes(expected.lanes))
    if value.dtype != expected and value.dtype.lanes == expected.lanes:
        numbers = [d.is_float or d.is_int or d.is_uint for d in (value.dtype, expected)]
        if all(numbers):
            if value.dtype.is_float and not expected.is_float:
                what = f"a store to buffer {buffer.name} rounds {value.dtype} to {expected}: {value!r}"
                warnings.warn(f"{what}; write .astype({str(expected)!r}) if it shall", stacklevel=2)
            value = A.cast_to(value, expected)
    return BufferStore(buffer, value, indices)


def as_region(value: Any, what: str) -> BufferRegion:
    """A region that a block reads, writes or matches: `A[i, 0:4]`, or a whole buffer."""
    if isinstance(value, BufferRegion):
        return value
    if isinstance(value, BufferLoad):
        points = [Range.from_min_extent(i, IntImm(i.dtype, 1)) for i in value.indices]
        return BufferRegion(value.buffer, tuple(points))
    if isinstance(value, Buffer):
        whole = [Range.from_min_extent(IntImm(d.dtype, 0), d) for d in value.shape]
        return BufferRegion(value, tuple(whole))
    raise TypeError(
        f"{what} takes regions of buffers such as A[i, 0:4], but was given {type(value).__name__}: {value!r}"
    )


OPERATORS: dict[type, Callable[..., Any]] = {
    **{k: _operator(f) for k, f in PYTHON_OPERATORS.items() if k not in (ast.Is, ast.IsNot, ast.In, ast.NotIn)},
    **{k: PYTHON_OPERATORS[k] for k in (ast.Is, ast.IsNot, ast.In, ast.NotIn)},
    **{k: _comparison(f, PYTHON_OPERATORS[k]) for k, f in _COMPARISONS.items()},
}
"""Python's operators on values of programs."""
