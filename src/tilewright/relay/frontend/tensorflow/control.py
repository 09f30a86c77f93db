"""Branches and loops: known ones are resolved, short loops are unrolled, others become relay's `if` and recursion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.relay.cards.relations import tensor_type
from tilewright.relay.expr import If, Tuple, TupleGetItem, Var
from tilewright.relay.frontend.common.builder import Builder
from tilewright.relay.frontend.common.loops import known_rounds, while_loop
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.lists import empty_stack, list_like, pushed_apart, stacked
from tilewright.relay.frontend.tensorflow.strings import same_kind
from tilewright.relay.frontend.tensorflow.value import Result, TensorList
from tilewright.support.errors import OpNotImplemented

FEW_ROUNDS = 32
"""The largest number of rounds up to which loops are unrolled."""
MOST_ROUNDS = 4096
"""The largest number of rounds for loops that can only be unrolled."""

Going = Callable[[list[Any]], Value]
Step = Callable[[list[Any]], list[Any]]


def branch(c: Builder, flag: Value, yes: Callable[[], list[Any]], no: Callable[[], list[Any]]) -> list[Any]:
    """The result of an `if` with two branches."""
    known = known_rounds(flag)
    if known is not None:
        return yes() if known else no()
    sides = [yes(), no()]
    flat: list[list[Value]] = [[], []]
    for a, b in zip(*sides, strict=True):
        if isinstance(a, Value) and isinstance(b, Value):
            flat[0].append(a)
            flat[1].append(b)
        elif isinstance(a, TensorList) and isinstance(b, TensorList):
            flat[0].append(stacked(c, a))
            flat[1].append(stacked(c, b))
        elif a is not b:
            raise OpNotImplemented("its branches make different resources, and which one is only known at run time")
    condition = c.reshape(c.cast(flag, "bool"), [])
    first, second = [Tuple(tuple([v.expr for v in side])) for side in flat]
    choice = If(condition.expr, first, second)
    made = iter([Value(TupleGetItem(choice, k)) for k in range(len(flat[0]))])
    found: list[Result] = []
    for a in sides[0]:
        found.append(
            same_kind(a, next(made))
            if isinstance(a, Value)
            else list_like(a, next(made))
            if isinstance(a, TensorList)
            else a
        )
    return found


def loop(c: Builder, state: Sequence[Result], going: Going, step: Step) -> list[Any]:
    """The final state of a loop."""
    now: list[Any] = list(state)
    problem: OpNotImplemented | None = None
    for _ in range(FEW_ROUNDS):
        flag = known_rounds(going(now))
        if flag is None:
            break
        if not flag:
            return now
        try:
            now = step(now)
        except OpNotImplemented as error:
            problem = error
            break
    first = known_rounds(going(list(state)))
    try:
        return recursion(c, list(state), going, step)
    except OpNotImplemented as error:
        if first is None or problem is not None:
            raise
        return unrolled(list(state), going, step, error)


def unrolled(state: list[Result], going: Going, step: Step, reason: OpNotImplemented) -> list[Result]:
    """A loop, unrolled. If a condition to continue is unknown, it raises the error of the other conversion."""
    for _ in range(MOST_ROUNDS):
        flag = known_rounds(going(state))
        if flag is None:
            raise reason
        if not flag:
            return state
        state = step(state)
    raise OpNotImplemented(f"it has more than {MOST_ROUNDS} rounds, and can only be unrolled ({reason})")


def recursion(c: Builder, state: list[Result], going: Going, step: Step) -> list[Any]:
    """A loop as a function that calls itself. Values that no round changes are not part of its state."""
    moving, state = _moving(c, state, step)

    def whole(values: Sequence[Value]) -> list[Result]:
        given = iter(values)
        return [
            (list_like(s, next(given)) if isinstance(s, TensorList) else same_kind(s, next(given))) if m else s
            for s, m in zip(state, moving, strict=True)
        ]

    def parts(found: Sequence[Any]) -> list[Value]:
        taken = [f for f, m in zip(found, moving, strict=True) if m]
        return [stacked(c, f) if isinstance(f, TensorList) else f for f in taken]

    last = while_loop(c, parts(state), lambda now: going(whole(now)), lambda now: parts(step(whole(now))), "loop")
    return whole(last)


def _moving(c: Builder, state: list[Result], step: Step) -> tuple[list[bool], list[Any]]:
    """(which parts of a state change between rounds, the state with lists in their final form). Two trial rounds decide it: one on
    known values, and one on values with unknown changing parts."""
    moving = [False] * len(state)
    start = list(state)
    while True:
        after = step(list(start))
        changed = [m or a is not b for m, a, b in zip(moving, after, start, strict=True)]
        if changed == moving:
            break
        moving = changed
        start = [_opaque(c, s) if m else s for s, m in zip(state, moving, strict=True)]
    made: list[Any] = []
    for s, a, m in zip(state, after, moving, strict=True):
        if m and isinstance(s, TensorList):
            made.append(empty_stack(c, s, a) if s.stacked is None else s)
        elif not m or isinstance(s, Value) and isinstance(a, Value):
            made.append(s)
        else:
            raise OpNotImplemented("it changes a resource from round to round")
    return moving, made


def _opaque(c: Builder, x: Result) -> Result:
    """A part of a state with only its type known."""
    if isinstance(x, TensorList):
        return pushed_apart(c, x)
    return same_kind(x, Value(Var("trial", tensor_type(x.shape, x.dtype)))) if isinstance(x, Value) else x
