"""Converters of recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.relay import loops
from tilewright.relay.expr import Call, Expr, TupleGetItem, Var
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.ops.levels import packed_weight, rounded_to_bytes
from tilewright.relay.frontend.pytorch.ops.linalg import linear
from tilewright.relay.frontend.pytorch.ops.movement import split_sizes
from tilewright.relay.frontend.pytorch.value import Results, TorchCall, aten

State = tuple[Value, ...]
Product = Callable[[Value], Value]
"""A matrix product with weights, plus their bias."""
Cell = Callable[[TorchCall, Value, State, Product], State]
"""A step: (projected input, state, product with the recurrent weights) -> state."""


def _lstm_step(c: TorchCall, given: Value, state: State, recurrent: Product) -> State:
    hidden, memory = state
    gates = c.call("add", given, recurrent(hidden))
    i, f, g, o = c.calls("split", gates, indices_or_sections=4, axis=1)
    kept = c.call("multiply", c.call("sigmoid", f), memory)
    memory = c.call("add", kept, c.call("multiply", c.call("sigmoid", i), c.call("tanh", g)))
    return c.call("multiply", c.call("sigmoid", o), c.call("tanh", memory)), memory


def _gru_step(c: TorchCall, given: Value, state: State, recurrent: Product) -> State:
    (hidden,) = state
    xr, xz, xn = c.calls("split", given, indices_or_sections=3, axis=1)
    hr, hz, hn = c.calls("split", recurrent(hidden), indices_or_sections=3, axis=1)
    reset, update = c.call("sigmoid", c.call("add", xr, hr)), c.call("sigmoid", c.call("add", xz, hz))
    new = c.call("tanh", c.call("add", xn, c.call("multiply", reset, hn)))
    return (c.call("add", new, c.call("multiply", update, c.call("subtract", hidden, new))),)


def _plain_step(activation: str) -> Cell:
    def step(c: TorchCall, given: Value, state: State, recurrent: Product) -> State:
        return (c.call(activation, c.call("add", given, recurrent(state[0]))),)

    return step


CELLS = {"lstm": _lstm_step, "gru": _gru_step, "rnn_tanh": _plain_step("tanh"), "rnn_relu": _plain_step("nn.relu")}


def _cell_of(c: TorchCall) -> Cell:
    return next(cell for name, cell in CELLS.items() if name in c.target)


def _product(c: TorchCall, weight: Value, bias: Value | None = None) -> Product:
    return lambda x: linear(c, x, weight, bias)


def _layer(
    c: TorchCall, given: Value, state: State, recurrent: Product, cell: Cell, backwards: bool
) -> tuple[Value, State]:
    """A layer unrolled over its input's steps (steps, batch, gates): (all outputs, the final state)."""
    steps = [c.call("squeeze", p, axis=(0,)) for p in split_sizes(c, given, [1] * given.known_extent(0), 0)]
    outputs = []
    for x in steps[::-1] if backwards else steps:
        state = cell(c, x, state, recurrent)
        outputs.append(state[0])
    return c.call("stack", outputs[::-1] if backwards else outputs, axis=0), state


def _loop(
    c: TorchCall, given: Value, state: State, recurrent: Product, cell: Cell, backwards: bool
) -> tuple[Value, State]:
    """A layer with a dynamic number of steps, as a function that calls itself."""
    given = c.call("reverse", given, axis=0) if backwards else given
    steps = given.shape[0]
    places = c.call("arange", start=0, stop=steps, step=1, dtype="int64")
    column = c.call("expand_dims", places, axis=1, num_newaxis=2)
    start = [c.number(0, "int64"), c.full([steps, *state[0].shape], 0, given.dtype), *state]
    count = c.size(steps)

    def going(k: Expr, *now: Expr) -> Expr:
        return c.call("less", Value(k), count).expr

    def step(k: Expr, rows: Expr, *now: Expr) -> list[Expr]:
        row = c.call("take", given, Value(k), axis=0, mode="clip")
        after = cell(c, row, tuple([Value(v) for v in now]), recurrent)
        here = c.call("equal", column, Value(k))
        written = c.call("where", here, c.call("expand_dims", after[0], axis=0), Value(rows))
        return [v.expr for v in (c.call("add", Value(k), 1), written, *after)]

    loop = loops.while_loop(going, [Var(f"state{k}", v.type) for k, v in enumerate(start)], step)
    made = Call(loop, tuple([v.expr for v in start]))
    rows, *last = [Value(TupleGetItem(made, k)) for k in range(1, len(start))]
    return c.call("reverse", rows, axis=0) if backwards else rows, tuple(last)


def _network(
    c: TorchCall, x: Value, states: Sequence[Value], products: Sequence[tuple[Product, Product]], layers: int, bidirectional: bool,
    batch_first: bool,
) -> list[Value]:  # fmt: skip
    """Stacked layers of cells. `products`: the products of each layer and direction, with the input's and the recurrent weights."""
    cell, single = _cell_of(c), x.ndim == 2
    if single:
        x = c.call("expand_dims", x, axis=1)
        states = [c.call("expand_dims", s, axis=1) for s in states]
    elif batch_first:
        x = c.transpose(x, [1, 0, 2])
    run = _layer if isinstance(x.shape[0], int) else _loop
    ways = 2 if bidirectional else 1
    start = [[c.call("squeeze", p, axis=(0,)) for p in split_sizes(c, s, [1] * (layers * ways), 0)] for s in states]
    last: list[State] = []
    for layer in range(layers):
        found = []
        for way in range(ways):
            k = layer * ways + way
            inner, recurrent = products[k]
            rows, state = run(c, inner(x), tuple([s[k] for s in start]), recurrent, cell, bool(way))
            found.append(rows)
            last.append(state)
        x = found[0] if ways == 1 else c.call("concatenate", found, axis=2)
    ends = [c.call("stack", [s[k] for s in last], axis=0) for k in range(len(states))]
    if single:
        return [c.call("squeeze", v, axis=(1,)) for v in (x, *ends)]
    return [c.transpose(x, [1, 0, 2]) if batch_first else x, *ends]


def _plain_products(c: TorchCall, params: Sequence[Value], count: int, biases: bool) -> list[tuple[Product, Product]]:
    each = len(params) // count
    if each != (4 if biases else 2):
        raise c.refuse("proj_size", "a number", "0")
    found = []
    for k in range(count):
        inner, recurrent, *more = params[k * each : (k + 1) * each]
        given, own = more or (None, None)
        found.append((_product(c, inner, given), _product(c, recurrent, own)))
    return found


@aten("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
def _recurrent(
    c: TorchCall, x: Value, states: Any, params: Sequence[Value], biases: bool, layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> list[Value]:  # fmt: skip
    products = _plain_products(c, params, layers * (2 if bidirectional else 1), biases)
    return _network(c, x, _several(states), products, layers, bidirectional, batch_first)


def _several(states: Any) -> Sequence[Value]:
    """The state as a sequence of tensors: two (LSTM) or one."""
    return states if isinstance(states, (list, tuple)) else [states]


@aten("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _cell(
    c: TorchCall, x: Value, states: Any, inner: Value, weight: Value, given: Value | None = None, own: Value | None = None
) -> Value | Results:  # fmt: skip
    after = _cell_of(c)(c, linear(c, x, inner, given), tuple(_several(states)), _product(c, weight, own))
    return list(after) if len(after) > 1 else after[0]


# Layers with dynamically quantised weights, packed in objects


def _dynamic_product(c: TorchCall, packed: Any, path: str, reduced: bool, half: bool) -> Product:
    if half:
        return _product(c, *packed_weight(c, packed, path, "linear_unpack_fp16"))
    plain = _product(c, *packed_weight(c, packed, path, "linear_unpack"))
    return lambda x: plain(rounded_to_bytes(c, x, reduced))


@aten("quantized_lstm.input", "quantized_lstm", "quantized_gru.input", "quantized_gru")
def _quantised(
    c: TorchCall, x: Value, states: Any, params: Sequence[Any], biases: bool, layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool, **options: Any,
) -> list[Value]:  # fmt: skip
    products = []
    for p in params:
        (kind, _, _, numbers, packed), _ = p.module.__getstate__()
        if kind not in ("quantized_dynamic", "quantized_fp16"):
            raise c.refuse("params", kind, "weights of torch.ao.quantization.quantize_dynamic")
        each = [
            _dynamic_product(c, m, f"{p.path}.{name}", bool(numbers and numbers[0]), kind == "quantized_fp16")
            for m, name in zip(packed, ("ih", "hh"), strict=True)
        ]
        products.append((each[0], each[1]))
    return _network(c, x, _several(states), products, layers, bidirectional, batch_first)


@aten(*[f"quantized::quantized_{name}_cell_dynamic" for name in CELLS])
def _quantised_cell(
    c: TorchCall, x: Value, states: Any, inner: Any, weight: Any, given: Value | None = None, own: Value | None = None
) -> Value | Results:  # fmt: skip
    products = [_dynamic_product(c, p.module, p.path, True, False) for p in (inner, weight)]
    after = _cell_of(c)(c, products[0](x), tuple(_several(states)), products[1])
    return list(after) if len(after) > 1 else after[0]
