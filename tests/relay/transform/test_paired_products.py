"""ProductsOfPairs: what becomes of products of bytes on processors with Arm's DSP extension."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright import relay
from tilewright.ir import IRModule, Op
from tilewright.relay import transform
from tilewright.relay.evaluation.interpreter import run_function
from tilewright.target import Target

M7 = "llvm -mtriple=thumbv7em-unknown-none-eabihf -mcpu=cortex-m7"
M0 = "llvm -mtriple=thumbv6m-unknown-none-eabi -mcpu=cortex-m0plus"


def rewritten(body: relay.Expr, target: str = M7) -> IRModule:
    mod = transform.InferType()(IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body)))
    with Target(target):
        return transform.ProductsOfPairs()(mod)


def calls(mod: IRModule) -> list[Any]:
    return [e for e in relay.analysis.post_order(mod["main"].body) if isinstance(e, relay.Call)]


def names(mod: IRModule) -> list[str]:
    return [e.op.name for e in calls(mod) if isinstance(e.op, Op)]


def layer(channels: int = 4, layout: str = "NHWC", factor: int = 1518500250) -> Any:
    """A padded convolution of bytes, its bias, and the arithmetic of TFLite on its sums."""
    random = np.random.default_rng(0)
    x = relay.var("x", shape=(1, 5, 5, channels), dtype="int8")
    w = relay.const(random.integers(-127, 128, (3, 3, channels, 8)).astype("int8"))
    padded = relay.nn.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), relay.const(np.int8(-5)))
    y = relay.nn.conv2d(
        padded, w, channels=8, kernel_size=(3, 3), data_layout=layout, kernel_layout="HWIO", out_dtype="int32"
    )
    y = relay.subtract(y, relay.const(random.integers(-99, 99, 8).astype("int32")))
    y = relay.add(y, relay.const(random.integers(-9999, 9999, 8).astype("int32")))
    high = relay.high_product(y, relay.const(np.full(8, factor, "int32")))
    lower = relay.add(high, relay.right_shift(high, relay.const(31)))
    halved = relay.right_shift(lower, relay.const(np.arange(5, 13, dtype="int32")))
    whole = relay.add(relay.right_shift(relay.add(halved, relay.const(1)), relay.const(1)), relay.const(-7))
    return relay.cast(relay.clip(whole, -128.0, 127.0), "int8")


def test_a_layer_of_tflite() -> None:
    before, after = rewritten(layer(), M0), rewritten(layer())
    assert names(before)[:3] == ["nn.pad", "nn.conv2d", "subtract"]
    assert names(after) == [
        "nn.contrib_conv2d_pairs", "left_shift", "add", "high_product", "right_shift", "add", "right_shift", "add", "right_shift",
        "clip", "cast",
    ]  # fmt: skip
    for seed in range(3):
        x = np.random.default_rng(seed).integers(-128, 128, (1, 5, 5, 4)).astype("int8")
        wanted, found = (run_function(m["main"], [x], m) for m in (before, after))
        np.testing.assert_array_equal(found, wanted)
        assert len(np.unique(found)) > 20


def test_a_sum_of_quantised_tensors() -> None:
    x, y = (relay.var(name, shape=(1, 6), dtype="int8") for name in "xy")
    parts = []
    for tensor, zero, factor in ((x, -5, 1073741824), (y, 3, 1500000000)):
        whole = relay.left_shift(relay.subtract(relay.cast(tensor, "int32"), relay.const(zero)), relay.const(20))
        parts.append(relay.high_product(whole, relay.const(np.int32(factor))))
    total = relay.high_product(relay.add(*parts), relay.const(np.int32(1300000000)))
    before, after = rewritten(total, M0), rewritten(total)
    found = [e.attrs.places for e in calls(after) if e.op.name == "high_product"]
    assert found == [32, 32, 32] and names(after).count("left_shift") == 3
    given = [np.random.default_rng(k).integers(-128, 128, (1, 6)).astype("int8") for k in (0, 1)]
    wanted, made = (run_function(m["main"], given, m) for m in (before, after))
    np.testing.assert_array_equal(made, wanted)


def test_depthwise_convolutions() -> None:
    x = relay.var("x", shape=(1, 5, 6, 8), dtype="int8")
    w = np.random.default_rng(0).integers(-127, 128, (3, 3, 1, 8)).astype("int8")
    padded = relay.nn.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), relay.const(np.int8(4)))
    how = {"groups": 8, "channels": 8, "kernel_size": (3, 3), "data_layout": "NHWC", "kernel_layout": "HWIO"}
    y = relay.nn.conv2d(padded, relay.const(w), out_dtype="int32", **how)
    before, after = rewritten(y, M0), rewritten(y)
    assert names(after) == ["nn.contrib_depthwise_conv2d_pairs"]
    data = np.random.default_rng(1).integers(-128, 128, (1, 5, 6, 8)).astype("int8")
    np.testing.assert_array_equal(*[run_function(m["main"], [data], m) for m in (before, after)])


def test_dense_layers() -> None:
    x = relay.var("x", shape=(2, 9), dtype="int8")
    w = np.random.default_rng(0).integers(-127, 128, (6, 9)).astype("int8")
    mod = rewritten(relay.nn.dense(x, relay.const(w), out_dtype="int32"))
    assert names(mod) == ["nn.contrib_dense_pairs"]
    data = np.random.default_rng(1).integers(-128, 128, (2, 9)).astype("int8")
    np.testing.assert_array_equal(run_function(mod["main"], [data], mod), data.astype("int32") @ w.T.astype("int32"))


def test_dense_layers_of_tflite() -> None:
    """The product is rounded once: what high_product rounded is taken back by the bit that it lost."""
    random, c = np.random.default_rng(3), relay.const
    x, w = relay.var("x", shape=(1, 64), dtype="int8"), random.integers(-127, 128, (16, 64)).astype("int8")
    y = relay.nn.dense(x, c(w), out_dtype="int32") + c(random.integers(-99999, 99999, 16).astype("int32"))
    q = c(np.array([1518500249], "int32"))
    lost = relay.cast(y, "uint32") * c(np.array([1518500249], "uint32"))
    up = relay.bitwise_and(relay.right_shift(lost, c(np.uint32(30))), c(np.uint32(1)))
    floor = relay.high_product(y, q) - relay.cast(up, "int32")
    halved = relay.right_shift(floor, c(np.array([7], "int32")))
    whole = relay.right_shift(halved + c(np.int32(1)), c(np.int32(1))) + c(np.int32(-128))
    body = relay.cast(relay.clip(whole, -128.0, 127.0), "int8")
    before, after = rewritten(body, M0), rewritten(body)
    assert names(after) == [
        "nn.contrib_dense_pairs", "left_shift", "add", "high_product", "cast", "multiply", "right_shift", "cast", "subtract",
        "right_shift", "add", "right_shift", "clip", "cast",
    ]  # fmt: skip
    for seed in range(9):
        x = np.random.default_rng(seed).integers(-128, 128, (1, 64)).astype("int8")
        wanted, found = (run_function(m["main"], [x], m) for m in (before, after))
        np.testing.assert_array_equal(found, wanted)


def test_sums_that_would_overflow_are_not_doubled() -> None:
    x = relay.var("x", shape=(1, 4), dtype="int8")
    y = relay.nn.dense(x, relay.const(np.ones((2, 4), "int8")), out_dtype="int32")
    big = relay.add(y, relay.const(np.array([1 << 30, 5], "int32")))
    mod = rewritten(relay.high_product(big, relay.const(np.int32(1 << 30))))
    assert "left_shift" not in names(mod) and names(mod)[-1] == "high_product"


def test_what_stays() -> None:
    assert "nn.conv2d" in names(rewritten(layer(), "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell"))
    x, w = relay.var("x", shape=(1, 4), dtype="int8"), relay.var("w", shape=(2, 4), dtype="int8")
    assert names(rewritten(relay.nn.dense(x, w, out_dtype="int32"))) == ["nn.dense"]


def test_results_are_stored_as_bytes() -> None:
    """What makes bytes wider belongs to the kernel that reads them: of two layers whose results are added, and of a sum over an image."""
    x = relay.var("x", shape=(1, 4, 4, 4), dtype="int8")

    def convolved(data: Any, seed: int) -> Any:
        w = np.random.default_rng(seed).integers(-127, 128, (1, 1, 4, 4)).astype("int8")
        how = {"channels": 4, "kernel_size": (1, 1), "data_layout": "NHWC", "kernel_layout": "HWIO"}
        y = relay.nn.conv2d(data, relay.const(w), out_dtype="int32", **how)
        return relay.cast(relay.clip(relay.right_shift(y, relay.const(7)), -128.0, 127.0), "int8")

    wide = [relay.left_shift(relay.cast(convolved(x, k), "int32"), relay.const(k + 1)) for k in (0, 1)]
    total = relay.cast(relay.clip(relay.right_shift(relay.add(*wide), relay.const(3)), -128.0, 127.0), "int8")
    body = relay.sum(relay.cast(convolved(total, 2), "int32"), axis=(1, 2))
    before = transform.InferType()(IRModule.from_expr(relay.Function([x], body)))
    with Target(M7):
        after = transform.FuseOps()(transform.ProductsOfPairs()(before))
    kernels = [str(e.checked_type.dtype) for e in calls(after) if isinstance(e.op, relay.Function)]
    assert kernels == ["int8", "int8", "int8", "int32"]
    data = np.random.default_rng(3).integers(-128, 128, (1, 4, 4, 4)).astype("int8")
    np.testing.assert_array_equal(*[run_function(m["main"], [data], m) for m in (before, after)])
    with Target("llvm"):
        elsewhere = transform.FuseOps()(before)
    assert "int32" in [str(e.checked_type.dtype) for e in calls(elsewhere) if isinstance(e.op, relay.Function)][:-1]
