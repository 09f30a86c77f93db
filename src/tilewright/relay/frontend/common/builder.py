"""Builder of operators for one node of a model: calls with the node's name, constants, sizes, and shapes with symbols."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.ir import IntImm, PrimExpr, SourceName, Span
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.cards.relations import Dim, broadcast_shapes, is_any, known_equal, shape_text, simplest
from tilewright.relay.expr import Call, Constant, Expr, Tuple, Var
from tilewright.relay.frontend.common.sizes import InputSizes, extent_of
from tilewright.relay.frontend.common.value import Value, are_numbers, make_call, make_calls
from tilewright.support.errors import ModelError, OpNotImplemented

Number = bool | int | float | complex | np.generic
Operand = Value | PrimExpr | Number
"""Operands of element-wise operators: a tensor, a size, or a number."""
MOST_PARTS = 4096
"""The limit of parts into which an axis of unknown extent is split, and of operators that one node makes."""
FAR = (1 << 31) - 1
"""The end of a slice up to the end of its axis."""
SMALL = 1 << 16
"""The largest number of elements of tensors that are computed at import."""


MOST_KNOWN = 1 << 24
"""The largest number of elements of values computed at import. A damaged file may state any size."""


def small(shape: Sequence[int], what: str) -> None:
    """Raises OpNotImplemented for a value that needs much memory at import."""
    count = math.prod([int(d) for d in shape])
    if count > MOST_KNOWN:
        raise OpNotImplemented(f"{what} has {count} elements; up to {MOST_KNOWN} are supported there")


def need_few(count: int, most: int, what: str) -> None:
    """Raises OpNotImplemented if `count` is above a limit. A damaged model may state any number."""
    if count > most:
        raise OpNotImplemented(f"it makes {count} {what}; there may be {most}")


def need_extents(shape: Sequence[Any]) -> None:
    """Raises OpNotImplemented for an extent below -1 in a new shape. Relay's reshape gives such numbers another meaning."""
    wrong = [d for d in shape if isinstance(d, int) and d < -1]
    if wrong:
        raise OpNotImplemented(f"its new shape has the extent {wrong[0]}; -1 alone stands for what is left")


class Builder:
    """The node that is being converted. `sizes` reads dynamic dimensions; `params`: name -> array of weights that are variables."""

    __slots__ = ("name", "params", "sizes", "span")

    def __init__(self, name: str, sizes: InputSizes, params: dict[str, np.ndarray] | None = None) -> None:
        self.name, self.sizes, self.params = name, sizes, params if params is not None else {}
        self.span = Span(SourceName(name))

    def call(self, key: str, *args: object, **attrs: Any) -> Value:
        """The result of the relay operator `key`, which must have one result. Arguments: values, lists of values, and numbers, which get
        the first value's type."""
        return Value(make_call(key, self.arguments(key, args), attrs, self.span))

    def calls(self, key: str, *args: object, **attrs: Any) -> list[Value]:
        """Like `call`, for an operator with several results."""
        return [Value(e) for e in make_calls(key, self.arguments(key, args), attrs, self.span)]

    def arguments(self, key: str, args: Sequence[Any]) -> list[Any]:
        """Arguments of an operator, with numbers and sizes converted to the first value's type."""
        typed = args[1:] if key == "where" else args
        like = next((a.dtype for a in typed if isinstance(a, Value)), None)
        return [self._argument(a, like) for a in args]

    def _argument(self, a: Any, like: str | None) -> Any:
        if isinstance(a, (bool, int, float, np.generic)):
            return self.number(a, like or "float32")
        if isinstance(a, PrimExpr) and not isinstance(a, Expr):
            return self.cast(self.size(a), like or "int64")
        return a

    def number(self, value: Any, dtype: str) -> Value:
        """A constant without axes (a scalar)."""
        return Value(array=np.array(fitting(value, dtype), numpy_dtype(dtype)))

    def size(self, d: Any) -> Value:
        """A size as a tensor of int64 without axes."""
        if isinstance(d, (int, np.integer, IntImm)):
            return Value(array=np.array(int(d), np.int64))
        return self.sizes.tensor(self, d)

    def extent(self, x: Value, axis: int) -> Value:
        """The extent of an axis as a tensor of int64 without axes, static or dynamic."""
        d = x.shape[axis]
        return extent_of(self, x, axis) if is_any(d) else self.size(d)

    def iota(self, count: Value, dtype: str = "int64") -> Value:
        """The numbers 0, 1, ... below a number that the program computes."""
        return self.call("dyn.iota", count, dtype=dtype)

    def elements(self, v: Value, count: int) -> list[Any]:
        """The elements of a vector: numbers and symbols if they are known at import, else tensors without axes."""
        if v.array is not None:
            return [e.item() if isinstance(e, np.generic) else e for e in v.array.reshape(-1).tolist()]
        e: Any = v.expr
        if isinstance(e, Constant):
            return list(e.value.reshape(-1).tolist())
        name = getattr(e.op, "name", "") if isinstance(e, Call) else ""
        if name in ("concatenate", "stack") and isinstance(e.args[0], Tuple):
            # A concatenation may have some known parts.
            fields = [Value(f) for f in e.args[0].fields]
            counts: list[Dim] = [1 if name == "stack" else f.shape[0] for f in fields]
            if are_numbers(counts) and sum(counts) == count:
                return [p for f, n in zip(fields, counts, strict=True) for p in self.elements(f, n)]
        return [self.at(v, 0, k) for k in range(count)] if v.ndim else [v]

    def cast(self, x: Value, dtype: str) -> Value:
        """x cast to another element type. Floats are rounded towards zero."""
        if x.dtype == dtype:
            return x
        if x.is_number and x.array is not None and x.array.size <= SMALL:
            with np.errstate(all="ignore"):
                return Value(array=x.array.astype(numpy_dtype(dtype)))
        if dtype == "bool":
            return self.call("not_equal", x, 0)
        return self.call("cast", x, dtype=dtype)

    def known(self, x: Any, what: str) -> np.ndarray:
        """The elements of an input, which must be known at import. Raises OpNotImplemented."""
        if isinstance(x, (bool, int, float, np.generic, np.ndarray)):
            return np.asarray(x)
        if x.is_number:
            found: np.ndarray = x.array
            return found
        if x.array is None and isinstance(x.expr, Var) and x.expr.name_hint in self.params:
            return np.asarray(self.params[x.expr.name_hint])
        where = self.sizes.remedy if x.array is not None else "Make it a constant of the model"
        raise OpNotImplemented(f"its {what} must be known at import, but the model computes it. {where}")

    def static(self, sizes: Iterable[Any], what: str) -> list[int]:
        """Sizes as ints. Raises OpNotImplemented for symbols."""
        sizes = [plain(d) for d in sizes]
        if not all([isinstance(d, int) for d in sizes]):
            raise OpNotImplemented(f"{what} must be known, but is {shape_text(sizes)}. {self.sizes.remedy}")
        return sizes

    def reshape(self, x: Value, new: Sequence[Any]) -> Value:
        """x reshaped; one extent may be -1, and extents may be symbols."""
        new, old = [plain(d) for d in new], x.shape
        need_extents(new)
        if same_shape(old, new):
            return x
        numbers = all([isinstance(d, int) for d in new])
        if x.is_number and x.array is not None and numbers:
            return Value(array=x.array.reshape(new))
        if numbers:
            return self.call("reshape", x, newshape=tuple(new), allowzero=0 in new)
        # A 0 keeps the extent of this axis, static or dynamic.
        codes = [
            0 if k < len(old) and not isinstance(d, int) and known_equal(d, old[k]) else d for k, d in enumerate(new)
        ]
        return self.call("reshape", x, newshape=tuple(codes))

    def broadcast(self, x: Value, shape: Sequence[Any]) -> Value:
        """x expanded to a shape."""
        if same_shape(x.shape, shape):
            return x
        if x.is_number and x.array is not None and all([isinstance(d, int) for d in shape]) and count(shape) <= SMALL:
            return Value(array=np.broadcast_to(x.array, tuple(shape)))
        return self.call("broadcast_to", x, shape=tuple(shape))

    def broadcast_all(self, xs: Sequence[Value]) -> list[Value]:
        """Tensors broadcast to their common shape."""
        shape: list[Dim] = []
        for x in xs:
            shape = list(broadcast_shapes(shape, x.shape))
        return [self.broadcast(x, shape) for x in xs]

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """x with its axes permuted."""
        order = [int(k) for k in order]
        if order == list(range(len(order))):
            return x
        if x.is_number and x.array is not None and x.array.size <= SMALL:
            return Value(array=x.array.transpose(order))
        return self.call("transpose", x, axes=tuple(order))

    def full(self, shape: Sequence[Any], value: Any, dtype: str) -> Value:
        """A tensor filled with one value; a known array if it is small."""
        shape = [plain(d) for d in shape]
        if (
            not isinstance(value, (Value, PrimExpr))
            and all([isinstance(d, int) for d in shape])
            and count(shape) <= SMALL
        ):
            return Value(array=np.full(shape, fitting(value, dtype), numpy_dtype(dtype)))
        fill = value if isinstance(value, Value) else self.number(value, dtype)
        return self.call("full", fill, shape=tuple(shape), dtype=dtype) if shape else fill

    def cut(self, x: Value, axis: int, begin: Dim, end: Dim, step: int = 1) -> Value:
        """x[.., begin:end:step, ..] along an axis."""
        if isinstance(begin, int) and begin == 0 and step == 1 and known_equal(end, x.shape[axis]):
            return x
        return self.call("strided_slice", x, begin=(begin,), end=(end,), strides=(step,), axes=(axis,))

    def at(self, x: Value, axis: int, place: int) -> Value:
        """x[.., place, ..], without that axis."""
        axis = self.axis(axis, x.ndim)
        if place < 0:
            place += self.static([x.shape[axis]], "the extent that it counts from")[0]
        return self.call("squeeze", self.cut(x, axis, place, place + 1), axis=(axis,))

    def steps(self, x: Value, axis: int) -> list[Value]:
        """The elements of x along an axis of known extent, each without that axis."""
        axis = self.axis(axis, x.ndim)
        (length,) = self.static([x.shape[axis]], "the number of its steps")
        return [self.at(x, axis, k) for k in range(length)]

    def split(self, x: Value, parts: int, axis: int) -> list[Value]:
        """x in equal parts."""
        if parts == 1:
            return [x]
        axis = self.axis(axis, x.ndim)
        extent = x.shape[axis]
        need_few(parts, extent if isinstance(extent, int) and extent else MOST_PARTS, f"parts of axis {axis}")
        return self.calls("split", x, indices_or_sections=parts, axis=axis)

    def parts(self, x: Value, sizes: Sequence[int], axis: int) -> list[Value]:
        """x in parts of these sizes. Raises ModelError if they do not add up to the extent of the axis."""
        axis = self.axis(axis, x.ndim)
        extent = x.shape[axis]
        if isinstance(extent, int) and sum(sizes) != extent or min(sizes) < 0:
            raise ModelError(
                f"it splits axis {axis}, of the extent {extent}, into parts of {', '.join(map(str, sizes))}"
            )
        ends = np.cumsum(sizes).tolist()
        return [self.cut(x, axis, end - size, end) for size, end in zip(sizes, ends, strict=True)]

    def concatenate(self, xs: Sequence[Value], axis: int) -> Value:
        """Tensors joined along an axis; a single tensor is returned as it is."""
        return xs[0] if len(xs) == 1 else self.call("concatenate", list(xs), axis=self.axis(axis, xs[0].ndim))

    def pad(self, x: Value, width: Sequence[Sequence[Any]], value: Any = 0, mode: str = "constant") -> Value:
        """x padded by (before, after) along each axis."""
        width = [tuple(plain(v) for v in pair) for pair in width]
        if all([isinstance(v, int) and v == 0 for pair in width for v in pair]):
            return x
        fill = value if isinstance(value, Value) else self.number(value, x.dtype)
        return self.call("nn.pad", x, fill, pad_width=tuple(width), pad_mode=mode)

    def reduce(self, key: str, x: Value, axes: Sequence[int] | None, keepdims: bool = False) -> Value:
        """sum, mean, max, ... of x over axes (None: all axes). Without axes it returns x."""
        if axes is not None and not len(axes) or not x.ndim:
            return x
        where = None if axes is None else tuple([self.axis(int(a), x.ndim) for a in axes])
        return self.call(key, x, axis=where, keepdims=bool(keepdims))

    def axis(self, axis: int, ndim: int) -> int:
        """The axis as a non-negative number."""
        if not -max(ndim, 1) <= axis < max(ndim, 1):
            raise OpNotImplemented(f"its axis is {axis}, but the tensor has {ndim} axes")
        return axis % max(ndim, 1)

    def axes(self, dim: Any, ndim: int) -> list[int]:
        """Non-negative axes from an int, a list, or None for all."""
        if dim is None:
            return list(range(ndim))
        return [self.axis(int(d), ndim) for d in (dim if isinstance(dim, (list, tuple, np.ndarray)) else [dim])]

    def refuse(self, what: str, value: Any, supported: str) -> OpNotImplemented:
        """The error for an unsupported value of an attribute."""
        return OpNotImplemented(f"its {what} is {value!r}; supported: {supported}")


def same_shape(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes are known to be equal."""
    return len(a) == len(b) and all([known_equal(p, q) for p, q in zip(a, b, strict=True)])


def plain(d: Dim) -> Dim:
    """An extent as an int, or as an expression in its simplest form."""
    if isinstance(d, PrimExpr):
        d = simplest(d)
        return d.value if isinstance(d, IntImm) else d
    return int(d)


def count(shape: Sequence[int]) -> int:
    """The number of elements of a shape."""
    return math.prod([int(d) for d in shape])


def fitting(value: Any, dtype: str) -> Any:
    """A number wrapped to the range of an integer type, as an overflow does."""
    kind = numpy_dtype(dtype).kind
    if kind not in "iu":
        return value
    info = np.iinfo(numpy_dtype(dtype))
    span = int(info.max) - int(info.min) + 1
    return (int(value) - int(info.min)) % span + int(info.min)


def same_padding(extent: Any, kernel: int, stride: int, dilation: int = 1) -> tuple[Any, Any]:
    """(before, after): padding for ceil(extent / stride) windows, with the odd element at the end (TensorFlow's SAME)."""
    reach = (kernel - 1) * dilation + 1
    if isinstance(extent, int):
        total: Any = max((-(-extent // stride) - 1) * stride + reach - extent, 0)
        return total // 2, total - total // 2
    if stride == 1:
        return (reach - 1) // 2, reach - 1 - (reach - 1) // 2
    from tilewright.tir.op import max as larger

    total = larger(((extent + stride - 1) // stride - 1) * stride + reach - extent, 0)
    return total // 2, total - total // 2
