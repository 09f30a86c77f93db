"""Control flow: branches and loops that are known at import disappear; others run in the virtual machine, loops as recursion.

A sequence has a known length here, so a loop that builds one is unrolled; so are loops of few rounds, and all others whose body
cannot be compiled once for all rounds (a tensor changes its rank). How many rounds there are must then be known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.ir import TensorType
from tilewright.relay.expr import Expr, Function, If, Let, Tuple, TupleGetItem, Var, const
from tilewright.relay.frontend.common.loops import settled
from tilewright.relay.frontend.onnx import quirks
from tilewright.relay.frontend.onnx.reader import ModelError
from tilewright.relay.frontend.onnx.value import Listed, ListValue, Nothing, OnnxNode, Unknown, Value, onnx_op
from tilewright.relay.op.relations import known_equal, tensor_type
from tilewright.support.errors import DiagnosticError, OpNotImplemented
from tilewright.tir import Any as AnyDim

FEW_ROUNDS = 32
"""Loops of so many rounds are unrolled."""
MOST_ROUNDS = 4096
"""Loops that can only be unrolled may have so many."""

Step = Callable[[Value, Value, list[Any]], tuple[Value | None, list[Any], list[Value]]]
"""(number of the round, whether it goes on, state) -> (whether it goes on, state, rows of what is gathered)."""


def scalar(node: OnnxNode, x: Value) -> Value:
    """A tensor of one element as a scalar."""
    return x if not x.ndim else Value(node.call("reshape", x, newshape=()))


@onnx_op("If", typed=True)
def _if(node: OnnxNode, condition: Value) -> list[Any]:
    if condition.array is not None:
        quirks.KNOWN_COURSE.seen(node.name)
        branch = node.get("then_branch") if bool(condition.array.reshape(-1)[0]) else node.get("else_branch")
        return node.importer.subgraph(branch, {})  # type: ignore[no-any-return]
    try:
        yes, no = [node.importer.attempt(node.get(f"{b}_branch"), {}) for b in ("then", "else")]
    except Listed:
        raise
    except (OpNotImplemented, DiagnosticError, ModelError):
        # A branch that these inputs cannot take may be wrong for them.
        node.known(condition, "condition, since a branch of it is not supported for these inputs,")
        raise
    if not all([_alike(a, b) for a, b in zip(yes, no, strict=True)]):
        node.known(condition, "condition, since its branches answer different types,")
    sides = [Tuple(tuple([v.expr for v in side])) for side in (yes, no)]
    choice = If(scalar(node, condition).expr, sides[0], sides[1])
    return [Value(TupleGetItem(choice, i), kind=v.kind) for i, v in enumerate(yes)]


def _alike(a: Any, b: Any) -> bool:
    """Whether two values have one type."""
    if not (isinstance(a, Value) and isinstance(b, Value)):
        return False
    same = a.kind == b.kind and a.dtype == b.dtype and a.ndim == b.ndim
    return same and all(
        [known_equal(p, q) and not isinstance(p, AnyDim) for p, q in zip(a.shape, b.shape, strict=True)]
    )


@onnx_op("Loop", typed=True)
def _loop(node: OnnxNode, trips: Value | None = None, condition: Value | None = None, *carried: Any) -> list[Any]:
    body = node.get("body")
    names = [i.name for i in body.input]
    count = len(carried)

    def step(k: Value, going: Value, state: list[Any]) -> tuple[Value | None, list[Any], list[Value]]:
        made = node.importer.attempt(body, dict(zip(names, [k, going, *state], strict=False)))
        return made[0], made[1 : 1 + count], made[1 + count :]

    gathered = len(body.output) - 1 - count
    state, rows = looped(node, trips, condition, list(carried), gathered, step)
    return [*state, *rows]


@onnx_op("Scan", since=9, typed=True)
def _scan(node: OnnxNode, *inputs: Value) -> list[Any]:
    return _scan_over(node, list(inputs))


@onnx_op("Scan", since=8, typed=True)
def _scan_batches(node: OnnxNode, lengths: Value | None, *inputs: Value) -> list[Any]:
    # Each example of the batch is scanned by itself.
    (batch,) = node.static(inputs[-1])[:1]
    made = []
    for b in range(batch):
        one = [Value(node.call("take", x, node.scalar(b, "int32"), axis=0), kind=x.kind) for x in inputs]
        made.append(_scan_over(node, one, None if lengths is None else at(node, lengths, Value(array=np.array(b)), 0)))
    return [Value(node.call("stack", list(parts), axis=0)) for parts in zip(*made, strict=True)]


def _scan_over(node: OnnxNode, inputs: list[Value], rounds: Value | None = None) -> list[Any]:
    """rounds: how many are made of those that there are; rows behind them are 0."""
    body, scanned = node.get("body"), node.get("num_scan_inputs")
    count = len(inputs) - scanned
    state, lines = inputs[:count], inputs[count:]
    gathered = len(body.output) - count
    axes = [a % x.ndim for a, x in zip(node.get("scan_input_axes") or [0] * scanned, lines, strict=True)]
    back = node.get("scan_input_directions") or node.get("directions") or [0] * scanned
    names = [i.name for i in body.input]
    lines = [
        Value(node.call("reverse", x, axis=a), kind=x.kind) if d else x
        for x, a, d in zip(lines, axes, back, strict=True)
    ]

    def step(k: Value, going: Value, now: list[Any]) -> tuple[Value | None, list[Any], list[Value]]:
        rows = [at(node, x, k, a) for x, a in zip(lines, axes, strict=True)]
        made = node.importer.attempt(body, dict(zip(names, [*now, *rows], strict=False)))
        if rounds is None:
            return None, made[:count], made[count:]
        running = node.call("less", node.cast(k, "int64"), node.cast(rounds, "int64"))
        last = [node.value("where", running, a, b) for a, b in zip(made[:count], now, strict=True)]
        return None, last, [node.value("where", running, r, node.scalar(0, r)) for r in made[count:]]

    length = lines[0].shape[axes[0]]
    if isinstance(length, int):
        trips = Value(array=np.array(length, np.int64))
    else:
        sizes = node.call("shape_of", lines[0], dtype="int64")
        trips = Value(node.call("take", sizes, node.scalar(axes[0], "int32"), axis=0))
    last, rows = looped(node, trips, None, list(state), gathered, step)
    out_axes = node.get("scan_output_axes") or [0] * gathered
    out_back = node.get("scan_output_directions") or [0] * gathered
    found = []
    for r, a, d in zip(rows, out_axes, out_back, strict=True):
        turned = Value(node.call("reverse", r, axis=0), kind=r.kind) if d else r
        place = a % turned.ndim
        if place:
            order = [*range(1, place + 1), 0, *range(place + 1, turned.ndim)]
            turned = Value(node.call("transpose", turned, axes=tuple(order)), kind=r.kind)
        found.append(turned)
    return [*last, *found]


def at(node: OnnxNode, x: Value, k: Value, axis: int) -> Value:
    """The part of x at place k of an axis."""
    if k.array is not None:
        n = int(k.array)
        part = node.call("strided_slice", x, begin=(n,), end=(n + 1,), strides=(1,), axes=(axis,))
        return Value(node.call("squeeze", part, axis=(axis,)), kind=x.kind)
    return Value(node.call("take", x, k, axis=axis), kind=x.kind)


# ---- loops


def looped(
    node: OnnxNode, trips: Value | None, condition: Value | None, state: list[Any], gathered: int, step: Step
) -> tuple[list[Any], list[Any]]:
    """(the last state, what was gathered) of a loop."""
    rounds = None if trips is None or trips.array is None else int(trips.array.reshape(-1)[0])
    tensors = all([isinstance(s, Value) for s in state])
    known = rounds is not None and (condition is None or condition.array is not None)
    problem: OpNotImplemented | None = None
    if known and (rounds is not None and rounds <= FEW_ROUNDS or not tensors):
        try:
            return unrolled(node, rounds, condition, state, gathered, step)
        except Unknown as error:
            problem = error
    if tensors:
        try:
            return recursion(node, trips, condition, state, gathered, step)
        except Listed:
            raise
        except OpNotImplemented as error:
            problem = problem or error
    if known and problem is not None and rounds is not None and rounds <= FEW_ROUNDS:
        raise problem
    if trips is not None:
        node.known(trips, "number of rounds")
    if condition is not None:
        node.known(condition, "first condition")
    return unrolled(node, rounds, condition, state, gathered, step)


def unrolled(
    node: OnnxNode, rounds: int | None, condition: Value | None, state: list[Any], gathered: int, step: Step
) -> tuple[list[Any], list[Any]]:
    """A loop round by round. Raises Unknown where whether it goes on is not known."""
    quirks.KNOWN_COURSE.seen(node.name)
    going = condition is None or bool(node.numbers(condition, "condition").reshape(-1)[0])
    rows: list[list[Value]] = [[] for _ in range(gathered)]
    k = 0
    while going and (rounds is None or k < rounds):
        if k >= MOST_ROUNDS:
            raise OpNotImplemented(f"it has more than {MOST_ROUNDS} rounds, and can only be unrolled")
        more, state, made = step(Value(array=np.array(k, np.int64)), Value(array=np.array(True)), state)
        going = more is None or bool(node.numbers(more, "condition, which it computes in each round,").reshape(-1)[0])
        for found, row in zip(rows, made, strict=True):
            found.append(row)
        k += 1
    return state, [_stacked(node, r, i, step, state) for i, r in enumerate(rows)]


def _stacked(node: OnnxNode, rows: list[Value], place: int, step: Step, state: list[Any]) -> Value:
    if rows:
        if all([r.is_number for r in rows]):
            return Value(array=np.stack([r.array for r in rows if r.array is not None]), kind=rows[0].kind)
        return Value(node.call("stack", rows, axis=0), kind=rows[0].kind)
    # No round: a round that does not run says what a row would be.
    row = step(Value(array=np.array(0, np.int64)), Value(array=np.array(True)), state)[2][place]
    return Value(array=np.zeros((0, *node.static(row)), row.dtype), kind=row.kind)


def _no_rows(node: OnnxNode, row: Value) -> Value:
    """What a loop gathers before its first round. Raises Unknown where only a round tells the size of a row."""
    if any([isinstance(d, AnyDim) for d in row.shape]) or all([isinstance(d, int) for d in row.shape]):
        return Value(array=np.zeros((0, *node.static(row)), row.dtype))
    return node.value("zeros", shape=(0, *row.shape), dtype=row.dtype)


def recursion(
    node: OnnxNode, trips: Value | None, condition: Value | None, state: list[Value], gathered: int, step: Step
) -> tuple[list[Any], list[Any]]:
    """A loop as a function that calls itself in its last step; sizes that change between rounds stay open."""
    first = Value(const(True)) if condition is None else scalar(node, condition)
    k, going = Var("round", tensor_type((), "int64")), Var("going", tensor_type((), "bool"))

    def once(now: list[Var]) -> tuple[list[Any], tuple[Value | None, list[Value]]]:
        values: list[Any] = [Value(v, kind=s.kind) for v, s in zip(now, state, strict=True)]
        more, after, rows = step(Value(k), Value(going), values)
        return after, (more, rows)

    now, after, (more, rows) = settled(state, once)
    if any([isinstance(r, (ListValue, Nothing)) for r in rows]) or len(rows) != gathered:
        raise OpNotImplemented("it gathers what is no tensor")
    parts = [Var(f"rows{i}", TensorType((AnyDim(), *r.type.shape), r.type.dtype)) for i, r in enumerate(rows)]
    empty = [_no_rows(node, r).expr for r in rows]
    grown = [
        node.call("concatenate", [p, node.call("expand_dims", r, axis=0)], axis=0)
        for p, r in zip(parts, rows, strict=True)
    ]
    go: Expr = going
    if trips is not None:
        go = node.call("logical_and", node.call("less", k, node.cast(scalar(node, trips), "int64")), going)
    loop = Var("loop")
    again = loop(
        node.call("add", k, node.scalar(1, "int64")),
        going if more is None else scalar(node, more).expr,
        *[v.expr for v in after],
        *grown,
    )
    body = If(go, again, Tuple((*now, *parts)))
    called = Let(loop, Function([k, going, *now, *parts], body), loop)(
        const(0, "int64"), first.expr, *[s.expr for s in state], *empty
    )
    results = [TupleGetItem(called, i) for i in range(len(state) + gathered)]
    kinds = [*[s.kind for s in state], *[r.kind for r in rows]]
    values = [Value(e, kind=kind) for e, kind in zip(results, kinds, strict=True)]
    return values[: len(state)], values[len(state) :]
