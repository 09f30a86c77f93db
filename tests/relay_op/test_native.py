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


def program_of(call_attrs: OpCard, arrays: list[Any], attrs: Any) -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
    """A program of one call, and its inputs by name. Numbers, and what says the sizes of results, are constants."""
    given: dict[str, np.ndarray] = {}
    variables: list[relay.Var] = []

    def leaf(x: np.ndarray) -> relay.Expr:
        if x.ndim == 0:
            return relay.const(x)
        variables.append(relay.var(f"x{len(variables)}", shape=x.shape, dtype=x.dtype.name))
        given[variables[-1].name_hint] = np.ascontiguousarray(x)
        return variables[-1]

    read = call_attrs.reads() if isinstance(call_attrs, Dynamic) else []
    args = [
        relay.const(x) if i in read else [leaf(a) for a in x] if isinstance(x, tuple) else leaf(x)
        for i, x in enumerate(arrays)
    ]
    call = type(call_attrs).call(args, attrs)
    body = call if isinstance(call, relay.Expr) else call.tuple_value
    return tvm.IRModule.from_expr(relay.Function(variables, body)), given


def run_graph(mod: tvm.IRModule, given: dict[str, np.ndarray], target: str, device: Any) -> list[np.ndarray]:
    executor = graph_executor.GraphModule(relay.build(mod, target=target)["default"](device))
    executor.run(**given)
    return [executor.get_output(k).numpy() for k in range(executor.get_num_outputs())]


def agree(found: list[np.ndarray], wanted: list[np.ndarray], tolerance: float) -> None:
    for got, want in zip(found, wanted, strict=True):
        assert got.shape == want.shape
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=tolerance * 10, atol=tolerance)
        else:
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("card, inputs, attrs", first_of_each(samples()))
def test_native_agrees_with_reference(card: type[OpCard], inputs: Any, attrs: Any) -> None:
    call_attrs, arrays, _ = prepare(card, inputs, attrs)
    if is_counted(call_attrs):
        # Graphs have fixed sizes.
        return
    agree(
        run_graph(*program_of(call_attrs, arrays, attrs), "llvm", tvm.cpu()),
        results(call_attrs.ref(*arrays)),
        card.tolerance,
    )
