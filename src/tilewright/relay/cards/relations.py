"""Type rules that many operators share. Dimensions are ints, or symbolic (tir.Var, tir expressions, tir.Any)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tilewright.arith import Analyzer
from tilewright.ir import DataType, IntImm, PrimExpr, TensorType, TupleType, Type
from tilewright.node import structural_equal
from tilewright.relay.cards.card import TypeRuleError, need
from tilewright.tir import EQ, Select, Var
from tilewright.tir import Any as AnyDim
from tilewright.tir.stmt_functor import substitute

Dim = int | PrimExpr
MOST_AXES = 64
"""Axes of a tensor, as many as NumPy's arrays may have."""
MOST_ELEMENTS = (1 << 59) - 1
"""Elements of a tensor, zeros among its dimensions left out: bytes and offsets of 8-byte elements then fit in int64."""


def dims(t: TensorType) -> list[Dim]:
    """The shape with static dimensions as Python ints."""
    return [d.value if type(d) is IntImm else d for d in t.shape]


def need_count(name: str, value: Sequence[int], counts: Sequence[int]) -> None:
    """Refuses an attribute whose number of values is not in `counts`."""
    wanted = " or ".join([", ".join(map(str, counts[:-1])), str(counts[-1])]) if len(counts) > 1 else str(counts[0])
    need(
        len(value) in counts,
        f"the attribute {name} must have {wanted} number{'' if wanted == '1' else 's'}",
        f"it has {len(value)}: {tuple(value)}",
    )


def each(value: Sequence[int], count: int, name: str) -> list[int]:
    """One number for each of `count` axes: the attribute's, or its only number for all. Raises TypeRuleError for another number of
    values."""
    need_count(name, value, sorted({1, count}))
    return list(value) * count if len(value) == 1 else list(value)


def is_any(d: Dim) -> bool:
    """Whether nothing is known of the dimension."""
    return isinstance(d, AnyDim)


def known_extent(d: Dim) -> int:
    """A dimension that must be a number, as an int. Raises TypeRuleError for another."""
    if not isinstance(d, (int, IntImm)):
        raise TypeRuleError("the dimension must be known", f"it is {d}")
    return int(d)


def is_static(t: Type) -> bool:
    """Whether all dimensions of a tensor (or of all tensors in a tuple) are known."""
    if isinstance(t, TupleType):
        return all([is_static(f) for f in t.fields])
    return isinstance(t, TensorType) and all([type(d) is IntImm for d in t.shape])


def known_equal(a: Dim, b: Dim) -> bool:
    """Whether two dimensions are certainly equal. Any is not certainly equal to anything."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if isinstance(a, IntImm) or isinstance(b, IntImm):
        return isinstance(a, (int, IntImm)) and isinstance(b, (int, IntImm)) and int(a) == int(b)
    return not is_any(a) and not is_any(b) and (a is b or structural_equal(a, b))


def nonnegative(d: Any) -> bool:
    """Whether an extent or a value is certainly 0 or more."""
    if isinstance(d, (int, IntImm)):
        return int(d) >= 0
    return not is_any(d) and Analyzer().const_int_bound(d).min_value >= 0


class Assumption:
    """Two dimensions that a type rule assumes to be equal, or one of which may also be 1. equal: expressions that are equal if the
    rule holds. rule: the rule in words, with {0} and {1} for the two dimensions."""

    __slots__ = ("dims", "equal", "rule")

    def __init__(self, a: Dim, b: Dim, one_allowed: bool, rule: str) -> None:
        x, y = as_dim(a), as_dim(b)
        self.dims, self.rule = (x, y), f"{rule} or 1" if one_allowed else rule
        self.equal = (x, y)
        if one_allowed:
            self.equal = (unless_one(x, y), unless_one(y, x))

    def text(self, names: Mapping[Any, PrimExpr]) -> str:
        """The rule in words, with the caller's names of its variables."""
        return self.rule.format(*[substitute(d, dict(names)) for d in self.dims])


def unless_one(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The extent after broadcasting: `b` if `a` is 1, else `a`."""
    if isinstance(a, IntImm):
        return a
    one = IntImm(a.dtype, 1)
    # What b is then may well be 1 too.
    analyzer = Analyzer()
    if isinstance(a, Var):
        then = analyzer.simplify(substitute(b, {a: one}))
    else:
        with analyzer.constraint_scope(EQ(a, one)):
            then = analyzer.simplify(b)
    if isinstance(then, IntImm) and then.value == 1:
        return a
    return Select(EQ(a, one), b, a)


_assumed: ContextVar[list[Assumption] | None] = ContextVar("assumed", default=None)


@contextmanager
def assumptions() -> Iterator[list[Assumption]]:
    """Collects the assumptions of type rules about unknown dimensions, which a compiler of programs with dynamic sizes must check
    at run time. Dimensions of which nothing is known are omitted."""
    found: list[Assumption] = []
    token = _assumed.set(found)
    try:
        yield found
    finally:
        _assumed.reset(token)


def assume(a: Dim, b: Dim, one_allowed: bool = False, rule: str = "the sizes {0} and {1} must be equal") -> None:
    """Records that a rule assumes two dimensions to be equal (or one of them to be 1)."""
    found = _assumed.get()
    if found is None or is_any(a) or is_any(b) or known_equal(a, b):
        return
    made = Assumption(a, b, one_allowed, rule)
    if not any([structural_equal(made.equal, other.equal) for other in found]):
        found.append(made)


def as_dim(d: Dim) -> PrimExpr:
    """A dimension as an expression."""
    return IntImm("int64", d) if isinstance(d, int) else d


def may_equal(a: Dim, b: Dim) -> bool:
    """Whether two dimensions can be equal: False only for two different numbers. A rule that asks assumes that they are."""
    if isinstance(a, (int, IntImm)) and isinstance(b, (int, IntImm)):
        return int(a) == int(b)
    assume(a, b)
    return True


def merge_dim(a: Dim, b: Dim) -> Dim | None:
    """The dimension that equals both: a number takes precedence over a symbol, a symbol over Any. None for two different numbers."""
    if not may_equal(a, b):
        return None
    if isinstance(a, (int, IntImm)) or is_any(b):
        return a
    return b


def normal_axis(axis: int, ndim: int, name: str = "axis", arg: int | None = 0) -> int:
    """The axis counted from the front. Raises TypeRuleError if it is out of range."""
    need(
        -ndim <= axis < ndim,
        f"{name} must lie in [{-ndim}, {ndim}) for a tensor of {ndim} dimensions",
        f"it is {axis}",
        arg,
    )
    return axis % ndim


def tensor(t: Type, arg: int | None = None, ndim: int | None = None) -> TensorType:
    """`t` as a tensor type (of `ndim` dimensions). Raises TypeRuleError otherwise."""
    if not isinstance(t, TensorType):
        raise TypeRuleError("the argument must be a tensor", f"it is {t}", arg)
    if ndim is not None and len(t.shape) != ndim:
        # The text of a type is costly, and this runs for every argument of every call.
        raise TypeRuleError(f"the argument must have {ndim} dimensions", f"it has {len(t.shape)}: {t}", arg)
    return t


def tensor_type(shape: Iterable[Any], dtype: str) -> TensorType:
    """The tensor type of these dimensions (ints or symbols, expressions in their simplest form). Raises TypeRuleError for too
    many axes, and where no memory could hold the tensor's nonzero dimensions."""
    extents = tuple([simplest(d) for d in shape])
    need(len(extents) <= MOST_AXES, f"a tensor must have {MOST_AXES} axes at most", f"it has {len(extents)}")
    if math.prod([d for d in extents if isinstance(d, int) and d > 0]) > MOST_ELEMENTS:
        raise TypeRuleError(
            "the dimensions of a tensor must have a product below 2^59", f"they are {shape_text(extents)}"
        )
    return TensorType(extents, DataType(dtype))


def simplest(d: Any) -> Any:
    """A dimension in its simplest form, in which equal dimensions look equal."""
    if not isinstance(d, PrimExpr) or isinstance(d, (IntImm, Var, AnyDim)):
        return d
    return Analyzer().simplify(d)


def same_dtype(*types: TensorType) -> str:
    """The common dtype. Raises TypeRuleError, with the first argument that differs."""
    for i, t in enumerate(types):
        if t.dtype != types[0].dtype:
            finding = f"the first is {types[0].dtype} and this one is {t.dtype}"
            raise TypeRuleError("all arguments must have one dtype", finding, i, "Insert relay.cast")
    return types[0].dtype


def product_dtype(a: TensorType, b: TensorType) -> str:
    """The dtype of products of two tensors: their common dtype. Signed and unsigned 8-bit integers can be multiplied; the result
    then has the dtype of the first, unless it has a dtype of its own."""
    types = {str(t.dtype) for t in (a, b)}
    return str(a.dtype) if types == {"int8", "uint8"} else same_dtype(a, b)


def broadcast_shapes(a: Sequence[Dim], b: Sequence[Dim]) -> list[Dim]:
    """The shape after NumPy's broadcasting. A symbol and 1 give the symbol; a symbol and a number give the number (checked at run
    time); two different symbols give whichever is not 1; Any and anything but a number give Any."""
    out: list[Dim] = []
    for i in range(1, max(len(a), len(b)) + 1):
        x = a[-i] if i <= len(a) else 1
        y = b[-i] if i <= len(b) else 1
        x = x.value if isinstance(x, IntImm) else x
        y = y.value if isinstance(y, IntImm) else y
        if x == 1 and isinstance(x, int):
            out.append(y)
        elif (y == 1 and isinstance(y, int)) or known_equal(x, y):
            out.append(x)
        elif isinstance(x, int) and isinstance(y, int):
            raise TypeRuleError(
                "shapes must broadcast: dimensions, counted from the last, must be equal or 1",
                f"dimension -{i} is {x} in {shape_text(a)} and {y} in {shape_text(b)}",
                1,
            )
        elif isinstance(x, int) or isinstance(y, int):
            out.append(x if isinstance(x, int) else y)
            assume(x, y, one_allowed=True)
        elif is_any(x) or is_any(y):
            out.append(AnyDim())
        else:
            out.append(unless_one(x, y))
            assume(x, y, one_allowed=True)
    out.reverse()
    return out


def shape_text(shape: Sequence[Any]) -> str:
    """The shape as text: `(1, 3, ?)`."""
    parts = ["?" if isinstance(d, AnyDim) else str(d) for d in shape]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def broadcast(lhs: Type, rhs: Type, dtype: str | None = None) -> TensorType:
    """The type of a broadcasting operator's result. dtype: instead of the operands' common one ("bool" for comparisons)."""
    a, b = tensor(lhs, 0), tensor(rhs, 1)
    common = same_dtype(a, b)
    return tensor_type(broadcast_shapes(a.shape, b.shape), dtype or common)


def vectors_along(args: Sequence[Any], axis: int) -> list[Any]:
    """The types of arguments, where unknown ones become vectors as long as the first argument's axis."""
    first = args[0]
    if not isinstance(first, TensorType) or not -len(first.shape) <= axis < len(first.shape):
        return list(args)
    vector = tensor_type((first.shape[axis],), first.dtype)
    return [vector if a is None else a for a in args]


def product(shape: Sequence[Dim]) -> Dim:
    """The number of elements: an int, Any if a dimension is Any, else an expression."""
    result: Dim = 1
    for d in shape:
        if is_any(d):
            return AnyDim()
        result = result * (d.value if isinstance(d, IntImm) else d)
    return result
