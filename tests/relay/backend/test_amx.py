"""Models for processors with AMX: tiles are chosen by the target, and what they compute, emulated, is what NumPy does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.codegen import amx
from tests.codegen.amx import SAPPHIRE, build_emulated
from tilewright import relay
from tilewright.contrib import graph_executor

Array = np.ndarray[Any, Any]
BF16 = {"relay.build.precision": "bfloat16"}


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def result(library: Any, **inputs: Array) -> Array:
    run = graph_executor.GraphModule(library["default"](tvm.cpu()))
    run.run(**inputs)
    assert not amx.errors, amx.errors[0]
    return run.get_output(0).numpy()  # type: ignore[no-any-return]


def plain(mod: Any, **inputs: Array) -> Array:
    """What the model gives in float32 on this machine."""
    with tvm.transform.PassContext(opt_level=3):
        return result(relay.build(mod, "llvm"), **inputs)


def close(found: Array, want: Array, error: float) -> None:
    assert np.abs(found - want).max() <= error * np.abs(want).max()


@pytest.mark.parametrize("rows", [64, 37, 1])
def test_dense_layers_with_epilogues(rows: int) -> None:
    x = relay.var("x", shape=(rows, 100))
    h = relay.nn.dense(x, relay.const(normal(96, 100)))
    h = relay.nn.bias_add(h, relay.const(normal(96)))
    h = relay.multiply(h, relay.const(np.float32(0.1)))
    h = relay.nn.relu(h)
    y = relay.nn.dense(h, relay.const(normal(96, 96, seed=1)))
    y = relay.add(y, h)
    mod = tvm.IRModule.from_expr(y)
    library, text = build_emulated(mod, config=BF16)
    assert text.count("ldtilecfg") in (2, 4)  # the last tile of rows may have code of its own
    data = normal(rows, 100, seed=2)
    close(result(library, x=data), plain(mod, x=data), 2e-2)


def test_long_epilogue() -> None:
    x = relay.var("x", shape=(1, 19, 64))
    h = relay.nn.dense(x, relay.const(normal(40, 64)))
    gelu = h * (relay.const(0.5) + relay.const(0.5) * relay.erf(h * relay.const(0.70710678)))
    mod = tvm.IRModule.from_expr(relay.nn.dense(gelu, relay.const(normal(17, 40))))
    library, text = build_emulated(mod, config=BF16)
    assert "tdpbf16ps" in text
    data = normal(1, 19, 64, seed=2)
    close(result(library, x=data), plain(mod, x=data), 2e-2)


def network(size: int) -> Any:
    """3x3, strided, 1x1 and grouped convolutions, a residual between them."""
    x = relay.var("x", shape=(1, 3, size, size))
    h = relay.nn.relu(relay.nn.conv2d(x, relay.const(normal(32, 3, 3, 3)), padding=(1, 1)))
    r = relay.nn.conv2d(h, relay.const(normal(64, 32, 3, 3) * np.float32(0.1)), padding=(1, 1), strides=(2, 2))
    h = relay.nn.relu(relay.nn.bias_add(r, relay.const(normal(64))))
    h = relay.nn.conv2d(h, relay.const(normal(64, 64, 1, 1) * np.float32(0.1)))
    h = relay.nn.relu(relay.add(h, r))
    h = relay.nn.conv2d(h, relay.const(normal(64, 32, 3, 3) * np.float32(0.1)), groups=2)
    h = relay.nn.max_pool2d(h, (2, 2), (2, 2))
    h = relay.nn.conv2d(h, relay.const(normal(48, 64, 1, 1)), strides=(2, 2))
    return tvm.IRModule.from_expr(h)


@pytest.mark.parametrize("size", [20, 23])
def test_convolutions(size: int) -> None:
    mod = network(size)
    library, text = build_emulated(mod, config=BF16)
    assert text.count("ldtilecfg") >= 4
    data = normal(1, 3, size, size, seed=3)
    close(result(library, x=data), plain(mod, x=data), 3e-2)


def test_bytes() -> None:
    """Sums of bytes are exact: what tiles give is what the other instructions give."""
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(1, 8, 13, 13), dtype="int8")
    weight = relay.const(rng.integers(-128, 128, (64, 8, 3, 3)).astype("int8"))
    zero, scale = relay.const(np.int32(3)), relay.const(np.float32(0.1))
    none = relay.const(np.int32(0))
    h = relay.qnn.op.conv2d(x, weight, zero, none, scale, scale, (3, 3), 64, padding=(1, 1))
    h = relay.qnn.op.requantize(h, scale, none, relay.const(np.float32(40.0)), none, out_dtype="int8")
    weight = relay.const(rng.integers(-128, 128, (64, 64, 1, 1)).astype("int8"))
    h = relay.qnn.op.conv2d(h, weight, none, none, scale, scale, (1, 1), 64)
    h = relay.qnn.op.requantize(h, scale, none, relay.const(np.float32(40.0)), none, out_dtype="int8")
    h = relay.nn.batch_flatten(h)
    weight = relay.const(rng.integers(-128, 128, (10, 64 * 169)).astype("int8"))
    mod = tvm.IRModule.from_expr(relay.qnn.op.dense(h, weight, zero, none, scale, scale, 10))
    library, text = build_emulated(mod)
    assert "tdpb" in text
    data = rng.integers(-128, 128, (1, 8, 13, 13)).astype("int8")
    np.testing.assert_array_equal(result(library, x=data), plain(mod, x=data))


def test_targets_choose() -> None:
    x = relay.var("x", shape=(16, 64))
    mod = tvm.IRModule.from_expr(relay.nn.dense(x, relay.const(normal(32, 64))))
    for target, there in ((SAPPHIRE, True), (SAPPHIRE + " -mattr=-amx-tile", False), ("llvm -mcpu=znver4", False)):
        with tvm.transform.PassContext(opt_level=3, config=BF16):
            assert ("ldtilecfg" in relay.build(mod, target).get_source("s")) == there


def test_dynamic_dimensions_are_computed_without_tiles() -> None:
    x = relay.var("x", shape=(relay.Any(), 64))
    mod = tvm.IRModule.from_expr(relay.nn.dense(x, relay.const(normal(32, 64))))
    with tvm.transform.PassContext(opt_level=3, config=BF16):
        code = relay.vm.compile(mod, SAPPHIRE)
    assert code is not None
