"""Values of importers, known arrays or relay expressions, and calls of operators on them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from tilewright.ir import IntImm, PrimExpr, Span, TensorType
from tilewright.relay.cards.card import as_expr, find_card, results_of
from tilewright.relay.cards.relations import Dim, dims
from tilewright.relay.evaluation.interpreter import run_function
from tilewright.relay.expr import Call, Constant, Expr, Function, TupleGetItem, TupleWrapper, const_array
from tilewright.relay.frontend.common.unsupported import Problem
from tilewright.relay.typing.infer_type import infer_types
from tilewright.support.errors import OpError, OpNotImplemented


class Value:
    """A tensor of the model: `array` if its elements are known (dtype object: a shape with symbols), else only an expression."""

    __slots__ = ("_expr", "array", "name")

    def __init__(self, expr: Expr | None = None, array: np.ndarray | None = None, name: str = "") -> None:
        self._expr, self.array, self.name = expr, array, name

    @property
    def expr(self) -> Expr:
        """The relay expression. A known array becomes one constant for all its uses."""
        if self._expr is None:
            assert self.array is not None
            if self.array.dtype == object:
                raise self.unknown(
                    f"{self.name!r} depends on a dimension that is not known. Pin the model's input shapes: shape={{name: [...]}}"
                )
            if self.array.dtype.kind in "USO":
                raise OpNotImplemented(f"{self.name!r} holds strings; tensors of numbers are supported")
            self._expr = Constant(const_array(self.array))
        return self._expr

    def unknown(self, why: str) -> OpNotImplemented:
        """The error for an unknown value that pinned shapes would make known."""
        return OpNotImplemented(why)

    @property
    def is_number(self) -> bool:
        """Whether all elements are known numbers, without symbols."""
        return self.array is not None and self.array.dtype != object

    @property
    def shape(self) -> list[Dim]:
        """Extents: ints, or symbols."""
        return list(self.array.shape) if self.array is not None else dims(self.type)

    def known_extent(self, axis: int) -> int:
        """The extent of an axis as a number. Raises TypeError for a symbol."""
        return int(self.shape[axis])  # type: ignore[arg-type]

    @property
    def type(self) -> TensorType:
        """The inferred tensor type."""
        return infer_types(self.expr)  # type: ignore[return-value]

    @property
    def dtype(self) -> str:
        """Element type."""
        return (
            "int64"
            if self.array is not None and self.array.dtype == object
            else str(self.type.dtype)
            if self.array is None
            else self.array.dtype.name
        )

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)


def known_extents(dims: Iterable[Dim]) -> list[int]:
    """The extents as numbers. Raises TypeError for a symbol."""
    return [int(d) for d in dims]  # type: ignore[arg-type]


def are_numbers(dims: Sequence[Dim]) -> TypeGuard[list[int]]:
    """Whether all extents are numbers."""
    return all([isinstance(d, int) for d in dims])


class StringTensor(Value):
    """A tensor of strings. A program has their numbers."""

    __slots__ = ()

    @property
    def numbers(self) -> Value:
        """The numbers of the strings, as a tensor of int64."""
        return Value(self._expr, self.array, self.name)


def make_call(key: str, args: Iterable[Any], attrs: Mapping[str, Any], span: Span | None = None) -> Expr:
    """A call of the operator `key` with one result, on values, expressions or lists of them. Sizes in attributes may be
    symbols."""
    made: Expr = _made(key, args, attrs, span)
    return made


def make_calls(key: str, args: Iterable[Any], attrs: Mapping[str, Any], span: Span | None = None) -> TupleWrapper:
    """`make_call` for an operator with several results."""
    made: TupleWrapper = _made(key, args, attrs, span)
    return made


def _made(key: str, args: Iterable[Any], attrs: Mapping[str, Any], span: Span | None) -> Any:
    card = find_card(key)
    if any(map(_has_symbols, attrs.values())):
        return results_of(Call(card.op, tuple([as_expr(unwrap(a)) for a in args]), card(**attrs), (), span))
    return results_of(card.call([unwrap(a) for a in args], attrs, span))


def scalar(value: Any, like: Any) -> Expr:
    """A constant of a dtype, or of the dtype of another value."""
    return Constant(const_array(np.array(value, like if isinstance(like, str) else like.dtype)))


MOST_MADE = 1 << 24
"""The largest number of elements that importers make of a few numbers (a shape, bounds, repeats). Larger results are made at run time."""


def is_large(value: Value) -> bool:
    """Whether a value has more elements than importers make."""
    if value.array is not None or not isinstance(value.type, TensorType):
        return False
    shape = value.shape
    return are_numbers(shape) and math.prod(shape) > MOST_MADE


def evaluate(value: Value) -> Value:
    """The value of a small expression without unknown inputs, computed by the operators' NumPy references."""
    if value.array is None and isinstance(value.expr, (Call, TupleGetItem)):
        try:
            if is_large(value):
                return value
            return Value(array=np.asarray(run_function(Function((), value.expr), [])))
        except OpError:
            return value
    return value


def as_values(result: Any) -> list[Value]:
    """The results of a converter, as values."""
    if isinstance(result, Value):
        return [result]
    if isinstance(result, np.ndarray):
        return [Value(array=result)]
    if isinstance(result, Expr):
        return [Value(result)]
    if isinstance(result, (TupleWrapper, list, tuple)):
        return [v for r in result for v in as_values(r)]
    raise TypeError(f"a converter returned {type(result).__name__}")


def use_text(title: str, uses: list[str], noun: str = "node") -> str:
    """The text for an operator with the first eight places where a model uses it."""
    shown = ", ".join(repr(n) for n in uses[:8]) + (f" and {len(uses) - 8} more" if len(uses) > 8 else "")
    return f"{title} ({len(uses)} {noun if len(uses) == 1 else noun + 's'}: {shown})"


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The two nearest names, if they are near. Namespaces, as in aten::sum, are ignored, since all names of a model have the same."""
    ends = {n: n.rpartition("::")[2] for n in known}
    close = difflib.get_close_matches(name.rpartition("::")[2], dict.fromkeys(ends.values()), n=2, cutoff=0.65)
    return [n for c in close for n, end in ends.items() if end == c][:2]


def near_text(name: str, known: Iterable[str]) -> str:
    """`; nearest supported: a, b`, or nothing when no name is near."""
    near = nearest(name, known)
    return f"; nearest supported: {', '.join(near)}" if near else ""


def missing_operator(title: str, uses: list[str], known: Iterable[str], noun: str = "node") -> Problem:
    """The problem of an operator without a converter: its uses in the model, and the nearest supported operators."""
    near = nearest(title, known)
    text = use_text(title, uses, noun) + (f"; nearest supported: {', '.join(near)}" if near else "")
    return Problem(text, title, uses, near)


def problems_text(name: str, problems: list[str]) -> str:
    """The unsupported parts of a model, one per line."""
    count = len(problems)
    head = f"{name}: {count} {'thing is' if count == 1 else 'things are'} not supported"
    return "\n  ".join([head, *problems])


def _has_symbols(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_symbols, value))
    return isinstance(value, PrimExpr) and not isinstance(value, IntImm)


def unwrap(a: Any) -> Any:
    """Values as expressions, also inside lists."""
    if isinstance(a, Value):
        return a.expr
    if isinstance(a, (list, tuple)):
        return [unwrap(x) for x in a]
    return a
