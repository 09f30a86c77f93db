"""Windowed operators and products with random attributes against ONNX Runtime, whose conventions users compare with."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.relay.evaluation.interpreter import run_function
from tilewright.relay.frontend.onnx import from_onnx


def one_node(
    op: str,
    inputs: dict[str, np.ndarray],
    constants: dict[str, np.ndarray],
    opset: int = 18,
    empty: int = 0,
    **attrs: Any,
) -> Any:
    """A model of one node; `empty` inputs are left out after the first."""
    names = list(inputs) + [""] * empty + list(constants)
    node = helper.make_node(op, names, ["y"], name=f"the_{op}", **attrs)
    values = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in inputs.items()
    ]
    graph = helper.make_graph(
        [node],
        "one",
        values,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, k) for k, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def check(model: Any, inputs: dict[str, np.ndarray]) -> None:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    want = session.run(None, inputs)[0]
    main = from_onnx(model)[0]["main"]
    got = run_function(main, [inputs[p.name_hint] for p in main.params])
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_conv(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = int(rng.choice([1, 1, 2, 4]))
    kernel = rng.integers(1, 4, 2)
    x = rng.standard_normal((1, 4, *rng.integers(7, 12, 2)), dtype=np.float32)
    w = rng.standard_normal((groups * int(rng.integers(1, 3)), 4 // groups, *kernel), dtype=np.float32)
    attrs: dict[str, Any] = {
        "group": groups,
        "strides": rng.integers(1, 4, 2).tolist(),
        "dilations": rng.integers(1, 3, 2).tolist(),
    }
    auto = rng.choice(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if auto == "NOTSET":
        attrs["pads"] = rng.integers(0, 3, 4).tolist()
    else:
        attrs |= {"auto_pad": str(auto), "dilations": [1, 1]}
    check(
        one_node("Conv", {"x": x}, {"w": w, "b": rng.standard_normal(w.shape[0], dtype=np.float32)}, **attrs), {"x": x}
    )


@pytest.mark.parametrize("seed", range(12))
def test_conv_transpose(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = int(rng.choice([1, 2]))
    x = rng.standard_normal((1, 4, *rng.integers(3, 6, 2)), dtype=np.float32)
    w = rng.standard_normal((4, 2, *rng.integers(1, 4, 2)), dtype=np.float32)
    strides = rng.integers(1, 4, 2).tolist()
    attrs = {
        "group": groups,
        "strides": strides,
        "pads": rng.integers(0, 2, 4).tolist(),
        "dilations": rng.integers(1, 3, 2).tolist(),
    }
    attrs["output_padding"] = [int(rng.integers(0, s)) for s in strides]
    if seed % 4 == 3:
        attrs = {"strides": strides, "auto_pad": "SAME_UPPER", "group": groups}
    check(one_node("ConvTranspose", {"x": x}, {"w": w}, **attrs), {"x": x})


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("seed", range(20))
def test_pool(op: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel = rng.integers(2, 5, 2).tolist()
    attrs: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": rng.integers(1, 4, 2).tolist(),
        "ceil_mode": int(rng.integers(0, 2)),
    }
    if seed % 3:
        attrs["pads"] = [int(rng.integers(0, k)) for k in kernel * 2]
    if op == "AveragePool":
        attrs["count_include_pad"] = int(rng.integers(0, 2))
    x = rng.standard_normal((1, 3, *rng.integers(7, 13, 2)), dtype=np.float32)
    check(one_node(op, {"x": x}, {}, opset=19, **attrs), {"x": x})


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("how", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("sizes", [(6, 8), (5, 3), (7, 9), (1, 2)])
def test_resize(mode: str, how: str, sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(7)
    x = rng.standard_normal((1, 2, 3, 4), dtype=np.float32)
    attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": how}
    if mode == "nearest":
        attrs["nearest_mode"] = ["round_prefer_floor", "floor", "ceil", "round_prefer_ceil"][sizes[0] % 4]
    check(one_node("Resize", {"x": x}, {"sizes": np.array([1, 2, *sizes], np.int64)}, empty=2, **attrs), {"x": x})


@pytest.mark.parametrize(
    "a, b",
    [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((4,), (4, 5)),
        ((2, 3, 4), (4,)),
        ((2, 1, 3, 4), (3, 4, 2)),
    ],
)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    x = {"a": rng.standard_normal(a, dtype=np.float32), "b": rng.standard_normal(b, dtype=np.float32)}
    check(one_node("MatMul", x, {}), x)


@pytest.mark.parametrize(
    "attrs", [{}, {"transA": 1, "alpha": 0.5}, {"transB": 1, "beta": 2.0}, {"transA": 1, "transB": 1}]
)
def test_gemm(attrs: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((4, 4), dtype=np.float32) for _ in range(2))
    check(one_node("Gemm", {"a": a}, {"b": b, "c": rng.standard_normal(4, dtype=np.float32)}, **attrs), {"a": a})


@pytest.mark.parametrize("opset, axis", [(9, 1), (11, 2), (12, -1), (13, 1)])
def test_softmax(opset: int, axis: int) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 4), dtype=np.float32)
    check(one_node("Softmax", {"x": x}, {}, opset=opset, axis=axis), {"x": x})
