"""FuseRmsNorm: makes the division of rows by their root mean square one operator, so that a kernel reads each row from memory once.

    divide(x, sqrt(add(mean(multiply(x, x), axis=[-1], keepdims=True), epsilon)))   -->   nn.contrib_rms_norm(x, epsilon)

and the same with rsqrt, 1 / sqrt, or power(x, 2). What else reads the mean or the root keeps the operators as they are.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Expr, Function
from tilewright.relay.functor import rewrite, users
from tilewright.relay.op.arithmetic.reduction import Reduction
from tilewright.relay.rewriting import card_of, is_op, scalar_of, static_shape, tensor_of, typed, typed_pass


class _Root(NamedTuple):
    """What is squared, what is added to the mean of its squares along the last axis, and the operators between."""

    data: Expr
    epsilon: float
    between: tuple[Expr, ...]


def _root_of(e: Expr) -> _Root | None:
    """The root mean square of which `e` is the reciprocal."""
    chain = [e]
    if is_op(e, "divide") and scalar_of(e.args[0]) == 1:
        chain.append(e.args[1])
        return _squared(chain) if is_op(chain[-1], "sqrt") else None
    return _squared(chain) if is_op(e, "rsqrt") else None


def _squared(chain: list[Expr]) -> _Root | None:
    """The mean below the last operator of a chain, a root."""
    root = chain[-1]
    if not is_op(root, "sqrt", "rsqrt") or not is_op(added := root.args[0], "add"):
        return None
    mean, epsilon = added.args if scalar_of(added.args[1]) is not None else added.args[::-1]
    number = scalar_of(epsilon)
    if number is None or not is_op(mean, "mean"):
        return None
    square = mean.args[0]
    if not is_op(square, "multiply", "power"):
        return None
    data, other = square.args
    if not (other is data if is_op(square, "multiply") else scalar_of(other) == 2):
        return None
    shape, card = static_shape(data), card_of(mean, Reduction)
    if shape is None or str(tensor_of(data).dtype) not in ("float32", "float64") or not card.keepdims:
        return None
    if card.axes(len(shape)) != [len(shape) - 1]:
        return None
    return _Root(data, float(number), (*chain, added, mean, square))


def _match(e: Expr) -> _Root | None:
    """The root mean square by which `e` divides its data; None for other expressions."""
    ways = [(e.args[0], e.args[1])] if is_op(e, "divide") else []
    if is_op(e, "multiply"):
        ways = [(e.args[0], e.args[1]), (e.args[1], e.args[0])]
    for data, by in ways:
        root = _root_of(by) if is_op(e, "multiply") else _squared([by]) if is_op(by, "sqrt") else None
        # A constant of more axes gives the result these.
        if root is not None and root.data is data and static_shape(e) == static_shape(data):
            return root
    return None


def fuse_rms_norm(func: Function) -> Function:
    """The function with operators for divisions by root mean squares."""
    used = users([func])
    found = {
        e: root for e in used if (root := _match(e)) is not None and all([len(used[b]) == 1 for b in root.between])
    }

    def change(old: Expr, new: Expr) -> Expr | None:
        if old not in found:
            return None
        root = _match(new)
        assert root is not None
        made = constructor("nn.contrib_rms_norm")
        return typed(made(root.data, epsilon=root.epsilon, span=getattr(new, "span", None)))

    return rewrite(func, change) if found else func


def FuseRmsNorm() -> Pass:
    """Make divisions of rows by their root mean square one operator, which reads each row from memory once."""
    return typed_pass("FuseRmsNorm", 3, lambda f, mod: fuse_rms_norm(f))


__all__ = ["FuseRmsNorm"]
