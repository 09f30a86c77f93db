"""Strategies as programs for classic TVM register them: the generic functions, and kernels made by functions of topi."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, topi
from tilewright.relay.op import strategy
from tilewright.relay.op.strategy import generic

X = (1, 4, 8, 8)
CASES: list[tuple[str, Any, Any]] = [
    ("conv2d_transpose", topi.nn.conv2d_transpose_nchw, lambda x, w: relay.nn.conv2d_transpose(x, w((4, 3, 2, 2)), strides=(2, 2))),
    ("sort", topi.sort, lambda x, w: relay.sort(x, axis=2, is_ascend=False)),
    ("topk", topi.topk, lambda x, w: relay.topk(x, 3, axis=1, ret_type="values")),
    ("softmax", topi.nn.softmax, lambda x, w: relay.nn.softmax(x, axis=1)),
    ("argsort", topi.argsort, lambda x, w: relay.argsort(x, axis=3, dtype="int32")),
]  # fmt: skip


@pytest.mark.parametrize("name, topi_function, build", CASES, ids=[c[0] for c in CASES])
def test_kernels_of_registered_strategies(name: str, topi_function: Any, build: Any) -> None:
    rng = np.random.default_rng(0)
    seen: list[int] = []

    def function(*args: Any, **attrs: Any) -> Any:
        seen.append(len(args))
        return topi_function(*args, **attrs)

    fstrategy = getattr(generic, f"{name}_strategy")
    assert getattr(strategy, f"{name}_strategy") is fstrategy
    wrap, schedule = getattr(generic, f"wrap_compute_{name}"), generic.schedule_injective

    x = relay.var("x", shape=X)
    body = build(x, lambda shape: relay.const(rng.standard_normal(shape, dtype=np.float32)))
    mod = tvm.IRModule.from_expr(relay.Function([x], body))
    data = rng.standard_normal(X, dtype=np.float32)
    want = relay.create_executor("debug", mod).evaluate()(data).numpy()

    @fstrategy.register("cpu")
    def mine(attrs: Any, inputs: Any, out_type: Any, target: Any) -> Any:
        made = relay.op.OpStrategy()
        made.add_implementation(
            wrap(function), generic.wrap_topi_schedule(lambda outs: schedule(None, outs, target)), name="mine"
        )
        return made

    try:
        with tvm.transform.PassContext(opt_level=0):
            got = relay.create_executor("graph", mod).evaluate()(data).numpy()
    finally:
        fstrategy.op.set_attr("FTVMStrategy", None)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert seen


def test_what_strategies_ask_of_convolutions() -> None:
    assert import_module("tilewright.relay.op.strategy.generic") is generic
    assert generic.get_conv2d_in_channels((1, 8, 8, 16), "NHWC") == 16
    assert generic.get_conv2d_in_channels((1, 2, 8, 8, 16), "NCHW16c") == 32
    assert generic.get_conv2d_out_channels((32, 16, 3, 3), "OIHW") == 32
    assert generic.is_depthwise_conv2d((1, 16, 8, 8), "NCHW", (16, 1, 3, 3), "OIHW", 16)
    assert not generic.is_depthwise_conv2d((1, 16, 8, 8), "NCHW", (32, 1, 3, 3), "OIHW", 16)
    with pytest.raises(AttributeError, match="relay has no operator 'nothing'"):
        generic.nothing_strategy  # noqa: B018


@pytest.mark.parametrize("changes", [True, False])
def test_a_registered_schedule_is_the_kernels(changes: bool) -> None:
    """Where it changes stages; where it changes none, the rules of the target schedule the kernel."""
    data, weight = np.random.default_rng(1).standard_normal((2, 8, 8)).astype(np.float32)
    x = relay.var("x", shape=(8, 8))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, relay.const(weight)))))
    dense = strategy.dense_strategy

    def schedule(attrs: Any, outs: Any, target: Any) -> Any:
        s = tvm.te.create_schedule([t.op for t in outs])
        if changes:
            rows, _ = s[outs[0]].op.axis
            s[outs[0]].unroll(rows)
        return s

    @dense.register("cpu")
    def mine(attrs: Any, inputs: Any, out_type: Any, target: Any) -> Any:
        made = relay.op.OpStrategy()
        made.add_implementation(strategy.wrap_compute_dense(topi.nn.dense), schedule, name="mine")
        return made

    try:
        with tvm.transform.PassContext(opt_level=1):
            library = relay.build(mod, "llvm")
        text = library.texts.all("tir")
    finally:
        dense.op.set_attr("FTVMStrategy", None)
    assert ("T.unroll(8)" in text and "T.vectorized" not in text) == changes
    model = tvm.contrib.graph_executor.GraphModule(library["default"](tvm.cpu()))
    model.run(x=data)
    np.testing.assert_allclose(model.get_output(0).numpy(), np.maximum(data @ weight.T, 0), rtol=1e-4, atol=1e-5)
