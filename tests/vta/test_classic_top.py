"""Names of the classic `vta.top` beside convolutions and dense layers: transposed convolutions, strategies, bits in bytes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.slow import all_but
from tests.vta.test_top import DEFAULT, requantised, run
from tilewright import nd, te, topi, vta
from tilewright.vta.environment import Environment
from tilewright.vta.testing import simulator
from tilewright.vta.top.bitpack import bitpack, compute_bitpack

TRANSPOSED: dict[str, tuple[int, int, int, int, int]] = {
    "twice as large": (5, 4, 2, 1, 0),
    "kernels that the stride does not divide": (4, 3, 2, 1, 1),
    "no stride": (5, 3, 1, 1, 0),
    "one kernel offset": (4, 1, 1, 0, 0),
    "gaps": (3, 2, 3, 0, 0),
    "much padding": (6, 4, 2, 3, 0),
}
"""Rows, kernel, stride, padding, padding of the result."""


@pytest.mark.parametrize("name", all_but(["twice as large", "kernels that the stride does not divide"], TRANSPOSED))
def test_transposed_convolutions(name: str) -> None:
    size, kernel, stride, pad, more = TRANSPOSED[name]
    with Environment(DEFAULT) as env:
        data = te.placeholder((1, 2, size, size, env.BATCH, env.BLOCK_IN), env.inp_dtype, "data")
        weight = te.placeholder((2, 2, kernel, kernel, env.BLOCK_OUT, env.BLOCK_IN), env.wgt_dtype, "weight")
        bias = te.placeholder((1, 2, 1, 1, env.BATCH, env.BLOCK_OUT), env.acc_dtype, "bias")
        with env.target:
            sums = vta.top.conv2d_transpose_packed(
                data, weight, (stride, stride), (pad, pad), env.acc_dtype, (more, more)
            )
            res = requantised(env, sums, bias)
            s = vta.top.schedule_conv2d_transpose_packed([res])
        f = vta.build(s, [data, weight, bias, res], env.target)
        rng = np.random.default_rng(1)
        x, w = (rng.integers(-128, 128, [int(n) for n in t.shape]).astype("int8") for t in (data, weight))
        b = rng.integers(-999, 999, [int(n) for n in bias.shape]).astype("int32")
        rows = (size - 1) * stride - 2 * pad + kernel + more
        assert [int(n) for n in res.shape] == [1, 2, rows, rows, env.BATCH, env.BLOCK_OUT]
        found = run(env, f, [x, w, b], [1, 2, rows, rows, 1, 16])
        whole = np.zeros((1, 2, rows + 2 * pad + kernel, rows + 2 * pad + kernel, 1, 16), "int64")
        for v in range(kernel):
            for u in range(kernel):
                filters = w[:, :, kernel - 1 - v, kernel - 1 - u].astype("int64")
                part = np.einsum("bkyxrc,okdc->boyxrd", x.astype("int64"), filters)
                whole[:, :, v : v + stride * size : stride, u : u + stride * size : stride] += part
        total = whole[:, :, pad : pad + rows, pad : pad + rows] + b
        np.testing.assert_array_equal(found, np.clip(total >> 8, -128, 127))
        if stride == kernel == 1 or (kernel, stride) == (4, 2):
            # No products of zeros between rows: (kernel / stride)^2 of them for a result.
            gemm = simulator.stats()["gemm_counter"]
            assert gemm <= rows * rows * 2 * 2 * (kernel // stride) ** 2 + 2 * rows * rows


RESULT = r"the result has -1 x -1 rows and columns, .* padding \(2, 2, 2, 2\), a kernel of 2 x 2 .*; use less padding"


def test_a_transposed_convolution_without_a_result() -> None:
    env = vta.get_env()
    data, weight = te.placeholder((1, 1, 2, 2, 1, 16), "int8"), te.placeholder((1, 1, 2, 2, 16, 16), "int8")
    with env.target, pytest.raises(ValueError, match=RESULT):
        vta.top.conv2d_transpose_packed(data, weight, (1, 1), (2, 2), "int32")


def test_bits_in_bytes() -> None:
    data = te.placeholder((2, 3, 16), "int8", "data")
    x = np.random.default_rng(0).integers(-2, 2, (2, 3, 16)).astype("int8")
    packed = bitpack(data, 2)
    f = tvm.build(te.create_schedule(packed.op), [data, packed], "llvm")
    found = nd.empty((2, 3, 4), "int8")
    f(nd.array(x), found)
    lanes = (x.astype("int64") & 3).reshape(2, 3, 4, 4)
    np.testing.assert_array_equal(found.numpy().view("uint8"), (lanes << np.array([0, 2, 4, 6])).sum(axis=-1))
    assert [int(n) for n in compute_bitpack({"lanes": 8}, [data]).shape] == [2, 3, 2]
    with pytest.raises(ValueError, match="bitpack: int8 has 8 bits, which 3 do not divide"):
        bitpack(data, 3)
    with pytest.raises(ValueError, match=r"8 numbers are a word of int8, which do not divide the last axis, 12"):
        bitpack(te.placeholder((12,), "int8"), 1)
    with pytest.raises(ValueError, match="a byte has 1, 2, 4 or 8 lanes, not 3"):
        compute_bitpack({"lanes": 3}, [data])
    with pytest.raises(ValueError, match='bitpack: attrs has no "lanes"; set it to the numbers that a byte holds'):
        compute_bitpack({}, [data])
    for dtype in ("float32", "int7", "int"):
        with pytest.raises(
            ValueError, match=f"bitpack: words are integers, so pack_type is one of int8, .*, not '{dtype}'"
        ):
            bitpack(data, 2, dtype)


def implemented(strategy: Any, attrs: Any, inputs: Any, out_type: Any, env: Environment) -> Any:
    """The only implementation's results, and its schedule's function."""
    (spec,) = strategy(attrs, inputs, out_type, env.target).specializations
    (made,) = spec.implementations
    with env.target:
        return made.name, made.compute(attrs, inputs, out_type), made


def test_strategies() -> None:
    """Packed data have templates of the accelerator, others the CPU's convolution."""
    from tilewright.vta.top import op

    with Environment(DEFAULT) as env:
        data, weight = te.placeholder((1, 2, 6, 6, 1, 16), "int8", "data"), te.placeholder((2, 2, 1, 1, 16, 16), "int8")
        attrs = SimpleNamespace(
            data_layout="NCHW1n16c", kernel_layout="OIHW16o16i", out_layout="", strides=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1),
            groups=1, out_dtype="int32", output_padding=(0, 0),
        )  # fmt: skip
        name, (sums,), made = implemented(op.conv2d_strategy_vta, attrs, [data, weight], None, env)
        assert name == "conv2d_packed.vta"
        with env.target:
            bounds = SimpleNamespace(a_min=-128.0, a_max=127.0)
            _, (ranged,), _ = implemented(op.clip_strategy_vta, bounds, [sums], None, env)
            res = topi.cast(ranged, env.out_dtype)
            f = vta.build(made.schedule(attrs, [res], env.target), [data, weight, res], env.target)
        rng = np.random.default_rng(1)
        x, w = (rng.integers(-9, 9, [int(n) for n in t.shape]).astype("int8") for t in (data, weight))
        found = run(env, f, [x, w], [1, 2, 6, 6, 1, 16])
        wide = np.einsum("bkyxrc,okdc->boyxrd", x.astype("int64"), w[:, :, 0, 0].astype("int64"))
        np.testing.assert_array_equal(found, np.clip(wide, -128, 127))
        for strategy, given, wanted in (
            (op.conv2d_strategy_vta, SimpleNamespace(**{**vars(attrs), "groups": 2}), "group_conv2d_packed.vta"),
            (op.conv2d_transpose_strategy_vta, attrs, "conv2d_transpose_packed.vta"),
        ):
            weights = te.placeholder((2, 1 if given.groups == 2 else 2, 1, 1, 16, 16), "int8")
            assert implemented(strategy, given, [data, weights], None, env)[0] == wanted
        rows = te.placeholder((2, 2, 1, 16), "int8"), te.placeholder((2, 2, 16, 16), "int8")
        assert implemented(op.dense_strategy_vta, attrs, rows, None, env)[0] == "dense_packed.vta"
        plain = SimpleNamespace(**{**vars(attrs), "data_layout": "NCHW"})
        (spec,) = op.conv2d_strategy_vta(plain, [], None, env.target).specializations
        assert [i.name for i in spec.implementations] == ["nn.conv2d.card"]


@pytest.mark.parametrize("name", ["add", "multiply"])
def test_arithmetic(name: str) -> None:
    from tilewright.vta.top import op

    shape = (1, 3, 4, 4, 1, 16)
    with Environment(DEFAULT) as env:
        x, y = (te.placeholder(shape, "int32", n) for n in "xy")
        strategy = getattr(op, f"{name}_strategy_vta")
        found_name, (made,), implementation = implemented(strategy, None, [x, y], None, env)
        res = topi.cast(made, env.out_dtype)
        s = implementation.schedule(None, [res], env.target)
        f = vta.build(s, [x, y, res], env.target)
        a, b = (np.random.default_rng(n).integers(-11, 12, shape).astype("int32") for n in (1, 2))
        np.testing.assert_array_equal(run(env, f, [a, b], list(shape)), a + b if name == "add" else a * b)
        assert found_name == f"{name}.vta"
