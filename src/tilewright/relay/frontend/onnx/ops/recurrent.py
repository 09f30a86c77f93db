"""Converters of RNN, GRU and LSTM: input products of all steps at once, then the steps one by one; long sequences are loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.onnx.control_flow import at, looped
from tilewright.relay.frontend.onnx.value import OnnxNode, Value, onnx_op

Activation = Callable[[Any], Value]
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
ALPHAS = {
    "leakyrelu": 0.01, "thresholdedrelu": 1.0, "scaledtanh": 1.0, "hardsigmoid": 0.2, "elu": 1.0, "affine": 1.0,
}  # fmt: skip
BETAS = {"scaledtanh": 1.0, "hardsigmoid": 0.5, "affine": 0.0}
PLAIN = {"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "softsign": "Softsign", "softplus": "Softplus"}
SCALED = {"leakyrelu": "LeakyRelu", "thresholdedrelu": "ThresholdedRelu", "hardsigmoid": "HardSigmoid", "elu": "Elu"}


class Cell:
    """One direction of a recurrent operator: its weights, activations and step."""

    def __init__(self, node: OnnxNode, direction: int, inputs: Sequence[Value | None], kind: str = "") -> None:
        self.node, self.kind = node, kind or node.op_type
        _, w, r, b, *_ = inputs
        assert w is not None and r is not None
        self.w, self.r = self.part(w, direction), self.part(r, direction)
        self.hidden = self.r.known_extent(-1)
        both = None if b is None else self.part(b, direction)
        width = GATES[self.kind] * self.hidden
        self.wb = None if both is None else self.cut(both, 0, width)
        self.rb = None if both is None else self.cut(both, width, 2 * width)
        p = inputs[7] if len(inputs) > 7 else None
        self.peepholes = None if p is None else self.gates(self.part(p, direction), 3)
        count = len(DEFAULTS[self.kind])
        names = node.get("activations") or DEFAULTS[self.kind] * 2
        self.activations = [
            self.activation(names[(direction * count + k) % len(names)], direction * count + k) for k in range(count)
        ]
        self.recurrent = self.gates(self.r, GATES[self.kind], 0)
        self.recurrent_bias = None if self.rb is None else self.gates(self.rb, GATES[self.kind])

    def call(self, key: str, *args: object, **attrs: Any) -> Value:
        return self.node.value(key, *args, **attrs)

    @property
    def given(self) -> int:
        """The number of states among the inputs and outputs of the operator."""
        return 2 if self.kind == "LSTM" else 1

    def widths(self) -> list[int]:
        """The number of elements of each state, for an example of the batch."""
        return [self.hidden] * self.given

    def part(self, x: Value, direction: int) -> Value:
        """The part of an input for one direction."""
        if x.is_number and x.array is not None:
            return Value(array=x.array[direction])
        return at(self.node, x, Value(array=np.array(direction)), 0)

    def cut(self, x: Value, begin: int, end: int, axis: int = -1) -> Value:
        if x.is_number and x.array is not None:
            return Value(array=np.take(x.array, np.arange(begin, end), axis))
        return self.call("strided_slice", x, begin=(begin,), end=(end,), strides=(1,), axes=(axis % x.ndim,))

    def gates(self, x: Value, count: int, axis: int = -1) -> list[Value]:
        """Equal parts of an axis, one for each gate."""
        return [self.cut(x, k * self.hidden, (k + 1) * self.hidden, axis) for k in range(count)]

    def activation(self, name: str, place: int) -> Activation:
        """An activation function, with its alpha and beta."""
        node, key = self.node, name.lower()
        alphas, betas = node.get("activation_alpha") or [], node.get("activation_beta") or []
        alpha = alphas[place] if place < len(alphas) else ALPHAS.get(key, 0.0)
        beta = betas[place] if place < len(betas) else BETAS.get(key, 0.0)

        def f(x: Any) -> Value:
            value = x if isinstance(x, Value) else Value(x)
            if key in PLAIN:
                return _value(node.nested(PLAIN[key], value))
            if key in SCALED:
                return _value(node.nested(SCALED[key], value, alpha=alpha, beta=beta))
            if key in ("affine", "scaledtanh"):
                scaled = self.call("multiply", value, node.scalar(alpha if key == "affine" else beta, value))
                if key == "affine":
                    return self.call("add", scaled, node.scalar(beta, value))
                return self.call("multiply", self.call("tanh", scaled), node.scalar(alpha, value))
            raise node.refuse("activations", name, ", ".join([*PLAIN, *SCALED, "Affine", "ScaledTanh"]))

        return f

    def clipped(self, x: Value) -> Value:
        limit = self.node.get("clip")
        return x if limit is None else self.call("clip", x, a_min=-float(limit), a_max=float(limit))

    def input_products(self, x: Value) -> Value:
        """The products of the inputs of all steps with the weights: (steps, batch, gates * hidden)."""
        product = self.call("nn.matmul", x, self.w, transpose_b=True)
        return product if self.wb is None else self.call("add", product, self.wb)

    def step(self, x: Value, state: list[Value]) -> list[Value]:
        """The state after a step; x has the products of its inputs."""
        return {"RNN": self.rnn, "GRU": self.gru, "LSTM": self.lstm}[self.kind](x, state)

    def back(self, h: Value, weights: Value, bias: Value | None) -> Value:
        product = self.call("nn.dense", h, weights)
        return product if bias is None else self.call("add", product, bias)

    def rnn(self, x: Value, state: list[Value]) -> list[Value]:
        return [self.activations[0](self.clipped(self.call("add", x, self.back(state[0], self.r, self.rb))))]

    def gru(self, x: Value, state: list[Value]) -> list[Value]:
        f, g = self.activations
        h = state[0]
        xz, xr, xh = self.gates(x, 3)
        rz, rr, rh = self.recurrent
        biases: Sequence[Value | None] = self.recurrent_bias or [None] * 3
        bz, br, bh = biases
        z = f(self.clipped(self.call("add", xz, self.back(h, rz, bz))))
        r = f(self.clipped(self.call("add", xr, self.back(h, rr, br))))
        if self.node.get("linear_before_reset", 0):
            inner = self.call("multiply", r, self.back(h, rh, bh))
        else:
            inner = self.back(self.call("multiply", r, h), rh, bh)
        new = g(self.clipped(self.call("add", xh, inner)))
        kept = self.call("multiply", z, h)
        rest = self.call("multiply", self.call("subtract", self.node.scalar(1, z), z), new)
        return [self.call("add", rest, kept)]

    def lstm(self, x: Value, state: list[Value]) -> list[Value]:
        f, g, last = self.activations
        h, c = state
        xi, xo, xf, xc = self.gates(self.call("add", x, self.back(h, self.r, self.rb)), 4)
        peepholes: Sequence[Value | None] = self.peepholes or [None] * 3
        pi, po, pf = peepholes

        def seen(v: Value, p: Value | None, cell: Value) -> Value:
            return self.clipped(v if p is None else self.call("add", v, self.call("multiply", p, cell)))

        i = f(seen(xi, pi, c))
        if self.node.get("input_forget", 0):
            forget = self.call("subtract", self.node.scalar(1, i), i)
        else:
            forget = f(seen(xf, pf, c))
        new = self.call("multiply", i, g(self.clipped(xc)))
        cell = self.call("add", self.call("multiply", forget, c), new)
        o = f(seen(xo, po, cell))
        return [self.call("multiply", o, last(cell)), cell]


def _value(x: Any) -> Value:
    return x if isinstance(x, Value) else Value(x)


def _one_direction(
    node: OnnxNode,
    cell: Cell,
    x: Value,
    direction: int,
    backwards: bool,
    inputs: Sequence[Value | None],
    lengths: Value | None,
) -> list[Value]:
    """[all states (steps, batch, hidden), final state, (final cell)]."""

    def turned(v: Value) -> Value:
        if lengths is None:
            return node.value("reverse", v, axis=0)
        return node.value("reverse_sequence", v, node.cast(lengths, "int32"), seq_axis=0, batch_axis=1)

    products = cell.input_products(turned(x) if backwards else x)
    state = []
    for k, width in enumerate(cell.widths()):
        given = inputs[5 + k] if k < cell.given and len(inputs) > 5 + k else None
        if given is not None:
            state.append(cell.part(given, direction))
        else:
            # The batch may be dynamic.
            row = node.value("multiply", at(node, products, Value(array=np.array(0)), 0), node.scalar(0, x))
            column = cell.cut(row, 0, 1)
            state.append(
                cell.cut(row, 0, width)
                if width <= row.known_extent(1)
                else node.value("repeat", column, repeats=width, axis=1)
            )

    def step(k: Value, going: Value, now: list[Any]) -> tuple[None, list[Value], list[Value]]:
        after = cell.step(at(node, products, k, 0), now)
        row = after[0]
        if lengths is not None:
            running = node.call("less", node.cast(k, "int64"), node.cast(lengths, "int64"))
            column = node.call("expand_dims", running, axis=1)
            row = node.value("where", column, after[0], node.scalar(0, x))
            after = [node.value("where", column, a, b) for a, b in zip(after, now, strict=True)]
        return None, after, [row]

    steps = products.shape[0]
    if isinstance(steps, int):
        trips = Value(array=np.array(steps, np.int64))
    else:
        trips = node.value("take", node.call("shape_of", products, dtype="int64"), node.scalar(0, "int32"), axis=0)
    last, (rows,) = looped(node, trips, None, state, 1, step)
    return [turned(rows) if backwards else rows, *last[: cell.given]]


@onnx_op("RNN", "GRU", "LSTM")
def _recurrent(node: OnnxNode, *inputs: Value | None) -> list[Value]:
    return recurrent(node, inputs, Cell)


def of_known_batch(node: OnnxNode, x: Value, states: Sequence[Value | None]) -> Value:
    """The inputs of all steps. A dynamic batch is replaced by that of the given states; a run checks that they are equal."""
    known = [s.shape[1] for s in states if s is not None and isinstance(s.shape[1], int)]
    return node.value("reshape", x, newshape=(0, known[0], 0)) if known and not isinstance(x.shape[1], int) else x


def recurrent(node: OnnxNode, inputs: Sequence[Value | None], cell: type[Cell]) -> list[Value]:
    """[all states, final state, (final cell)] of all directions."""
    given = [*inputs, *[None] * (8 - len(inputs))]
    x, lengths = given[0], given[4]
    assert x is not None
    batch_first = node.get("layout", 0) == 1
    if not node.get("clip", 1.0) > 0:
        raise node.refuse("clip", node.get("clip"), "positive numbers")
    if batch_first:
        x = node.value("transpose", x, axes=(1, 0, 2))
        for k in (5, 6):
            v = given[k]
            given[k] = None if v is None else node.value("transpose", v, axes=(1, 0, 2))
    x = of_known_batch(node, x, given[5:7])
    how = node.get("direction", "forward")
    directions = [False, True] if how == "bidirectional" else [how == "reverse"]
    parts = [
        _one_direction(node, cell(node, d, given), x, d, back, given, lengths) for d, back in enumerate(directions)
    ]
    all_states = node.value("stack", [p[0] for p in parts], axis=1)
    last = [node.value("stack", [p[k] for p in parts], axis=0) for k in range(1, len(parts[0]))]
    if batch_first:
        all_states = node.value("transpose", all_states, axes=(2, 0, 1, 3))
        last = [node.value("transpose", v, axes=(1, 0, 2)) for v in last]
    return [all_states, *last]
