"""Computes of two tensors, with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, overload

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.lang import compute, tir
from tilewright.topi.utils import Dim, as_int, known_equal, shape_of, to

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr, PrimExprLike
    from tilewright.tir.expr import Var


def broadcast_shape(*shapes: Sequence[Dim]) -> list[Dim]:
    """The common shape of broadcast tensors. Raises ValueError if two static extents differ and neither is 1."""
    rank = max(len(s) for s in shapes)
    result: list[Dim] = []
    for axis in range(rank):
        best: Dim = 1
        for shape in shapes:
            at = axis - (rank - len(shape))
            d = as_int(shape[at]) if at >= 0 else 1
            if isinstance(d, int) and d == 1:
                continue
            if isinstance(best, int) and best == 1:
                best = d
            elif isinstance(d, int) and isinstance(best, int):
                if d != best:
                    raise ValueError(
                        f"shapes {list(map(list, shapes))} do not broadcast: {best} against {d} at axis {axis}"
                    )
            elif isinstance(d, int):
                best = d  # a static extent above 1 takes precedence over a dynamic one
            elif not isinstance(best, int) and not known_equal(best, d):
                best = tir.Select(best == tir.const(1, best.dtype), d, best)
        result.append(best)
    return result


def broadcast_index(shape: Sequence[Dim], out: Sequence[Dim], index: Sequence[Any]) -> list[Any]:
    """The index into `shape` of element `index` of the broadcast `out`."""
    skip = len(out) - len(shape)
    picked = []
    for d, o, i in zip(shape, list(out)[skip:], list(index)[skip:], strict=True):
        d = as_int(d)
        if isinstance(d, int):
            picked.append(0 if d == 1 and not known_equal(o, 1) else i)
        else:
            # A dynamic extent may be 1 at run time, so the index is chosen then, unless the result has the same extent.
            picked.append(i if known_equal(d, o) else tir.if_then_else(d == 1, 0, i))
    return picked


def apply(f: Callable[..., Any], args: Sequence[Any], name: str) -> te.Tensor:
    """f applied to broadcast tensors. Numbers and expressions among `args` are the same for all elements."""
    tensors = [a for a in args if isinstance(a, te.Tensor)]
    dtype = tensors[0].dtype
    shapes = [shape_of(t) for t in tensors]
    out = broadcast_shape(*shapes)
    same = all(len(s) == len(out) and all(known_equal(a, b) for a, b in zip(s, out, strict=True)) for s in shapes)

    def element(*i: Var) -> Any:
        values = [a(*broadcast_index(shape_of(a), out, i)) if isinstance(a, te.Tensor) else to(a, dtype) for a in args]
        return f(*values)

    return compute(out, element, name=name, tag=tag.ELEMWISE if same else tag.BROADCAST)


def _of(f: Callable[..., Any], args: Sequence[Any], name: str) -> Any:
    """f applied to broadcast tensors, or to expressions; numbers take the type of the first one that has a type."""
    if any([isinstance(a, te.Tensor) for a in args]):
        return apply(f, args, name)
    dtype = next((a.dtype for a in args if not isinstance(a, (int, float))), None)
    return f(*[tir.const(a, dtype) if isinstance(a, (int, float)) else a for a in args])


class Binary(Protocol):
    """A compute of two tensors, or of a tensor and an expression; of two expressions, it is an expression."""

    @overload
    def __call__(self, lhs: te.Tensor, rhs: Any) -> te.Tensor: ...

    @overload
    def __call__(self, lhs: Any, rhs: te.Tensor) -> te.Tensor: ...

    @overload
    def __call__(self, lhs: PrimExprLike, rhs: PrimExprLike) -> PrimExpr: ...


def _binary(name: str, f: Callable[[Any, Any], Any], doc: str) -> Binary:
    def compute(lhs: Any, rhs: Any) -> Any:
        return _of(f, (lhs, rhs), f"T_{name}")

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = doc
    return compute


def divided(f: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """The integer quotient f(a, b). It is 0 if b is 0, as in NumPy; the lowest integer divided by -1 is itself.

    Processors trap in both cases, so the divisor is replaced there. A divisor that is known at compile time adds no work.
    """
    odd = _trapping(b)
    if odd is None:
        return f(a, b)
    # For the divisors 0 and -1 the quotient equals the product.
    return tir.Select(odd, a * b, f(a, tir.Select(odd, tir.const(1, b.dtype), b)))


def remainder(f: Callable[[Any, Any], Any], a: PrimExprLike, b: Any) -> Any:
    """The integer remainder f(a, b). It is 0 if b is 0, as in NumPy, or -1."""
    odd = _trapping(b)
    # Divisors 0 and -1 are replaced by 1, whose remainder is 0 too.
    return f(a, b) if odd is None else f(a, tir.Select(odd, tir.const(1, b.dtype), b))


def _trapping(b: PrimExpr) -> Any:
    """The condition under which processors trap at a division by b; None if they never do."""
    if isinstance(b, tir.IntImm) and b.value not in (0, -1):
        return None
    zero = tir.EQ(b, tir.const(0, b.dtype))
    return zero if b.dtype.is_uint else tir.Or(zero, tir.EQ(b, tir.const(-1, b.dtype)))


def _divide(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    # The classic operator truncates integers towards zero, as in C.
    return a / b if "float" in a.dtype else divided(tir.truncdiv, a, b)


def _floor_divide(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return tir.floor(a / b) if "float" in a.dtype else divided(tir.floordiv, a, b)


def _floor_mod(a: PrimExpr, b: PrimExpr) -> Any:
    if "float" not in a.dtype:
        return remainder(tir.floormod, a, b)
    # fmod is exact even if a / b is not, and for an infinite b.
    rest = tir.fmod(a, b)
    zero = tir.const(0, a.dtype)
    turned = tir.all(tir.NE(rest, zero), tir.NE(rest < zero, b < zero))
    return tir.Select(turned, rest + b, rest)


def _mod(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return tir.fmod(a, b) if "float" in a.dtype else remainder(tir.truncmod, a, b)


def _power(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if isinstance(b, tir.FloatImm):
        if b.value == 2.0:
            return a * a
        if b.value == 3.0:
            return a * a * a
        if b.value == 0.5:
            return tir.sqrt(a)
        if b.value == 1.0:
            return a
    return tir.pow(a, b)


add = _binary("add", lambda a, b: a + b, "lhs + rhs.")
subtract = _binary("subtract", lambda a, b: a - b, "lhs - rhs.")
multiply = _binary("multiply", lambda a, b: a * b, "lhs * rhs.")
divide = _binary("divide", _divide, "lhs / rhs; integers truncate towards zero.")
floor_divide = _binary("floor_divide", _floor_divide, "floor(lhs / rhs).")
mod = _binary("mod", _mod, "Remainder with the sign of lhs.")
floor_mod = _binary("floor_mod", _floor_mod, "Remainder with the sign of rhs.")
maximum = _binary("maximum", tir.max, "The larger.")
minimum = _binary("minimum", tir.min, "The smaller.")
power = _binary("power", _power, "lhs to the rhs.")
equal = _binary("equal", lambda a, b: tir.EQ(a, b), "lhs == rhs (bool).")
not_equal = _binary("not_equal", lambda a, b: tir.NE(a, b), "lhs != rhs (bool).")
less = _binary("less", lambda a, b: tir.LT(a, b), "lhs < rhs (bool).")
less_equal = _binary("less_equal", lambda a, b: tir.LE(a, b), "lhs <= rhs (bool).")
greater = _binary("greater", lambda a, b: tir.GT(a, b), "lhs > rhs (bool).")
greater_equal = _binary("greater_equal", lambda a, b: tir.GE(a, b), "lhs >= rhs (bool).")
logical_and = _binary("logical_and", lambda a, b: tir.And(a, b), "lhs and rhs (bool).")
logical_or = _binary("logical_or", lambda a, b: tir.Or(a, b), "lhs or rhs (bool).")
logical_xor = _binary(
    "logical_xor", lambda a, b: tir.NE(tir.Cast("int8", a), tir.Cast("int8", b)), "One of lhs, rhs, not both (bool)."
)
bitwise_and = _binary("bitwise_and", lambda a, b: a & b, "Bits in both.")
bitwise_or = _binary("bitwise_or", lambda a, b: a | b, "Bits in either.")
bitwise_xor = _binary("bitwise_xor", lambda a, b: a ^ b, "Bits in one only.")
left_shift = _binary("left_shift", lambda a, b: a << b, "lhs shifted to higher bits by rhs.")
right_shift = _binary("right_shift", lambda a, b: a >> b, "lhs shifted to lower bits by rhs; the sign is kept.")
squared_difference = _binary("squared_difference", lambda a, b: (a - b) * (a - b), "(lhs - rhs) squared.")


def logical_not(data: Any) -> Any:
    """Not data (bool)."""
    return _of(tir.Not, (data,), "T_logical_not")


def bitwise_not(data: Any) -> Any:
    """All bits of data inverted."""
    return _of(tir.bitwise_not, (data,), "T_bitwise_not")


def where(condition: te.Tensor, x: te.Tensor, y: te.Tensor) -> te.Tensor:
    """x where the condition holds, else y. All three are broadcast."""

    def choose(c: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        # Both loads are always valid, so Select, which has no branch and can be vectorised, is correct.
        return tir.Select(c if c.dtype == "bool" else tir.NE(c, tir.const(0, c.dtype)), a, b)

    return apply(choose, (condition, x, y), "T_where")


def broadcast_to(data: te.Tensor, shape: Sequence[Dim]) -> te.Tensor:
    """data broadcast to `shape`."""
    out = [as_int(d) for d in shape]
    own = shape_of(data)
    return compute(out, lambda *i: data(*broadcast_index(own, out, i)), name="T_broadcast_to", tag=tag.BROADCAST)


OPERATORS = {"add": add, "subtract": subtract, "multiply": multiply, "divide": divide}
"""The computes of Python's operators on two tensors. te imports them from here."""
