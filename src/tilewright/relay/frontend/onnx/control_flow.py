"""Converters of control flow: branches and loops that are known at import are resolved; the virtual machine runs others.

Loops of few rounds are unrolled. Two kinds of loops with a known number of rounds are unrolled, too: those that build sequences,
which then have known lengths, and those whose body changes between rounds (a tensor changes its rank). Sequences in the state of
other loops, or of different lengths in two branches, are packed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from tilewright.formats.onnx_messages import Message
from tilewright.ir import TensorType
from tilewright.relay.cards.relations import Dim, tensor_type
from tilewright.relay.expr import Expr, Function, If, Let, Tuple, TupleGetItem, Var, const
from tilewright.relay.frontend.common.builder import MOST_PARTS, need_few
from tilewright.relay.frontend.common.loops import settled
from tilewright.relay.frontend.common.value import are_numbers
from tilewright.relay.frontend.onnx import compatibility
from tilewright.relay.frontend.onnx.choices import demanded, either
from tilewright.relay.frontend.onnx.packed import matched, packed, rank_of, rebuilt, scalar, tensors
from tilewright.relay.frontend.onnx.value import (
    AlreadyReported,
    Choice,
    EmptyOptional,
    Item,
    ListValue,
    OnnxNode,
    Packed,
    Question,
    Unknown,
    Value,
    elements_of,
    onnx_op,
)
from tilewright.support.errors import DiagnosticError, ModelError, OpNotImplemented
from tilewright.tir import Any as AnyDim

FEW_ROUNDS = 32
"""The largest number of rounds up to which loops are unrolled."""
MOST_ROUNDS = 4096
"""The largest number of rounds for loops that can only be unrolled."""

Step = Callable[[Value, Value, list[Any]], tuple[Value | None, list[Any], list[Value]]]
"""A step: (number of the round, whether to continue, state) -> (whether to continue, state, rows to gather)."""


@onnx_op("If", typed=True)
def _if(node: OnnxNode, condition: Value) -> list[Item]:
    if condition.array is not None:
        compatibility.KNOWN_COURSE.seen(node.name)
        branch = node.get("then_branch") if bool(condition.array.reshape(-1)[0]) else node.get("else_branch")
        return node.importer.subgraph(branch, {})
    importer, names = node.importer, {"yes": "then_branch", "no": "else_branch"}
    question = Question.of_branches(node.name)
    found: dict[str, list[Any]] = {}
    wrong: list[DiagnosticError | ModelError] = []
    try:
        for side, branch in names.items():
            with importer.assuming(condition, side):
                try:
                    made = importer.attempt(node.get(branch), {})
                    _ = [v.type for v in made if isinstance(v, Value) and v.array is None]
                    found[side] = made
                except (DiagnosticError, ModelError) as error:
                    wrong.append(error)
        if len(found) == len(names):
            return either(node, condition, found["yes"], found["no"], question)
        if not found:
            raise wrong[0]
        ((side, made),) = found.items()
        # The other branch is invalid for these inputs, so no run can take it.
        choice, who = Choice(condition, None, None, question), "the rules of operators allow"
        return [demanded(node, choice, v, side == "yes", who) for v in made]
    except AlreadyReported:
        raise
    except (OpNotImplemented, DiagnosticError, ModelError) as error:
        # A known condition would allow a branch that is unsupported, or invalid for these inputs.
        raise Unknown.within(error, elements_of(condition)) from None


@onnx_op("Loop", typed=True)
def _loop(node: OnnxNode, trips: Value | None = None, condition: Value | None = None, *carried: Any) -> list[Any]:
    body = node.get("body")
    names = [i.name for i in body.input]
    count = len(carried)

    def step(k: Value, going: Value, state: list[Any]) -> tuple[Value | None, list[Any], list[Value]]:
        made = node.importer.attempt(body, dict(zip(names, [k, going, *state], strict=False)))
        return made[0], made[1 : 1 + count], made[1 + count :]

    gathered = len(body.output) - 1 - count
    ranks = [declared_rank(i) for i in body.input[2:]]
    state, rows = looped(node, trips, condition, list(carried), gathered, step, ranks)
    return [*state, *rows]


def declared_rank(info: Message) -> int | None:
    """The number of axes of the tensors in a declared sequence."""
    element = info.type.sequence_type.elem_type.tensor_type
    return len(element.shape.dim) if element.HasField("shape") else None


@onnx_op("Scan", since=9, typed=True)
def _scan(node: OnnxNode, *inputs: Value) -> list[Item]:
    return _scan_over(node, list(inputs))


@onnx_op("Scan", since=8, typed=True)
def _scan_batches(node: OnnxNode, lengths: Value | None, *inputs: Value) -> list[Value]:
    # Each example of the batch is scanned separately.
    (batch,) = node.static(inputs[-1])[:1]
    need_few(batch, MOST_PARTS, "examples of a batch")
    made = []
    for b in range(batch):
        one = [Value(node.call("take", x, node.scalar(b, "int32"), axis=0), kind=x.kind) for x in inputs]
        made.append(_scan_over(node, one, None if lengths is None else at(node, lengths, Value(array=np.array(b)), 0)))
    return [Value(node.call("stack", list(parts), axis=0)) for parts in zip(*made, strict=True)]


def _scan_over(node: OnnxNode, inputs: list[Value], rounds: Value | None = None) -> list[Any]:
    """rounds: the number of rounds to run; later rows are 0."""
    body, scanned = node.get("body"), node.get("num_scan_inputs")
    count = len(inputs) - scanned
    state, lines = inputs[:count], inputs[count:]
    gathered = len(body.output) - count
    axes = [node.place(a, x.ndim) for a, x in zip(node.get("scan_input_axes") or [0] * scanned, lines, strict=True)]
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
        place = node.place(a, turned.ndim)
        if place:
            order = [*range(1, place + 1), 0, *range(place + 1, turned.ndim)]
            turned = Value(node.call("transpose", turned, axes=tuple(order)), kind=r.kind)
        found.append(turned)
    return [*last, *found]


def at(node: OnnxNode, x: Value, k: Value, axis: int) -> Value:
    """The slice of x at index k of an axis."""
    if k.array is not None:
        n = int(k.array)
        part = node.call("strided_slice", x, begin=(n,), end=(n + 1,), strides=(1,), axes=(axis,))
        return Value(node.call("squeeze", part, axis=(axis,)), kind=x.kind)
    return Value(node.call("take", x, k, axis=axis), kind=x.kind)


# ---- loops


def looped(
    node: OnnxNode,
    trips: Value | None,
    condition: Value | None,
    state: list[Any],
    gathered: int,
    step: Step,
    ranks: Sequence[int | None] = (),
) -> tuple[list[Any], list[Any]]:
    """(the final state, the gathered rows) of a loop. ranks: the declared ranks of tensors in sequences of the state."""
    rounds = (
        int(node.numbers(trips, "number of rounds").reshape(-1)[0]) if trips is not None and trips.is_number else None
    )
    sequences = not all([isinstance(s, Value) for s in state])
    known = rounds is not None and (condition is None or condition.array is not None)
    few = known and rounds is not None and (rounds <= FEW_ROUNDS or sequences)
    problem: OpNotImplemented | None = None
    if few:
        try:
            return unrolled(node, rounds, condition, state, gathered, step)
        except Unknown as error:
            problem = error
    try:
        carried = packed_state(node, state, step, ranks) if sequences else state
        return recursion(node, trips, condition, carried, gathered, step)
    except AlreadyReported:
        raise
    except OpNotImplemented as error:
        problem = problem or error
    if few or not known:
        raise Unknown.within(problem, elements_of(trips) | elements_of(condition))
    return unrolled(node, rounds, condition, state, gathered, step)


def packed_state(node: OnnxNode, state: list[Any], step: Step, ranks: Sequence[int | None]) -> list[Packed]:
    """The state of a loop with packed sequences, and with optionals that a round may fill. Tensors of an empty sequence get the
    rank that a round gives them, or the declared one."""
    known = [rank_of(s) for s in state]
    after: list[Any] = [None] * len(state)
    if any(
        [isinstance(s, EmptyOptional) or type(s) is ListValue and k is None for k, s in zip(known, state, strict=True)]
    ):
        k, going = Var("round", tensor_type((), "int64")), Var("going", tensor_type((), "bool"))
        # The body may read elements that an empty sequence does not have.
        with suppress(OpNotImplemented, DiagnosticError, ModelError):
            after = step(Value(k), Value(going), state)[1]
    for other in ([rank_of(v) for v in after], ranks):
        known = [k if k is not None else r for k, r in zip(known, [*other, *[None] * len(state)], strict=False)]
    made = []
    for s, rank, v in zip(state, known, after, strict=True):
        if type(s) is ListValue:
            # A sequence that stays empty can have any rank.
            made.append(packed(node, s, rank or 0))
        else:
            made.append(matched(node, s, v)[0] if isinstance(s, EmptyOptional) and v is not None else s)
    return made


def unrolled(
    node: OnnxNode, rounds: int | None, condition: Value | None, state: list[Item], gathered: int, step: Step
) -> tuple[list[Item], list[Item]]:
    """A loop, unrolled. Raises Unknown if a condition to continue is not known at import."""
    compatibility.KNOWN_COURSE.seen(node.name)
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


def _stacked(node: OnnxNode, rows: list[Value], place: int, step: Step, state: list[Item]) -> Value:
    if rows:
        if all([r.is_number for r in rows]):
            return Value(array=np.stack([r.array for r in rows if r.array is not None]), kind=rows[0].kind)
        return Value(node.call("stack", rows, axis=0), kind=rows[0].kind)
    # Without rounds, the shape of a row comes from a round that is converted but not run.
    row = step(Value(array=np.array(0, np.int64)), Value(array=np.array(True)), state)[2][place]
    return Value(array=np.zeros((0, *node.static(row)), row.dtype), kind=row.kind)


def _no_rows(node: OnnxNode, row: Value) -> Value:
    """The initial value of gathered rows. Extents that are known only in an iteration are 0, as in ONNX Runtime."""
    shape: list[Dim] = [0, *[0 if isinstance(d, AnyDim) else d for d in row.shape]]
    if are_numbers(shape):
        return Value(array=np.zeros(shape, row.dtype))
    return node.value("zeros", shape=tuple(shape), dtype=row.dtype)


def _grown(node: OnnxNode, k: Var, part: Var, row: Value) -> Expr:
    """Rows with one row appended."""
    last = node.call("expand_dims", row, axis=0)
    grown: Expr = node.call("concatenate", [part, last], axis=0)
    if not any([isinstance(d, AnyDim) for d in row.shape]):
        return grown
    # These extents are known only after the first round.
    return If(node.call("equal", k, node.scalar(0, "int64")), last, grown)


def recursion(
    node: OnnxNode, trips: Value | None, condition: Value | None, state: list[Any], gathered: int, step: Step
) -> tuple[list[Any], list[Any]]:
    """A loop as a function that calls itself in its last step. Sizes that change between rounds stay dynamic."""
    first = Value(const(True)) if condition is None else scalar(node, condition)
    k, going = Var("round", tensor_type((), "int64")), Var("going", tensor_type((), "bool"))
    carried = [t for s in state for t in tensors(s)]

    def values(now: Sequence[Expr]) -> list[Any]:
        made = [Value(v) for v in now]
        return [rebuilt(s, made) for s in state]

    def once(now: list[Var]) -> tuple[list[Value], tuple[Value | None, list[Value]]]:
        before = values(now)
        more, after, rows = step(Value(k), Value(going), list(before))
        same = [matched(node, a, b)[1] for a, b in zip(before, after, strict=True)]
        return [t for s in same for t in tensors(s)], (more, rows)

    now, after, (more, rows) = settled(carried, once)
    if not all([isinstance(r, Value) for r in rows]) or len(rows) != gathered:
        raise OpNotImplemented("its input is not a tensor")
    parts = [
        Var(
            f"rows{i}",
            TensorType((AnyDim(), *[AnyDim() if isinstance(d, AnyDim) else d for d in r.type.shape]), r.type.dtype),
        )
        for i, r in enumerate(rows)
    ]
    empty = [_no_rows(node, r).expr for r in rows]
    grown = [_grown(node, k, p, r) for p, r in zip(parts, rows, strict=True)]
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
        const(0, "int64"), first.expr, *[t.expr for t in carried], *empty
    )
    results = [TupleGetItem(called, i) for i in range(len(now) + gathered)]
    gained = [Value(e, kind=r.kind) for e, r in zip(results[len(now) :], rows, strict=True)]
    return values(results[: len(now)]), gained
