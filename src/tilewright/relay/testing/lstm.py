"""A long short-term memory, unrolled (S. Hochreiter, J. Schmidhuber, 1997)."""

from __future__ import annotations

from tilewright.relay import op
from tilewright.relay.analysis import free_vars
from tilewright.relay.cards.relations import tensor_type
from tilewright.relay.expr import Call, Function, Tuple, TupleGetItem, Var, var
from tilewright.relay.scope_builder import ScopeBuilder
from tilewright.relay.testing import layers
from tilewright.relay.testing.init import Workload, create_workload


def lstm_cell(num_hidden: int, batch_size: int = 1, dtype: str = "float32", name: str = "") -> Function:
    """(inputs, (hidden, cell), weights and biases of inputs and hidden) -> (output, (hidden, cell))."""
    shape = (batch_size, num_hidden)
    state = tensor_type(shape, dtype)
    inputs = var("inputs", state)
    hidden, cell = var("hidden", state), var("cell", state)
    wide = (4 * num_hidden, num_hidden)
    i2h_weight, h2h_weight = var("i2h_weight", shape=wide, dtype=dtype), var("h2h_weight", shape=wide, dtype=dtype)
    i2h_bias = var("i2h_bias", shape=(4 * num_hidden,), dtype=dtype)
    h2h_bias = var("h2h_bias", shape=(4 * num_hidden,), dtype=dtype)
    i2h = layers.dense_add_bias(inputs, i2h_weight, i2h_bias, units=4 * num_hidden, name=f"{name}i2h")
    h2h = layers.dense_add_bias(hidden, h2h_weight, h2h_bias, units=4 * num_hidden, name=f"{name}h2h")
    gates = op.split(op.add(i2h, h2h), 4, axis=1)
    sigmoid, tanh = op.sigmoid, op.tanh
    into, keep, made, out = sigmoid(gates[0]), sigmoid(gates[1]), tanh(gates[2]), sigmoid(gates[3])
    next_cell = op.add(op.multiply(keep, cell), op.multiply(into, made))
    next_hidden = op.multiply(out, tanh(next_cell))
    body = Tuple((next_hidden, Tuple((next_hidden, next_cell))))
    return Function((inputs, hidden, cell, i2h_weight, i2h_bias, h2h_weight, h2h_bias), body)


def get_net(iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32") -> Function:
    """The cell applied `iterations` times, each time to what it returned before."""
    builder = ScopeBuilder()
    cell = builder.let("cell_fn", lstm_cell(num_hidden, batch_size, dtype))
    zeros = op.zeros((batch_size, num_hidden), dtype)
    hidden, memory = builder.let("init_hidden", zeros), builder.let("init_cell", zeros)
    wide = (4 * num_hidden, num_hidden)
    weights: list[Var] = [
        var("i2h_weight", shape=wide, dtype=dtype),
        var("i2h_bias", shape=(4 * num_hidden,), dtype=dtype),
        var("h2h_weight", shape=wide, dtype=dtype),
        var("h2h_bias", shape=(4 * num_hidden,), dtype=dtype),
    ]
    out = var("data", shape=(batch_size, num_hidden), dtype=dtype)
    for i in range(iterations):
        called = builder.let(f"call{i}", Call(cell, (out, hidden, memory, *weights), None))
        out = builder.let(f"out{i}", TupleGetItem(called, 0))
        state = builder.let(f"state{i}", TupleGetItem(called, 1))
        hidden = builder.let(f"hidden{i}", TupleGetItem(state, 0))
        memory = builder.let(f"memory{i}", TupleGetItem(state, 1))
    builder.ret(out)
    body = builder.get()
    return Function(tuple(free_vars(body)), body)


def get_workload(iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32") -> Workload:
    """(module, weights)."""
    return create_workload(get_net(iterations, num_hidden, batch_size, dtype))
