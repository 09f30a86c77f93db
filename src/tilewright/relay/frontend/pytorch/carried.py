"""The types of what a loop of a script carries from round to round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.ir import Type
from tilewright.relay.cards.relations import dims, is_any, known_equal, tensor_type
from tilewright.relay.expr import Expr, Var
from tilewright.support.errors import OpNotImplemented
from tilewright.tir import Any as AnyDim

RESERVED = 2
"""The number of the round, and whether there is another one, come before the carried tensors."""


def loop_state(types: Sequence[Type], carried_after: Callable[[Sequence[Expr]], Sequence[Type]]) -> list[Var]:
    """Variables for the state of a loop that begins with these types. carried_after: the types of the carried tensors after a round.

    Extents that a round changes are known at run time only. Each trial makes more of them unknown, or none.
    """
    state = [Var(f"state{k}", t) for k, t in enumerate(types)]
    while True:
        new = carried_after(state)
        joint = [_joined(old, made) for old, made in zip(types[RESERVED:], new, strict=True)]
        if all([_unknown(a) == _unknown(b) for a, b in zip(joint, types[RESERVED:], strict=True)]):
            return state
        types = [*types[:RESERVED], *joint]
        state = [Var(f"state{k}", t) for k, t in enumerate(types)]


def _joined(a: Any, b: Any) -> Type:
    """The type of a tensor that has one type or the other."""
    if a.dtype != b.dtype:
        raise OpNotImplemented(f"it changes the type of a tensor that it carries from {a.dtype} to {b.dtype}")
    if len(a.shape) != len(b.shape):
        raise OpNotImplemented("it changes the number of axes of a tensor that it carries")
    shape = [p if known_equal(p, q) else AnyDim() for p, q in zip(dims(a), dims(b), strict=True)]
    return tensor_type(shape, a.dtype)


def _unknown(t: Any) -> list[bool]:
    return [is_any(d) for d in dims(t)]
