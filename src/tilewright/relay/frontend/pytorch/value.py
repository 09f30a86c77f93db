"""Context of converters: the call being converted, and the table of converters by operator name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from tilewright.ir import PrimExpr
from tilewright.relay.cards.card import DYNAMIC, find_card
from tilewright.relay.cards.relations import dims, is_any, tensor_type
from tilewright.relay.expr import Call, Expr, TupleWrapper, Var
from tilewright.relay.frontend.common.builder import Builder, Operand, plain, same_shape
from tilewright.relay.frontend.common.value import Value, make_call, make_calls
from tilewright.relay.frontend.pytorch.dtypes import kind, result_dtype
from tilewright.support.errors import OpNotImplemented, TVMError

if TYPE_CHECKING:
    import torch

    from tilewright.relay.frontend.pytorch.importer import Importer
    from tilewright.relay.frontend.pytorch.ops.levels import Quantized

Argument = Any
"""An argument in an operator's schema: a tensor, a number or size, a name, an element type, or a list of these."""
Axes = int | Sequence[int] | None
"""An axis, several, or None for all."""
PerAxis = int | Sequence[int]
"""A number for each axis of a window, or one for all."""
Meta = Any
"""PyTorch's type of a result: a fake tensor, a number that may be symbolic, or a list of these."""
Results = Sequence[Value | None]
"""The results of an operator with several results; None: an unused result."""
Result: TypeAlias = "Value | Complex | Quantized | Operand | Sequence[Result | None] | None"
"""The result of a converter: a tensor, a size or number, or several of these."""
Made = TypeVar("Made", Expr, TupleWrapper)
Converter = Callable[..., Any]
Registered = TypeVar("Registered", bound=Converter)
converters: dict[str, Converter] = {}
"""Converters by "add" (every overload of aten), "add.Scalar" (one of them), or "torchvision::nms"."""


def aten(*names: str) -> Callable[[Registered], Registered]:
    """Registers the converter of operators: f(call, *positional arguments, **keyword-only arguments), as in the operator's schema."""

    def register(f: Registered) -> Registered:
        for name in names:
            converters[name] = f
        return f

    return register


def find_converter(name: str, overload: str = "") -> Converter | None:
    """The converter of an operator, "aten::add" or "add". An in-place operator uses the converter of the one that returns a new tensor."""
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


class Attribute:
    """A module, or packed weights, that a script reads, and its path in the model."""

    __slots__ = ("module", "path")

    def __init__(self, module: torch.jit.ScriptModule | torch.ScriptObject, path: str) -> None:
        self.module, self.path = module, path


class TorchCall(Builder):
    """The operator being converted: a Builder with PyTorch's rules of types, and with data-dependent sizes."""

    __slots__ = ("home", "target", "used")

    def __init__(self, target: str, name: str, home: Importer, used: Callable[[int], bool] = lambda k: True) -> None:
        super().__init__(name, home.sizes, home.params)
        self.target, self.home, self.used = target, home, used

    def wants(self, index: int) -> bool:
        """Whether result `index` is used."""
        return self.used(index)

    def call(self, key: str, *args: object, **attrs: Any) -> Value:
        """`Builder.call`, which also takes data-dependent sizes."""
        if key == "host.call":
            self.home.hosted += 1
        if not self.home.sizes.from_data:
            return super().call(key, *args, **attrs)
        made, typed = self._calls_of_data(make_call, key, self.arguments(key, args), attrs)
        return self._sized(made, typed)

    def calls(self, key: str, *args: object, **attrs: Any) -> list[Value]:
        """`call` for an operator with several results."""
        if not self.home.sizes.from_data:
            return super().calls(key, *args, **attrs)
        made, typed = self._calls_of_data(make_calls, key, self.arguments(key, args), attrs)
        return [self._sized(e, None if typed is None else typed[k]) for k, e in enumerate(made)]

    def counted(self, key: str, *args: object, **attrs: Any) -> Value:
        """`call` for an operator with a result of data-dependent length."""
        return self._sized(make_call(key, [self._argument(a, None) for a in args], attrs, self.span), None)

    def counted_parts(self, key: str, *args: object, **attrs: Any) -> list[Value]:
        """`counted` for an operator with several results."""
        made = make_calls(key, [self._argument(a, None) for a in args], attrs, self.span)
        return [self._sized(e, None) for e in made]

    def _calls_of_data(
        self, make: Callable[..., Made], key: str, args: list[Argument], attrs: dict[str, Any]
    ) -> tuple[Made, Made | None]:
        """(The call that `make` makes, with attributes read at run time if their sizes depend on data; the same call on arguments with
        symbolic shapes, or None if the type rule refuses them.)"""
        try:
            typed = make(key, _named_extents(args), attrs, self.span)
        except TVMError:
            typed = None
        if any([self.decided_by_data(v) for v in attrs.values()]):
            if key == "arange":
                key, args, attrs = "dyn.iota", [self.size(attrs["stop"])], {"dtype": attrs["dtype"]}
            elif find_card(key) not in DYNAMIC:
                raise OpNotImplemented(f"the data decide a size in it, which {key} takes as a number only")
            attrs = {name: self._read(v) if self.decided_by_data(v) else v for name, v in attrs.items()}
        return make(key, args, attrs, self.span), typed

    def _sized(self, made: Expr, typed: Expr | None) -> Value:
        """The result of a call, with symbols for extents that its type does not give: those of the type of `typed`, or new ones."""
        value = Value(made)
        if typed is None or not any(map(is_any, value.shape)):
            return self.home.sizes.sized(value)
        try:
            return self.home.sizes.sized(value, Value(typed).shape)
        except TVMError:
            return self.home.sizes.sized(value)

    def decided_by_data(self, x: Any) -> bool:
        """Whether a size, or one of several, depends on data."""
        if isinstance(x, (tuple, list)):
            return any([self.decided_by_data(v) for v in x])
        return self.home.sizes.decided_by_data(x)

    def _read(self, x: Any) -> Any:
        """Sizes as expressions of tensors, read at run time."""
        if isinstance(x, (tuple, list)):
            return tuple([self._read(v) for v in x])
        return self.size(x).expr if isinstance(x, PrimExpr) else x

    def tensor(self, x: Operand, dtype: str | None = None) -> Value:
        """A value, number or size as a tensor, cast to `dtype`."""
        if isinstance(x, Value):
            return x if dtype is None else self.cast(x, dtype)
        if isinstance(x, PrimExpr):
            return self.cast(self.size(x), dtype or "int64")
        return self.number(x, dtype or result_dtype([x]))

    def cast(self, x: Value, dtype: str) -> Value:
        """x cast to another element type by PyTorch's rules. Raises OpNotImplemented for complex types."""
        if x.dtype != dtype and (kind(dtype) == 3 or kind(x.dtype) == 3):
            raise OpNotImplemented("complex numbers are not supported here: split them with torch.view_as_real")
        return super().cast(x, dtype)

    def promote(self, *operands: Any, floating: bool = False) -> list[Value]:
        """Operands as tensors of the type in which PyTorch computes. `floating`: integers become float32."""
        dtype = result_dtype(operands)
        if floating and kind(dtype) < 2:
            dtype = "float32"
        return [self.tensor(x, dtype) for x in operands]

    def floats(self, x: Value) -> Value:
        """x, with integers converted to float32."""
        return x if kind(x.dtype) >= 2 else self.cast(x, "float32")

    def reshape(self, x: Value, new: Sequence[Any]) -> Value:
        """x reshaped; one extent may be -1, and extents may be symbols."""
        new = [plain(d) for d in new]
        if not self.decided_by_data(new) or same_shape(x.shape, new):
            return super().reshape(x, new)
        # A data-dependent size may be 0, which must not mean "keep the extent".
        return self.call("reshape", x, newshape=tuple(new), allowzero=True)

    def full(self, shape: Sequence[Any], value: Any, dtype: str) -> Value:
        """A tensor filled with one value, which may be a size or a tensor; a known array if it is small."""
        return super().full(shape, self.tensor(value, dtype) if isinstance(value, (Value, PrimExpr)) else value, dtype)

    def axes(self, dim: Axes, ndim: int) -> list[int]:
        """Non-negative axes from an int, a list, or None or an empty list for all."""
        return super().axes(None if isinstance(dim, (list, tuple)) and not len(dim) else dim, ndim)

    def refuse(self, what: str, value: Any, supported: str) -> OpNotImplemented:
        """The error for an unsupported value of an argument."""
        return super().refuse(f"argument {what}", value, supported)


def _named_extents(x: Any) -> Any:
    """Arguments, with variables of symbolic shape in place of values whose type lacks extents."""
    if isinstance(x, (list, tuple)):
        return [_named_extents(v) for v in x]
    sized = isinstance(x, Value) and x.array is None and any(map(is_any, dims(x.type)))
    return Value(Var("sized", tensor_type(tuple(x.shape), x.dtype))) if sized else x


def as_result(result: Any) -> Any:
    """The results of a converter, with expressions as values."""
    if isinstance(result, np.ndarray):
        return Value(array=result)
    if isinstance(result, (Call, Expr)) and not isinstance(result, TupleWrapper):
        return Value(result)
    if isinstance(result, (TupleWrapper, list, tuple)):
        return [as_result(r) for r in result]
    return result
