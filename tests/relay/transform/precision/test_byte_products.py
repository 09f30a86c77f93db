"""Convolutions and dense layers of bytes: in groups for dot-product instructions, exact for any shape, sign and zero point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.slow import seeds
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.functor import post_order
from tilewright.scheduling import GraphPlan
from tilewright.target import Target
from tilewright.target.cpu import host_cpu

qnn = relay.qnn.op
VNNI, AVX2 = "llvm -mcpu=cascadelake", "llvm -mcpu=haswell"
ARM = "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu="
DOTPROD, I8MM = ARM + "cortex-a76", ARM + "neoverse-n2"


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    low, high = (0, 256) if dtype == "uint8" else (-128, 128)
    return rng.integers(low, high, shape).astype(dtype)


def operators(mod: Any, target: str) -> list[str]:
    """The operators that a build for the target makes kernels of."""
    with Target(target), tvm.transform.PassContext(opt_level=3):
        after = relay.backend.compilation.pipeline()(mod)
    found: list[str] = []

    def look(e: Any) -> None:
        if isinstance(e, relay.Call) and isinstance(e.op, relay.Function):
            found.extend([c.op.name for c in post_order(e.op.body) if isinstance(c, relay.Call)])

    for e in post_order(after["main"].body):
        look(e)
    return found


def equal(function: Any, data: np.ndarray, target: str) -> None:
    """What is compiled for the target, if this machine has its features, gives what the references of the operators give."""
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    wanted = relay.create_executor("debug", mod=mod).evaluate()(data).numpy()
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, target=target)
    if not Target(target).cpu.features <= host_cpu().features:
        return
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.set_input("x", data)
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), wanted)


def random_conv2d(seed: int) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(seed)
    kind, weights = str(rng.choice(["int8", "uint8"])), str(rng.choice(["int8", "int8", "uint8"]))
    groups = int(rng.choice([1, 1, 1, 2]))
    channels, filters = (
        int(rng.choice([1, 3, 4, 6, 16, 20])) * groups,
        int(rng.choice([1, 3, 4, 6, 10, 16, 17, 24, 29])) * groups,
    )
    if seed % 6 == 5:
        groups = filters = channels
    size, stride, dilation = int(rng.choice([1, 3])), int(rng.choice([1, 2])), int(rng.choice([1, 1, 2]))
    pad = int(rng.choice([0, size // 2]))
    shape = (int(rng.choice([1, 2])), channels, *[int(d) for d in rng.integers(dilation * (size - 1) + 1, 9, 2)])
    zero = int(rng.choice([0, 7, -9 if kind == "int8" else 131]))
    x, w = relay.var("x", shape=shape, dtype=kind), numbers(rng, (filters, channels // groups, size, size), weights)
    out = qnn.conv2d(
        x, relay.const(w), relay.const(zero), relay.const(0 if weights == "int8" else 128), relay.const(0.05), relay.const(0.01),
        kernel_size=(size, size), channels=filters, strides=(stride, stride), padding=(pad, pad), groups=groups,
        dilation=(dilation, dilation),
    )  # fmt: skip
    return relay.Function([x], out), numbers(rng, shape, kind)


def random_groups(seed: int) -> tuple[Any, np.ndarray]:
    """Groups that fill no instruction: of odd numbers of channels and filters."""
    rng = np.random.default_rng(seed)
    kind, groups = str(rng.choice(["int8", "uint8"])), int(rng.integers(2, 6))
    inner, outer, size, stride, pad = (int(rng.integers(*ends)) for ends in ((1, 14), (1, 20), (1, 4), (1, 3), (0, 2)))
    shape = (int(rng.integers(1, 3)), groups * inner, *[int(d) for d in rng.integers(size, 12, 2)])
    x, w = relay.var("x", shape=shape, dtype=kind), numbers(rng, (groups * outer, inner, size, size), "int8")
    out = qnn.conv2d(
        x, relay.const(w), relay.const(int(rng.choice([0, 7]))), relay.const(0), relay.const(0.05), relay.const(0.01),
        kernel_size=(size, size), channels=groups * outer, strides=(stride, stride), padding=(pad, pad), groups=groups,
    )  # fmt: skip
    return relay.Function([x], out), numbers(rng, shape, kind)


def random_dense(seed: int) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(["int8", "uint8"]))
    m, n, k = (int(d) for d in rng.integers(1, 40, 3))
    zero = int(rng.choice([0, 7, -9 if kind == "int8" else 131]))
    x, w = relay.var("x", shape=(m, k), dtype=kind), numbers(rng, (n, k), "int8")
    out = qnn.dense(x, relay.const(w), relay.const(zero), relay.const(0), relay.const(0.05), relay.const(0.01), units=n)
    return relay.Function([x], out), numbers(rng, (m, k), kind)


def random_batch(seed: int) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(seed)
    kinds = [str(rng.choice(["int8", "uint8"])) for _ in range(2)]
    m, n, k = (int(d) for d in rng.integers(1, 40, 3))
    zeros = [int(rng.choice([0, 7, -9 if kind == "int8" else 131])) for kind in kinds]
    x, y = relay.var("x", shape=(2, m, k), dtype=kinds[0]), relay.const(numbers(rng, (2, n, k), kinds[1]))
    # No constant any more when products are looked at.
    y = relay.where(relay.sum(relay.cast(x, "int32")) < relay.const(0), y, relay.reverse(y, 1))
    arguments = relay.const(zeros[0]), relay.const(zeros[1]), relay.const(0.05), relay.const(0.01)
    return relay.Function([x], qnn.batch_matmul(x, y, *arguments)), numbers(rng, (2, m, k), kinds[0])


@pytest.mark.parametrize("target", [VNNI, AVX2])
@pytest.mark.parametrize("seed", seeds(12, 5))
@pytest.mark.parametrize("make", [random_conv2d, random_groups, random_dense, random_batch])
def test_sums_are_exact(make: Any, seed: int, target: str) -> None:
    equal(*make(seed), target)


def layer(kind: str, channels: int = 16, zero: int = 0, pad: int = 1) -> Any:
    x = relay.var("x", shape=(1, channels, 8, 8), dtype=kind)
    w = relay.const(numbers(np.random.default_rng(0), (32, channels, 3, 3), "int8"))
    c = qnn.conv2d(
        x, w, relay.const(zero), relay.const(0), relay.const(0.1), relay.const(0.1), kernel_size=(3, 3), channels=32, padding=(pad, pad)
    )  # fmt: skip
    scales = relay.const(0.01), relay.const(0), relay.const(0.7), relay.const(3)
    return tvm.IRModule.from_expr(relay.Function([x], qnn.requantize(c, *scales, out_dtype=kind)))


@pytest.mark.parametrize("kind, target", [("uint8", VNNI), ("uint8", AVX2), ("int8", VNNI), ("uint8", DOTPROD)])
def test_groups_are_filled_up(kind: str, target: str) -> None:
    """Groups of 23 channels and 5 filters run by instructions for 4 and 4; the plan may decide otherwise, or for more filters."""
    x = relay.var("x", shape=(1, 69, 9, 9), dtype=kind)
    w = relay.const(numbers(np.random.default_rng(0), (15, 23, 3, 3), "int8"))
    mod = tvm.IRModule.from_expr(relay.nn.conv2d(x, w, padding=(1, 1), groups=3, out_dtype="int32"))
    with GraphPlan(target) as plan:
        assert "nn.contrib_conv2d_NCHWc" in operators(mod, target)
    (name,) = [n for n in plan.values() if n.endswith(".filters")]
    assert plan.values()[name] == 8 and plan.space()[name][0] == 0
    with GraphPlan(target, {name: 0}):
        assert "nn.conv2d" in operators(mod, target)


def test_filters_that_are_mostly_padding_stay_plain() -> None:
    x = relay.var("x", shape=(1, 45, 32, 32), dtype="uint8")
    w = relay.const(numbers(np.random.default_rng(0), (5, 9, 3, 3), "int8"))
    mod = tvm.IRModule.from_expr(relay.nn.conv2d(x, w, groups=5, out_dtype="int32"))
    assert "nn.conv2d" in operators(mod, AVX2)


@pytest.mark.parametrize("kind, target", [("uint8", VNNI), ("int8", DOTPROD), ("int8", I8MM), ("uint8", I8MM)])
def test_bytes_reach_the_kernel(kind: str, target: str) -> None:
    """No cast widens them before the convolution."""
    names = operators(layer(kind), target)
    at = names.index("nn.contrib_conv2d_NCHWc")
    assert "cast" not in names[:at] and names[at - 1] == "layout_transform"


@pytest.mark.parametrize(
    "channels, filters, weights",
    [
        (16, 60, "4i16o4i"),
        (16, 23, "4i16o4i"),
        (16, 3, "4i4o4i"),
        (16, 6, "4i8o4i"),
        (12, 7, "1i8o4i"),
        (1, 71, "16o4w"),
    ],
)
def test_filters_fill_the_fewest_instructions(channels: int, filters: int, weights: str) -> None:
    """The last block is filled up; one channel by several filters is no convolution of each channel by its own."""
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(1, channels, 7, 9), dtype="uint8")
    w = relay.const(numbers(rng, (filters, channels, 3, 3), "int8"))
    sums = qnn.conv2d(
        x, w, relay.const(3), relay.const(0), relay.const(0.1), relay.const(0.1), kernel_size=(3, 3), channels=filters, padding=(1, 1)
    )  # fmt: skip
    scales = relay.const(0.01), relay.const(0), relay.const(0.7), relay.const(3)
    function = relay.Function([x], qnn.requantize(sums, *scales, out_dtype="uint8"))
    optimized, _ = relay.optimize(tvm.IRModule.from_expr(function), VNNI)
    assert f'"OIHW{weights}"' in relay.astext(optimized)
    equal(function, numbers(rng, (1, channels, 7, 9), "uint8"), VNNI)


@pytest.mark.parametrize("kind, target", [("int8", VNNI), ("uint8", DOTPROD)])
def test_shift_joins_the_zero_point(kind: str, target: str) -> None:
    """Data of the other sign is shifted; what the shift and the zero point add is taken off the sums at once."""
    names = operators(layer(kind, zero=5), target)
    after = names[names.index("nn.contrib_conv2d_NCHWc") :]
    assert after.count("subtract") == 1
    assert operators(layer("int8"), "llvm -mcpu=x86-64").count("subtract") == 0


def test_odd_columns_and_rows_of_weights() -> None:
    """A depth that no group divides is filled up; so are columns that fill no panel."""
    function, data = random_dense(3)
    mod = tvm.IRModule.from_expr(function)
    names = operators(mod, VNNI)
    assert "nn.contrib_dense_pack" in names and "nn.dense" not in names
    equal(function, data, VNNI)


def test_products_of_either_form_between_quantised_tensors() -> None:
    """matmul, and batch_matmul by what is not transposed, run on integers between dequantize and quantize."""
    rng = np.random.default_rng(0)
    data = numbers(rng, (2, 5, 8), "uint8")
    x = relay.var("x", shape=(2, 5, 8), dtype="uint8")
    scales = relay.const(np.linspace(0.01, 0.05, 12, dtype="float32"))
    real = qnn.dequantize(x, relay.const(0.1), relay.const(3))
    w = qnn.dequantize(relay.const(numbers(rng, (8, 12), "int8")), scales, relay.const(0), axis=1)
    first = qnn.quantize(relay.nn.matmul(real, w), relay.const(0.9), relay.const(128), out_dtype="uint8")
    again = qnn.dequantize(first, relay.const(0.9), relay.const(128))
    second = relay.nn.batch_matmul(relay.transpose(real, (0, 2, 1)), again, transpose_b=False)
    out = qnn.quantize(second, relay.const(30.0), relay.const(100), out_dtype="uint8")
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], out)))
    whole = relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)
    assert "qnn.dense" in str(whole) and "qnn.batch_matmul" in str(whole)
    wanted = relay.create_executor("debug", mod=mod).evaluate()(data).numpy()
    found = relay.create_executor("debug", mod=whole).evaluate()(data).numpy()
    assert np.abs(found.astype(int) - wanted).max() <= 1
    equal(whole["main"], data, VNNI)


@pytest.mark.parametrize("target", [VNNI, AVX2])
def test_weights_that_fit_no_byte_less_their_zero_point(target: str) -> None:
    """They are int16, and packed in panels, the last one filled up."""
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(5, 12), dtype="uint8")
    w = numbers(rng, (37, 12), "uint8")
    w[0, :2] = 0, 255
    sums = qnn.dense(x, relay.const(w), relay.const(7), relay.const(120), relay.const(0.1), relay.const(0.1), units=37)
    function = relay.Function([x], sums)
    names = operators(tvm.IRModule.from_expr(function), target)
    assert "nn.contrib_dense_pack" in names and "nn.dense" not in names
    equal(function, numbers(rng, (5, 12), "uint8"), target)


def test_weights_without_sign_around_128() -> None:
    """Less their zero point they are int8, and known; so is what an instruction wants."""
    x = relay.var("x", shape=(3, 16), dtype="uint8")
    w = relay.const(numbers(np.random.default_rng(0), (16, 16), "uint8"))
    sums = qnn.dense(x, w, relay.const(7), relay.const(128), relay.const(0.1), relay.const(0.1), units=16)
    assert "nn.contrib_dense_pack" in operators(tvm.IRModule.from_expr(relay.Function([x], sums)), VNNI)


def test_narrow_depthwise_images_run_along_channels() -> None:
    x, w = relay.var("x", shape=(1, 64, 40, 2), dtype="uint8"), numbers(np.random.default_rng(0), (64, 1, 5, 5), "int8")
    mod = tvm.IRModule.from_expr(relay.nn.conv2d(x, relay.const(w), padding=(2, 2), groups=64, out_dtype="int32"))
    assert "nn.contrib_depthwise_conv2d_NCHWc" in operators(mod, VNNI)
