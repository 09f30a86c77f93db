"""The small models of relay.testing: their types, and the compiled ones against the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay import testing

SHAPES = [
    (testing.mlp, {"batch_size": 2}, (2, 10)),
    (testing.resnet, {"num_layers": 50}, (1, 1000)),
    (testing.resnet, {"num_layers": 18, "image_shape": (64, 64, 3), "layout": "NHWC", "num_classes": 7}, (1, 7)),
    (testing.resnet_3d, {"num_layers": 18, "image_shape": (3, 8, 64, 64), "num_classes": 5}, (1, 5)),
    (testing.vgg, {"batch_size": 1, "num_layers": 16, "batch_norm": True, "image_shape": (3, 64, 64)}, (1, 1000)),
    (testing.mobilenet, {"layout": "NHWC", "image_shape": (224, 224, 3)}, (1, 1000)),
    (testing.squeezenet, {"version": "1.1"}, (1, 1000)),
    (testing.densenet, {"batch_size": 2, "image_shape": (3, 64, 64)}, (2, 1000)),
    (testing.inception_v3, {}, (1, 1000)),
    (testing.dqn, {"batch_size": 3}, (3, 18)),
    (testing.dcgan, {"batch_size": 2}, (2, 3, 64, 64)),
    (testing.lstm, {"iterations": 3, "num_hidden": 4}, (1, 4)),
]


@pytest.mark.parametrize(("module", "arguments", "shape"), SHAPES)
def test_types(module: Any, arguments: dict[str, Any], shape: tuple[int, ...]) -> None:
    mod, params = module.get_workload(**arguments)
    assert mod["main"].ret_type.concrete_shape == shape
    assert {p.name_hint for p in mod["main"].params} == {"data", *params}


RUN = [
    (testing.mlp, {"batch_size": 2}),
    (testing.resnet, {"num_layers": 8, "image_shape": (3, 16, 16), "num_classes": 4}),
    (testing.synthetic, {}),
    (testing.lstm, {"iterations": 3, "num_hidden": 4}),
    (testing.dcgan, {"batch_size": 1, "ngf": 4}),
]


@pytest.mark.parametrize(("module", "arguments"), RUN)
def test_models_run(module: Any, arguments: dict[str, Any]) -> None:
    mod, params = module.get_workload(**arguments)
    (data,) = [p for p in mod["main"].params if p.name_hint == "data"]
    value = np.random.default_rng(0).standard_normal(data.checked_type.concrete_shape).astype("float32")
    want = relay.create_executor("debug", mod).evaluate()(data=value, **params).numpy()
    if module is testing.lstm:
        got = relay.create_executor("vm", mod).evaluate()(data=value, **params).numpy()
    else:
        library = relay.build(mod, target="llvm", params=params)
        executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
        executor.run(data=value)
        got = executor.get_output(0).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


def test_types_of_weights_follow_from_attributes() -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))
    depthwise = relay.nn.conv2d(x, relay.var("w"), channels=8, kernel_size=(3, 3), groups=4)
    up = relay.nn.conv2d_transpose(depthwise, relay.var("t"), channels=2, kernel_size=(2, 2))
    body = relay.nn.prelu(relay.nn.bias_add(up, relay.var("b")), relay.var("a"))
    func = testing.run_infer_type(relay.Function(relay.analysis.free_vars(body), body))
    found = {p.name_hint: p.checked_type.concrete_shape for p in func.params}
    assert found == {"x": (1, 4, 8, 8), "w": (8, 1, 3, 3), "t": (8, 2, 2, 2), "b": (2,), "a": (2,)}


def test_what_no_operator_tells_is_asked_for() -> None:
    x = relay.var("x")
    with pytest.raises(tvm.error.DiagnosticError, match="the type of %x is not known"):
        testing.run_infer_type(relay.Function([x], relay.nn.relu(x)))


def test_gradients_are_checked() -> None:
    x, y = relay.var("x", shape=(2, 3), dtype="float64"), relay.var("y", shape=(3,), dtype="float64")
    testing.check_grad(relay.Function([x, y], relay.tanh(x) * y), scale=1.0)
    testing.check_grad(relay.Function([x, y], relay.exp(x + y)), mode="first_order", scale=1.0)


def test_passes_run_on_expressions() -> None:
    x = relay.var("x", shape=(2,))
    made = testing.run_opt_pass(relay.Function([x], x + relay.const(0.0)), relay.transform.SimplifyExpr())
    assert made.body is made.params[0]


def test_initializers_refuse_what_they_do_not_know() -> None:
    with pytest.raises(ValueError, match="not 'scale'"):
        testing.init.Xavier()("scale", np.zeros(3))
    array = np.zeros((2, 3))
    testing.init.Constant(4)("a_weight", array)
    assert (array == 4).all()
