"""Converters of recurrent operators: RNN, LSTM, their sequences in one or two directions, SVDF.

Like in TFLite, floats are quantised to bytes for weights of bytes. A sequence of an LSTM in integers is computed in the kernel's own steps
(`recurrent_integer`). Other quantised layers compute in float32 and round their state and result.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.relay.cards.relations import Dim, may_equal, shape_text
from tilewright.relay.frontend.tflite.node import Node, Value, tflite_op
from tilewright.relay.frontend.tflite.ops.dynamic import Rows, hybrid, symmetric
from tilewright.relay.frontend.tflite.ops.quantized import real, stored_real
from tilewright.relay.frontend.tflite.ops.recurrent_integer import IntegerCell, is_integer
from tilewright.support.errors import DiagnosticError, OpNotImplemented

MOST_STEPS = 1024
"""The largest number of steps: sequences are unrolled, and longer ones are refused."""


def optional(inputs: Sequence[Value | None], place: int) -> Value | None:
    """An input that may be left out."""
    return inputs[place] if place < len(inputs) else None


def steps(node: Node, x: Value, time_major: bool) -> list[Value]:
    """The inputs of each step: (batch, features)."""
    axis = 0 if time_major else 1
    (count,) = node.extents(x, (axis,), "the steps of its sequence")
    if count > MOST_STEPS:
        raise OpNotImplemented(f"its sequence has {count} steps; up to {MOST_STEPS} are supported")
    parts = node.calls("split", x, indices_or_sections=count, axis=axis) if count > 1 else [x]
    return [node.reshape(p, [d for k, d in enumerate(x.shape) if k != axis]) for p in parts]


def stacked(node: Node, rows: list[Value], time_major: bool) -> Value:
    """The results of all steps as one tensor."""
    return node.call("stack", rows, axis=0 if time_major else 1)


class Rounding:
    """The form of a state between steps: floats, or integers of a quantisation."""

    def __init__(self, node: Node, like: Value | None) -> None:
        self.node = node
        whole = like is not None and like.quant is not None and like.quant.single and like.dtype.startswith("int")
        self.quant = like.quant if whole and like is not None else None
        self.dtype = like.dtype if like is not None else "float32"

    def kept(self, x: Value) -> Value:
        """x after rounding, as the next step reads it."""
        if self.quant is None:
            return x
        return real(self.node, stored_real(self.node, x, self.quant, self.dtype), self.quant)


def scales_of(x: Value) -> tuple[int, ...]:
    """The allowed numbers of scales of byte weights, for which the input's floats are quantised; () for a quantised input."""
    return (1,) if x.dtype.startswith("float") else ()


class LSTMCell:
    """One direction of an LSTM, with 24 inputs in the schema's order."""

    def __init__(self, node: Node, inputs: Sequence[Value | None], state: Value, cell: Value) -> None:
        self.node = node
        assert inputs[0] is not None
        self.scales = scales_of(inputs[0])
        self.to = [optional(inputs, k) for k in range(1, 5)]
        self.back = [optional(inputs, k) for k in range(5, 9)]
        self.seen = [optional(inputs, k) for k in range(9, 12)]
        self.bias = [optional(inputs, k) for k in range(12, 16)]
        self.projection, self.projection_bias = optional(inputs, 16), optional(inputs, 17)
        self.norm = [optional(inputs, k) for k in range(20, 24)]
        self.h_rounding, self.c_rounding = Rounding(node, state), Rounding(node, cell)
        self.h, self.c = real(node, state), real(node, cell)

    def gate(self, k: int, x: Rows, h: Rows, cell: Value | None, peephole: int | None) -> Value:
        """The sum before the activation of gate k: input, forget, cell, output."""
        node = self.node
        to, back = self.to[k], self.back[k]
        assert to is not None and back is not None
        total = node.call("add", x.times(to), h.times(back))
        seen = None if peephole is None else self.seen[peephole]
        if seen is not None and cell is not None:
            if self.scales and hybrid(cell, seen):
                seen = symmetric(node, seen, self.scales, self.scales)
            total = node.call("add", total, node.call("multiply", cell, real(node, seen)))
        norm = self.norm[k]
        if norm is not None:
            mean = node.call("mean", total, axis=(-1,), keepdims=True)
            centre = node.call("subtract", total, mean)
            variance = node.call("mean", node.call("multiply", centre, centre), axis=(-1,), keepdims=True)
            normal = node.call("multiply", centre, node.call("rsqrt", node.call("add", variance, 1e-8)))
            total = node.call("multiply", normal, real(node, norm))
        bias = self.bias[k]
        return total if bias is None else node.call("add", total, real(node, bias))

    def step(self, data: Value) -> Value:
        """The output of one step."""
        node = self.node
        x, before = Rows(node, data, self.scales), Rows(node, self.h, self.scales)
        clip, projected = float(node.get("cell_clip", 0.0)), float(node.get("proj_clip", 0.0))
        forget = node.call("sigmoid", self.gate(1, x, before, self.c, 1))
        if self.to[0] is None:
            keep = node.call("subtract", node.number(1.0, "float32"), forget)
        else:
            keep = node.call("sigmoid", self.gate(0, x, before, self.c, 0))
        new = node.activated(self.gate(2, x, before, None, None))
        cell = node.call("add", node.call("multiply", forget, self.c), node.call("multiply", keep, new))
        if clip > 0:
            cell = node.call("clip", cell, a_min=-clip, a_max=clip)
        cell = self.c_rounding.kept(cell)
        out = node.call("sigmoid", self.gate(3, x, before, cell, 2))
        h = node.call("multiply", out, node.activated(cell))
        if self.projection is not None:
            h = Rows(node, h, self.scales).times(self.projection)
            if self.projection_bias is not None:
                h = node.call("add", h, real(node, self.projection_bias))
            if projected > 0:
                h = node.call("clip", h, a_min=-projected, a_max=projected)
        self.h, self.c = self.h_rounding.kept(h), cell
        return self.h


def write_state(node: Node, before: Value | None, x: Value) -> None:
    """The state of a layer after its last step, for the next run."""
    if before is not None and before.quant is not None and before.dtype.startswith("int"):
        x = stored_real(node, x, before.quant, before.dtype)
    keep_state(node, before, x)


def keep_state(node: Node, before: Value | None, x: Value) -> None:
    """The same of a state in the form in which it is stored."""
    if before is not None and before.name in node.importer.variables:
        node.importer.variables[before.name] = Value(x._expr, x.array, before.name, before.quant)


def finished(node: Node, x: Value, place: int = 0) -> Value:
    """A float result in the model's type."""
    info = node.outputs[place]
    if info.quant is not None and info.dtype in ("int8", "uint8", "int16"):
        return stored_real(node, x, info.quant, info.dtype)
    return x


STATES = ("float32", "int8", "uint8", "int16")
"""Element types of states."""


def need_state(state: Value, batch: Dim) -> None:
    """Raises DiagnosticError for a state that does not have one row of numbers for each example."""
    if state.ndim != 2 or not may_equal(state.shape[0], batch) or state.dtype not in STATES:
        raise DiagnosticError(
            f"its state is {state.dtype} of the shape {shape_text(state.shape)}, where {batch} examples have a row each"
        )


def states_of(inputs: Sequence[Value | None], first: int, batch: Dim) -> tuple[Value, Value]:
    """The output state and the cell state among the inputs."""
    h, c = optional(inputs, first), optional(inputs, first + 1)
    if h is None or c is None:
        raise OpNotImplemented("its states are left out")
    need_state(h, batch)
    need_state(c, batch)
    return h, c


@tflite_op("UNIDIRECTIONAL_SEQUENCE_LSTM")
def _sequence_lstm(node: Node, *inputs: Value | None) -> Value:
    if node.get("diagonal_recurrent_tensors", False):
        raise OpNotImplemented("its recurrent weights are diagonal; supported: full ones")
    x = inputs[0]
    assert x is not None
    time_major = bool(node.get("time_major", False))
    h, c = states_of(inputs, 18, x.shape[1 if time_major else 0])
    if is_integer(inputs, h, c):
        whole = IntegerCell(node, inputs, h, c)
        rows = [whole.step(s) for s in steps(node, x, time_major)]
        keep_state(node, h, whole.h)
        keep_state(node, c, whole.c)
        return stacked(node, rows, time_major)
    cell = LSTMCell(node, inputs, h, c)
    rows = [cell.step(s) for s in steps(node, real(node, x), time_major)]
    write_state(node, h, cell.h)
    write_state(node, c, cell.c)
    return finished(node, stacked(node, rows, time_major))


@tflite_op("LSTM")
def _lstm(node: Node, *inputs: Value | None) -> list[Value]:
    x = inputs[0]
    assert x is not None
    if int(node.get("kernel_type", 0)) == 1 or len(inputs) == 5:
        return _basic_lstm(node, *inputs)
    h, c = states_of(inputs, 18, x.shape[0])
    cell = LSTMCell(node, inputs, h, c)
    out = cell.step(real(node, x))
    write_state(node, h, cell.h)
    write_state(node, c, cell.c)
    return [finished(node, out)]


def _basic_lstm(node: Node, *inputs: Value | None) -> list[Value]:
    """The basic kernel: one product of input and last output, with gates in the order input, new, forget, output."""
    x, h, w, b, c = inputs[:5]
    assert x is not None and h is not None and w is not None and b is not None and c is not None
    joined = node.call("concatenate", [real(node, x), real(node, h)], axis=1)
    gates = node.call("add", Rows(node, joined, ()).times(w), real(node, b))
    i, g, f, o = node.calls("split", gates, indices_or_sections=4, axis=1)
    kept = node.call("multiply", node.call("sigmoid", f), real(node, c))
    cell = node.call("add", kept, node.call("multiply", node.call("sigmoid", i), node.call("tanh", g)))
    out = node.call("multiply", node.call("sigmoid", o), node.call("tanh", cell))
    made = [finished(node, out), finished(node, cell, 1), joined, gates]
    return made[: len(node.outputs)]


@tflite_op("BIDIRECTIONAL_SEQUENCE_LSTM")
def _two_lstms(node: Node, *inputs: Value | None) -> list[Value]:
    x = inputs[0]
    assert x is not None
    if optional(inputs, 39) is not None:
        raise OpNotImplemented("it takes auxiliary inputs; supported: one input")
    time_major = bool(node.get("time_major"))
    rows = steps(node, real(node, x), time_major)
    made = []
    for first, states in ((1, 35), (18, 37)):
        own = [x, *[optional(inputs, k) for k in range(first, first + 17)]]
        h, c = states_of(inputs, states, rows[0].shape[0])
        cell = LSTMCell(node, own, h, c)
        ordered = rows if first == 1 else rows[::-1]
        found = [cell.step(s) for s in ordered]
        write_state(node, h, cell.h)
        write_state(node, c, cell.c)
        made.append(stacked(node, found if first == 1 else found[::-1], time_major))
    if node.get("merge_outputs", False):
        return [node.call("concatenate", made, axis=2)]
    return made


def rnn_step(node: Node, x: Value, h: Value, w: Value, r: Value, b: Value) -> Value:
    """One step of a plain recurrent layer."""
    total = node.call("add", Rows(node, x, (1,)).times(w), Rows(node, h, (1,)).times(r))
    return node.activated(node.call("add", total, real(node, b)))


@tflite_op("RNN")
def _rnn(node: Node, x: Value, w: Value, r: Value, b: Value, h: Value) -> Value:
    need_state(h, x.shape[0])
    made = rnn_step(node, x, real(node, h), w, r, b)
    write_state(node, h, made)
    return made


@tflite_op("UNIDIRECTIONAL_SEQUENCE_RNN")
def _sequence_rnn(node: Node, x: Value, w: Value, r: Value, b: Value, h: Value) -> Value:
    time_major = bool(node.get("time_major", False))
    need_state(h, x.shape[1 if time_major else 0])
    state, rows = real(node, h), []
    for s in steps(node, x, time_major):
        state = rnn_step(node, s, state, w, r, b)
        rows.append(state)
    write_state(node, h, state)
    return stacked(node, rows, time_major)


@tflite_op("BIDIRECTIONAL_SEQUENCE_RNN")
def _two_rnns(node: Node, *inputs: Value | None) -> list[Value]:
    x = inputs[0]
    assert x is not None
    if optional(inputs, 9) is not None:
        raise OpNotImplemented("it takes auxiliary inputs; supported: one input")
    time_major = bool(node.get("time_major", False))
    rows = steps(node, x, time_major)
    made = []
    for first in (1, 5):
        w, r, b, h = inputs[first : first + 4]
        assert w is not None and r is not None and b is not None and h is not None
        need_state(h, rows[0].shape[0])
        state, found = real(node, h), []
        for s in rows if first == 1 else rows[::-1]:
            state = rnn_step(node, s, state, w, r, b)
            found.append(state)
        write_state(node, h, state)
        made.append(stacked(node, found if first == 1 else found[::-1], time_major))
    if node.get("merge_outputs", False):
        return [node.call("concatenate", made, axis=2)]
    return made


@tflite_op("SVDF")
def _svdf(node: Node, x: Value, features: Value, time: Value, bias: Value | None, state: Value) -> Value:
    """A filter over features, followed by a filter over the last steps. `rank` filters are added."""
    rank = int(node.get("rank"))
    filters, memory = time.shape
    batch = x.shape[0]
    need_state(state, batch)
    scales = scales_of(x)
    if scales and hybrid(x, features):
        if not hybrid(x, time):
            raise OpNotImplemented(
                f"its weights over features are {features.dtype} and those over time {time.dtype}; both are bytes, or both floats"
            )
        time = symmetric(node, time, scales, scales)
    made = Rows(node, real(node, x), scales).times(features)
    before = node.reshape(real(node, state), (batch, filters, memory))
    kept = node.call("strided_slice", before, begin=(1,), end=(memory,), axes=(2,)) if memory > 1 else None
    newest = node.reshape(made, (batch, filters, 1))
    if state.quant is not None and state.dtype.startswith("int"):
        newest = real(node, stored_real(node, newest, state.quant, state.dtype), state.quant)
    now = newest if kept is None else node.call("concatenate", [kept, newest], axis=2)
    write_state(node, state, node.reshape(now, state.shape))
    sums = node.call("sum", node.call("multiply", now, real(node, time)), axis=(2,))
    total = node.call("sum", node.reshape(sums, (batch, filters // rank, rank)), axis=(2,))
    if bias is not None:
        total = node.call("add", total, real(node, bias))
    return finished(node, node.activated(total))
