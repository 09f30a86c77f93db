"""CheckBounds: run-time errors for indices outside of their axis, and for integer division by zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.ir import IRModule, Op, TensorType
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import Indexed, OpCard
from tilewright.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, const
from tilewright.relay.op.adjoint import op
from tilewright.relay.op.program.bounds import checked_divisor, checked_indices
from tilewright.relay.rewriting import rewrite_calls, static_shape, tuple_type_of, typed, typed_pass
from tilewright.relay.texts import span_text


def name_of(call: Call) -> str:
    """An operator with its node of the model, for messages."""
    kind, node = call.operator.name, span_text(getattr(call, "span", None))
    return f"{kind} ({node})" if node else str(kind)


def known_inside(indices: Expr, extents: Sequence[int] | None, which: Indexed) -> bool:
    """Whether indices are constants within known extents."""
    if not isinstance(indices, Constant) or extents is None:
        return False
    axes = range(len(extents)) if which.axes is None else which.axes
    rows = list(indices.value) if which.rows else [indices.value] * len(axes)
    return all([_between(r, -extents[a] if which.below else 0, extents[a]) for r, a in zip(rows, axes, strict=True)])


def _between(values: np.ndarray, low: int, high: int) -> bool:
    wide = values.astype(np.int64)
    return bool(((wide >= low) & (wide < high)).all())


def _item(args: Sequence[Expr], at: int | tuple[int, int]) -> Expr:
    if isinstance(at, int):
        return args[at]
    whole = args[at[0]]
    return whole.fields[at[1]] if isinstance(whole, Tuple) else typed(TupleGetItem(whole, at[1]))


def _with_item(args: list[Expr], at: int | tuple[int, int], new: Expr) -> None:
    if isinstance(at, int):
        args[at] = new
        return
    count = len(tuple_type_of(args[at[0]]).fields)
    args[at[0]] = typed(Tuple(tuple([new if k == at[1] else _item(args, (at[0], k)) for k in range(count)])))


def _checked_indices(call: Call, args: list[Expr], which: Indexed) -> None:
    """Puts a check before the indices of a call."""
    indices, data = _item(args, which.indices), _item(args, which.data)
    shape = static_shape(data)
    if which.axes is None and shape is not None:
        shape = (int(np.prod(shape, dtype=np.int64)),)
    if known_inside(indices, shape, which):
        return
    if shape is not None:
        extents: Expr = const(np.array(shape, np.int64))
    else:
        extents = op("shape_of")(data, dtype="int64")
        if which.axes is None:
            extents = op("prod")(extents, axis=0, keepdims=True)
    attrs = {"axes": which.axes or (0,), "rows": which.rows, "below": which.below, "name": name_of(call)}
    _with_item(args, which.indices, typed(checked_indices.call([indices, typed(extents)], attrs, call.span)))


def _checked_divisor(call: Call, args: list[Expr], at: int) -> None:
    """Puts a check before the divisor of a call of integers."""
    divisor = args[at]
    t = divisor.checked_type
    if not isinstance(t, TensorType) or not (t.dtype.is_int or t.dtype.is_uint):
        return
    if isinstance(divisor, Constant) and divisor.value.all():
        return
    args[at] = typed(checked_divisor.call([divisor], {"name": name_of(call)}, call.span))


def check_call(call: Call) -> Expr | None:
    """The call with checks on its arguments; None if it needs none."""
    if type(call.op) is not Op or not isinstance(call.attrs, OpCard):
        return None
    args = list(call.args)
    for which in call.attrs.indexed([a.checked_type for a in args]):
        _checked_indices(call, args, which)
    for at in call.attrs.divisors:
        _checked_divisor(call, args, at)
    if all([a is b for a, b in zip(args, call.args, strict=True)]):
        return None
    return Call(call.op, tuple(args), call.attrs, call.given_types, call.span)


def CheckBounds() -> Pass:
    """Check at run time that indices lie within the data and that divisors of integers are not zero. A failed check
    raises an error that names the operator. The option "relay.check_bounds" adds the pass to a build.
    """
    done: set[Expr] = set()

    def rule(call: Call) -> Expr | None:
        # The rewriter visits the result of a rule again.
        if call in done:
            return None
        new = check_call(call)
        if new is not None:
            done.add(new)
        return new

    def run(func: Function, mod: IRModule) -> Function:
        return rewrite_calls(func, rule)

    return typed_pass("CheckBounds", 0, run)


__all__ = ["CheckBounds"]
