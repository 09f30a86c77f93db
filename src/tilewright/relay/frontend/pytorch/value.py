"""What converters work with: the call being converted, and the register of converters by operator name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.ir import IntImm, PrimExpr, SourceName, Span
from tilewright.node.leaves import numpy_dtype
from tilewright.relay.expr import Call, Expr, TupleWrapper, Var
from tilewright.relay.frontend.common.builder import count, plain
from tilewright.relay.frontend.common.value import Value, make_call
from tilewright.relay.frontend.pytorch.dtypes import is_float, kind, result_dtype
from tilewright.relay.op.card import DYNAMIC, find_card
from tilewright.relay.op.relations import dims, is_any, known_equal, shape_text, tensor_type
from tilewright.support.errors import OpNotImplemented, TVMError

Converter = Callable[..., Any]
converters: dict[str, Converter] = {}
"""By "add" (every overload of aten), "add.Scalar" (one of them), or "torchvision::nms"."""


def aten(*names: str) -> Callable[[Converter], Converter]:
    """Register the converter of operators: f(call, *positional arguments, **keyword-only arguments) as in the operator's schema."""

    def register(f: Converter) -> Converter:
        for name in names:
            converters[name] = f
        return f

    return register


def find_converter(name: str, overload: str = "") -> Converter | None:
    """The converter of an operator, "aten::add" or "add"; an operator that writes its first argument is taken as one that does not."""
    short = name.removeprefix("aten::")
    found = converters.get(f"{short}.{overload}") or converters.get(short)
    if found is None and short.endswith("_") and not short.startswith("__"):
        return find_converter(short[:-1], overload)
    return found


class Complex:
    """A complex tensor: its real and its imaginary part."""

    __slots__ = ("imag", "real")

    def __init__(self, real: Value, imag: Value) -> None:
        self.real, self.imag = real, imag


class TorchCall:
    """The operator being converted: `call` makes relay operators that carry its name as their span."""

    __slots__ = ("home", "name", "span", "target", "used")

    def __init__(self, target: str, name: str, home: Any, used: Callable[[int], bool] = lambda k: True) -> None:
        self.target, self.name, self.home, self.used = target, name, home, used
        self.span = Span(SourceName(name))

    def wants(self, index: int) -> bool:
        """Whether somebody reads result `index`."""
        return self.used(index)

    def call(self, key: str, *args: Any, **attrs: Any) -> Any:
        """The relay operator `key` on values, lists of them, and numbers, which take the first value's type: a Value, or a list."""
        if key == "host.call":
            self.home.hosted += 1
        like = next((a.dtype for a in args if isinstance(a, Value)), None)
        given = [self._argument(a, like) for a in args]
        if self.home.sizes.from_data:
            return self._call_of_data(key, given, attrs)
        made = make_call(key, given, attrs, self.span)
        return [Value(e) for e in made] if isinstance(made, TupleWrapper) else Value(made)

    def counted(self, key: str, *args: Any, **attrs: Any) -> Any:
        """`call` of an operator whose results are as long as its data say."""
        return self._sized(make_call(key, [self._argument(a, None) for a in args], attrs, self.span), None)

    def _call_of_data(self, key: str, args: list[Any], attrs: dict[str, Any]) -> Any:
        """`call` where sizes are about that only data say: attributes are read when the program runs, and results have symbols for
        extents."""
        try:
            # What the type rule says where the symbols stand in the types.
            shapes = make_call(key, _named_extents(args), attrs, self.span)
        except TVMError:
            shapes = None
        if any([self.decided_by_data(v) for v in attrs.values()]):
            if key == "arange":
                key, args, attrs = "dyn.iota", [self.size(attrs["stop"])], {"dtype": attrs["dtype"]}
            elif find_card(key) not in DYNAMIC:
                raise OpNotImplemented(f"the data decide a size in it, which {key} takes as a number only")
            attrs = {name: self._read(v) if self.decided_by_data(v) else v for name, v in attrs.items()}
        return self._sized(make_call(key, args, attrs, self.span), shapes)

    def _sized(self, made: Any, shapes: Any) -> Any:
        """The results of a call, with symbols for extents of which their types say nothing: those of `shapes`, or new ones."""
        if isinstance(made, TupleWrapper):
            return [self._sized(e, None if shapes is None else shapes[k]) for k, e in enumerate(made)]
        value = Value(made)
        if shapes is None or not any(map(is_any, value.shape)):
            return self.home.sizes.sized(value)
        try:
            return self.home.sizes.sized(value, Value(shapes).shape)
        except TVMError:
            return self.home.sizes.sized(value)

    def decided_by_data(self, x: Any) -> bool:
        """Whether a size, or one of several, is what only data say."""
        if isinstance(x, (tuple, list)):
            return any([self.decided_by_data(v) for v in x])
        return self.home.sizes.decided_by_data(x)  # type: ignore[no-any-return]

    def _read(self, x: Any) -> Any:
        """Sizes as expressions of tensors, which a program reads when it runs."""
        if isinstance(x, (tuple, list)):
            return tuple([self._read(v) for v in x])
        return self.size(x).expr if isinstance(x, PrimExpr) else x

    def _argument(self, a: Any, like: str | None) -> Any:
        if isinstance(a, (bool, int, float, np.generic)):
            return self.number(a, like or "float32")
        if isinstance(a, PrimExpr) and not isinstance(a, Expr):
            return self.cast(self.size(a), like or "int64")
        return a

    def number(self, value: Any, dtype: str) -> Value:
        """A constant without axes."""
        return Value(array=np.array(_fitting(value, dtype), numpy_dtype(dtype)))

    def size(self, d: Any) -> Value:
        """A size as a tensor of int64 without axes."""
        if isinstance(d, (int, IntImm)):
            return Value(array=np.array(int(d), np.int64))
        return self.home.size_value(self, d)  # type: ignore[no-any-return]

    def tensor(self, x: Any, dtype: str | None = None) -> Value:
        """A value, number or size as a tensor, cast to `dtype`."""
        if isinstance(x, Value):
            return x if dtype is None else self.cast(x, dtype)
        if isinstance(x, PrimExpr):
            return self.cast(self.size(x), dtype or "int64")
        return self.number(x, dtype or result_dtype([x]))

    def cast(self, x: Value, dtype: str) -> Value:
        """x in another element type, as PyTorch converts."""
        if x.dtype == dtype:
            return x
        if kind(dtype) == 3 or kind(x.dtype) == 3:
            raise OpNotImplemented("complex numbers are not supported here: split them with torch.view_as_real")
        if x.array is not None and x.array.size <= 1 << 16:
            with np.errstate(invalid="ignore"):
                return Value(array=x.array.astype(numpy_dtype(dtype)))
        if dtype == "bool":
            return self.call("not_equal", x, 0)  # type: ignore[no-any-return]
        return self.call("cast", x, dtype=dtype)  # type: ignore[no-any-return]

    def promote(self, *operands: Any, floating: bool = False) -> list[Value]:
        """Operands as tensors of the type that PyTorch computes in; `floating`: integers become float32."""
        dtype = result_dtype(operands)
        if floating and kind(dtype) < 2:
            dtype = "float32"
        return [self.tensor(x, dtype) for x in operands]

    def floats(self, x: Value) -> Value:
        """x, integers as float32."""
        return x if kind(x.dtype) >= 2 else self.cast(x, "float32")

    def known(self, x: Any, what: str) -> np.ndarray:
        """The elements of an input that must be known. Raises OpNotImplemented."""
        if isinstance(x, (int, float, bool)):
            return np.asarray(x)
        if x.array is not None and x.array.dtype != object:
            return x.array  # type: ignore[no-any-return]
        if isinstance(x.expr, Var) and x.expr.name_hint in self.home.params:
            return np.asarray(self.home.params[x.expr.name_hint])
        raise OpNotImplemented(f"its {what} must be known at import, but the model computes it")

    def static(self, sizes: Iterable[Any], what: str) -> list[int]:
        """Sizes that must be numbers. Raises OpNotImplemented."""
        sizes = list(sizes)
        if not all([isinstance(d, int) for d in sizes]):
            raise OpNotImplemented(
                f"{what} must be known, but is {shape_text(sizes)}. Export it with a fixed size there, without dynamic_shapes"
            )
        return sizes

    def reshape(self, x: Value, new: Sequence[Any]) -> Value:
        """x in another shape; one extent may be -1, and extents may be symbols."""
        new = [plain(d) for d in new]
        old = x.shape
        if len(old) == len(new) and all([known_equal(a, b) for a, b in zip(old, new, strict=True)]):
            return x
        if x.array is not None and x.is_number and all([isinstance(d, int) for d in new]):
            return Value(array=x.array.reshape(new))
        if all([isinstance(d, int) for d in new]) or self.decided_by_data(new):
            # What data decide may be 0, which must not mean "as it is".
            allowzero = 0 in new or self.decided_by_data(new)
            return self.call("reshape", x, newshape=tuple(new), allowzero=allowzero)  # type: ignore[no-any-return]
        # A 0 keeps the extent in place, symbols or not.
        codes = [
            0 if k < len(old) and not isinstance(d, int) and known_equal(d, old[k]) else d for k, d in enumerate(new)
        ]
        return self.call("reshape", x, newshape=tuple(codes))  # type: ignore[no-any-return]

    def broadcast(self, x: Value, shape: Sequence[Any]) -> Value:
        """x expanded to a shape."""
        old = x.shape
        if len(old) == len(shape) and all([known_equal(a, b) for a, b in zip(old, shape, strict=True)]):
            return x
        if x.array is not None and x.is_number and all([isinstance(d, int) for d in shape]) and count(shape) <= 1 << 16:
            return Value(array=np.broadcast_to(x.array, tuple(shape)))
        return self.call("broadcast_to", x, shape=tuple(shape))  # type: ignore[no-any-return]

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """x with its axes in another order; no order at all leaves them."""
        if list(order) == list(range(len(order))):
            return x
        return self.call("transpose", x, axes=tuple(order))  # type: ignore[no-any-return]

    def full(self, shape: Sequence[Any], value: Any, dtype: str) -> Value:
        """A tensor of one value, small ones known."""
        shape = [plain(d) for d in shape]
        if (
            not isinstance(value, (Value, PrimExpr))
            and all([isinstance(d, int) for d in shape])
            and count(shape) <= 1 << 16
        ):
            return Value(array=np.full(shape, _fitting(value, dtype), numpy_dtype(dtype)))
        fill = self.tensor(value, dtype)
        return self.call("full", fill, shape=tuple(shape), dtype=dtype) if shape else fill

    def axis(self, axis: int, ndim: int) -> int:
        """A non-negative axis."""
        return axis % max(ndim, 1)

    def axes(self, dim: Any, ndim: int) -> list[int]:
        """Non-negative axes from an int, a list, or None for all."""
        if dim is None or isinstance(dim, (list, tuple)) and not len(dim):
            return list(range(ndim))
        return [self.axis(int(d), ndim) for d in (dim if isinstance(dim, (list, tuple)) else [dim])]

    def refuse(self, argument: str, value: Any, supported: str) -> OpNotImplemented:
        """The error for an argument's value that is not supported."""
        return OpNotImplemented(f"its argument {argument} is {value!r}; supported: {supported}")


def _named_extents(x: Any) -> Any:
    """Arguments, and in place of values with symbols for extents variables of such types."""
    if isinstance(x, (list, tuple)):
        return [_named_extents(v) for v in x]
    sized = isinstance(x, Value) and x.array is None and any(map(is_any, dims(x.type)))
    return Value(Var("sized", tensor_type(tuple(x.shape), x.dtype))) if sized else x


def _fitting(value: Any, dtype: str) -> Any:
    """A number as the type can hold it: infinities and overflows of integers wrap as in PyTorch."""
    if is_float(dtype) or dtype == "bool":
        return value
    if isinstance(value, (float, np.floating)):
        value = int(value)
    info = np.iinfo(dtype)
    span = int(info.max) - int(info.min) + 1
    return (int(value) - int(info.min)) % span + int(info.min)


def as_result(result: Any) -> Any:
    """What a converter answered, with expressions as values."""
    if isinstance(result, np.ndarray):
        return Value(array=result)
    if isinstance(result, (Call, Expr)) and not isinstance(result, TupleWrapper):
        return Value(result)
    if isinstance(result, (TupleWrapper, list, tuple)):
        return [as_result(r) for r in result]
    return result
