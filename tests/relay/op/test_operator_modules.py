"""The modules of operators, their attributes and strategies, under the names that classic programs import."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, topi
from tilewright.relay.op import cards, names, op_attrs, strategy
from tilewright.relay.op.nn import conv2d  # type: ignore[import-not-found]
from tilewright.relay.qnn.op import quantize  # type: ignore[import-not-found]


@pytest.mark.parametrize("name", names.MODULES)
def test_modules_hold_operators(name: str) -> None:
    module = importlib.import_module(f"tilewright.relay.op.{name}")
    assert module is getattr(relay.op, name)
    for held in names.MODULES[name].split():
        assert getattr(module, held) is getattr(relay, held), held


def test_namespaces_are_modules() -> None:
    assert conv2d is relay.nn.conv2d and quantize is relay.qnn.op.quantize
    for name in ("nn", "image", "vision", "random", "dyn", "annotation"):
        assert importlib.import_module(f"tilewright.relay.op.{name}") is getattr(relay, name)


def test_attributes_are_of_kinds() -> None:
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    attrs = relay.nn.conv2d(x, w, channels=4, kernel_size=(3, 3)).attrs
    assert isinstance(attrs, op_attrs.Conv2DAttrs) and not isinstance(attrs, op_attrs.Conv3DAttrs)
    assert isinstance(relay.sum(x).attrs, op_attrs.ReduceAttrs) and isinstance(relay.max(x).attrs, op_attrs.ReduceAttrs)
    assert not isinstance(relay.variance(x).attrs, op_attrs.ReduceAttrs) and not isinstance(4, op_attrs.ReduceAttrs)
    assert op_attrs.Conv2DAttrs(channels=4, kernel_size=(3, 3)).channels == 4
    assert issubclass(type(attrs), op_attrs.Conv2DAttrs) and "nn.conv2d" in str(op_attrs.Conv2DAttrs.__doc__)


@pytest.mark.parametrize("name", op_attrs.__all__)
def test_kinds_are_of_operators_that_are_there(name: str) -> None:
    assert getattr(op_attrs, name).operators <= set(cards())


def test_a_strategy_has_the_way_of_the_card() -> None:
    a, b = tvm.te.placeholder((4, 6), name="a"), tvm.te.placeholder((5, 6), name="b")
    found = strategy.dense_strategy(
        relay.nn.dense(relay.var("a", shape=(4, 6)), relay.var("b", shape=(5, 6))).attrs, [a, b], None, "llvm"
    )
    way = found.specializations[0].implementations[0]
    assert way.name == "nn.dense.card"
    attrs: Any = op_attrs.DenseAttrs()
    outs = way.compute(attrs, [a, b], None)
    assert [int(d) for d in outs[0].shape] == [4, 5]
    schedule = way.schedule(attrs, outs, "llvm")
    x, y = np.random.default_rng(0).random((4, 6), "float32"), np.random.default_rng(1).random((5, 6), "float32")
    out = tvm.nd.empty((4, 5))
    tvm.build(schedule, [a, b, outs[0]], "llvm")(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_allclose(out.numpy(), x @ y.T, rtol=1e-5)


def test_builds_ask_a_strategy_that_a_program_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    own = strategy.StrategyFunc("softmax_strategy", relay.op.get("nn.softmax"))
    asked: list[Any] = []

    def doubled(x: Any, axis: int) -> Any:
        return topi.multiply(topi.nn.softmax(x, axis), 2.0)

    @own.register("cpu")
    def way(attrs: Any, inputs: Any, out_type: Any, target: Any) -> relay.op.OpStrategy:
        asked.append(str(out_type))
        made = relay.op.OpStrategy()
        made.add_implementation(
            strategy.wrap_compute_softmax(doubled),
            strategy.wrap_topi_schedule(lambda outs: tvm.te.create_schedule(outs[0].op)),
        )
        return made

    try:
        f = relay.Function([x := relay.var("x", shape=(2, 5))], relay.nn.softmax(x))
        got = relay.create_executor("graph", tvm.IRModule.from_expr(f)).evaluate()(np.zeros((2, 5), "float32"))
        np.testing.assert_allclose(got.numpy(), np.full((2, 5), 0.4), rtol=1e-5)
        assert asked == ["Tensor[(2, 5), float32]"]
    finally:
        relay.op.get("nn.softmax").reset_attr("FTVMStrategy")


@pytest.mark.parametrize(
    ("wrapped", "call"),
    [
        (
            strategy.wrap_compute_conv2d(topi.nn.conv2d_nchw),
            lambda x, w: relay.nn.conv2d(x, w, channels=3, kernel_size=(3, 3), padding=(1, 1)),
        ),
        (
            strategy.wrap_compute_conv2d(topi.nn.group_conv2d_nchw, has_groups=True),
            lambda x, w: relay.nn.conv2d(x, w, channels=3, kernel_size=(3, 3)),
        ),
    ],
)
def test_wrapped_convolutions(wrapped: Any, call: Any) -> None:
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(3, 3, 3, 3))
    made = relay.transform.InferType()(tvm.IRModule.from_expr(call(x, w)))["main"].body
    inputs = [tvm.te.placeholder((1, 3, 8, 8)), tvm.te.placeholder((3, 3, 3, 3))]
    outs = wrapped(made.attrs, inputs, made.checked_type)
    assert tuple(int(d) for d in outs[0].shape) == made.checked_type.concrete_shape


def test_wrapped_products() -> None:
    a, b = tvm.te.placeholder((2, 3, 4)), tvm.te.placeholder((2, 5, 4))
    x, y = relay.var("x", shape=(2, 3, 4)), relay.var("y", shape=(2, 5, 4))
    made = relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.batch_matmul(x, y)))["main"].body
    batch = strategy.wrap_compute_batch_matmul(topi.nn.batch_matmul)(made.attrs, [a, b], made.checked_type)
    assert [int(d) for d in batch[0].shape] == [2, 3, 5]
    p, q = tvm.te.placeholder((3, 4)), tvm.te.placeholder((4, 5))
    attrs: Any = op_attrs.MatmulAttrs()
    assert [int(d) for d in strategy.wrap_compute_matmul(topi.nn.matmul)(attrs, [p, q], None)[0].shape] == [3, 5]
    dense: Any = op_attrs.DenseAttrs()
    w = tvm.te.placeholder((5, 4))
    assert [int(d) for d in strategy.wrap_compute_dense(topi.nn.dense)(dense, [p, w], None)[0].shape] == [3, 5]


def test_unknown_strategies_are_refused() -> None:
    with pytest.raises(
        AttributeError, match="relay has no operator 'conv9d' that 'conv9d_strategy' could be the strategy of"
    ):
        strategy.conv9d_strategy  # noqa: B018
    assert "conv2d_strategy" in dir(strategy)
