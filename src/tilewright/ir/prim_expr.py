"""Scalar expressions: their root, integer and float constants, ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from tilewright.ir.dtype import DataType
from tilewright.ir.span import BaseSpan
from tilewright.node import Node, Skip, derived, register_converter, register_plain_form


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
        def __add__(self, other: PrimExprLike) -> PrimExpr: ...
        def __radd__(self, other: PrimExprLike) -> PrimExpr: ...
        def __sub__(self, other: PrimExprLike) -> PrimExpr: ...
        def __rsub__(self, other: PrimExprLike) -> PrimExpr: ...
        def __mul__(self, other: PrimExprLike) -> PrimExpr: ...
        def __rmul__(self, other: PrimExprLike) -> PrimExpr: ...
        def __truediv__(self, other: PrimExprLike) -> PrimExpr: ...
        def __rtruediv__(self, other: PrimExprLike) -> PrimExpr: ...
        def __floordiv__(self, other: PrimExprLike) -> PrimExpr: ...
        def __rfloordiv__(self, other: PrimExprLike) -> PrimExpr: ...
        def __mod__(self, other: PrimExprLike) -> PrimExpr: ...
        def __rmod__(self, other: PrimExprLike) -> PrimExpr: ...
        def __lshift__(self, other: PrimExprLike) -> PrimExpr: ...
        def __rlshift__(self, other: PrimExprLike) -> PrimExpr: ...
        def __rshift__(self, other: PrimExprLike) -> PrimExpr: ...
        def __rrshift__(self, other: PrimExprLike) -> PrimExpr: ...
        def __and__(self, other: PrimExprLike) -> PrimExpr: ...
        def __rand__(self, other: PrimExprLike) -> PrimExpr: ...
        def __or__(self, other: PrimExprLike) -> PrimExpr: ...
        def __ror__(self, other: PrimExprLike) -> PrimExpr: ...
        def __xor__(self, other: PrimExprLike) -> PrimExpr: ...
        def __rxor__(self, other: PrimExprLike) -> PrimExpr: ...
        def __lt__(self, other: PrimExprLike) -> PrimExpr: ...
        def __le__(self, other: PrimExprLike) -> PrimExpr: ...
        def __gt__(self, other: PrimExprLike) -> PrimExpr: ...
        def __ge__(self, other: PrimExprLike) -> PrimExpr: ...
        def __neg__(self) -> PrimExpr: ...
        def __invert__(self) -> PrimExpr: ...
        def _sort(self) -> PrimExpr: ...
        def astype(self, dtype: str, span: BaseSpan | None = None) -> PrimExpr: ...
        def equal(self, other: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr: ...


class AsPrimExpr(Protocol):
    """What stands for an expression: an iteration variable, a comparison, a slice of a tensor."""

    def asobject(self) -> PrimExpr: ...


PrimExprLike = PrimExpr | int | float | np.number[Any] | np.bool_ | AsPrimExpr
"""What the operators of expressions take beside one: `as_prim_expr` turns it into an expression."""


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


def _python_value(imm: IntImm) -> int | bool | None:
    """What Python's numbers become where they are expressions: attributes and annotations hold either, and print the same."""
    return imm.value if imm.dtype == "int32" else bool(imm.value) if imm.dtype == "bool" else None


register_plain_form(IntImm, _python_value)


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


def _one_type(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
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
