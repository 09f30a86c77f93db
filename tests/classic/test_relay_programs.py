"""Models in relay: build by hand or import, compile, run, keep, and measure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.contrib.debugger import debug_executor


def network() -> tvm.IRModule:
    """A small convolutional classifier."""
    data = relay.var("data", relay.TensorType((1, 3, 16, 16), "float32"))
    y = relay.nn.conv2d(data, relay.var("w", shape=(8, 3, 3, 3)), channels=8, kernel_size=(3, 3), padding=(1, 1))
    y = relay.nn.bias_add(y, relay.var("b", shape=(8,)))
    stats = [relay.var(f"bn_{name}", shape=(8,)) for name in ("gamma", "beta", "moving_mean", "moving_var")]
    y = relay.nn.batch_norm(y, *stats)[0]
    y = relay.nn.relu(y)
    y = relay.nn.max_pool2d(y, pool_size=(2, 2), strides=(2, 2))
    y = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(y))
    y = relay.nn.softmax(relay.nn.dense(y, relay.var("fc", shape=(10, 8)), units=10))
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(y), y))
    return relay.transform.InferType()(mod)


def parameters(mod: tvm.IRModule) -> dict[str, tvm.nd.NDArray]:
    rng = np.random.default_rng(0)
    return {
        p.name_hint: tvm.nd.array(rng.uniform(0.1, 1, [int(d) for d in p.checked_type.shape]).astype("float32"))
        for p in mod["main"].params
        if p.name_hint != "data"
    }


@pytest.fixture(scope="module")
def model() -> dict[str, Any]:
    mod = network()
    params = parameters(mod)
    x = np.random.default_rng(1).uniform(-1, 1, (1, 3, 16, 16)).astype("float32")
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target="llvm", params=params)
    want = relay.create_executor("debug", mod=mod, device=tvm.cpu(0), target="llvm").evaluate()(x, **params)
    return {"mod": mod, "params": params, "x": x, "lib": lib, "want": want.numpy()}


def close(found: Any, want: np.ndarray) -> None:
    tvm.testing.assert_allclose(found.numpy(), want, rtol=1e-4, atol=1e-5)


def test_text_of_a_module(model: dict[str, Any]) -> None:
    text = model["mod"].astext(show_meta_data=False)
    assert text.startswith('#[version = "0.0.5"]\ndef @main(%data: Tensor[(1, 3, 16, 16), float32]')
    assert "nn.conv2d(%data, %w, padding=[1, 1" in text
    assert "/* ty=Tensor[(1, 8, 16, 16), float32] */" in text


def test_compile_and_run(model: dict[str, Any]) -> None:
    module = graph_executor.GraphModule(model["lib"]["default"](tvm.cpu()))
    module.set_input("data", model["x"])
    module.run()
    close(module.get_output(0), model["want"])
    out = tvm.nd.empty((1, 10))
    assert module.get_output(0, out).numpy().sum() == pytest.approx(1, abs=1e-5)
    shapes, dtypes = module.get_input_info()
    assert tuple(shapes["data"]) == (1, 3, 16, 16)
    assert dtypes["data"] == "float32"
    assert (module.get_num_inputs(), module.get_num_outputs(), module.get_input_index("data")) == (1, 1, 0)


def test_keep_and_load(model: dict[str, Any], tmp_path: Path) -> None:
    path = str(tmp_path / "deploy_lib.so")
    model["lib"].export_library(path)
    loaded = tvm.runtime.load_module(path)
    module = graph_executor.GraphModule(loaded["default"](tvm.cpu(0)))
    module.run(data=tvm.nd.array(model["x"]))
    close(module.get_output(0), model["want"])
    result = module.benchmark(tvm.cpu(0), repeat=2, number=2)
    assert len(result.results) == 2
    assert module.module.time_evaluator("run", tvm.cpu(0), number=1, repeat=3)().mean > 0
    assert module.benchmark(tvm.cpu(0), repeat=1, number=1, end_to_end=True, data=model["x"]).mean > 0


def test_three_parts_of_a_build(model: dict[str, Any]) -> None:
    graph, lib, params = relay.build(model["mod"], target="llvm", params=model["params"])
    module = graph_executor.create(graph, lib, tvm.cpu(0))
    module.load_params(relay.save_param_dict(params))
    module.set_input(data=model["x"], **params)
    module.run()
    close(module.get_output(0), model["want"])


def test_parameters_as_inputs(model: dict[str, Any]) -> None:
    lib = relay.build(model["mod"], target=tvm.target.Target("llvm"))
    module = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    assert module.get_num_inputs() == 8
    module.load_params(relay.save_param_dict(model["params"]))
    module.set_input("data", model["x"])
    module.run()
    close(module.get_output(0), model["want"])


@pytest.mark.parametrize("opt_level", [0, 1, 2, 4])
def test_optimisation_levels(model: dict[str, Any], opt_level: int) -> None:
    with tvm.transform.PassContext(opt_level=opt_level):
        lib = relay.build(model["mod"], "llvm", params=model["params"])
    module = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    module.run(data=model["x"])
    close(module.get_output(0), model["want"])


def test_executors(model: dict[str, Any]) -> None:
    run = relay.create_executor(
        "graph", mod=model["mod"], device=tvm.cpu(0), target="llvm", params=model["params"]
    ).evaluate()
    first = run(model["x"])
    run(np.zeros_like(model["x"]))
    close(first, model["want"])
    x = relay.var("x", shape=(2,))
    assert relay.create_executor("debug").evaluate(
        x + relay.const(1.0), {x: np.ones(2, "float32")}
    ).numpy().tolist() == [2, 2]


def test_measuring_executor(model: dict[str, Any], tmp_path: Path) -> None:
    module = debug_executor.create(model["lib"].get_graph_json(), model["lib"], tvm.cpu(0), dump_root=str(tmp_path))
    module.set_input("data", model["x"])
    module.run()
    close(module.get_output(0), model["want"])
    times = module.run_individual(number=1, repeat=2)
    kinds = [n["op"] for n in module.debug_datum.get_graph_nodes()]
    assert len(times) == len(kinds) > 1
    assert all(
        len(t) == 2 and (min(t) > 0) == (kind not in ("param", "__nop")) for t, kind in zip(times, kinds, strict=True)
    )


def test_import_of_an_onnx_model() -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    w = np.random.default_rng(2).standard_normal((4, 6)).astype("float32")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 6])],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model)
    mod, params = relay.frontend.from_onnx(model, shape={"x": (3, 4)}, freeze_params=False)
    assert set(params) == {"w"}
    mod, params = relay.frontend.from_onnx(model, {"x": (3, 4)})
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target="llvm", params=params)
    module = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    x = np.random.default_rng(3).standard_normal((3, 4)).astype("float32")
    module.set_input("x", x)
    module.run()
    close(module.get_output(0), np.maximum(x @ w, 0))


def test_binding_parameters(model: dict[str, Any]) -> None:
    bound = relay.build_module.bind_params_by_name(model["mod"]["main"], model["params"])
    assert [p.name_hint for p in bound.params] == ["data"]


def test_several_outputs() -> None:
    x, y = relay.var("x", shape=(1, 10)), relay.var("y", shape=(1, 10))
    mod = tvm.IRModule.from_expr(relay.Function([x, y], relay.Tuple([relay.add(x, y), relay.subtract(x, y)])))
    module = graph_executor.GraphModule(relay.build(mod, target="llvm")["default"](tvm.cpu()))
    a, b = np.random.default_rng(4).random((2, 1, 10), np.float32)
    module.set_input("x", a)
    module.set_input(1, b)
    module.run()
    assert module.get_num_outputs() == 2
    close(module.get_output(0), a + b)
    close(module.get_output(1), a - b)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float16", "float64", "bool"])
def test_element_types(dtype: str) -> None:
    x = relay.var("x", shape=(4,), dtype=dtype)
    body = relay.logical_not(x) if dtype == "bool" else relay.add(x, relay.const(1, dtype))
    module = graph_executor.GraphModule(relay.build(tvm.IRModule.from_expr(body), "llvm")["default"](tvm.cpu()))
    values = np.array([0, 1, 2, 3]).astype(dtype)
    module.run(x=values)
    assert module.get_output(0).dtype == dtype
    assert (module.get_output(0).numpy() == (~values if dtype == "bool" else values + 1)).all()
