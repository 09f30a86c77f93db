"""Roots of all expressions, integer and float constants, ranges, operators and functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from tilewright.ir.dtype import DataType
from tilewright.ir.span import BaseSpan
from tilewright.ir.types import Type
from tilewright.node import Node, Skip, derived, register_converter


class BaseExpr(Node):
    """Root of expressions of every dialect."""


class PrimExpr(BaseExpr):
    """A scalar or vector value; `dtype` is its data type. Python's operators come from the tir room."""

    dtype: DataType = derived()

    # By identity, as object's, which takes a tenth of the time of a method in Python.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Any:
        return self is other

    if TYPE_CHECKING:
        # Installed by tir/arithmetic.py; declared here for the type checker only.
        def __add__(self, other: Any) -> Any: ...
        def __radd__(self, other: Any) -> Any: ...
        def __sub__(self, other: Any) -> Any: ...
        def __rsub__(self, other: Any) -> Any: ...
        def __mul__(self, other: Any) -> Any: ...
        def __rmul__(self, other: Any) -> Any: ...
        def __truediv__(self, other: Any) -> Any: ...
        def __rtruediv__(self, other: Any) -> Any: ...
        def __floordiv__(self, other: Any) -> Any: ...
        def __rfloordiv__(self, other: Any) -> Any: ...
        def __mod__(self, other: Any) -> Any: ...
        def __rmod__(self, other: Any) -> Any: ...
        def __lshift__(self, other: Any) -> Any: ...
        def __rlshift__(self, other: Any) -> Any: ...
        def __rshift__(self, other: Any) -> Any: ...
        def __rrshift__(self, other: Any) -> Any: ...
        def __and__(self, other: Any) -> Any: ...
        def __rand__(self, other: Any) -> Any: ...
        def __or__(self, other: Any) -> Any: ...
        def __ror__(self, other: Any) -> Any: ...
        def __xor__(self, other: Any) -> Any: ...
        def __rxor__(self, other: Any) -> Any: ...
        def __lt__(self, other: Any) -> Any: ...
        def __le__(self, other: Any) -> Any: ...
        def __gt__(self, other: Any) -> Any: ...
        def __ge__(self, other: Any) -> Any: ...
        def __neg__(self) -> Any: ...
        def __invert__(self) -> Any: ...


def as_prim_expr(value: Any, where: str = "expression", dtype: str | None = None) -> PrimExpr:
    """A PrimExpr from a Python or NumPy number, a string, or an object with `asobject()`."""
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, (bool, np.bool_)):
        return IntImm(dtype or "bool", int(value))
    if isinstance(value, (int, np.integer)):
        if dtype is not None and DataType(dtype).is_float:
            return FloatImm(DataType(dtype), float(value))
        return IntImm(dtype or ("int32" if -(2**31) <= value < 2**31 else "int64"), int(value))
    if isinstance(value, (float, np.floating)):
        return FloatImm(DataType(dtype or "float32"), float(value))
    converted = getattr(value, "asobject", None)
    if converted is not None:
        return as_prim_expr(converted(), where)
    for cls, convert in _foreign:
        if isinstance(value, cls):
            found: PrimExpr = convert(value)
            return found
    raise TypeError(f"{where} must be an expression or a number, but was given {type(value).__name__}: {value!r}")


_foreign: list[tuple[type, Any]] = []


def register_foreign_expr(cls: type, convert: Any) -> None:
    """Lets values of `cls` stand where expressions are expected (strings, iteration variables, tensor slices)."""
    _foreign.append((cls, convert))


register_converter("PrimExpr", PrimExpr, as_prim_expr)


def _check_int(value: int, dtype: DataType) -> int:
    if dtype.is_bool:
        return int(bool(value))
    if dtype.code == "int" and not -(1 << (dtype.bits - 1)) <= value < 1 << (dtype.bits - 1):
        raise ValueError(
            f"{value} does not fit in {dtype}: the range is {-(1 << (dtype.bits - 1))}..{(1 << (dtype.bits - 1)) - 1}"
        )
    if dtype.code == "uint" and not 0 <= value < 1 << dtype.bits:
        raise ValueError(f"{value} does not fit in {dtype}: the range is 0..{(1 << dtype.bits) - 1}")
    return value


class IntImm(PrimExpr, key="IntImm"):
    """An integer constant. Small int32 and int64 ones are shared objects."""

    dtype: DataType
    value: int
    span: Skip[BaseSpan | None] = None

    _interned: ClassVar[dict[tuple[str, int], IntImm]] = {}

    def __new__(cls, dtype: str, value: int, span: BaseSpan | None = None) -> Self:
        found = cls._interned.get((dtype, value)) if type(value) is int else None
        return found if found is not None else super().__new__(cls)  # type: ignore[return-value]

    def __init__(self, dtype: str, value: int, span: BaseSpan | None = None) -> None:
        if hasattr(self, "value"):
            return
        kind = dtype if isinstance(dtype, DataType) else DataType(dtype)
        if not (kind.is_int or kind.is_uint) or kind.lanes != 1:
            raise TypeError(f"IntImm.dtype must be a scalar integer type, but is {kind}")
        if not isinstance(value, (int, np.integer, IntImm)):
            raise TypeError(f"IntImm.value must be an int, but was given {type(value).__name__}: {value!r}")
        self.dtype, self.value, self.span = kind, _check_int(int(value), kind), span
        if -16 <= self.value <= 1024:
            self._interned.setdefault((kind, self.value), self)

    @classmethod
    def from_fields(cls, *values: Any) -> Self:
        return cls(*values)

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return self.value != 0

    def __hash__(self) -> int:
        return self.value


class FloatImm(PrimExpr, key="FloatImm"):
    """A floating point constant; `value` is held as a Python float."""

    dtype: DataType
    value: float
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        if not self.dtype.is_float or self.dtype.lanes != 1:
            raise TypeError(f"FloatImm.dtype must be a scalar floating point type, but is {self.dtype}")
        if type(self.value) is not float:
            self.value = float(self.value)

    def __float__(self) -> float:
        return self.value


class Range(Node, key="Range"):
    """The half-open range [min, min + extent). `Range(end)` and `Range(begin, end)` count as in Python."""

    min: PrimExpr
    extent: PrimExpr
    span: Skip[BaseSpan | None] = None

    def __init__(self, begin: Any, end: Any = None, span: BaseSpan | None = None) -> None:
        if end is None:
            extent = as_prim_expr(begin, "Range.extent")
            begin = IntImm(extent.dtype, 0)
        else:
            begin, end = _one_type(as_prim_expr(begin, "Range.begin"), as_prim_expr(end, "Range.end"))
            extent = end if isinstance(begin, IntImm) and begin.value == 0 else end - begin
        self._build(begin, extent, span)

    @staticmethod
    def from_min_extent(min_value: Any, extent: Any, span: BaseSpan | None = None) -> Range:
        """[min_value, min_value + extent)."""
        return Range.from_fields(
            *_one_type(as_prim_expr(min_value, "Range.min"), as_prim_expr(extent, "Range.extent")), span
        )


def _one_type(a: PrimExpr, b: PrimExpr) -> tuple[Any, Any]:
    """Two bounds; a constant takes the type of the other one, as a Python number does in arithmetic."""
    if a.dtype is not b.dtype:
        if isinstance(a, IntImm) and b.dtype.is_int:
            return IntImm(b.dtype, a.value), b
        if isinstance(b, IntImm) and a.dtype.is_int:
            return a, IntImm(a.dtype, b.value)
    return a, b


def _as_range(value: Any, where: str) -> Range:
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return Range(value[0], value[1])
    raise TypeError(f"{where} must be a Range or a (begin, end) pair, but was given {value!r}")


register_converter("Range", Range, _as_range)


_text_makers: list[Any] = []


def install_astext(make: Any) -> None:
    """Makes `make(node, show_meta_data, annotate)` the text that `astext` answers for expressions and modules."""
    _text_makers[:] = [make]


def text_of(node: Any, show_meta_data: bool, annotate: Any = None) -> str:
    """The text of an expression or a module, by the dialect that installed one, else its repr."""
    return str(_text_makers[0](node, show_meta_data, annotate)) if _text_makers else repr(node)


class RelayExpr(BaseExpr):
    """An expression of the graph dialects."""

    __slots__ = ("_checked_type",)

    def astext(self, show_meta_data: bool = True, annotate: Any = None) -> str:
        """The expression as text; `show_meta_data` appends the values of constants, `annotate(call)` is a comment at each
        call."""
        return text_of(self, show_meta_data, annotate)

    @property
    def checked_type(self) -> Type:
        """The type that type inference found. Raises ValueError before it ran."""
        found: Type | None = getattr(self, "_checked_type", None)
        if found is None:
            raise ValueError(
                "the type checker has not populated the checked_type of this expression; run InferType first"
            )
        return found


class GlobalVar(RelayExpr, key="GlobalVar"):
    """The name of a function of a module."""

    name_hint: str

    def _derive(self) -> None:
        if not isinstance(self.name_hint, str):
            raise TypeError(f"the name of a GlobalVar must be a string, but is {self.name_hint!r}")

    def __call__(self, *args: Any) -> Any:
        return _call_global(self, args)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, GlobalVar) and self.name_hint == other.name_hint)

    def __hash__(self) -> int:
        return hash(self.name_hint)


_call_builders: list[Any] = []


def register_global_call(accepts: Any, build: Any) -> None:
    """How `gvar(*args)` becomes a call node, by dialect: the first whose `accepts(args)` holds builds it."""
    _call_builders.append((accepts, build))


def _call_global(gvar: GlobalVar, args: tuple[Any, ...]) -> Any:
    for accepts, build in _call_builders:
        if accepts(args):
            return build(gvar, args)
    raise TypeError(f"no dialect calls {gvar.name_hint} with arguments of types {[type(a).__name__ for a in args]}")


class Op(RelayExpr, key="Op"):
    """An operator or intrinsic, known by its name; one object per name."""

    name: str

    _known: ClassVar[dict[str, Op]] = {}
    _properties: ClassVar[dict[tuple[str, str], Any]] = {}

    def __new__(cls, name: str) -> Self:
        return cls._known.get(name) or super().__new__(cls)  # type: ignore[return-value]

    def _derive(self) -> None:
        self._known[self.name] = self

    @classmethod
    def restore(cls, values: list[Any]) -> Self:
        return cls(*values)

    @staticmethod
    def get(name: str) -> Op:
        """The operator of that name. Raises AttributeError when none is registered."""
        op = Op._known.get(name)
        if op is None:
            import difflib

            near = difflib.get_close_matches(name, Op._known, n=3)
            raise AttributeError(f"no operator is named {name!r}" + (f"; near it: {', '.join(near)}" if near else ""))
        return op

    @staticmethod
    def list_op_names() -> list[str]:
        return sorted(Op._known)

    def get_attr(self, attr_name: str) -> Any:
        return self._properties.get((self.name, attr_name))

    def set_attr(self, attr_name: str, value: Any) -> None:
        self._properties[self.name, attr_name] = value

    # What programs that make operators say of them (relay.op.op.register).

    def add_type_rel(self, rel_name: str, type_rel_func: Any = None) -> None:
        """The type relation: `type_rel_func(types of the arguments, attrs)` to the result's type, or one known by name."""
        self.set_attr("TTypeRel", type_rel_func if type_rel_func is not None else rel_name)

    def add_argument(self, name: str, type: str, description: str = "") -> None:
        """An argument: its name, kind ("Tensor") and what it is."""
        self.set_attr("TArguments", (*self.arguments, (name, type, description)))

    def set_num_inputs(self, n: int) -> None:
        self.set_attr("num_inputs", n)

    def set_support_level(self, level: int) -> None:
        self.set_attr("support_level", level)

    def set_attrs_type_key(self, key: str) -> None:
        self.set_attr("attrs_type_key", key)

    @property
    def arguments(self) -> tuple[tuple[str, str, str], ...]:
        """The arguments that were added."""
        return self.get_attr("TArguments") or ()

    @property
    def description(self) -> str:
        return str(self.get_attr("description") or "")

    @property
    def num_inputs(self) -> int:
        """How many arguments it takes; -1 where none has said it."""
        found = self.get_attr("num_inputs")
        return -1 if found is None else int(found)

    @property
    def support_level(self) -> int:
        return int(self.get_attr("support_level") or 10)

    def reset_attr(self, attr_name: str) -> None:
        """Forget an attribute."""
        self._properties.pop((self.name, attr_name), None)

    def has_attr(self, attr_name: str) -> bool:
        return (self.name, attr_name) in self._properties

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return hash(self.name)


class BaseFunc(RelayExpr):
    """Root of functions. `attrs` is a mapping; `with_attr` gives a copy."""

    def with_attr(self, key_or_attrs: str | Mapping[str, Any], value: Any = None) -> Self:
        attrs: Mapping[str, Any] = self.attrs  # type: ignore[attr-defined]
        new = {key_or_attrs: value} if isinstance(key_or_attrs, str) else key_or_attrs
        return self.replace(attrs={**attrs, **new})

    def with_attrs(self, attrs: Mapping[str, Any]) -> Self:
        return self.with_attr(attrs)

    def without_attr(self, key: str) -> Self:
        attrs: Mapping[str, Any] = self.attrs  # type: ignore[attr-defined]
        return self.replace(attrs={k: v for k, v in attrs.items() if k != key}) if key in attrs else self


register_converter("BaseFunc", BaseFunc)
