"""Converters of recurrent layers: cells, loops over steps, bidirectional and convolutional layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.relay.frontend.common.loops import scan
from tilewright.relay.frontend.common.value import Value, known_extents, near_text
from tilewright.relay.frontend.keras.activations import activated
from tilewright.relay.frontend.keras.layers_conv import convolve
from tilewright.relay.frontend.keras.layers_core import dense
from tilewright.relay.frontend.keras.value import LayerCall, Nested, extents, flat_values, keras_layer
from tilewright.support.errors import OpNotImplemented

Step = Callable[[Value, list[Value]], list[Value]]
"""A step: (projected input, state) -> state, with the output as its first tensor."""


class Cell:
    """One step of a recurrent layer. `given` projects inputs (with any number of leading axes); `shapes` are the shapes of the
    state without the batch."""

    def __init__(self, given: Callable[[Value], Value], step: Step, shapes: Sequence[Sequence[int]]) -> None:
        self.given, self.step, self.shapes = given, step, shapes


def _weights(c: LayerCall) -> tuple[Value, Value, Value | None]:
    found = c.weights("kernel", "recurrent_kernel", *(["bias"] if c.get("use_bias", True) else []))
    return found[0], found[1], found[2] if len(found) > 2 else None


def _gate(c: LayerCall, x: Value) -> Value:
    return activated(c, x, "sigmoid", "recurrent_activation")


def _lstm(c: LayerCall) -> Cell:
    kernel, recurrent, bias = _weights(c)

    def step(x: Value, state: list[Value]) -> list[Value]:
        hidden, memory = state
        gates = c.split(c.call("add", x, dense(c, hidden, recurrent)), 4, x.ndim - 1)
        return _lstm_state(c, gates, memory)

    units = int(c.config["units"])
    return Cell(lambda x: dense(c, x, kernel, bias), step, [[units], [units]])


def _lstm_state(c: LayerCall, gates: Sequence[Value], memory: Value) -> list[Value]:
    i, f, g, o = gates
    kept = c.call("multiply", _gate(c, f), memory)
    memory = c.call("add", kept, c.call("multiply", _gate(c, i), activated(c, g, "tanh")))
    return [c.call("multiply", _gate(c, o), activated(c, memory, "tanh")), memory]


def _gru(c: LayerCall) -> Cell:
    kernel, recurrent, bias = _weights(c)
    units = int(c.config["units"])
    after = bool(c.get("reset_after", c.version >= 3))
    own = None
    if bias is not None and bias.ndim == 2:
        bias, own = c.at(bias, 0, 0), c.at(bias, 0, 1)

    def step(x: Value, state: list[Value]) -> list[Value]:
        (hidden,) = state
        xz, xr, xh = c.split(x, 3, x.ndim - 1)
        if after:
            hz, hr, hh = c.split(dense(c, hidden, recurrent, own), 3, x.ndim - 1)
            update, reset = _gate(c, c.call("add", xz, hz)), _gate(c, c.call("add", xr, hr))
            new = c.call("add", xh, c.call("multiply", reset, hh))
        else:
            both = c.cut(recurrent, 1, 0, 2 * units)
            hz, hr = c.split(dense(c, hidden, both), 2, x.ndim - 1)
            update, reset = _gate(c, c.call("add", xz, hz)), _gate(c, c.call("add", xr, hr))
            rest = c.cut(recurrent, 1, 2 * units, 3 * units)
            new = c.call("add", xh, dense(c, c.call("multiply", reset, hidden), rest))
        new = activated(c, new, "tanh")
        return [c.call("add", new, c.call("multiply", update, c.call("subtract", hidden, new)))]

    return Cell(lambda x: dense(c, x, kernel, bias), step, [[units]])


def _plain(c: LayerCall) -> Cell:
    kernel, recurrent, bias = _weights(c)

    def step(x: Value, state: list[Value]) -> list[Value]:
        return [activated(c, c.call("add", x, dense(c, state[0], recurrent)), "tanh")]

    return Cell(lambda x: dense(c, x, kernel, bias), step, [[int(c.config["units"])]])


def _stacked(c: LayerCall) -> Cell:
    specs = c.config["cells"]
    stores = c.store.members(specs, "cells")
    cells = []
    for spec, store in zip(specs, stores, strict=True):
        config = spec["config"]
        path = f"{c.path}/{config.get('name', 'cell')}"
        cells.append(cell_of(LayerCall(spec["class_name"], config, store, path, c.home, c.version)))

    def step(x: Value, state: list[Value]) -> list[Value]:
        rest, after = list(state), []
        for cell in cells:
            own, rest = rest[: len(cell.shapes)], rest[len(cell.shapes) :]
            made = cell.step(cell.given(x), own)
            after.append(made)
            x = made[0]
        return [x, *[s for made in after for s in made]]

    return _Stack(step, [s for cell in cells for s in cell.shapes])


class _Stack(Cell):
    """Stacked cells. The output comes before the state."""

    def __init__(self, step: Step, shapes: Sequence[Sequence[int]]) -> None:
        super().__init__(lambda x: x, step, shapes)


CELLS: dict[str, Callable[[LayerCall], Cell]] = {
    "LSTMCell": _lstm, "LSTM": _lstm, "GRUCell": _gru, "GRU": _gru, "SimpleRNNCell": _plain, "SimpleRNN": _plain,
    "StackedRNNCells": _stacked,
}  # fmt: skip


def cell_of(c: LayerCall) -> Cell:
    """The cell for a serialised cell."""
    found = CELLS.get(c.kind)
    if found is None:
        raise OpNotImplemented(f"its cell is a {c.kind}{near_text(c.kind, CELLS)}")
    return found(c)


def _advance(cell: Cell, x: Value, state: list[Value]) -> tuple[Value, list[Value]]:
    made = cell.step(x, state)
    return (made[0], made[1:]) if isinstance(cell, _Stack) else (made[0], made)


def _zeros(c: LayerCall, x: Value, shape: Sequence[int]) -> Value:
    """Zeros of a shape for each example of a batch."""
    if isinstance(x.shape[0], int):
        return c.full([x.shape[0], *shape], 0, x.dtype)
    first = x
    for axis in range(1, x.ndim):
        first = c.cut(first, axis, 0, 1)
    nothing = c.reshape(c.call("multiply", first, 0.0), [x.shape[0], *[1] * len(shape)])
    return c.broadcast(nothing, [x.shape[0], *shape])


def run_cell(
    c: LayerCall, cell: Cell, x: Value, initial: Sequence[Value] | None, mask: Value | None, backwards: bool
) -> Value | list[Value]:
    """The results of a recurrent layer: its last output or all outputs, and its state if the configuration asks for it."""
    state = list(initial) if initial else [_zeros(c, x, s) for s in cell.shapes]
    given = cell.given(x)
    sequences = [given] if mask is None else [given, c.cast(mask, "bool")]
    carried = mask is not None or isinstance(cell, _Stack)
    zeros = bool(c.get("zero_output_for_mask", False))
    if carried:
        # The output is carried separately if it is not part of the state, or if masked steps repeat it.
        state.append(c.call("multiply", _advance(cell, c.at(given, 1, 0), state)[0], 0.0))

    def row(parts: list[Value], now: list[Value]) -> tuple[list[Value], Value]:
        old, before = (now[:-1], now[-1]) if carried else (now, None)
        out, after = _advance(cell, parts[0], old)
        if mask is None or before is None:
            return [*after, *([out] if carried else [])], out
        flag = parts[1]

        def chosen(new: Value, kept: Value) -> Value:
            wide = c.reshape(flag, [flag.shape[0], *[1] * (new.ndim - 1)])
            return c.call("where", wide, new, kept)

        shown = chosen(out, before)
        written = chosen(out, c.call("multiply", out, 0.0)) if zeros else shown
        return [*[chosen(a, b) for a, b in zip(after, old, strict=True)], shown], written

    last, gathered = scan(c, sequences, 1, state, row, backwards)
    end = last.pop() if carried else last[0]
    out = gathered() if c.get("return_sequences", False) else end
    if mask is not None and c.get("return_sequences", False) and not c.get("return_state", False):
        c.home.masks[id(out)] = mask
    return [out, *last] if c.get("return_state", False) else out


def _arguments(c: LayerCall, x: Any, initial: Any, mask: Any) -> tuple[Value, Sequence[Value] | None, Value | None]:
    if isinstance(x, (list, tuple)):
        x, *states = x
        initial = states or initial
    if isinstance(initial, Value):
        initial = [initial]
    if initial is not None:
        initial = flat_values(initial)
    if c.get("stateful", False):
        c.home.note_stateful(c.path)
    return x, initial, mask if isinstance(mask, Value) else c.mask(x)


@keras_layer("LSTM", "GRU", "SimpleRNN")
def _recurrent(
    c: LayerCall, x: Any, initial_state: Value | Sequence[Value] | None = None, mask: Value | None = None
) -> Value | list[Value]:
    data, initial, kept = _arguments(c, x, initial_state, mask)
    inner = LayerCall(c.kind, c.config, c.store.child("cell"), c.path, c.home, c.version)
    return run_cell(c, cell_of(inner), data, initial, kept, bool(c.get("go_backwards", False)))


@keras_layer("RNN")
def _rnn(
    c: LayerCall, x: Any, initial_state: Value | Sequence[Value] | None = None, mask: Value | None = None
) -> Value | list[Value]:
    data, initial, kept = _arguments(c, x, initial_state, mask)
    spec = c.config["cell"]
    if isinstance(spec, (list, tuple)):
        spec = {"class_name": "StackedRNNCells", "config": {"cells": spec, "name": "stacked_rnn_cells"}}
    cell = cell_of(c.inner(spec, "cell"))
    return run_cell(c, cell, data, initial, kept, bool(c.get("go_backwards", False)))


@keras_layer("LSTMCell", "GRUCell", "SimpleRNNCell", "StackedRNNCells")
def _cell(c: LayerCall, x: Value, states: Any, *rest: object, **kwargs: object) -> Nested:
    cell = cell_of(c)
    own = list(states) if isinstance(states, (list, tuple)) else [states]
    out, after = _advance(cell, cell.given(x), own)
    return [out, after]


@keras_layer("Bidirectional")
def _bidirectional(
    c: LayerCall, x: Any, initial_state: Value | Sequence[Value] | None = None, mask: Value | None = None
) -> Nested:
    data, initial, kept = _arguments(c, x, initial_state, mask)
    spec = c.config["layer"]
    base = str(spec["config"].get("name", ""))
    plain = base.removeprefix("forward_")
    back = c.config.get("backward_layer")
    if back is None:
        config = {**spec["config"], "name": f"backward_{plain}"}
        config["go_backwards"] = not config.get("go_backwards", False)
        back = {**spec, "config": config}
    front = {**spec, "config": {**spec["config"], "name": f"forward_{plain}"}}
    half = len(initial) // 2 if initial else 0
    ways = []
    for way, attribute, states in (
        (front, "forward_layer", initial[:half] if initial else None),
        (back, "backward_layer", initial[half:] if initial else None),
    ):
        ways.append(c.run(c.inner(way, attribute), data, initial_state=states, mask=kept))
    state = bool(spec["config"].get("return_state", False))
    (y, *ends), (z, *other) = [(list(w) if state else [w]) for w in ways]
    if spec["config"].get("return_sequences", False):
        z = c.call("reverse", z, axis=1)
    mode = c.config.get("merge_mode", "concat")
    outs = _both(c, mode, y, z)
    if kept is not None and spec["config"].get("return_sequences", False):
        for out in outs:
            c.home.masks[id(out)] = kept
    return [*outs, *ends, *other] if state or len(outs) > 1 else outs[0]


def _both(c: LayerCall, mode: Any, y: Value, z: Value) -> list[Value]:
    if mode is None:
        return [y, z]
    if mode == "concat":
        return [c.concatenate([y, z], -1)]
    if mode == "mul":
        return [c.call("multiply", y, z)]
    total = c.call("add", y, z)
    return [c.call("multiply", total, 0.5) if mode == "ave" else total]


@keras_layer("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")
def _conv_lstm(
    c: LayerCall, x: Any, initial_state: Value | Sequence[Value] | None = None, mask: Value | None = None
) -> Value | list[Value]:
    data, initial, kept = _arguments(c, x, initial_state, mask)
    n = data.ndim - 3
    first = c.get("data_format", "channels_last") == "channels_first"
    inner = LayerCall(c.kind, c.config, c.store.child("cell"), c.path, c.home, c.version)
    kernel, recurrent, bias = _weights(inner)
    strides, dilation = extents(c.get("strides", 1), n), extents(c.get("dilation_rate", 1), n)
    axis = 1 if first else n + 1
    ones = (1,) * n

    def given(frames: Value) -> Value:
        # Frames of all examples become one batch.
        flat = c.reshape(frames, [-1, *frames.shape[2:]])
        out = convolve(c, flat, kernel, strides, str(c.get("padding", "valid")), dilation, 1, first)
        out = out if bias is None else c.call("nn.bias_add", out, bias, axis=axis)
        return c.reshape(out, [*frames.shape[:2], *out.shape[1:]])

    def step(frame: Value, state: list[Value]) -> list[Value]:
        hidden, memory = state
        own = convolve(c, hidden, recurrent, ones, "same", ones, 1, first)
        return _lstm_state(c, c.split(c.call("add", frame, own), 4, axis), memory)

    made = given(data)
    shape = known_extents(made.shape[2:])
    shape[axis - 1] = int(c.config["filters"])
    cell = Cell(lambda _: made, step, [shape, shape])
    return run_cell(c, cell, data, initial, kept, bool(c.get("go_backwards", False)))
