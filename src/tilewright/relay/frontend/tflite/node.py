"""Context of converters: values with their quantisation, the operator being converted, and the table of converters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tilewright.formats.flatbuffer import Record
from tilewright.formats.tflite_schema import ACTIVATIONS
from tilewright.ir import IntImm, PrimExpr, SourceName, Span
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.cards.relations import Dim, known_equal, shape_text, simplest
from tilewright.relay.expr import Expr, TupleWrapper
from tilewright.relay.frontend.common.builder import need_extents
from tilewright.relay.frontend.common.value import Value as CommonValue
from tilewright.relay.frontend.common.value import are_numbers, make_call, make_calls
from tilewright.support.errors import DiagnosticError, OpNotImplemented

if TYPE_CHECKING:
    from tilewright.relay.frontend.tflite.graph import Importer

Converter = Callable[..., Any]
Registered = TypeVar("Registered", bound=Converter)
converters: dict[str, Converter] = {}
"""Converters by name in the schema, or by the name of a custom operator."""


def tflite_op(*names: str) -> Callable[[Registered], Registered]:
    """Registers the converter of operators: f(node, *inputs) with None for omitted inputs."""

    def register(f: Registered) -> Registered:
        for name in names:
            converters[name] = f
        return f

    return register


class Quant:
    """real = scale * (q - zero): one scale (float32) and zero point (int32), or one for each index of `axis`."""

    __slots__ = ("axis", "scale", "zero")

    def __init__(self, scale: np.ndarray, zero: np.ndarray, axis: int = 0) -> None:
        self.scale, self.zero, self.axis = scale, zero, axis

    @property
    def single(self) -> bool:
        """Whether the whole tensor has one scale."""
        return self.scale.size == 1

    @property
    def step(self) -> float:
        """The scale of a whole tensor, a float32 as a Python float."""
        return float(self.scale[0])

    @property
    def offset(self) -> int:
        """The zero point of a whole tensor."""
        return int(self.zero[0])

    def same(self, other: Quant | None) -> bool:
        """Whether scales and zero points are equal."""
        return other is not None and bool(
            self.scale.shape == other.scale.shape
            and (self.scale == other.scale).all()
            and (self.zero == other.zero).all()
        )


class Value(CommonValue):
    """A tensor of a TFLite model. `quant`: the quantisation of its integers. `home`: makes the parameter for a weight."""

    __slots__ = ("home", "quant")

    def __init__(
        self,
        expr: Expr | None = None,
        array: np.ndarray | None = None,
        name: str = "",
        quant: Quant | None = None,
        home: Callable[[Value], Expr] | None = None,
    ) -> None:
        super().__init__(expr, array, name)
        self.quant, self.home = quant, home

    @property
    def expr(self) -> Expr:
        """The relay expression. A weight becomes a parameter at its first read in the stored form."""
        if self._expr is None and self.home is not None:
            self._expr = self.home(self)
        return CommonValue.expr.fget(self)  # type: ignore[attr-defined,no-any-return]

    def unknown(self, why: str) -> OpNotImplemented:
        """The error for an unknown value that only pinned shapes would make known."""
        return OpNotImplemented(why.replace("shape={name: [...]}", "shape_dict={name: (...)}"))


class Pair:
    """A complex tensor: its real and its imaginary part."""

    __slots__ = ("imag", "name", "real")

    def __init__(self, real: Value, imag: Value, name: str = "") -> None:
        self.real, self.imag, self.name = real, imag, name


class Resource:
    """A variable or a table of the model, by its name."""

    __slots__ = ("key", "name")

    def __init__(self, key: str, name: str = "") -> None:
        self.key, self.name = key, name


class Info:
    """The declaration of a result in the model: name, shape (as converted), dtype and quantisation."""

    __slots__ = ("dtype", "name", "quant", "shape", "type")

    def __init__(self, name: str, shape: tuple[int, ...], kind: str, dtype: str, quant: Quant | None) -> None:
        self.name, self.shape, self.type, self.dtype, self.quant = name, shape, kind, dtype, quant


class Node:
    """The operator being converted. `call` makes relay operators with its span."""

    __slots__ = ("importer", "intermediates", "name", "options", "outputs", "record", "span", "title")

    def __init__(
        self, name: str, title: str, record: Record, options: Record | None, outputs: Sequence[Info], importer: Importer,
        intermediates: Sequence[Info] = (),
    ) -> None:  # fmt: skip
        self.intermediates = intermediates
        self.name, self.title, self.record, self.options = name, title, record, options
        self.outputs, self.importer = list(outputs), importer
        self.span = Span(SourceName(title))

    @property
    def out(self) -> Info:
        """The first result."""
        return self.outputs[0]

    @property
    def integer(self) -> bool:
        """Whether the first result is quantised."""
        return self.out.quant is not None and self.out.dtype in ("int8", "uint8", "int16")

    def get(self, name: str, default: Any = 0) -> Any:
        """The value of an option. In a file without options, TFLite reads all as 0, whatever the schema's defaults: `default`."""
        return default if self.options is None else getattr(self.options, name)

    def call(self, key: str, *args: object, **attrs: Any) -> Value:
        """The relay operator `key` on values, lists of values, and numbers, which get the first value's type."""
        return Value(make_call(key, self._arguments(args), attrs, self.span))

    def calls(self, key: str, *args: object, **attrs: Any) -> list[Value]:
        """`call` for an operator with several results."""
        return [Value(e) for e in make_calls(key, self._arguments(args), attrs, self.span)]

    def _arguments(self, args: Sequence[Any]) -> list[Any]:
        like = next((a for a in args if isinstance(a, CommonValue)), None)
        return [self._argument(a, like) for a in args]

    def _argument(self, a: Any, like: CommonValue | None) -> Any:
        if isinstance(a, (bool, int, float, np.generic)):
            return Value(array=np.array(a, numpy_dtype(like.dtype if like is not None else "float32")))
        if isinstance(a, np.ndarray):
            return Value(array=a)
        return a

    def number(self, value: Any, dtype: str) -> Value:
        """A constant without axes (a scalar)."""
        return Value(array=np.array(value, numpy_dtype(dtype)))

    def cast(self, x: Value, dtype: str) -> Value:
        """x cast to another element type."""
        if x.dtype == dtype:
            return x
        if x.array is not None and (x.is_number or dtype.startswith("int")):
            if not x.is_number:
                return x
            with np.errstate(invalid="ignore", over="ignore"):
                return Value(array=x.array.astype(numpy_dtype(dtype)))
        if dtype == "bool":
            return self.call("not_equal", x, 0)
        return self.call("cast", x, dtype=dtype)

    def known(self, x: Value | None, what: str) -> np.ndarray:
        """The elements of an input, which must be known at import. Raises OpNotImplemented."""
        if x is None or x.array is None:
            raise OpNotImplemented(
                f"its {what} must be known at import, but the model computes it. Pin the input shapes: shape_dict={{name: (...)}}"
            )
        return x.array

    def numbers(self, x: Value | None, what: str) -> np.ndarray:
        """The elements of an input, which must be known numbers without symbols. Raises OpNotImplemented."""
        array = self.known(x, what)
        if array.dtype == object:
            raise OpNotImplemented(
                f"its {what} depends on a dynamic dimension. Pin the input shapes: shape_dict={{name: (...)}}"
            )
        return array

    def ints(self, x: Value | None, what: str) -> list[Any]:
        """A known input of integers as ints; symbols stay."""
        found = self.known(x, what)
        self.need_integers(found, what)
        return [plain(v) for v in found.reshape(-1).tolist()]

    def whole(self, x: Value | None, what: str) -> np.ndarray:
        """`numbers` of an input of integers."""
        found = self.numbers(x, what)
        self.need_integers(found, what)
        return found

    def need_integers(self, x: np.ndarray, what: str) -> None:
        """Raises DiagnosticError for elements of another type than sizes, axes and places have."""
        if x.dtype.name not in ("object", "int32", "int64"):
            raise DiagnosticError(f"its {what} must be of int32 or int64, and has the type {x.dtype}")

    def static(self, x: Value, what: str = "the shape of its input") -> list[int]:
        """A shape as ints. Raises OpNotImplemented for symbols."""
        shape = x.shape
        if not are_numbers(shape):
            raise OpNotImplemented(
                f"{what} must be known, but is {shape_text(shape)}. Pin the input shapes: shape_dict={{name: (...)}}"
            )
        return shape

    def extents(self, x: Value, axes: Sequence[int], what: str) -> list[int]:
        """Extents as ints. Raises OpNotImplemented for symbols."""
        found = [x.shape[a] for a in axes]
        if not are_numbers(found):
            raise OpNotImplemented(
                f"{what} must be known, but are {shape_text(found)}. Pin the input shapes: shape_dict={{name: (...)}}"
            )
        return found

    def reshape(self, x: Value, new: Sequence[Any]) -> Value:
        """x reshaped; one extent may be -1, and extents may be symbols."""
        new = [plain(d) for d in new]
        need_extents(new)
        old = x.shape
        if len(old) == len(new) and all([known_equal(a, b) for a, b in zip(old, new, strict=True)]):
            return x
        if x.array is not None and all([isinstance(d, int) for d in new]):
            if x.home is None:
                return Value(array=x.array.reshape(new))
            # A reshaped weight still uses the same memory.
            return Value(array=x.array.reshape(new), name=x.name, home=x.home)
        if all([isinstance(d, int) for d in new]):
            return self.call("reshape", x, newshape=tuple(new), allowzero=0 in new)
        codes = [
            0 if k < len(old) and not isinstance(d, int) and known_equal(d, old[k]) else d for k, d in enumerate(new)
        ]
        return self.call("reshape", x, newshape=tuple(codes))

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """x with its axes permuted; a weight becomes a transposed view."""
        if list(order) == list(range(len(order))):
            return x
        if x.array is not None and x.is_number:
            return Value(array=x.array.transpose(order), name=x.name, home=x.home)
        return self.call("transpose", x, axes=tuple(order))

    def broadcast(self, x: Value, shape: Sequence[Dim]) -> Value:
        """x broadcast to a shape."""
        old = x.shape
        if len(old) == len(shape) and all([known_equal(a, b) for a, b in zip(old, shape, strict=True)]):
            return x
        return self.call("broadcast_to", x, shape=tuple(shape))

    def activated(self, x: Value, code: int | None = None) -> Value:
        """The result after the fused activation function of a float operator."""
        name = self.activation(code)
        if name == "NONE":
            return x
        if name == "RELU":
            return self.call("nn.relu", x)
        if name == "RELU_N1_TO_1":
            return self.call("clip", x, a_min=-1.0, a_max=1.0)
        if name == "RELU6":
            return self.call("clip", x, a_min=0.0, a_max=6.0)
        if name == "TANH":
            return self.call("tanh", x)
        # SIGN_BIT: 1 for negative numbers.
        return self.cast(self.call("less", x, 0), x.dtype)

    def activation(self, code: int | None = None) -> str:
        """The name of the fused activation function."""
        number = int(self.get("fused_activation_function", 0) if code is None else code)
        if not 0 <= number < len(ACTIVATIONS):
            raise OpNotImplemented(f"its fused activation is number {number}; supported: {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[number]

    def axis(self, axis: int, ndim: int) -> int:
        """The axis as a non-negative number."""
        if not -max(ndim, 1) <= axis < max(ndim, 1):
            raise ValueError(f"the axis {axis} is outside its {ndim} axes")
        return axis % max(ndim, 1)

    def axes(self, x: Value | None, ndim: int, what: str = "axes") -> list[int]:
        """Known axes as non-negative numbers, without duplicates."""
        return list(dict.fromkeys([self.axis(int(a), ndim) for a in self.whole(x, what).reshape(-1)]))


def plain(d: Dim) -> Dim:
    """A size as an int, or as an expression in its simplest form."""
    if isinstance(d, PrimExpr):
        d = simplest(d)
        return d.value if isinstance(d, IntImm) else d
    return int(d)


def as_values(result: Any) -> list[Any]:
    """The results of a converter, as values."""
    if isinstance(result, (Value, Pair, Resource)):
        return [result]
    if isinstance(result, CommonValue):
        return [Value(result._expr, result.array, result.name)]
    if isinstance(result, np.ndarray):
        return [Value(array=result)]
    if isinstance(result, Expr):
        return [Value(result)]
    if isinstance(result, (TupleWrapper, list, tuple)):
        return [v for r in result for v in as_values(r)]
    raise TypeError(f"a converter returned {type(result).__name__}")
