"""Operators of com.microsoft against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.relay.frontend.onnx.program import Program

DOMAIN = "com.microsoft"
Arrays = dict[str, np.ndarray]


def model(op: str, inputs: Arrays, constants: Arrays, order: list[str], outputs: int = 1, **attrs: Any) -> Any:
    """One node; `order` names its inputs, "" where one is left out."""
    names = [f"y{k}" for k in range(outputs)]
    element = attrs.pop("types", None)
    node = helper.make_node(op, order, names, name=f"the_{op}", domain=DOMAIN, **attrs)
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in inputs.items()
    ]
    results = [helper.make_tensor_value_info(n, element or TensorProto.UNDEFINED, None) for n in names]
    for r in results if element is None else []:
        r.ClearField("type")
    graph = helper.make_graph(
        [node], "one", infos, results, [numpy_helper.from_array(v, k) for k, v in constants.items()]
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def run_reference(made: Any, inputs: Arrays) -> list[Any]:
    """What ONNX Runtime makes of a model."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {k: v.copy() for k, v in inputs.items()})  # type: ignore[no-any-return]


def check(
    op: str, inputs: Arrays, constants: Arrays | None = None, order: list[str] | None = None, **attrs: Any
) -> None:
    constants = constants or {}
    whole, near = attrs.pop("whole", 0), attrs.pop("near", 0.0)
    made = model(op, inputs, constants, order or [*inputs, *constants], **attrs)
    for got, want in zip(Program(made)(inputs), run_reference(made, inputs), strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        if want.dtype.kind in "iu" and whole:
            assert np.abs(got.astype(int) - want.astype(int)).max() <= whole
        else:
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=max(2e-5, near * float(np.abs(want).max())))


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def small(dtype: str, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(sum(shape)).integers(info.min, info.max, shape, dtype=dtype)


@pytest.mark.parametrize(
    "attrs, a, b",
    [
        ({"alpha": 0.5}, (2, 3, 4), (2, 4, 5)),
        ({"transA": 1}, (2, 4, 3), (2, 4, 5)),
        ({"transB": 1, "alpha": 2.0}, (3, 4), (5, 4)),
    ],
)
def test_fused_matmul(attrs: dict[str, Any], a: tuple[int, ...], b: tuple[int, ...]) -> None:
    check("FusedMatMul", {"a": normal(*a), "b": normal(*b)}, **attrs)


def test_activations() -> None:
    x, b = normal(3, 8), normal(8)
    check("Gelu", {"x": x})
    check("BiasGelu", {"x": x}, {"b": b})
    check("FastGelu", {"x": x}, {"b": b})
    check("QuickGelu", {"x": x}, alpha=1.5)


def test_skip_layer_normalization() -> None:
    inputs = {"x": normal(2, 3, 8), "s": normal(2, 3, 8)}
    weights = {"g": normal(8), "b": normal(8), "c": normal(8)}
    check("SkipLayerNormalization", inputs, weights, epsilon=1e-5)
    check(
        "SkipSimplifiedLayerNormalization",
        inputs,
        {"g": normal(8)},
        epsilon=1e-5,
    )


def test_embed_layer_normalization() -> None:
    ids = np.array([[1, 2, 3], [4, 0, 2]], np.int32)
    tables = {"w": normal(5, 8), "p": normal(4, 8), "t": normal(2, 8), "g": normal(8), "b": normal(8)}
    inputs = {"ids": ids, "seg": (ids % 2).astype(np.int32), "mask": (ids > 0).astype(np.int32)}
    order = ["ids", "seg", "w", "p", "t", "g", "b", "mask"]
    check("EmbedLayerNormalization", inputs, tables, order, outputs=2)


@pytest.mark.parametrize("causal", [0, 1])
def test_attention(causal: int) -> None:
    inputs = {"x": normal(2, 5, 8), "mask": np.array([5, 3], np.int32)}
    weights = {"w": normal(8, 24), "b": normal(24)}
    check("Attention", inputs, weights, ["x", "w", "b", "mask"], num_heads=2, unidirectional=causal)


@pytest.mark.parametrize("past", [False, True])
def test_multi_head_attention(past: bool) -> None:
    inputs = {k: normal(2, 4, 8) for k in ("q", "k", "v")}
    order = ["q", "k", "v", "b"]
    if past:
        inputs |= {"pk": normal(2, 2, 3, 4), "pv": normal(2, 2, 3, 4)}
        order += ["", "", "pk", "pv"]
    check("MultiHeadAttention", inputs, {"b": normal(24)}, order, outputs=3 if past else 1, num_heads=2)


@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("past", [0, 6])
def test_group_query_attention(rotary: int, past: int) -> None:
    length = 1 if past else 4
    inputs = {"q": normal(2, length, 64), "k": normal(2, length, 32), "v": normal(2, length, 32)}
    inputs |= {"pk": normal(2, 2, past, 16), "pv": normal(2, 2, past, 16)}
    inputs["n"] = np.full((2, 1), past + length - 1, np.int32)
    inputs["total"] = np.array(past + length, np.int32)
    tables = {"c": np.cos(normal(16, 8)), "s": np.sin(normal(16, 8))} if rotary else {}
    order = ["q", "k", "v", "pk", "pv", "n", "total", *tables]
    check("GroupQueryAttention", inputs, tables, order, outputs=3, num_heads=4, kv_num_heads=2, do_rotary=rotary)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved: int) -> None:
    inputs = {"x": normal(2, 3, 16), "p": np.array([[0, 1, 2], [3, 4, 5]], np.int64)}
    tables = {"c": np.cos(normal(8, 4)), "s": np.sin(normal(8, 4))}
    check("RotaryEmbedding", inputs, tables, interleaved=interleaved)


def test_quantized_elements() -> None:
    a, b = small("uint8", 3, 4), small("uint8", 4, 3).reshape(3, 4)
    of = {"as": np.float32(0.1), "az": np.uint8(120), "bs": np.float32(0.2), "bz": np.uint8(130), "cs": np.float32(0.3),
          "cz": np.uint8(128)}  # fmt: skip
    constants = {k: np.asarray(v) for k, v in of.items()}
    order = ["a", "as", "az", "b", "bs", "bz", "cs", "cz"]
    for op in ("QLinearAdd", "QLinearMul"):
        check(op, {"a": a, "b": b}, constants, order, whole=1)
    own = {k: constants[k] for k in ("as", "az", "cs", "cz")}
    check("QLinearSigmoid", {"a": a}, own, ["a", "as", "az", "cs", "cz"], whole=1)
    check("QLinearLeakyRelu", {"a": a}, own, ["a", "as", "az", "cs", "cz"], whole=1, alpha=0.2)
    check("QLinearConcat", {"a": a, "b": b}, constants, ["cs", "cz", "a", "as", "az", "b", "bs", "bz"], whole=1, axis=0)


def test_quantized_products() -> None:
    # Weights of seven bits: on processors without VNNI, ONNX Runtime's sums of two products saturate at 16 bits.
    a, b = small("uint8", 3, 8), small("int8", 8, 5) // 2
    scales = {"as": np.array(0.1, np.float32), "bs": np.array(0.2, np.float32)}
    zeros = {"az": np.array(120, np.uint8), "bz": np.array(3, np.int8)}
    constants = {"b": b, **scales, **zeros}
    check("MatMulIntegerToFloat", {"a": a}, constants, ["a", "b", "as", "bs", "az", "bz"])
    check("DynamicQuantizeMatMul", {"x": normal(3, 8)}, {"b": b, "bs": scales["bs"], "bz": zeros["bz"]})
    last = {"c": np.arange(5, dtype=np.int32), "ys": np.array(4.0, np.float32), "yz": np.array(7, np.uint8)}
    check(
        "QGemm",
        {"a": a},
        {**constants, **last},
        ["a", "as", "az", "b", "bs", "bz", "c", "ys", "yz"],
        whole=1,
        alpha=1.0,
    )


@pytest.mark.parametrize("zeros", [False, True])
def test_weights_of_four_bits(zeros: bool) -> None:
    columns, depth, block = 6, 64, 32
    packed = np.random.default_rng(0).integers(0, 256, (columns, depth // block, block // 2), dtype=np.uint8)
    constants = {"b": packed, "s": np.abs(normal(columns * depth // block))}
    if zeros:
        constants["z"] = np.random.default_rng(1).integers(0, 256, columns, dtype=np.uint8)
    check("MatMulNBits", {"a": normal(3, depth)}, constants, K=depth, N=columns, bits=4, block_size=block)


@pytest.mark.parametrize("activation", ["Relu", "LeakyRelu", "Clip"])
def test_fused_convolution(activation: str) -> None:
    attrs: dict[str, Any] = {"activation": activation, "pads": [1, 1, 1, 1]}
    if activation != "Relu":
        attrs["activation_params"] = [0.1] if activation == "LeakyRelu" else [0.0, 6.0]
    check("FusedConv", {"x": normal(1, 3, 6, 6)}, {"w": normal(4, 3, 3, 3), "b": normal(4)}, **attrs)
