"""Loops of models: short loops with known counts are unrolled. Others become recursive functions for the virtual machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from tilewright.ir import TensorType
from tilewright.relay.cards.relations import known_equal, tensor_type
from tilewright.relay.expr import Call, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from tilewright.relay.frontend.common.builder import Builder
from tilewright.relay.frontend.common.value import Value
from tilewright.support.errors import OpNotImplemented
from tilewright.tir import Any as AnyDim

MOST_UNROLLED = 256
"""The largest number of steps for which recurrent layers are unrolled."""
SETTLE = 4
"""The largest number of times that the types of a loop's state may widen."""

Made = TypeVar("Made")
Going = Callable[[list[Value]], Value]
Step = Callable[[list[Value]], list[Value]]


def while_loop(c: Builder, state: Sequence[Value], going: Going, step: Step, title: str = "state") -> list[Value]:
    """The final state of a loop with a condition at run time. Extents that change between rounds become dynamic.

    Raises OpNotImplemented if a rank or element type changes.
    """

    def once(now: list[Var]) -> tuple[list[Value], list[Value]]:
        values = [Value(v) for v in now]
        return step(values), values

    now, after, values = settled(state, once, title)
    flag = c.reshape(c.cast(going(values), "bool"), [])
    loop = Var("loop")
    again = Call(loop, tuple([v.expr for v in after]))
    body = If(flag.expr, again, Tuple(tuple(now)))
    called: Expr = Let(loop, Function(now, body), loop)(*[s.expr for s in state])
    return [Value(TupleGetItem(called, k)) for k in range(len(now))]


def settled(
    state: Sequence[Value], step: Callable[[list[Var]], tuple[Sequence[Any], Made]], title: str = "state"
) -> tuple[list[Var], Sequence[Any], Made]:
    """(variables for a loop's state, the result of `step` for them: (the state after a round, anything else)). The types of the
    variables include the results of all rounds. Raises OpNotImplemented if a rank or element type changes."""
    types = [tensor_type(s.shape, s.dtype) for s in state]
    for _ in range(SETTLE):
        now = [Var(f"{title}{k}", t) for k, t in enumerate(types)]
        after, rest = step(now)
        wider = [_joined(t, v) for t, v in zip(types, after, strict=True)]
        if all([a is b for a, b in zip(types, wider, strict=True)]):
            return now, after, rest
        types = wider
    raise OpNotImplemented("the types of its state do not settle")


def _joined(t: TensorType, v: Any) -> TensorType:
    """The join of a state's type and the type after a round; the same object if they are equal."""
    if not isinstance(v, Value) or v.ndim != len(t.shape) or v.dtype != t.dtype:
        raise OpNotImplemented(
            f"its state of type {t} becomes {v.type if isinstance(v, Value) else 'no tensor'}; its rank and element type must stay"
        )
    shape: Sequence[Any] = [
        a if isinstance(a, AnyDim) or known_equal(a, b) else AnyDim() for a, b in zip(t.shape, v.shape, strict=True)
    ]
    return t if all([a is b for a, b in zip(shape, t.shape, strict=True)]) else TensorType(tuple(shape), t.dtype)


Row = Callable[[list[Value], list[Value]], tuple[list[Value], Value]]
"""A step: (rows of the sequences, state) -> (state, values to gather)."""


def scan(
    c: Builder, sequences: Sequence[Value], axis: int, state: Sequence[Value], row: Row, backwards: bool = False
) -> tuple[list[Value], Callable[[], Value]]:
    """Runs steps along an axis: (the final state, the gathered values along the same axis, in the order of the steps)."""
    length = c.sizes.named(sequences[0], axis)
    if isinstance(length, int) and length <= MOST_UNROLLED:
        parts = [c.steps(s, axis) for s in sequences]
        now, gathered = list(state), []
        for k in range(length)[:: -1 if backwards else 1]:
            now, out = row([p[k] for p in parts], now)
            gathered.append(out)
        return now, lambda: c.call("stack", gathered, axis=axis)
    extent = c.size(length)
    one = c.number(1, "int64")

    def place(k: Value) -> Value:
        return c.call("subtract", c.call("subtract", extent, k), one) if backwards else k

    def step(now: list[Value]) -> list[Value]:
        k, rows, *inner = now
        at = place(k)
        taken = [c.call("take", s, at, axis=axis) for s in sequences]
        after, out = row(taken, inner)
        grown = c.call("concatenate", [rows, c.call("expand_dims", out, axis=0)], axis=0)
        return [c.call("add", k, one), grown, *after]

    first = row([c.call("take", s, c.number(0, "int64"), axis=axis) for s in sequences], list(state))[1]
    empty = c.call("strided_slice", c.call("expand_dims", first, axis=0), begin=(0,), end=(0,), strides=(1,), axes=(0,))
    start = c.number(0, "int64")
    _, rows, *last = while_loop(c, [start, empty, *state], lambda now: c.call("less", now[0], extent), step, "step")
    order = [*range(1, axis + 1), 0, *range(axis + 1, rows.ndim)]
    return list(last), lambda: c.transpose(rows, order)


def known_rounds(value: Value) -> bool | None:
    """The value of a known condition, else None."""
    return bool(np.asarray(value.array).reshape(-1)[0]) if value.is_number and value.array is not None else None
