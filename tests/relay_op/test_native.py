"""Every operator card compiled to native code, run, and compared with its NumPy reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.relay_op.test_cards import prepare, results, samples
from tests.slow import first_of_each
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.cards.card import OpCard
from tilewright.relay.op.data_dependent.counted import is_counted
from tilewright.relay.op.data_dependent.dynamic import Dynamic


@pytest.mark.parametrize("card, inputs, attrs", first_of_each(samples()))
def test_native_agrees_with_reference(card: type[OpCard], inputs: Any, attrs: Any) -> None:
    call_attrs, arrays, _ = prepare(card, inputs, attrs)
    if is_counted(call_attrs):
        # Graphs have fixed sizes.
        return
    variables: list[relay.Var] = []
    values: list[np.ndarray] = []

    def leaf(x: np.ndarray) -> relay.Expr:
        if x.ndim == 0:
            return relay.const(x)
        variables.append(relay.var(f"x{len(variables)}", shape=x.shape, dtype=x.dtype.name))
        values.append(np.ascontiguousarray(x))
        return variables[-1]

    read = call_attrs.reads() if isinstance(call_attrs, Dynamic) else []
    args = [
        relay.const(x) if i in read else [leaf(a) for a in x] if isinstance(x, tuple) else leaf(x)
        for i, x in enumerate(arrays)
    ]
    call = card.call(args, attrs)
    body = call if isinstance(call, relay.Expr) else call.tuple_value
    library = relay.build(tvm.IRModule.from_expr(relay.Function(variables, body)), target="llvm")
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for variable, value in zip(variables, values, strict=True):
        executor.set_input(variable.name_hint, value)
    executor.run()
    for k, want in enumerate(results(call_attrs.ref(*arrays))):
        got = executor.get_output(k).numpy()
        assert got.shape == want.shape
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=card.tolerance * 10, atol=card.tolerance)
        else:
            np.testing.assert_array_equal(got, want)
