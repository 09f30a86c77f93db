"""Converters of recurrent layers: their steps in a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.relay import loops
from tilewright.relay.expr import Call, Expr, TupleGetItem, Var
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.ops_linalg import linear
from tilewright.relay.frontend.pytorch.ops_tensor import split_sizes
from tilewright.relay.frontend.pytorch.value import TorchCall, aten

State = tuple[Value, ...]
Cell = Callable[[TorchCall, Value, State, Value, Value | None], State]
"""(what the input contributes, state, recurrent weight, recurrent bias) -> state."""


def _lstm_step(c: TorchCall, given: Value, state: State, weight: Value, bias: Value | None) -> State:
    hidden, memory = state
    gates = c.call("add", given, linear(c, hidden, weight, bias))
    i, f, g, o = c.call("split", gates, indices_or_sections=4, axis=1)
    kept = c.call("multiply", c.call("sigmoid", f), memory)
    memory = c.call("add", kept, c.call("multiply", c.call("sigmoid", i), c.call("tanh", g)))
    return c.call("multiply", c.call("sigmoid", o), c.call("tanh", memory)), memory


def _gru_step(c: TorchCall, given: Value, state: State, weight: Value, bias: Value | None) -> State:
    (hidden,) = state
    xr, xz, xn = c.call("split", given, indices_or_sections=3, axis=1)
    hr, hz, hn = c.call("split", linear(c, hidden, weight, bias), indices_or_sections=3, axis=1)
    reset, update = c.call("sigmoid", c.call("add", xr, hr)), c.call("sigmoid", c.call("add", xz, hz))
    new = c.call("tanh", c.call("add", xn, c.call("multiply", reset, hn)))
    return (c.call("add", new, c.call("multiply", update, c.call("subtract", hidden, new))),)


def _plain_step(activation: str) -> Cell:
    def step(c: TorchCall, given: Value, state: State, weight: Value, bias: Value | None) -> State:
        return (c.call(activation, c.call("add", given, linear(c, state[0], weight, bias))),)

    return step


def _layer(
    c: TorchCall, steps: Sequence[Value], state: State, weights: Sequence[Value], cell: Cell
) -> tuple[list[Value], State]:
    inner, recurrent, *biases = weights
    given_bias, own_bias = biases if len(biases) >= 2 else (None, None)
    outputs = []
    for x in steps:
        state = cell(c, linear(c, x, inner, given_bias), state, recurrent, own_bias)
        outputs.append(state[0])
    return outputs, state


def _loop(
    c: TorchCall, x: Value, state: State, weights: Sequence[Value], cell: Cell, backwards: bool
) -> tuple[Value, State]:
    """A layer of an unknown number of steps (steps, batch, inputs) as a function that calls itself: (all outputs, the last state)."""
    inner, recurrent, *biases = weights
    given_bias, own_bias = biases if len(biases) >= 2 else (None, None)
    given = linear(c, x, inner, given_bias)
    given = c.call("reverse", given, axis=0) if backwards else given
    steps = x.shape[0]
    places = c.call("arange", start=0, stop=steps, step=1, dtype="int64")
    column = c.call("expand_dims", places, axis=1, num_newaxis=2)
    start = [c.number(0, "int64"), c.full([steps, *state[0].shape], 0, x.dtype), *state]
    count = c.size(steps)

    def going(k: Expr, *now: Expr) -> Expr:
        return c.call("less", Value(k), count).expr  # type: ignore[no-any-return]

    def step(k: Expr, rows: Expr, *now: Expr) -> list[Expr]:
        row = c.call("take", given, Value(k), axis=0, mode="clip")
        after = cell(c, row, tuple([Value(v) for v in now]), recurrent, own_bias)
        here = c.call("equal", column, Value(k))
        written = c.call("where", here, c.call("expand_dims", after[0], axis=0), Value(rows))
        return [v.expr for v in (c.call("add", Value(k), 1), written, *after)]

    loop = loops.while_loop(going, [Var(f"state{k}", v.type) for k, v in enumerate(start)], step)
    made = Call(loop, tuple([v.expr for v in start]))
    rows, *last = [Value(TupleGetItem(made, k)) for k in range(1, len(start))]
    return c.call("reverse", rows, axis=0) if backwards else rows, tuple(last)


def _network(
    c: TorchCall, x: Value, states: Sequence[Value], params: Sequence[Value], biases: bool, layers: int, bidirectional: bool,
    batch_first: bool, cell: Cell,
) -> list[Value]:  # fmt: skip
    single = x.ndim == 2
    x = c.call("expand_dims", x, axis=0 if batch_first else 1) if single else x
    states = [c.call("expand_dims", s, axis=1) if single else s for s in states]
    axis = 1 if batch_first else 0
    length = x.shape[axis]
    steps: Any = None
    if isinstance(length, int):
        steps = [c.call("squeeze", p, axis=(axis,)) for p in split_sizes(c, x, [1] * length, axis)]
    elif batch_first:
        x = c.transpose(x, [1, 0, 2])
    ways = 2 if bidirectional else 1
    each = len(params) // (layers * ways)
    start = [[c.call("squeeze", p, axis=(0,)) for p in split_sizes(c, s, [1] * (layers * ways), 0)] for s in states]
    last: list[State] = []
    for layer in range(layers):
        found: list[Any] = []
        for way in range(ways):
            k = layer * ways + way
            weights = params[k * each : (k + 1) * each]
            first = tuple([s[k] for s in start])
            if steps is None:
                rows, state = _loop(c, x, first, weights, cell, bool(way))
                found.append(rows)
            else:
                outputs, state = _layer(c, steps[::-1] if way else steps, first, weights, cell)
                found.append(outputs[::-1] if way else outputs)
            last.append(state)
        if steps is None:
            x = found[0] if ways == 1 else c.call("concatenate", found, axis=2)
        else:
            joined = [c.call("concatenate", list(both), axis=1) for both in zip(*found, strict=True)]
            steps = found[0] if ways == 1 else joined
    out = x if steps is None else c.call("stack", steps, axis=axis)
    if steps is None and batch_first:
        out = c.transpose(out, [1, 0, 2])
    ends = [c.call("stack", [s[k] for s in last], axis=0) for k in range(len(states))]
    if single:
        out = c.call("squeeze", out, axis=(0 if batch_first else 1,))
        ends = [c.call("squeeze", e, axis=(1,)) for e in ends]
    return [out, *ends]


@aten("lstm.input")
def _lstm(
    c: TorchCall, x: Value, states: Sequence[Value], params: Sequence[Value], biases: bool, layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    if len(params) % (4 if biases else 2) or len(params) // (layers * (2 if bidirectional else 1)) == 5:
        raise c.refuse("proj_size", "a number", "0")
    return _network(c, x, states, params, biases, layers, bidirectional, batch_first, _lstm_step)


@aten("gru.input", "rnn_tanh.input", "rnn_relu.input")
def _gru(
    c: TorchCall, x: Value, state: Value, params: Sequence[Value], biases: bool, layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    cell = _gru_step if "gru" in c.target else _plain_step("tanh" if "tanh" in c.target else "nn.relu")
    return _network(c, x, [state], params, biases, layers, bidirectional, batch_first, cell)


@aten("lstm_cell")
def _lstm_cell(
    c: TorchCall, x: Value, state: Sequence[Value], inner: Value, weight: Value, given: Value | None = None, own: Value | None = None
) -> Any:  # fmt: skip
    return list(_lstm_step(c, linear(c, x, inner, given), (state[0], state[1]), weight, own))


@aten("gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _gru_cell(
    c: TorchCall, x: Value, hidden: Value, inner: Value, weight: Value, given: Value | None = None, own: Value | None = None
) -> Any:  # fmt: skip
    cell = _gru_step if "gru" in c.target else _plain_step("tanh" if "tanh" in c.target else "nn.relu")
    return cell(c, linear(c, x, inner, given), (hidden,), weight, own)[0]
