"""Python's operators on expressions: operands are brought to one type, constants and identities fold at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir import DataType, FloatImm, IntImm, PrimExpr, PrimExprLike, as_prim_expr
from tilewright.ir.span import BaseSpan
from tilewright.tir import expr as E
from tilewright.tir.expr import Broadcast, Cast
from tilewright.tir.scalars import BINARY, BITWISE, converted, round_float, wrap_int


def const(value: Any, dtype: str | None = None, span: BaseSpan | None = None) -> PrimExpr:
    """A constant; the type follows from the value when none is given. Vector types give a Broadcast."""
    if dtype is None:
        if isinstance(value, (np.generic, np.ndarray)) and not isinstance(value, np.bool_):
            dtype = DataType(value.dtype.name)
        else:
            return as_prim_expr(value)
    kind = DataType(dtype)
    if kind.lanes > 1:
        return Broadcast(const(value, kind.element), kind.lanes)
    if kind.is_float:
        return FloatImm(kind, round_float(float(value), kind))
    return IntImm(kind, int(bool(value)) if kind.is_bool else wrap_int(int(value), kind))


_RANK = {"bool": 0, "uint": 1, "int": 2, "bfloat": 4, "float": 5}


def match_types(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Both operands in one type: scalars broadcast, constants follow, int follows float, narrow follows wide."""
    s, t = a.dtype, b.dtype
    if s is t:
        return a, b
    if s.lanes != t.lanes:
        if s.lanes == 1:
            a = Broadcast(cast_to(a, t.element), t.lanes) if _follows(a, t) else Broadcast(a, t.lanes)
        elif t.lanes == 1:
            b = Broadcast(cast_to(b, s.element), s.lanes) if _follows(b, s) else Broadcast(b, s.lanes)
        else:
            raise TypeError(f"vectors of {s.lanes} and {t.lanes} lanes do not combine: {a!r}, {b!r}")
        return match_types(a, b)
    if s.code == "handle" or t.code == "handle":
        raise TypeError(f"no arithmetic on handles: {a!r} ({s}), {b!r} ({t})")
    if s.is_float != t.is_float:
        return (cast_to(a, t), b) if t.is_float else (a, cast_to(b, s))
    if _is_const(a) is not _is_const(b) and s.is_float == t.is_float and not (s.is_bool or t.is_bool):
        constant, other = (a, b) if _is_const(a) else (b, a)
        if other.dtype.is_float or _fits(constant, other.dtype):
            same = cast_to(constant, other.dtype)
            return (same, b) if constant is a else (a, same)
    rank_s, rank_t = (s.bits, _RANK.get(s.code, 3)), (t.bits, _RANK.get(t.code, 3))
    wide = s if rank_s >= rank_t else t
    if {s.code, t.code} == {"int", "uint"} and s.bits == t.bits:
        wide = s if s.code == "uint" else t
    return cast_to(a, wide), cast_to(b, wide)


def _follows(scalar: PrimExpr, vector: DataType) -> bool:
    return _is_const(scalar) and (vector.is_float or not scalar.dtype.is_float)


def _is_const(e: PrimExpr) -> bool:
    return isinstance(e, (IntImm, FloatImm)) or (isinstance(e, Broadcast) and isinstance(e.value, (IntImm, FloatImm)))


def _fits(e: PrimExpr, dtype: DataType) -> bool:
    value = e.value if isinstance(e, Broadcast) else e
    return isinstance(value, IntImm) and wrap_int(value.value, dtype) == value.value


def cast_to(value: PrimExpr, dtype: str, span: BaseSpan | None = None) -> PrimExpr:
    """The value in another type; nothing is added when it has that type, constants fold."""
    kind = DataType(dtype)
    if value.dtype is kind:
        return value
    if isinstance(value, (IntImm, FloatImm)) and kind.lanes == 1 and kind.code != "handle":
        return const(converted(value.value, kind), kind)
    if isinstance(value, Broadcast) and kind.lanes == value.dtype.lanes:
        return Broadcast(cast_to(value.value, kind.element), value.lanes)
    if kind.lanes != value.dtype.lanes and value.dtype.lanes == 1:
        return Broadcast(cast_to(value, kind.element), kind.lanes)
    if kind.code == "handle" or value.dtype.code == "handle":
        return E.Call(kind, "reinterpret", (value,))
    return Cast(kind, value)


def _operands(a: Any, b: Any, what: str) -> tuple[PrimExpr, PrimExpr]:
    a_is, b_is = isinstance(a, PrimExpr), isinstance(b, PrimExpr)
    if a_is and b_is:
        return (a, b) if a.dtype is b.dtype else match_types(a, b)
    if a_is and type(b) is int and a.dtype.is_int and a.dtype.lanes == 1 and -128 <= b <= 127:
        return a, IntImm(a.dtype, b)
    if not a_is:
        a = as_prim_expr(a, f"left operand of {what}", _literal_dtype(a, b))
    if not b_is:
        b = as_prim_expr(b, f"right operand of {what}", _literal_dtype(b, a))
    return match_types(a, b)


def _literal_dtype(literal: Any, other: Any) -> str | None:
    """A Python number takes the type of the other operand, unless it is a float beside an integer."""
    dtype = getattr(other, "dtype", None)
    if (
        not isinstance(dtype, str)
        or isinstance(literal, (bool, np.bool_))
        or not isinstance(literal, (int, float, np.number))
    ):
        return None
    kind = DataType(dtype).element
    if kind.code in ("handle", "bool", "void"):
        return None
    if isinstance(literal, (float, np.floating)) and not kind.is_float:
        return None
    if kind.is_int or kind.is_uint:
        return kind if wrap_int(int(literal), kind) == int(literal) else None
    return kind


def _pair(a: PrimExpr, b: PrimExpr) -> tuple[int, int] | tuple[float, float] | None:
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value, b.value
    if isinstance(a, FloatImm) and isinstance(b, FloatImm):
        return a.value, b.value
    return None


def _folded(pair: tuple[int, int] | tuple[float, float], kind: type, dtype: DataType) -> PrimExpr:
    """The constant that an operation on two makes."""
    operation = BINARY[kind]
    fold = operation.floats if dtype.is_float else operation.integers
    assert fold is not None
    with np.errstate(all="ignore"):
        return const(fold(*pair), dtype)


def _zero(e: PrimExpr) -> bool:
    return isinstance(e, IntImm) and e.value == 0


def _one(e: PrimExpr) -> bool:
    return (isinstance(e, IntImm) and e.value == 1) or (isinstance(e, FloatImm) and e.value == 1.0)


def add(lhs: PrimExprLike, rhs: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
    """lhs + rhs."""
    p, q = _operands(lhs, rhs, "+")
    if _zero(p):
        return q
    if _zero(q):
        return p
    pair = _pair(p, q)
    return _folded(pair, E.Add, p.dtype) if pair else E.Add(p, q, span)


def subtract(lhs: PrimExprLike, rhs: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
    """lhs - rhs."""
    p, q = _operands(lhs, rhs, "-")
    if _zero(q):
        return p
    pair = _pair(p, q)
    return _folded(pair, E.Sub, p.dtype) if pair else E.Sub(p, q, span)


def multiply(lhs: PrimExprLike, rhs: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
    """lhs * rhs."""
    p, q = _operands(lhs, rhs, "*")
    if _one(p) or _zero(q):
        return q
    if _one(q) or _zero(p):
        return p
    pair = _pair(p, q)
    return _folded(pair, E.Mul, p.dtype) if pair else E.Mul(p, q, span)


def _check_divisor(b: PrimExpr, what: str) -> None:
    if _zero(b):
        raise ZeroDivisionError(f"{what} by the constant zero")


def div(a: PrimExprLike, b: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
    """a / b; integers round towards zero, as in C."""
    p, q = _operands(a, b, "division")
    _check_divisor(q, "division")
    if _one(q):
        return p
    pair = _pair(p, q)
    return _folded(pair, E.Div, p.dtype) if pair else E.Div(p, q, span)


def truncdiv(a: PrimExprLike, b: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
    """Integer a / b rounded towards zero."""
    a, b = _int_operands(a, b, "truncdiv")
    return div(a, b, span)


def truncmod(a: PrimExprLike, b: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
    """The remainder of truncdiv; it has the sign of a."""
    p, q = _int_operands(a, b, "truncmod")
    _check_divisor(q, "truncmod")
    pair = _pair(p, q)
    return _folded(pair, E.Mod, p.dtype) if pair else E.Mod(p, q, span)


def _int_operands(a: PrimExprLike, b: PrimExprLike, what: str) -> tuple[PrimExpr, PrimExpr]:
    p, q = _operands(a, b, what)
    if p.dtype.is_float:
        raise TypeError(f"{what} takes integers, but was given {p.dtype}: {p!r}, {q!r}")
    return p, q


def floordiv(a: PrimExprLike, b: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
    """a / b rounded down."""
    p, q = _operands(a, b, "floordiv")
    _check_divisor(q, "floordiv")
    if _one(q) and not p.dtype.is_float:
        return p
    if _zero(p):
        return p
    pair = _pair(p, q)
    return _folded(pair, E.FloorDiv, p.dtype) if pair and not p.dtype.is_float else E.FloorDiv(p, q, span)


def floormod(a: PrimExprLike, b: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
    """The remainder of floordiv; it has the sign of b."""
    p, q = _operands(a, b, "floormod")
    _check_divisor(q, "floormod")
    if _zero(p):
        return p
    if isinstance(q, IntImm) and q.value == 1:
        return const(0, p.dtype)
    pair = _pair(p, q)
    return _folded(pair, E.FloorMod, p.dtype) if pair and not p.dtype.is_float else E.FloorMod(p, q, span)


def minimum(a: PrimExprLike, b: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
    """The smaller of two values."""
    p, q = _operands(a, b, "min")
    if p is q:
        return p
    pair = _pair(p, q)
    return _folded(pair, E.Min, p.dtype) if pair and isinstance(p, IntImm) else E.Min(p, q, span)


def maximum(a: PrimExprLike, b: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
    """The larger of two values."""
    p, q = _operands(a, b, "max")
    if p is q:
        return p
    pair = _pair(p, q)
    return _folded(pair, E.Max, p.dtype) if pair and isinstance(p, IntImm) else E.Max(p, q, span)


def _compare(cls: type[E.CmpExpr]) -> Callable[..., PrimExpr]:
    what, fold = BINARY[cls].sign, BINARY[cls].integers

    def compare(a: PrimExprLike, b: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
        a, b = _operands(a, b, what)
        pair = _pair(a, b)
        if pair:
            return IntImm(E.BOOL, int(fold(*pair)))
        node: PrimExpr = cls(a, b, span)
        return node

    compare.__doc__ = f"a {what} b, as a bool."
    return compare


eq = _compare(E.EQ)
ne = _compare(E.NE)
less = _compare(E.LT)
less_equal = _compare(E.LE)
greater = _compare(E.GT)
greater_equal = _compare(E.GE)


BUILDERS: dict[type, Callable[..., PrimExpr]] = {
    E.Add: add,
    E.Sub: subtract,
    E.Mul: multiply,
    E.Div: div,
    E.Mod: truncmod,
    E.FloorDiv: floordiv,
    E.FloorMod: floormod,
    E.Min: minimum,
    E.Max: maximum,
    E.EQ: eq,
    E.NE: ne,
    E.LT: less,
    E.LE: less_equal,
    E.GT: greater,
    E.GE: greater_equal,
}
"""The function that makes a node of each binary operation, or what it folds to."""


def logical_and(a: PrimExprLike, b: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
    """a and b."""
    p, q = _operands(a, b, "and")
    if isinstance(p, IntImm):
        return q if p.value else p
    if isinstance(q, IntImm):
        return p if q.value else q
    return E.And(p, q, span)


def logical_or(a: PrimExprLike, b: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
    """a or b."""
    p, q = _operands(a, b, "or")
    if isinstance(p, IntImm):
        return p if p.value else q
    if isinstance(q, IntImm):
        return q if q.value else p
    return E.Or(p, q, span)


def conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    """The conditions whose conjunction this one is."""
    if isinstance(condition, E.And):
        return [*conjuncts(condition.a), *conjuncts(condition.b)]
    return [condition]


def logical_not(a: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
    """not a."""
    a = as_prim_expr(a, "operand of not")
    return IntImm(E.BOOL, int(not a.value)) if isinstance(a, IntImm) else E.Not(a, span)


def negate(a: PrimExpr) -> PrimExpr:
    """-a."""
    if isinstance(a, (IntImm, FloatImm)):
        return const(-a.value, a.dtype)
    return multiply(a, const(-1, a.dtype))


def _true_div(a: PrimExprLike, b: PrimExprLike) -> PrimExpr:
    a, b = _operands(a, b, "/")
    if not a.dtype.is_float:
        raise TypeError(
            f"/ on integers is ambiguous ({a!r} / {b!r}): use // or tir.floordiv to round down, tir.truncdiv to round towards zero"
        )
    return div(a, b)


def _swapped(f: Callable[[Any, Any], PrimExpr]) -> Callable[[Any, Any], PrimExpr]:
    return lambda b, a: f(a, b)


def _bitwise(name: str, logical: Callable[[Any, Any], PrimExpr] | None = None) -> Callable[..., PrimExpr]:
    fold = BITWISE[name].integers

    def apply(x: PrimExprLike, y: PrimExprLike, span: BaseSpan | None = None) -> PrimExpr:
        a, b = _int_operands(x, y, name)
        if logical is not None and a.dtype.is_bool:
            return logical(a, b)
        pair = _pair(a, b)
        return const(fold(*pair), a.dtype) if pair else E.Call(a.dtype, name, (a, b), span)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"{name.replace('_', ' ')} of two integers, element by element; of bools the connective."
    if logical is None:
        apply.__doc__ = f"{name.replace('_', ' ')} of two integers, element by element."
    return apply


def _no_truth(self: PrimExpr) -> bool:
    raise ValueError(
        f"the truth of the expression {self!r} is not known while the program is being built;"
        " use tir.if_then_else, tir.all or tir.any, or compare constants"
    )


def const_true(lanes: int = 1) -> PrimExpr:
    """The bool constant true."""
    return const(1, "bool") if lanes == 1 else Broadcast(const(1, "bool"), lanes)


bitwise_and = _bitwise("bitwise_and", logical_and)
bitwise_or = _bitwise("bitwise_or", logical_or)


def bitwise_not(x: Any, span: BaseSpan | None = None) -> PrimExpr:
    """All bits of an integer inverted; the logical not of a bool."""
    return ~as_prim_expr(x)


bitwise_xor = _bitwise("bitwise_xor")
shift_left = _bitwise("shift_left")
shift_right = _bitwise("shift_right")


def _or_notimplemented(f: Callable[[Any, Any], PrimExpr]) -> Callable[[Any, Any], Any]:
    def operator(self: PrimExpr, other: Any) -> Any:
        # te tensors and relay expressions on the right bring their own reflected operators.
        if getattr(other, "_reflects_operators", False):
            return NotImplemented
        return f(self, other)

    return operator


class EqualOp:
    """The result of `a == b`: as a bool it is identity, as an expression it is the comparison."""

    __slots__ = ("a", "b")

    def __init__(self, a: PrimExpr, b: PrimExprLike | None) -> None:
        self.a, self.b = a, b

    def __bool__(self) -> bool:
        return self.a is self.b

    __nonzero__ = __bool__

    def asobject(self) -> PrimExpr:
        return eq(self.a, self.b)

    def astype(self, dtype: str) -> PrimExpr:
        return self.asobject().astype(dtype)

    @property
    def dtype(self) -> DataType:
        return self.asobject().dtype


class NotEqualOp(EqualOp):
    """The result of `a != b`."""

    def __bool__(self) -> bool:
        return self.a is not self.b

    __nonzero__ = __bool__

    def asobject(self) -> PrimExpr:
        return ne(self.a, self.b)


def install_operators() -> None:
    """Gives PrimExpr Python's operators; constants compare by value, other expressions build comparisons."""
    table: dict[str, Callable[[Any, Any], PrimExpr]] = {
        "add": add,
        "sub": subtract,
        "mul": multiply,
        "truediv": _true_div,
        "floordiv": floordiv,
        "mod": floormod,
        "and": bitwise_and,
        "or": bitwise_or,
        "xor": bitwise_xor,
        "lshift": shift_left,
        "rshift": shift_right,
    }
    for cls in (PrimExpr, E.IterVar, EqualOp):
        for name, f in table.items():
            setattr(cls, f"__{name}__", _or_notimplemented(f))
            setattr(cls, f"__r{name}__", _swapped(f))
        for name, f in {"lt": less, "le": less_equal, "gt": greater, "ge": greater_equal}.items():
            setattr(cls, f"__{name}__", _or_notimplemented(f))
        setattr(cls, "__neg__", lambda self: negate(as_prim_expr(self)))  # noqa: B010
    setattr(E.IterVar, "__eq__", lambda self, other: EqualOp(self.var, _var_of(other)))  # noqa: B010
    setattr(E.IterVar, "__ne__", lambda self, other: NotEqualOp(self.var, _var_of(other)))  # noqa: B010
    setattr(E.IterVar, "__hash__", lambda self: id(self) >> 4)  # noqa: B010
    members: dict[str, Any] = {
        "__eq__": EqualOp,
        "__ne__": NotEqualOp,
        "__bool__": _no_truth,
        "__invert__": lambda self: (
            logical_not(self) if self.dtype.is_bool else E.Call(self.dtype, "bitwise_not", (self,))
        ),
        "astype": cast_to,
        "equal": eq,
    }
    for name, f in members.items():
        setattr(PrimExpr, name, (lambda g: lambda self, *a: g(self, *a))(f))
    for constant in (IntImm, FloatImm):
        setattr(constant, "__eq__", lambda self, other: eq(self, other) if _is_operand(other) else False)  # noqa: B010
        setattr(constant, "__ne__", lambda self, other: ne(self, other) if _is_operand(other) else True)  # noqa: B010
    setattr(IntImm, "__hash__", lambda self: self.value)  # noqa: B010
    setattr(FloatImm, "__hash__", lambda self: hash(self.value))  # noqa: B010
    setattr(FloatImm, "__bool__", lambda self: self.value != 0.0)  # noqa: B010
    setattr(IntImm, "__bool__", lambda self: self.value != 0)  # noqa: B010


def _var_of(value: Any) -> Any:
    return value.var if isinstance(value, E.IterVar) else value


def _is_operand(value: object) -> bool:
    return isinstance(value, (PrimExpr, int, float, np.number, E.IterVar, EqualOp))


install_operators()
