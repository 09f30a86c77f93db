"""Models built on floats of 16 bits: what is stored narrow is computed wide, and errors stay below what rounding explains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.relay.random_graphs import evaluate
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.node import assert_structural_equal
from tilewright.relay import transform
from tilewright.relay.backend.compilation import optimize
from tilewright.relay.functor import post_order

UNIT = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Half the distance between neighbours, relative to a number."""


def values(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def kernels(body: relay.Expr, dtype: str = "bfloat16") -> list[relay.Function]:
    """The kernels of a program after fusion and widening."""
    mod = IRModule.from_expr(body)
    mod = transform.WidenKernels()(transform.FuseOps(2)(mod))
    return [
        e.op for e in post_order(mod["main"].body) if isinstance(e, relay.Call) and isinstance(e.op, relay.Function)
    ]


def text(func: relay.Function) -> str:
    """`cast:float32 add:float32`: the operators and the types of their results."""
    calls = [e for e in post_order(func.body) if isinstance(e, relay.Call)]
    return " ".join([f"{c.op.name}:{c.checked_type.dtype}" for c in calls])  # type: ignore[attr-defined]


def var(name: str, shape: tuple[int, ...], dtype: str = "bfloat16") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


def test_a_chain_rounds_once() -> None:
    x, y = var("x", (4, 8)), var("y", (4, 8))
    (kernel,) = kernels(relay.tanh(x + y) * y)
    assert text(kernel) == "cast:float32 cast:float32 add:float32 tanh:float32 multiply:float32 cast:bfloat16"


def test_casts_in_between_disappear() -> None:
    x = var("x", (4, 8))
    wide = relay.erf(relay.cast(relay.nn.relu(x), "float32"))
    (kernel,) = kernels(relay.cast(wide, "bfloat16") + x)
    assert text(kernel) == "cast:float32 nn.relu:float32 erf:float32 add:float32 cast:bfloat16"


def test_products_take_narrow_numbers() -> None:
    x, w = var("x", (4, 8)), var("w", (6, 8))
    (kernel,) = kernels(relay.nn.relu(relay.nn.dense(x, w)))
    assert text(kernel) == "nn.dense:float32 nn.relu:float32 cast:bfloat16"


@pytest.mark.parametrize("dtype", UNIT)
def test_sums_keep_their_small_terms(dtype: str) -> None:
    x = var("x", (2, 5000), dtype)
    mod = IRModule.from_expr(relay.sum(x, axis=1))
    data = np.full((2, 5000), 1.0)
    library = relay.build(mod, "llvm")
    run = graph_executor.GraphModule(library["default"](tvm.cpu()))
    run.set_input("x", tvm.nd.array(data.astype(run.get_input(0).numpy().dtype)))
    run.run()
    # In the type itself the sum would stop at 256 (bfloat16) or 2048 (float16).
    np.testing.assert_allclose(run.get_output(0).numpy().astype("float32"), 5000.0, rtol=UNIT[dtype])


def test_what_moves_values_stays() -> None:
    x = var("x", (4, 8))
    (kernel,) = kernels(relay.transpose(relay.reshape(x, (2, 16))))
    assert text(kernel) == "reshape:bfloat16 transpose:bfloat16"
    z = relay.concatenate([relay.tanh(x), x], 0)
    for kernel in kernels(z):
        assert str(kernel.body.checked_type.dtype) == "bfloat16"


def test_float32_programs_stay_the_same() -> None:
    x = var("x", (4, 8), "float32")
    mod = transform.FuseOps(2)(IRModule.from_expr(relay.tanh(x) + relay.cast(relay.cast(x, "int32"), "float32")))
    assert_structural_equal(transform.WidenKernels()(mod), mod)


def layers(seed: int = 0) -> IRModule:
    """A convolution with its norm, pooling, a dense layer, a product of computed matrices and a softmax."""
    x = relay.var("x", shape=(1, 4, 12, 12))
    y = relay.nn.conv2d(x, relay.const(values(16, 4, 3, 3, seed=seed) / 6), padding=(1, 1))
    scale, shift, mean = (relay.const(values(16, seed=seed + k)) for k in (1, 2, 3))
    variance = relay.const(np.abs(values(16, seed=seed + 4)) + 0.5)
    y = relay.nn.relu(relay.nn.batch_norm(y, scale, shift, mean, variance)[0])
    y = relay.nn.max_pool2d(y, (2, 2), (2, 2))
    y = relay.reshape(y, (1, 16, 36))
    y = relay.nn.dense(relay.reshape(y, (16, 36)), relay.const(values(32, 36, seed=seed + 5) / 6))
    y = relay.nn.layer_norm(y, relay.const(np.ones(32, "float32")), relay.const(np.zeros(32, "float32")))
    y = relay.reshape(y, (2, 8, 32))
    y = relay.nn.batch_matmul(y, y)
    return IRModule.from_expr(relay.nn.softmax(y * relay.const(np.float32(0.1))))


@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize("seed", range(3))
def test_a_build_on_narrow_floats(dtype: str, seed: int) -> None:
    mod = layers(10 * seed)
    data = values(1, 4, 12, 12, seed=seed + 99)
    (want,) = evaluate(mod, [data])
    with PassContext(opt_level=3, config={"relay.build.precision": dtype}):
        library = relay.build(mod, "llvm")
    run = graph_executor.GraphModule(library["default"](tvm.cpu()))
    run.set_input("x", data)
    run.run()
    got = run.get_output(0).numpy()
    assert got.dtype == np.float32
    # Some ten values are rounded on the way; logits of a softmax are differences of sums, a few units each.
    assert np.abs(got - want).max() <= 20 * UNIT[dtype] * np.abs(want).max()
    assert np.abs(got - want).max() > 0


def test_a_pass_before_the_build_does_the_same() -> None:
    mod = layers()
    data = values(1, 4, 12, 12, seed=99)
    with PassContext(opt_level=3, config={"relay.ToMixedPrecision.keep_orig_output_dtype": True}):
        narrow = transform.ToMixedPrecision("bfloat16")(mod)
        library = relay.build(narrow, "llvm")
    run = graph_executor.GraphModule(library["default"](tvm.cpu()))
    run.set_input("x", data)
    run.run()
    (want,) = evaluate(mod, [data])
    got = run.get_output(0).numpy()
    assert np.abs(got - want).max() <= 20 * UNIT["bfloat16"] * np.abs(want).max()


def test_weights_are_narrowed_when_compiling() -> None:
    with PassContext(opt_level=3, config={"relay.build.precision": "bfloat16"}):
        mod, _ = optimize(layers(), "llvm")
    constants = [e for e in post_order(mod["main"].body) if isinstance(e, relay.Constant) and e.data.ndim > 1]
    assert len(constants) > 1 and all(
        (str(c.checked_type.dtype) == "bfloat16") == (c.data.size > 16) for c in constants
    )


def test_there_are_three_precisions() -> None:
    with (
        PassContext(config={"relay.build.precision": "int8"}),
        pytest.raises(ValueError, match='"relay.build.precision" must be one of float32, bfloat16, float16, but is'),
    ):
        relay.build(layers(), "llvm")


@pytest.mark.filterwarnings("error")
def test_masks_with_the_lowest_number_warn_of_nothing() -> None:
    x, w = relay.var("x", shape=(4, 8)), relay.const(values(6, 8))
    mask = relay.const(np.full((4, 6), np.finfo("float32").min, "float32"))
    mod = IRModule.from_expr(relay.nn.softmax(relay.nn.dense(x, w) + mask))
    with PassContext(opt_level=3, config={"relay.build.precision": "float16"}):
        optimize(mod, tvm.target.Target("llvm"))


def test_biases_and_sums_before_norms_keep_their_digits() -> None:
    x = relay.var("x", shape=(4, 32))
    bias = relay.const(values(32, seed=1))
    dense = relay.nn.dense(x, relay.const(values(32, 32) / 6))
    y = relay.nn.layer_norm(relay.add(dense, bias), relay.const(values(32, seed=2)), relay.const(values(32, seed=3)))
    with PassContext(opt_level=3, config={"relay.build.precision": "bfloat16"}):
        mod, _ = optimize(IRModule.from_expr(relay.nn.relu(y)), "llvm")
    found = [
        text(e.op)
        for e in post_order(mod["main"].body)
        if isinstance(e, relay.Call) and isinstance(e.op, relay.Function)
    ]
    assert found[1].endswith("float32 add:float32") and found[2] == "nn.layer_norm:float32 nn.relu:float32", found


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell"])
@pytest.mark.parametrize("channels", [24, 40, 12, 10, 25, 8])
def test_blocks_that_filters_do_not_fill(channels: int, target: str) -> None:
    """Convolutions whose last block of filters is not full, a residual, pooling and a division between them: exactly, of small integers."""
    rng = np.random.default_rng(channels)
    whole = lambda *shape: relay.const(rng.integers(-1, 2, shape).astype("float32"))  # noqa: E731
    x = relay.var("x", shape=(1, 6, 9, 9))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, whole(channels, 6, 1, 1)), whole(channels)))
    z = relay.nn.conv2d(y, whole(4, channels, 1, 1))
    z = relay.nn.conv2d(z, whole(channels, 4, 1, 1)) + y
    z = relay.nn.max_pool2d(z / relay.const(np.float32(2)), (3, 3), (2, 2))
    mod = IRModule.from_expr(relay.nn.conv2d(z, whole(channels + 3, channels, 1, 1)))
    data = (rng.random((1, 6, 9, 9)) < 0.2).astype("float32")
    (want,) = evaluate(mod, [data])
    assert np.abs(want).max() > 1
    with PassContext(opt_level=3, config={"relay.build.precision": "bfloat16"}):
        library = relay.build(mod, target)
    run = graph_executor.GraphModule(library["default"](tvm.cpu()))
    run.set_input("x", data)
    run.run()
    np.testing.assert_array_equal(run.get_output(0).numpy(), want)
