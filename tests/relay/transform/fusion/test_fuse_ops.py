"""What FuseOps makes one kernel of, around convolutions and dense layers."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.functor import post_order


def kernels(body: Any, *parameters: Any) -> list[list[str]]:
    """The operators of each kernel."""
    mod = relay.transform.FuseOps(2)(tvm.IRModule.from_expr(relay.Function(list(parameters), body)))
    found = [
        e.op.body
        for e in post_order(mod["main"].body)
        if isinstance(e, relay.Call) and isinstance(e.op, relay.Function)
    ]
    return [[c.op.name for c in post_order(k) if isinstance(c, relay.Call)] for k in found]


def right(body: Any, *parameters: Any) -> None:
    """The compiled program gives what the operators' references give."""
    rng = np.random.default_rng(0)
    mod = tvm.IRModule.from_expr(relay.Function(list(parameters), body))
    arrays = [
        rng.integers(0, 200, p.type_annotation.concrete_shape).astype(str(p.type_annotation.dtype)) for p in parameters
    ]
    wanted = relay.create_executor("debug", mod=mod).evaluate()(*arrays).numpy()
    module = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    for p, a in zip(parameters, arrays, strict=True):
        module.set_input(p.name_hint, a)
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted, rtol=1e-4)


def dense(x: Any) -> Any:
    return relay.nn.dense(x, relay.const(np.eye(16, dtype="float32")))


def test_what_leads_into_an_epilogue() -> None:
    """A residual is read as the bytes that it is, not as floats that another kernel writes."""
    x, r = relay.var("x", shape=(4, 16)), relay.var("r", shape=(4, 16), dtype="uint8")
    body = relay.nn.relu(dense(x) + relay.cast(r, "float32") * relay.const(0.5))
    assert len(kernels(body, x, r)) == 1
    right(body, x, r)


def test_what_leads_to_the_anchor_too() -> None:
    """An operator that the anchor reads stays in front of it."""
    x = relay.var("x", shape=(4, 16))
    y = x * relay.const(2.0)
    assert kernels(dense(y) + y, x) == [["multiply"], ["nn.dense", "add"]]
    right(dense(y) + y, x)


def test_what_leads_into_two_epilogues() -> None:
    """Two anchors stay two kernels."""
    x, c = relay.var("x", shape=(4, 16)), relay.var("c", shape=(4, 16))
    shared = relay.negative(c)
    body = relay.nn.relu(dense(x) + shared) * relay.sqrt(dense(x * x) + shared * shared)
    found = kernels(body, x, c)
    assert max([k.count("nn.dense") for k in found]) == 1
    right(body, x, c)


def test_what_is_smaller() -> None:
    """What is broadcast over the result is computed once."""
    x, b = relay.var("x", shape=(4, 16)), relay.var("b", shape=(16,))
    found = kernels(dense(x) + relay.exp(b), x, b)
    assert ["exp"] in found
    right(dense(x) + relay.exp(b * relay.const(0.01)), x, b)


def test_a_value_that_is_read_again_and_again() -> None:
    """x + x forty times is not 2 ** 40 additions: what is written out for each element stays within the depth."""
    x = y = relay.var("x", shape=(4,))
    for _ in range(40):
        y = relay.add(y, y)
    found = kernels(y, x)
    assert [len(k) for k in found] == [8, 8, 8, 8, 8]
    right(y, x)
    with tvm.transform.PassContext(opt_level=3, config={"relay.FuseOps.max_depth": 16}):
        assert max([len(k) for k in kernels(y, x)]) == 4


def test_a_result_in_memory_is_read_again_and_again() -> None:
    """What an epilogue reads twice of its product is not computed twice, what it makes of it is."""
    x = relay.var("x", shape=(4, 16))
    y = dense(x)
    for _ in range(10):
        y = relay.add(y, y)
    assert [len(k) for k in kernels(y, x)] == [8, 3]
    right(y, x)
