"""Parts of quantised models on the accelerator: equal to the bit to the CPU's integer results."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.slow import all_but
from tests.vta import on_networks
from tests.vta.builders import Builder, Net, quantised
from tests.vta.networks import NETWORKS, compared, network
from tests.vta.onnx_builder import OnnxNet
from tests.vta.tflite_builder import TfliteNet
from tilewright import relay, vta
from tilewright.ir import IRModule
from tilewright.support.errors import TVMError
from tilewright.vta.environment import Environment
from tilewright.vta.testing import simulator
from tilewright.vta.top import graph_pack, rescaling, scaling
from tilewright.vta.top.accumulators import Acc, Kernel
from tilewright.vta.top.packing import Packing
from tilewright.vta.top.partitioning import canonical, partitioned

SMALL: dict[str, Any] = {"BLOCK": 8, "INP_BUFF_SIZE": 1 << 14, "WGT_BUFF_SIZE": 1 << 14, "ACC_BUFF_SIZE": 1 << 15}


def integers(body: Any, *params: Any) -> IRModule:
    """A function of quantised operators, in plain ones, with requantisation in integers."""
    with relay.qnn.op.requantize_config(compute_dtype="int64"):
        return canonical(relay.transform.InferType()(IRModule.from_expr(relay.Function(list(params), body))))


def convolution(
    x: Any, rng: np.random.Generator, shape: tuple[int, ...], zero: int, rounding: str = "UPWARD", **attributes: Any
) -> Any:
    """A quantised convolution with scales of each channel, and its requantisation to the dtype of the data."""
    channels, op = shape[0], relay.qnn.op
    spread = rng.uniform(0.001, 0.003, channels).astype("float32")
    w = relay.const(rng.integers(-128, 128, shape).astype("int8"))
    dtype = str(x.type_annotation.dtype)
    y = op.conv2d(
        x,
        w,
        relay.const(zero),
        relay.const(0),
        relay.const(0.1),
        relay.const(spread),
        kernel_size=shape[2:],
        channels=channels,
        **attributes,
    )
    y = relay.nn.bias_add(y, relay.const(rng.integers(-3000, 3000, channels).astype("int32")))
    return op.requantize(
        y,
        relay.const(spread),
        relay.const(0),
        relay.const(0.7),
        relay.const(zero),
        axis=1,
        rounding=rounding,
        out_dtype=dtype,
    )


def test_a_log_is_of_one_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A case that another package, or another library, had as equal is run again."""
    case = on_networks.Case("ResNet-18", "relay", Environment(SMALL))
    found = {case.key(Namespace(full=False, seed=0))}
    (tmp_path / "library").write_bytes(b"another")
    for name, result in {"package_digest": "another", "find_libvta": [str(tmp_path / "library")]}.items():
        with monkeypatch.context() as changed:
            changed.setattr(on_networks, name, lambda result=result: result)
            changed.setattr(on_networks, "code_digest", on_networks.code_digest.__wrapped__)
            found.add(case.key(Namespace(full=False, seed=0)))
    assert len(found) == 3


@pytest.mark.parametrize("name", all_but([], list(NETWORKS)))
def test_networks(name: str) -> None:
    found = compared(network(name), Environment({}))
    assert found.equal and found.kernels >= 5


def residual(net: Builder) -> Any:
    """Convolutions, a depthwise one, a residual, a pool."""
    x = net.conv(net.data, 16, 3)
    y = net.conv(net.conv(x, 16, 3, groups=16), 16, 3, act="")
    return net.max_pool(net.add(y, x), 2, 2)


@pytest.mark.parametrize("dtype", all_but(["int8"], ["int8", "uint8"]))
def test_models_of_onnx(dtype: str) -> None:
    net = OnnxNet((1, 4, 6, 6), dtype=dtype)
    found = compared(net.module(net.head(residual(net))), Environment(SMALL))
    assert found.equal and found.kernels == 6
    assert set(found.refused) == {"divide is computed in float32, by what is no power of two"}


@pytest.mark.slow
def test_models_of_tflite() -> None:
    """Sums in TFLite's way, whose numbers are cut into halves, a mean, and a dense layer, which rounds once."""
    net = TfliteNet((1, 4, 6, 6))
    found = compared(net.module(net.head(residual(net))), Environment(SMALL))
    assert found.equal and found.kernels == 6  # the pool is in that of the sum
    # What moves bytes is part of the kernels that read them.
    assert set(found.refused) == {f"the accelerator has no {name} of int8" for name in ("layout_transform", "nn.pad")}


CONVOLUTIONS: dict[str, tuple[str, int, tuple[int, ...], dict[str, Any]]] = {
    "symmetric": ("int8", 0, (20, 24, 3, 3), {"padding": (1, 1), "rounding": "TONEAREST"}),
    "padding of the smallest number": ("int8", -128, (20, 24, 3, 3), {"padding": (1, 1), "strides": (2, 2)}),
    "padding of another number": ("int8", 5, (20, 24, 3, 3), {"padding": (1, 0)}),
    "bytes": ("uint8", 128, (20, 24, 3, 3), {"padding": (1, 1)}),
    "bytes from 0": ("uint8", 0, (20, 24, 1, 1), {"strides": (2, 2)}),
    "depthwise": ("int8", 0, (24, 1, 3, 3), {"groups": 24, "padding": (1, 1)}),
    "groups": ("int8", 7, (24, 4, 3, 3), {"groups": 6, "padding": (1, 1)}),
    "blocks": ("int8", 0, (24, 8, 3, 3), {"groups": 3, "padding": (1, 1)}),
}


@pytest.mark.parametrize("name", all_but(["padding of another number", "depthwise"], CONVOLUTIONS))
def test_convolutions(name: str) -> None:
    dtype, zero, shape, attributes = CONVOLUTIONS[name]
    rng = np.random.default_rng(3)
    x = relay.var("x", shape=(1, 24, 9, 9), dtype=dtype)
    found = compared(integers(convolution(x, rng, shape, zero, **attributes), x), Environment(SMALL))
    assert found.equal and found.kernels == 1 and not found.refused


FEW_CHANNELS: dict[str, tuple[str, int, tuple[int, ...], dict[str, Any], tuple[int, int], int]] = {
    "a picture": ("int8", 0, (20, 3, 7, 7), {"padding": (3, 3), "strides": (2, 2)}, (5, 5), 7 * 3),
    "bytes": ("uint8", 5, (20, 3, 3, 5), {"padding": (1, 2)}, (10, 9), 3 * 2),
    "the smallest number": ("int8", -128, (20, 2, 2, 4), {"padding": (1, 0, 0, 2), "strides": (1, 3)}, (10, 3), 2 * 1),
    "whole blocks": ("int8", 0, (20, 4, 3, 2), {}, (8, 8), 3 * 1),
    "no fewer steps": ("int8", 0, (20, 7, 3, 3), {}, (8, 7), 9),
}
"""As above; rows and columns of the result, and steps for each of a block."""


@pytest.mark.parametrize("name", all_but(["bytes"], FEW_CHANNELS))
def test_columns_of_kernels_are_channels(name: str) -> None:
    dtype, zero, shape, attributes, (rows, columns), steps = FEW_CHANNELS[name]
    x = relay.var("x", shape=(1, shape[1], 10, 9), dtype=dtype)
    found = compared(
        integers(convolution(x, np.random.default_rng(3), shape, zero, **attributes), x), Environment(SMALL)
    )
    assert found.equal and found.kernels == 1 and not found.refused
    assert found.steps == rows * columns * 3 * steps


@pytest.mark.parametrize("with_product", [False, True])
def test_windows_of_few_results(with_product: bool) -> None:
    """Windows of 3 x 3 over 7 x 7 numbers go in steps of two: a tile of three results needs seven rows, where memory has less."""
    x = relay.var("x", shape=(1, 16, 7, 7), dtype="int8")
    y = convolution(x, np.random.default_rng(3), (16, 16, 1, 1), 0) if with_product else x
    body = relay.nn.max_pool2d(y, pool_size=(3, 3), strides=(2, 2))
    found = compared(integers(body, x), Environment({**SMALL, "ACC_BUFF_SIZE": 32 * 30}))
    assert found.equal and found.kernels == 1 + with_product


def test_groups_of_which_not_all_inputs_fit() -> None:
    x = relay.var("x", shape=(1, 24, 9, 9), dtype="int8")
    mod = integers(convolution(x, np.random.default_rng(3), (24, 1, 3, 3), 0, groups=24, padding=(1, 1)), x)
    found = compared(mod, Environment({**SMALL, "INP_BUFF_SIZE": 8 * 130}))
    assert found.equal and found.kernels == 1


def test_pools() -> None:
    x = relay.var("x", shape=(1, 20, 9, 9), dtype="int8")
    for attributes in ({"padding": (1, 1)}, {"ceil_mode": True}):
        y = relay.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), **attributes)
        found = compared(integers(y, x), Environment(SMALL))
        assert found.equal and found.kernels == 1


def test_tiles_of_pools_overlap_little() -> None:
    """Two rows of results read five of the data, two tiles of one row six; what is read becomes accumulators in two steps each."""
    x = relay.var("x", shape=(1, 16, 17, 17), dtype="int8")
    mod = integers(relay.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2)), x)
    assert compared(mod, Environment({**SMALL, "ACC_BUFF_SIZE": 32 * 240})).equal
    assert simulator.stats()["gemm_counter"] == 2 * (8 * 8 + 2 * 4 * 5 * 17)


@pytest.mark.parametrize(("kernel", "pad"), [pytest.param(4, 1, marks=pytest.mark.slow), (2, 0)])
def test_transposed_convolutions(kernel: int, pad: int) -> None:
    """A convolution for all phases on the accelerator; the CPU interleaves the phases."""
    rng, op = np.random.default_rng(6), relay.qnn.op
    x = relay.var("x", shape=(1, 16, 5, 5), dtype="int8")
    w = relay.const(rng.integers(-128, 128, (16, 12, kernel, kernel)).astype("int8"))
    y = op.conv2d_transpose(
        x, w, relay.const(0), relay.const(0), relay.const(0.1), relay.const(0.01), channels=12, kernel_size=(kernel, kernel),
        strides=(2, 2), padding=(pad, pad),
    )  # fmt: skip
    y = relay.nn.bias_add(y, relay.const(rng.integers(-3000, 3000, 12).astype("int32")))
    y = op.requantize(y, relay.const(0.001), relay.const(0), relay.const(0.7), relay.const(3), axis=1)
    found = compared(integers(y, x), Environment(SMALL))
    assert found.equal and found.kernels == 1


@pytest.mark.slow
def test_batches() -> None:
    rng = np.random.default_rng(4)
    x = relay.var("x", shape=(4, 24, 6, 6), dtype="int8")
    found = compared(
        integers(convolution(x, rng, (16, 24, 3, 3), 0, padding=(1, 1)), x), Environment({**SMALL, "BATCH": 2})
    )
    assert found.equal and found.kernels == 1


def test_data_stay_packed_between_kernels() -> None:
    net = Net((1, 16, 8, 8))
    x = net.conv(net.conv(net.conv(net.data, 16, 3), 16, 3), 16, 3)
    parts, work = partitioned(canonical(quantised(net.module(net.conv(x, 16, 3)))), None)
    text = parts.astext(show_meta_data=False)
    assert work.kernels == 3
    assert text.count("on_device(") == 2, text


def in_32_bits(name: str, a: Any, b: Any) -> Any:
    """What the accelerator does; AssertionError where 32 bits do not hold it."""
    found = {"multiply": lambda: a * b, "add": lambda: a + b, "right_shift": lambda: a >> b}[name]()
    assert np.abs(found).max() < 1 << 31
    return found


def test_factors_in_steps_of_32_bits() -> None:
    """Against 64 bits: random factors and shifts, one and several limbs, both roundings and none, numbers that are cut into halves."""
    rng, limbs, cut = np.random.default_rng(0), set(), 0
    for _ in range(600):
        bits, channels = int(rng.integers(3, 30)), int(rng.integers(1, 4))
        exponents = rng.uniform(-13, 0.5, channels) if rng.integers(2) else np.full(channels, rng.uniform(-3, 0))
        significand, exponent = np.frexp(2.0**exponents)
        q, shift = (
            np.minimum(np.round(significand * 2**31), 2**31 - 1).astype(np.int64),
            (31 - exponent).astype(np.int64),
        )
        most, rounded = (1 << bits) - 1, bool(rng.integers(4))
        x, away = rng.integers(-most, most + 1, (50, channels)), rounded and bool(rng.integers(2))
        steps = scaling.steps_of(q, shift, most, rounded)
        halves = scaling.halves_of(q, shift, most, rounded) if steps is None else None
        if steps is not None:
            limbs.add(len(steps.limbs))
            found = scaling.apply(x, steps, away, in_32_bits)
        elif halves is not None:
            cut += 1
            found = scaling.apply_halves(x, halves, away, in_32_bits)
        else:
            continue
        half = np.where(rounded, np.int64(1) << (shift - 1), 0)
        np.testing.assert_array_equal(found, (x * q + half - (away & (x < 0))) >> shift)
    assert limbs >= {2, 3, 4} and cut > 50


@pytest.mark.parametrize(
    ("places", "lost", "known"), [(31, 30, True), (32, 31, True), (32, 30, False), (31, 29, False)]
)
def test_products_without_their_rounding(places: int, lost: int, known: bool) -> None:
    """Less the highest bit that was lost, a product is a floor; less another one it is not."""
    x, q = relay.var("x", shape=(64,), dtype="int32"), np.array(1395864320, "int32")
    low = relay.cast(x, "uint32") * relay.const(q.astype("uint32"))
    bit = relay.bitwise_and(relay.right_shift(low, relay.const(np.uint32(lost))), relay.const(np.uint32(1)))
    total = relay.high_product(x, relay.const(q), places=places) - relay.cast(bit, "int32")
    mod = relay.transform.InferType()(IRModule.from_expr(relay.Function([x], total)))
    found = rescaling.floored_product(mod["main"].body)
    assert (found is not None) == known
    value = np.random.default_rng(0).integers(-(1 << 30), 1 << 30, 64).astype("int32")
    exact = relay.create_executor("debug", mod).evaluate()(value).numpy()
    if found is not None:
        np.testing.assert_array_equal(exact, (value * found.q) >> found.shift)
    assert np.array_equal(exact, (value * np.int64(q)) >> places) == known


@pytest.mark.parametrize(("most", "first"), [(1_200_000_000, "maximum"), (1_100_000_000, "add")])
def test_sums_behind_maxima_hold_32_bits(most: int, first: str) -> None:
    """A constant moves in front of a maximum where the sum has no more than 32 bits."""
    kernel = Kernel(Packing(1, 16, 16), lambda e: None, 100)
    data = Acc(relay.var("x", shape=(1, 1, 1, 1, 1, 16), dtype="int32"), (1, 16, 1, 1), -most, most)
    larger = kernel.with_constant("maximum", data, np.int64(1_000_000_000), 1_000_000_000, most)
    total = kernel.with_constant("add", larger, np.int64(-1_000_000_000), 0, most - 1_000_000_000)
    assert total.value.args[0].op.name == first


@pytest.mark.parametrize("shape", [(1, 20, 3, 5), (4, 8, 3, 5), (6, 20)])
@pytest.mark.parametrize("batch", [1, 2])
def test_packing(shape: tuple[int, ...], batch: int) -> None:
    packing = Packing(batch, 8, 8)
    if packing.image(shape) is None:
        assert shape[0] % batch
        return
    x = relay.var("x", shape=shape, dtype="int8")
    there = packing.pack(x, shape)
    mod = relay.transform.InferType()(
        IRModule.from_expr(relay.Function([x], relay.Tuple((there, packing.unpack(there, shape)))))
    )
    value = np.random.default_rng(0).integers(-128, 128, shape).astype("int8")
    packed, back = relay.create_executor("debug", mod).evaluate()(value)
    assert packed.numpy().shape == packing.packed_shape(packing.image(shape) or ())
    np.testing.assert_array_equal(back.numpy(), value)


def test_graph_pack_takes_a_part() -> None:
    net = Net((1, 16, 16, 16))
    x = net.max_pool(net.conv(net.data, 16, 3), 2, 2)
    x = relay.nn.global_avg_pool2d(net.conv(net.conv(net.conv(x, 16, 3), 32, 3), 16, 1))
    env = vta.get_env()
    main = quantised(net.module(x))["main"]
    packed = graph_pack(main, env.BATCH, env.BLOCK_OUT, env.WGT_WIDTH, "nn.max_pool2d", "nn.global_avg_pool2d")
    assert packed.astext(show_meta_data=False).count("Primitive=1") == 3
    with pytest.raises(TVMError, match=r"start_name is nn.max_pool3d, but no call of it is there; the function calls "):
        graph_pack(main, env.BATCH, env.BLOCK_OUT, env.WGT_WIDTH, "nn.max_pool3d", "nn.global_avg_pool2d")
    with pytest.raises(TVMError, match="graph_pack: BLOCK_OUT is given as 8, but the current environment has 16"):
        graph_pack(main, env.BATCH, 8, env.WGT_WIDTH)
    with pytest.raises(TVMError, match=r"start_name_idx is 2, but there is a call of .*, not of nn.conv2d"):
        graph_pack(main, env.BATCH, env.BLOCK_OUT, env.WGT_WIDTH, "nn.conv2d", "nn.global_avg_pool2d", 2)


@pytest.mark.slow
def test_memories_that_hold_no_row() -> None:
    """Tiles of columns, where a row of the data does not fit, and of one kernel offset; less than the window of a result is an error."""
    rng = np.random.default_rng(4)
    x = relay.var("x", shape=(1, 16, 12, 12), dtype="int8")
    y = relay.nn.max_pool2d(convolution(x, rng, (16, 16, 3, 3), 0, padding=(1, 1)), (2, 2), (2, 2))
    mod, fields = (
        integers(y, x),
        {"BLOCK": 16, "INP_BUFF_SIZE": 16 * 30, "ACC_BUFF_SIZE": 64 * 40, "WGT_BUFF_SIZE": 256 * 3},
    )
    found = compared(mod, Environment(fields))
    assert found.equal and found.kernels == 2
    with Environment({**fields, "INP_BUFF_SIZE": 16 * 8}) as env:
        parts, _ = partitioned(mod, None)
        targets: dict[Any, Any] = {tvm.cpu(0): "llvm", tvm.ext_dev(0): env.target}
        with pytest.raises(TVMError, match="one result of one block needs 144 bytes of inp, which has 128"):
            relay.build(parts, targets)


NOT_SQUARE = {
    "wide": {"BLOCK_IN": 16, "BLOCK_OUT": 8},
    "tall": {"BLOCK_IN": 4, "BLOCK_OUT": 16, "BATCH": 2},
    "neither divides the other": {"BLOCK_IN": 12, "BLOCK_OUT": 8, "INP_BUFF_SIZE": 12000, "WGT_BUFF_SIZE": 96 << 9},
}


@pytest.mark.parametrize("name", all_but(["wide"], NOT_SQUARE))
def test_arrays_that_are_not_square(name: str) -> None:
    """A convolution, a depthwise one and a pool; the CPU puts results into blocks of inputs, and adds them."""
    env = Environment(NOT_SQUARE[name])
    net = OnnxNet((env.BATCH, 20, 8, 8))
    found = compared(net.module(residual(net)), env)
    assert found.equal and found.kernels == 4
