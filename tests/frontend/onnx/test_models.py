"""Whole models: shapes as ONNX has them, results as ONNX Runtime has them, symbols, parameters, spans, known control flow."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.slow import all_but
from tilewright import relay
from tilewright.ir import TupleType
from tilewright.relay.evaluation.interpreter import run_function
from tilewright.relay.frontend.onnx import from_onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))
import models  # type: ignore[import-not-found]


def path_of(name: str) -> Path:
    """The model's file, made on first use."""
    return models.make(name)  # type: ignore[no-any-return]


def types_of(t: Any) -> list[Any]:
    return list(t.fields) if isinstance(t, TupleType) else [t]


def reference(path: Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, inputs)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", all_but(["bert_small"], [n for n in models.ALL if n not in models.FULL]))
def test_types_are_those_of_onnx(name: str) -> None:
    """Every tensor whose shape the model declares has that shape here."""
    path = path_of(name)
    mod, params = from_onnx(path, shape=models.shapes(name))
    assert params == {}
    declared = [
        [d.dim_value for d in o.type.tensor_type.shape.dim]
        for o in onnx.load(path, load_external_data=False).graph.output
    ]
    for found, wanted in zip(types_of(mod["main"].ret_type), declared, strict=True):
        for a, b in zip(found.concrete_shape, wanted, strict=True):
            assert b <= 0 or a == b


@pytest.mark.parametrize("name", [*models.SMALL, "ppocr_cls", "light_squeezenet_random", "light_shufflenet_random"])
def test_results_are_those_of_onnxruntime(name: str) -> None:
    path = path_of(name)
    inputs = models.inputs(name)
    mod, _ = from_onnx(path, shape=models.shapes(name))
    main = mod["main"]
    found = run_function(main, [inputs[p.name_hint] for p in main.params], mod)
    found = list(found) if isinstance(found, tuple) else [found]
    for got, want in zip(found, reference(path, inputs), strict=True):
        assert np.abs(got - want).max() <= 1e-4 * np.abs(want).max()


def test_small_models_are_shaped_as_the_intermediate_values_say() -> None:
    """Node by node: our types are those that ONNX's own shape inference gives."""
    path = path_of("bert_small")
    inferred = onnx.shape_inference.infer_shapes(onnx.load(path))
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in inferred.graph.value_info}
    producers = {n.name: n.output[0] for n in inferred.graph.node}
    seen = 0

    def visit(e: Any) -> None:
        nonlocal seen
        if isinstance(e, relay.Call) and e.span is not None:
            wanted = shapes.get(producers.get(e.span.source_name.name, ""))
            last.setdefault(e.span.source_name.name, []).append(e)
            seen += wanted is not None

    last: dict[str, list[Any]] = {}
    relay.analysis.post_order_visit(from_onnx(path)[0]["main"], visit)
    assert seen > 50
    for name, calls in last.items():
        wanted = shapes.get(producers.get(name, ""))
        if wanted is not None and isinstance(calls[-1].checked_type, relay.TensorType):
            assert list(calls[-1].checked_type.concrete_shape) == wanted


def test_spans_carry_node_names() -> None:
    node = helper.make_node("Relu", ["x"], ["y"], name="/layer1/act")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    main = from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))[0]["main"]
    assert main.body.span.source_name.name == "/layer1/act"
    assert main.attrs["output_tensor_names"] == ("y",)


def linear(opset: int = 17) -> Any:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
        helper.make_node("Concat", ["n", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"]),
    ]
    constants = {
        "zero": np.array([0], np.int64), "rest": np.array([-1], np.int64), "w": np.arange(12, dtype=np.float32).reshape(6, 2),
    }  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, k) for k, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def test_symbolic_dimension_passes_through_shape_arithmetic() -> None:
    main = from_onnx(linear())[0]["main"]
    batch = main.params[0].type_annotation.shape[0]
    assert batch.name == "batch"
    assert main.ret_type.shape[0] is batch
    assert int(main.ret_type.shape[1]) == 2
    x = np.random.default_rng(0).standard_normal((5, 2, 3)).astype(np.float32)
    got = run_function(main, [x])
    np.testing.assert_allclose(got, x.reshape(5, 6) @ np.arange(12, dtype=np.float32).reshape(6, 2), rtol=1e-5)


def test_parameters_on_request() -> None:
    mod, params = from_onnx(linear(), shape={"x": [4, 2, 3]}, freeze_params=False)
    assert [p.name_hint for p in mod["main"].params] == ["x", "w"]
    assert list(params) == ["w"]


def test_weights_are_not_copied() -> None:
    main = from_onnx(linear(), shape={"x": [4, 2, 3]})[0]["main"]
    assert not main.body.args[1].value.flags.owndata


def test_known_if_and_loop() -> None:
    def branch(op: str) -> Any:
        return helper.make_graph(
            [helper.make_node(op, ["x"], [op])], op, [], [helper.make_tensor_value_info(op, TensorProto.FLOAT, [2])]
        )

    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Add", ["v", "x"], ["w"]),
            helper.make_node("Identity", ["w"], ["row"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [2]),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [2]),
            helper.make_tensor_value_info("row", TensorProto.FLOAT, [2]),
        ],
    )
    nodes = [
        helper.make_node("If", ["yes"], ["a"], then_branch=branch("Exp"), else_branch=branch("Log")),
        helper.make_node("Loop", ["three", "yes", "a"], ["b", "rows"], body=body),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [
            helper.make_tensor_value_info("b", TensorProto.FLOAT, [2]),
            helper.make_tensor_value_info("rows", TensorProto.FLOAT, [3, 2]),
        ],
        [numpy_helper.from_array(np.array(True), "yes"), numpy_helper.from_array(np.array(3, np.int64), "three")],
    )
    main = from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))[0]["main"]
    x = np.array([0.5, 1.0], np.float32)
    last, rows = run_function(main, [x])
    wanted = np.stack([np.exp(x) + (k + 1) * x for k in range(3)])
    np.testing.assert_allclose(rows, wanted, rtol=1e-6)
    np.testing.assert_allclose(last, wanted[-1], rtol=1e-6)


@pytest.mark.slow
def test_bert_base_imports_fast() -> None:
    """1.5 s from the parsed model; the file's reading is the disk's matter."""
    model = onnx.load(models.make("bert_base"))
    start = time.perf_counter()
    from_onnx(model)
    assert time.perf_counter() - start < 1.5


@pytest.mark.parametrize("opset", [1, 6, 7, 8])
def test_normalization_of_each_place(opset: int) -> None:
    """Until opset 9 a batch may be normalised by numbers for each place of an image."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 4, 5)).astype("float32")
    given = [rng.uniform(0.5, 2, (3, 4, 5)).astype("float32") for _ in range(4)]
    more = {"consumed_inputs": [0] * 5} if opset == 1 else {}
    test = {"is_test": 1} if opset < 7 else {}
    node = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y"], spatial=0, epsilon=0.01, **test, **more)
    weights = [numpy_helper.from_array(v, n) for n, v in zip("sbmv", given, strict=True)]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n in "xy"]
    graph = helper.make_graph([node], "g", info[:1], info[1:], weights)
    mod, _ = from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3))
    scale, bias, mean, var = given
    found = run_function(mod["main"], [x], mod)
    np.testing.assert_allclose(found, (x - mean) / np.sqrt(var + 0.01) * scale + bias, rtol=1e-5, atol=1e-5)
