"""Quantised networks: every executor against NumPy's reference, text, configuration, errors."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule
from tilewright.support.errors import TVMError

qnn = relay.qnn.op


def network(layout: str = "NCHW", weight_zero: Any = 0, data_zero: int = 128) -> Any:
    """float32 -> uint8 -> conv2d, bias, requantise, add to itself shifted -> float32."""
    rng = np.random.default_rng(0)
    shape = (1, 3, 10, 9) if layout == "NCHW" else (1, 10, 9, 3)
    kernel, kernel_layout = ((8, 3, 3, 3), "OIHW") if layout == "NCHW" else ((3, 3, 3, 8), "HWIO")
    x = relay.var("x", shape=shape)
    w = rng.integers(-127, 128, kernel).astype("int8")
    b = rng.integers(-500, 500, (8,)).astype("int32")
    scales = np.linspace(0.005, 0.02, 8, dtype=np.float32)
    axis = layout.index("C")
    q = qnn.quantize(x, relay.const(0.02), relay.const(data_zero), out_dtype="uint8")
    c = qnn.conv2d(
        q, relay.const(w), relay.const(data_zero), relay.const(weight_zero), relay.const(0.02), relay.const(scales),
        kernel_size=(3, 3), channels=8, padding=(1, 1), data_layout=layout, kernel_layout=kernel_layout,
    )  # fmt: skip
    c = relay.nn.bias_add(c, relay.const(b), axis=axis)
    r = qnn.requantize(
        c, relay.const(scales * np.float32(0.02)), relay.const(0), relay.const(0.1), relay.const(100), axis=axis, out_dtype="uint8"
    )  # fmt: skip
    s = qnn.add(
        r, r, relay.const(0.1), relay.const(100), relay.const(0.1), relay.const(100), relay.const(0.25), relay.const(90)
    )
    return tvm.IRModule.from_expr(relay.Function([x], qnn.dequantize(s, relay.const(0.25), relay.const(90)))), shape


def run_native(mod: Any, data: np.ndarray) -> np.ndarray:
    m = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    m.set_input("x", data)
    m.run()
    out: np.ndarray = m.get_output(0).numpy()
    return out


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("weight_zero", [0, 5], ids=["symmetric", "asymmetric"])
@pytest.mark.parametrize("data_zero", [0, 128])
def test_networks_run_alike_everywhere(layout: str, weight_zero: int, data_zero: int) -> None:
    mod, shape = network(layout, weight_zero, data_zero)
    data = np.random.default_rng(1).standard_normal(shape).astype("float32")
    want = relay.create_executor("debug", mod=mod).evaluate()(data).numpy()
    assert len(np.unique(want)) > 10
    np.testing.assert_array_equal(run_native(mod, data), want)
    if layout == "NCHW":
        np.testing.assert_array_equal(relay.create_executor("vm", mod=mod).evaluate()(data).numpy(), want)


def test_weights_stay_bytes_where_only_the_data_has_a_zero_point() -> None:
    mod, _ = network(data_zero=0)
    expanded = relay.qnn.transform.CanonicalizeOps()(mod)
    assert "qnn." not in expanded.astext()
    nodes = relay.analysis.post_order(expanded["main"].body)
    kinds = {str(c.data.dtype) for c in nodes if isinstance(c, relay.Constant) and c.data.ndim == 4}
    assert kinds == {"int8"}


def test_text_round_trip() -> None:
    mod, _ = network()
    mod = relay.transform.InferType()(mod)
    tvm.ir.assert_structural_equal(relay.fromtext(mod.astext()), mod)


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
@pytest.mark.parametrize("compute_dtype", ["int64", "float32", "float64"])
def test_requantize_rounds_as_configured(rounding: str, compute_dtype: str) -> None:
    values = np.array([-7, -6, -5, -3, -2, -1, 0, 1, 2, 3, 5, 6, 1000, -1000], np.int32)
    x = relay.var("x", shape=values.shape, dtype="int32")
    y = qnn.requantize(x, relay.const(0.25), relay.const(0), relay.const(0.5), relay.const(0))
    mod = tvm.IRModule.from_expr(relay.Function([x], y))
    with qnn.requantize_config(rounding=rounding, compute_dtype=compute_dtype):
        got = run_native(mod, values)
    half = values * 0.5
    rounded = np.floor(half + 0.5) if rounding == "UPWARD" else np.sign(half) * np.floor(np.abs(half) + 0.5)
    np.testing.assert_array_equal(got, np.clip(rounded, -128, 127))


def test_whole_numbers_differ_from_float_by_at_most_one() -> None:
    values = np.random.default_rng(3).integers(-(2**20), 2**20, (1000,)).astype("int32")
    x = relay.var("x", shape=values.shape, dtype="int32")
    found = {}
    for dtype in ("int64", "float32"):
        y = qnn.requantize(
            x, relay.const(0.00037), relay.const(0), relay.const(2.9), relay.const(-4), compute_dtype=dtype
        )
        found[dtype] = run_native(tvm.IRModule.from_expr(relay.Function([x], y)), values).astype(int)
    assert np.abs(found["int64"] - found["float32"]).max() <= 1


def error(expr: Any) -> str:
    with pytest.raises(TVMError) as e:
        relay.transform.InferType()(tvm.IRModule.from_expr(expr))
    return str(e.value)


def test_errors_name_rule_and_finding() -> None:
    x = relay.var("x", shape=(2, 3))
    text = error(qnn.quantize(x, relay.const([0.1, 0.2]), relay.const(0)))
    assert "the output scale must be one number or 3 along the axis, but its shape is (2,)" in text
    text = error(qnn.quantize(x, relay.const(0.1), relay.const(0.5)))
    assert "the output zero point must be int32, but it is float32" in text
    text = error(qnn.dequantize(x, relay.const(0.1), relay.const(0)))
    assert "quantised numbers are int8, uint8, int16, uint16, int32, but they are float32" in text
    q = relay.var("q", shape=(2, 3), dtype="int8")
    text = error(qnn.requantize(q, relay.const(0.1), relay.const(0), relay.const(1.0), relay.const(0), rounding="DOWN"))
    assert "rounding must be one of None, UPWARD, TONEAREST, but it is DOWN" in text
    with pytest.raises(ValueError, match="compute_dtype must be one of int64, float32, float64, but is 'int8'"):
        qnn.requantize_config(compute_dtype="int8")


def test_programs_without_quantised_operators_are_only_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    x = relay.var("x", shape=(2, 3))
    plain = relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.softmax(relay.tanh(x))))
    quantised = relay.transform.InferType()(network()[0])
    after = relay.transform.SimplifyInference()(quantised)
    assert "qnn.conv2d" in relay.analysis.list_op_freqs(after)
    rewritten: list[Any] = []
    module = "tilewright.relay.transform.simplify.simplify_inference"
    expand = importlib.import_module(module).rewrite_calls
    monkeypatch.setattr(f"{module}.rewrite_calls", lambda f, rule: (rewritten.append(f), expand(f, rule))[1])
    canonicalize = relay.qnn.transform.CanonicalizeOps()
    assert canonicalize(plain)["main"] is plain["main"] and not rewritten
    assert not [n for n in relay.analysis.list_op_freqs(canonicalize(quantised)) if n.startswith("qnn.")]
    assert rewritten == [quantised["main"]]


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
@pytest.mark.parametrize("name", ["add", "subtract", "mul"])
def test_arithmetic_in_integers(name: str, rounding: str) -> None:
    """Operands are requantised as integers of 31 bits and shifts, which is exact."""
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-128, 128, (2, 3, 4)).astype("int8") for _ in range(2)]
    x, y = (relay.var(n, shape=(2, 3, 4), dtype="int8") for n in "xy")
    parameters = [
        np.float32([0.02, 0.1, 0.3]), np.int32([0, 3, -5]), np.float32(0.05), np.int32(7), np.float32(0.713), np.int32(-4),
    ]  # fmt: skip
    with relay.qnn.op.requantize_config(rounding=rounding, compute_dtype="int64"):
        e = getattr(relay.qnn.op, name)(x, y, *[relay.const(p) for p in parameters], lhs_axis=1)
        mod = relay.transform.InferType()(IRModule.from_expr(relay.Function([x, y], e)))
        plain = relay.qnn.transform.CanonicalizeOps()(mod)
        found = relay.create_executor("debug", plain).evaluate()(*arrays).numpy()
        np.testing.assert_array_equal(found, e.attrs.ref(*arrays, *parameters))
    assert "float32" not in plain.astext(show_meta_data=False)
