"""Patterns of dataflow graphs: what an operator, its operands, types and attributes may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.ir import Op, Type
from tilewright.relay.expr import Expr

_uses: dict[str, Callable[..., Any]] = {}


def register_use(name: str, use: Callable[..., Any]) -> None:
    """Says what `match` and `partition` of a pattern do: matching stands above the patterns that it reads."""
    _uses[name] = use


class DFPattern:
    """Base of patterns. A pattern object that occurs twice must match the same expression in both places."""

    def __call__(self, *args: DFPattern | None) -> CallPattern:
        """A call of what this matches; `None` as the only argument leaves the arguments open."""
        return CallPattern(self, None if args == (None,) else [a for a in args if a is not None])

    def __repr__(self) -> str:
        return _text(self, frozenset())

    def __or__(self, other: DFPattern) -> AltPattern:
        return AltPattern(self, other)

    def __add__(self, other: DFPattern) -> CallPattern:
        return is_op("add")(self, other)

    def __sub__(self, other: DFPattern) -> CallPattern:
        return is_op("subtract")(self, other)

    def __mul__(self, other: DFPattern) -> CallPattern:
        return is_op("multiply")(self, other)

    def __truediv__(self, other: DFPattern) -> CallPattern:
        return is_op("divide")(self, other)

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """The same, of a call (or operator, or function) with these attributes."""
        return AttrPattern(self, attrs)

    def has_type(self, ttype: Type) -> TypePattern:
        """The same, of this type."""
        return TypePattern(self, ttype)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """The same, of a tensor of this dtype."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[Any]) -> ShapePattern:
        """The same, of a tensor of this shape."""
        return ShapePattern(self, shape)

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> DFPattern:
        """This with or without what the function puts around it."""
        return AltPattern(option_constructor(self), self)

    def dominates(self, parent: DFPattern, path: DFPattern | None = None) -> DominatorPattern:
        """This as the child that `parent` dominates: all ways between them match `path`, and nothing else uses them."""
        return DominatorPattern(parent, path if path is not None else wildcard(), self)

    def match(self, expr: Expr) -> bool:
        """Whether the pattern matches an expression."""
        matches: bool = _uses["match"](self, expr)
        return matches

    def partition(
        self,
        expr: Expr,
        attrs: Mapping[str, Any] | None = None,
        check: Callable[[Expr], bool] = lambda e: True,
    ) -> Expr:
        """The expression with every match made a function of its own, which is called (see `partition`)."""
        made: Expr = _uses["partition"](self, expr, attrs, check)
        return made


class WildcardPattern(DFPattern):
    """Everything; once it is redirected, what another pattern matches."""

    pattern: DFPattern | None = None

    def redirect_to(self, pat: DFPattern) -> None:
        """Stand for `pat` from now on, which may have this in it: `is_op("tanh")(w) | is_var()`, to which `w` is
        redirected, matches any number of tanh."""
        self.pattern = pat


class ExprPattern(DFPattern):
    """This very expression, or an equal constant or operator."""

    def __init__(self, expr: Expr) -> None:
        self.expr = expr


class VarPattern(DFPattern):
    """A variable (of this name)."""

    def __init__(self, name_hint: str = "") -> None:
        self.name = name_hint


class ConstantPattern(DFPattern):
    """A constant."""


class CallPattern(DFPattern):
    """A call; without `args` the arguments are open."""

    def __init__(self, op: DFPattern, args: Sequence[DFPattern] | None) -> None:
        self.op, self.args = op, None if args is None else tuple(args)


class FunctionPattern(DFPattern):
    """A function; without `params` the parameters are open."""

    def __init__(self, params: Sequence[DFPattern] | None, body: DFPattern) -> None:
        self.params, self.body = None if params is None else tuple(params), body


class IfPattern(DFPattern):
    """An if."""

    def __init__(self, cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> None:
        self.cond, self.true_branch, self.false_branch = cond, true_branch, false_branch


class LetPattern(DFPattern):
    """A let."""

    def __init__(self, var: DFPattern, value: DFPattern, body: DFPattern) -> None:
        self.var, self.value, self.body = var, value, body


class TuplePattern(DFPattern):
    """A tuple; without `fields` its elements are open."""

    def __init__(self, fields: Sequence[DFPattern] | None) -> None:
        self.fields = None if fields is None else tuple(fields)


class TupleGetItemPattern(DFPattern):
    """An element of a tuple; without `index` any one."""

    def __init__(self, tuple_value: DFPattern, index: int | None = None) -> None:
        self.tuple, self.index = tuple_value, index


class AltPattern(DFPattern):
    """The left pattern or, where it does not match, the right one."""

    def __init__(self, left: DFPattern, right: DFPattern) -> None:
        self.left, self.right = left, right


class AttrPattern(DFPattern):
    """A pattern, with attributes."""

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, Any]) -> None:
        self.pattern, self.attrs = pattern, dict(attrs)


class TypePattern(DFPattern):
    """A pattern, with a type."""

    def __init__(self, pattern: DFPattern, ttype: Type) -> None:
        self.pattern, self.type = pattern, ttype


class DataTypePattern(DFPattern):
    """A pattern, with a dtype."""

    def __init__(self, pattern: DFPattern, dtype: str) -> None:
        self.pattern, self.dtype = pattern, dtype


class ShapePattern(DFPattern):
    """A pattern, with a shape."""

    def __init__(self, pattern: DFPattern, shape: Sequence[Any]) -> None:
        self.pattern, self.shape = pattern, tuple(shape)


class DominatorPattern(DFPattern):
    """A child all of whose inputs lead over `path` to one parent, which nothing outside uses.

    An operator on the way may take variables besides: the bias that is added, which the parent does not depend on."""

    def __init__(self, parent: DFPattern, path: DFPattern, child: DFPattern) -> None:
        self.parent, self.path, self.child = parent, path, child


def _text(value: Any, around: frozenset[Any]) -> str:
    """A pattern by its kind and parts; `...` where it comes back to itself."""
    if isinstance(value, (tuple, list)):
        return f"[{', '.join([_text(v, around) for v in value])}]"
    if not isinstance(value, DFPattern):
        return value.name if isinstance(value, Op) else str(value)
    if value in around:
        return "..."
    if isinstance(value, WildcardPattern) and value.pattern is None:
        return "*"
    parts = [_text(v, around | {value}) for v in vars(value).values()]
    return f"{type(value).__name__}({', '.join(parts)})"


INNER = (CallPattern, TuplePattern, TupleGetItemPattern, FunctionPattern, IfPattern, LetPattern)
"""Patterns whose matches belong to a group; what other patterns match are its inputs."""


def wildcard() -> DFPattern:
    """Matches everything."""
    return WildcardPattern()


def is_var(name: str = "") -> DFPattern:
    """Matches a variable, of the name if one is given."""
    return VarPattern(name)


def is_constant() -> DFPattern:
    """Matches a constant."""
    return ConstantPattern()


def is_expr(expr: Expr) -> DFPattern:
    """Matches an expression that is structurally the same."""
    return ExprPattern(expr)


def is_op(op_name: str) -> DFPattern:
    """Matches an operator; call it for calls: `is_op("add")(wildcard(), wildcard())`. Raises AttributeError for an
    unknown name."""
    return ExprPattern(Op.get(op_name))


def is_tuple(fields: Sequence[DFPattern] | None) -> DFPattern:
    """Matches a tuple, of these elements unless None is given."""
    return TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> DFPattern:
    """Matches an element of a tuple."""
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> DFPattern:
    """Matches an if."""
    return IfPattern(cond, true_branch, false_branch)


def is_let(var: DFPattern, value: DFPattern, body: DFPattern) -> DFPattern:
    """Matches a let."""
    return LetPattern(var, value, body)


def has_type(ttype: Type, pattern: DFPattern | None = None) -> DFPattern:
    """Matches what has a type."""
    return TypePattern(pattern or wildcard(), ttype)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DFPattern:
    """Matches tensors of a dtype."""
    return DataTypePattern(pattern or wildcard(), dtype)


def has_shape(shape: Sequence[Any], pattern: DFPattern | None = None) -> DFPattern:
    """Matches tensors of a shape."""
    return ShapePattern(pattern or wildcard(), shape)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> DFPattern:
    """Matches what has attributes."""
    return AttrPattern(pattern or wildcard(), attrs)


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DFPattern:
    """Matches a child that `parent` dominates over `path`."""
    return DominatorPattern(parent, path, child)
