"""DynamicToStatic: replaces operators with shapes as arguments by those with shapes as attributes.

Arithmetic on shapes (shape_of, slices, gathers, concatenations) is evaluated on symbolic elements: dimensions of inputs stay
variables, numbers stay numbers. An unknown element may still become the one that reshape
infers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, IRModule, Op, PrimExpr, TensorType
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import OpCard, TypeRuleError
from tilewright.relay.cards.relations import is_any, nonnegative
from tilewright.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from tilewright.relay.functor import post_order
from tilewright.relay.op.data_dependent.dynamic import Dynamic, dyn_reshape
from tilewright.relay.rewriting import card_of, rewrite_calls, typed_pass
from tilewright.relay.typing.open_types import type_of
from tilewright.tir import NE, Max, Min, Select, Var
from tilewright.tir.stmt_functor import post_order_visit

LIMIT = 64
"""The largest number of elements of a tensor that may be a shape."""

Values = np.ndarray
"""Elements of a small tensor, as objects: int, float, bool, an integer expression, or None for an unknown one."""

MOVES = {
    "reshape", "squeeze", "expand_dims", "transpose", "concatenate", "stack", "split", "strided_slice", "take", "gather",
    "gather_nd", "reverse", "tile", "repeat", "broadcast_to", "scatter_elements", "scatter_nd", "copy",
}  # fmt: skip
"""Operators whose references move elements of any type."""


def _arith(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def known(a: Any, b: Any) -> Any:
        return None if a is None or b is None or not _of_a_kind(a, b) else _simple(f(a, b))

    return known


def _of_a_kind(a: Any, b: Any) -> bool:
    """Whether two elements can be combined by arithmetic: two numbers, two sizes, or a size and an int."""
    numbers = [v for v in (a, b) if not isinstance(v, PrimExpr)]
    return len(numbers) != 1 or type(numbers[0]) is int


def _of_one_type(a: Any, b: Any) -> bool:
    """Whether two elements can be the operands of a choice."""
    both = isinstance(a, PrimExpr) and isinstance(b, PrimExpr)
    return a.dtype == b.dtype if both else _of_a_kind(a, b)


def _simple(value: Any) -> Any:
    if not isinstance(value, PrimExpr):
        return value
    value = Analyzer().simplify(value)
    return int(value) if isinstance(value, IntImm) else value


def _either(a: Any, b: Any, f: Any, node: Any) -> Any:
    if isinstance(a, PrimExpr) or isinstance(b, PrimExpr):
        return node(_expr(a, b), _expr(b, a)) if _of_one_type(a, b) else None
    return f(a, b)


def _expr(a: Any, like: Any) -> Any:
    return a if isinstance(a, PrimExpr) else IntImm(like.dtype, int(a))


def _unless_zero(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A division with an unknown result for a zero divisor."""
    return lambda a, b: None if not isinstance(b, PrimExpr) and b == 0 else f(a, b)


def _divided(a: Any, b: Any) -> Any:
    if isinstance(a, PrimExpr) or isinstance(b, PrimExpr):
        # Truncation equals flooring for non-negative operands.
        return a // b if nonnegative(a) and nonnegative(b) else None
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    return int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def _compared(f: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    """A comparison of numbers, or of an extent with a negative number. Other results are unknown."""

    def known(a: Any, b: Any) -> Any:
        if not isinstance(a, PrimExpr) and not isinstance(b, PrimExpr):
            return bool(f(a, b))
        if isinstance(a, PrimExpr) and isinstance(b, (int, float)) and b < 0 and nonnegative(a):
            return f(1, -1)
        return None

    return known


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": _unless_zero(_divided),
    "floor_divide": _unless_zero(lambda a, b: a // b),
    "mod": _unless_zero(lambda a, b: a % b if nonnegative(a) and nonnegative(b) else None),
    "floor_mod": _unless_zero(lambda a, b: a % b),
    "maximum": lambda a, b: _either(a, b, max, Max),
    "minimum": lambda a, b: _either(a, b, min, Min),
    "equal": _compared(lambda a, b: a == b),
    "not_equal": _compared(lambda a, b: a != b),
    "less": _compared(lambda a, b: a < b),
    "greater": _compared(lambda a, b: a > b),
    "less_equal": _compared(lambda a, b: a <= b),
    "greater_equal": _compared(lambda a, b: a >= b),
}


class ShapeValues:
    """Evaluates small integer tensors at compile time, as far as their elements are known."""

    def __init__(self) -> None:
        self.known: dict[Expr, Any] = {}

    def of(self, e: Expr) -> Values | None:
        """The elements of a tensor; None if they cannot be evaluated."""
        stack = [e]
        while stack:
            node = stack[-1]
            if node in self.known:
                stack.pop()
                continue
            waiting = [a for a in self._operands(node) if a not in self.known]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            self.known[node] = self._value(node)
        found = self.known[e]
        return found if isinstance(found, np.ndarray) else None

    def _operands(self, e: Expr) -> Sequence[Expr]:
        if isinstance(e, Tuple):
            return e.fields
        if isinstance(e, TupleGetItem):
            return (e.tuple_value,)
        if isinstance(e, Call) and type(e.op) is Op and e.op.name not in ("shape_of", "ndarray_size"):
            small = isinstance(e.op, Op) and (e.op.name in MOVES or e.op.name in _BINARY or e.op.name in _OTHERS)
            return e.args if small else ()
        return ()

    def _value(self, e: Expr) -> Any:
        if isinstance(e, Constant):
            value = e.value
            if value.size > LIMIT:
                return None
            out = np.empty(value.shape, object)
            for i in np.ndindex(*value.shape):
                out[i] = value[i].item()
            return out
        if isinstance(e, Tuple):
            parts = [self.known[f] for f in e.fields]
            return None if any([p is None for p in parts]) else tuple(parts)
        if isinstance(e, TupleGetItem):
            whole = self.known[e.tuple_value]
            return whole[e.index] if isinstance(whole, tuple) else None
        if not isinstance(e, Call) or type(e.op) is not Op:
            return None
        return self._call(e)

    def _call(self, e: Call) -> Any:
        name = e.operator.name
        if name in ("shape_of", "ndarray_size"):
            t = type_of(e.args[0])
            if not isinstance(t, TensorType):
                return None
            extents = [None if is_any(d) else _simple(d) for d in t.shape]
            if name == "shape_of":
                return _objects(extents)
            total: Any = 1
            for d in extents:
                total = None if total is None or d is None else _simple(total * d)
            return _objects(total)
        args: list[Any] = [self.known.get(a) for a in e.args]
        if not args or any([a is None for a in args]):
            return self._full(e)
        if name in MOVES:
            return self._moved(e, args)
        if name in _BINARY:
            a, b = np.broadcast_arrays(args[0], args[1])
            f = _arith(_BINARY[name])
            return _objects_of(a.shape, [f(x, y) for x, y in zip(a.reshape(-1), b.reshape(-1), strict=True)])
        return _OTHERS[name](card_of(e), *args) if name in _OTHERS else None

    def _moved(self, e: Call, args: list[Any]) -> Any:
        card = card_of(e)
        numbers = [args[0]]
        for a in args[1:]:
            # Indices must be numbers; updates may be anything.
            plain = all([isinstance(v, int) for v in a.reshape(-1)])
            numbers.append(a.astype(np.int64) if plain else a)
        if e.operator.name in ("take", "gather", "gather_nd") and numbers[1].dtype == object:
            return None
        if e.operator.name in ("scatter_elements", "scatter_nd"):
            if numbers[1].dtype == object:
                return None
            numbers[2] = args[2]
        if getattr(card, "reduction", "update") != "update" or _names_sizes(card):
            return None
        try:
            found = card.ref(*numbers)
        except (IndexError, ValueError):
            # The data has no such index, so the program fails here at run time.
            return None
        if isinstance(found, tuple):
            return tuple([np.asarray(f, object) for f in found])
        made = np.asarray(found, object)
        return made if made.size <= LIMIT else None

    def _full(self, e: Call) -> Any:
        """zeros, ones and similar operators without arguments."""
        if e.args or e.operator.name not in ("zeros", "ones", "arange"):
            return None
        t = type_of(e)
        if not isinstance(t, TensorType) or not all([isinstance(d, IntImm) for d in t.shape]):
            return None
        if int(np.prod(t.concrete_shape, dtype=np.int64)) > LIMIT:
            return None
        value = card_of(e).ref()
        return _objects_of(value.shape, value.reshape(-1).tolist())


def _objects(value: Any) -> Values:
    shape = (len(value),) if isinstance(value, list) else ()
    return _objects_of(shape, value if isinstance(value, list) else [value])


def _objects_of(shape: tuple[int, ...], values: list[Any]) -> Values:
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape(shape)


def _names_sizes(value: Any) -> bool:
    """Whether an attribute contains symbolic sizes."""
    if isinstance(value, OpCard):
        return any([_names_sizes(getattr(value, f.name)) for f in value._fields])
    return isinstance(value, PrimExpr) or isinstance(value, (tuple, list)) and any(map(_names_sizes, value))


def _whole(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return int(value) if isinstance(value, (float, bool)) else value


def _cast(card: Any, x: Values) -> Values | None:
    if "int" in card.dtype:
        return _objects_of(x.shape, [_whole(v) for v in x.reshape(-1)])
    if any([isinstance(v, PrimExpr) for v in x.reshape(-1)]):
        return None
    kind: Any = bool if card.dtype == "bool" else float
    return _objects_of(x.shape, [None if v is None else kind(v) for v in x.reshape(-1)])


def _folded(f: Callable[[Any, Any], Any], start: Any) -> Callable[..., Values | None]:
    def run(card: Any, x: Values) -> Values | None:
        axes = card.axes(x.ndim)
        rest = [a for a in range(x.ndim) if a not in axes]
        rows = x.transpose(rest + axes).reshape([x.shape[a] for a in rest] + [-1])
        out = np.empty(rows.shape[:-1], object)
        step = _arith(f)
        for i in np.ndindex(*out.shape):
            total = start
            for v in rows[i]:
                total = step(total, v)
            out[i] = total
        return out.reshape([1 if a in axes else d for a, d in enumerate(x.shape) if card.keepdims or a not in axes])

    return run


def _where(card: Any, c: Values, x: Values, y: Values) -> Values | None:
    c, x, y = np.broadcast_arrays(c, x, y)
    picked: list[Any] = []
    for t, a, b in zip(c.reshape(-1), x.reshape(-1), y.reshape(-1), strict=True):
        if isinstance(t, PrimExpr) and a is not None and b is not None and _of_one_type(a, b):
            t = t if t.dtype == "bool" else NE(t, IntImm(t.dtype, 0))
            picked.append(
                Select(t, _expr(a, b) if isinstance(b, PrimExpr) else a, _expr(b, a) if isinstance(a, PrimExpr) else b)
            )
        else:
            picked.append(None if t is None or isinstance(t, PrimExpr) else a if t else b)
    return _objects_of(c.shape, picked)


def _negated(card: Any, x: Values) -> Values:
    return _objects_of(x.shape, [None if v is None else _simple(-v) for v in x.reshape(-1)])


_OTHERS: dict[str, Callable[..., Any]] = {
    "cast": _cast,
    "where": _where,
    "negative": _negated,
    "prod": _folded(lambda a, b: a * b, 1),
    "sum": _folded(lambda a, b: a + b, 0),
}


def variables_of(e: Any) -> set[Var]:
    """The variables in an expression over sizes."""
    found: set[Var] = set()
    post_order_visit(e, lambda n: found.add(n) if isinstance(n, Var) else None)
    return found


def variables_of_type(t: Any) -> set[Var]:
    """The variables among the dimensions of a tensor."""
    return {v for d in getattr(t, "shape", ()) for v in ([d] if isinstance(d, Var) else ())}


class Rule:
    """Replaces calls of dynamic operators in one function. `scope`: the sizes that can be read anywhere in it."""

    def __init__(self, scope: set[Var]) -> None:
        self.scope = scope
        self.values = ShapeValues()

    def __call__(self, call: Call) -> Expr | None:
        card = card_of(call)
        if not isinstance(card, Dynamic):
            return None
        elements: dict[int, list[Any]] = {}
        for place in card.reads():
            if place < len(call.args):
                found = self.values.of(call.args[place])
                if found is None:
                    return None
                elements[place] = list(found.reshape(-1))
        everything = [v for vs in elements.values() for v in vs]
        if isinstance(card, dyn_reshape) and everything.count(None) == 1 and _may_infer(everything):
            elements = {k: [-1 if v is None else v for v in vs] for k, vs in elements.items()}
        elif any([v is None for v in everything]):
            return None
        kept = [call.args[i] for i in card.kept() if i < len(call.args)]
        readable = self.scope.union(*[variables_of_type(type_of(a)) for a in kept])
        used = [v for vs in elements.values() for v in vs if isinstance(v, PrimExpr)]
        if any([not variables_of(v) <= readable for v in used]):
            return None
        try:
            static = card.static(card.settled(elements, [a.checked_type for a in call.args]))
        except TypeRuleError:
            return None
        if any([not Analyzer().can_prove(condition) for condition, *_ in card.needs(elements)]):
            # The condition is known only at run time.
            return None
        return Call(static.op, tuple(kept), static, (), call.span)


def _may_infer(values: list[Any]) -> bool:
    """Whether -1 may replace the one unknown element: all others are extents."""
    return all(
        [v is None or (isinstance(v, int) and v > 0) or (isinstance(v, PrimExpr) and nonnegative(v)) for v in values]
    )


def static_calls(func: Function) -> Function:
    """The function with static operators in place of dynamic ones whose shape arguments are known."""
    nested = any([isinstance(e, Function) and e is not func and not e.is_primitive for e in post_order(func)])
    scope: set[Var] = set()
    if not nested:
        scope = scope.union(*[variables_of_type(type_of(p) or p.type_annotation) for p in func.params])
    return rewrite_calls(func, Rule(scope))


def DynamicToStatic() -> Pass:
    """Replace operators of `dyn` by those with attributes, if their shape arguments are constant or follow from the
    shapes of inputs.
    """

    def run(func: Function, mod: IRModule) -> Function:
        if not any([isinstance(e, Call) and isinstance(e.attrs, Dynamic) for e in post_order(func)]):
            return func
        made = static_calls(func)
        # Types that were unknown before may be known now.
        return made if made is func else made.replace(ret_type=None)

    return typed_pass("DynamicToStatic", 0, run)
