"""Padding of rows of narrow pixels: filled and copied in vectors, whatever is padded; wider pixels as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.codegen.small_programs import aligned
from tilewright import relay, te, topi
from tilewright.codegen import interp
from tilewright.scheduling import schedule_kernel
from tilewright.target import Target

TARGETS = {"avx512": "llvm -mcpu=skylake-avx512 -num-cores=2", "avx2": "llvm -mcpu=haswell -num-cores=2"}
Widths = tuple[int, ...]


def padded(shape: Widths, before: Widths, after: Widths, dtype: str, value: float = 0) -> Any:
    x = te.placeholder(shape, dtype, "x")
    return te.create_prim_func([x, topi.nn.pad(x, before, after, pad_value=value)])


CASES = {
    "a halo of one": ((1, 2, 5, 6, 16), (0, 0, 1, 1, 0), (0, 0, 1, 1, 0), "uint8"),
    "odd and uneven": ((2, 3, 7, 9, 16), (0, 0, 2, 1, 0), (0, 0, 0, 5, 0), "int8"),
    "columns alone": ((1, 2, 5, 13, 8), (0, 0, 0, 3, 0), (0, 0, 0, 0, 0), "uint8"),
    "channels and images, too": ((1, 2, 3, 7, 4), (1, 2, 0, 1, 0), (0, 1, 1, 0, 0), "float16"),
    "volumes": ((1, 1, 3, 4, 5, 8), (0, 0, 1, 2, 1, 0), (0, 0, 1, 0, 1, 0), "float16"),
    "one column": ((1, 4, 1, 1, 16), (0, 0, 1, 1, 0), (0, 0, 1, 1, 0), "uint8"),
    "by threads": ((1, 4, 30, 28, 16), (0, 0, 1, 1, 0), (0, 0, 1, 2, 0), "uint8"),
}
OTHERWISE = {
    "rows alone": ((1, 2, 5, 6, 16), (0, 0, 1, 0, 0), (0, 0, 1, 0, 0), "uint8"),
    "pixels as wide as a register": ((1, 2, 5, 6, 16), (0, 0, 1, 1, 0), (0, 0, 1, 1, 0), "float32"),
    "pixels that fill no vectors": ((1, 2, 5, 6, 3), (0, 0, 1, 1, 0), (0, 0, 1, 1, 0), "uint8"),
    "pixels that are padded": ((1, 2, 5, 6, 15), (0, 0, 1, 1, 0), (0, 0, 1, 1, 1), "uint8"),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", [*CASES, *OTHERWISE])
def test_values(case: str, target: str) -> None:
    shape, before, after, dtype = (CASES | OTHERWISE)[case]
    func = schedule_kernel(padded(shape, before, after, dtype, 3), Target(TARGETS[target]))
    data = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    want = np.pad(data, list(zip(before, after, strict=True)), constant_values=3)
    if want.size < 5000:
        found = aligned(np.full(want.shape, 77), dtype)
        interp.run(func, [aligned(data, dtype), found])
        np.testing.assert_array_equal(found, want)
    made = tvm.nd.array(np.full(want.shape, 77, dtype))
    tvm.build(schedule_kernel(padded(shape, before, after, dtype, 3), Target("llvm")), target="llvm")(
        tvm.nd.array(data), made
    )
    np.testing.assert_array_equal(made.numpy(), want)


@pytest.mark.parametrize("case", [*CASES, *OTHERWISE])
def test_which_rows_are_filled_and_copied(case: str) -> None:
    text = schedule_kernel(padded(*(CASES | OTHERWISE)[case]), Target(TARGETS["avx512"])).script()
    assert ("_pad_const" in text) is (case in CASES)
    assert ("if_then_else" in text) is (case in OTHERWISE)


def test_rows_are_whole_vectors() -> None:
    """58 pixels of 16 bytes are fourteen and a half registers: filled in halves, copied eight pixels at a time."""
    func = padded((1, 4, 56, 56, 16), (0, 0, 1, 1, 0), (0, 0, 1, 1, 0), "uint8")
    text = schedule_kernel(func, Target(TARGETS["avx512"])).script()
    assert "T.vectorized(32)" in text and "T.unroll(8)" in text and "T.vectorized(16)" in text
    assert "T.parallel" in text and text.count("T.where") == 1


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
@pytest.mark.parametrize("seed", range(4))
def test_chains_of_convolutions(seed: int, precision: str) -> None:
    """Random sizes, strides, dilations, paddings and groups, two readers of one tensor: as the interpreter has them, up to the rounding of
    narrow numbers."""
    rng = np.random.default_rng(seed)
    size = [int(n) for n in rng.integers(7, 14, 2)]
    x = relay.var("x", shape=(1, 16, *size))
    weights: dict[str, Any] = {}

    def conv(data: Any, channels: int, kernel: int, **options: Any) -> Any:
        name, groups = f"w{len(weights)}", options.get("groups", 1)
        weights[name] = (rng.standard_normal((channels, channels // groups, kernel, kernel)) / (3 * kernel)).astype(
            "float32"
        )
        return relay.nn.relu(
            relay.nn.conv2d(
                data,
                relay.var(name, shape=weights[name].shape),
                channels=channels,
                kernel_size=(kernel, kernel),
                **options,
            )
        )

    first = conv(
        conv(x, 16, 1), 16, 3, padding=[int(n) for n in rng.integers(0, 3, 4)], strides=int(rng.integers(1, 3))
    )
    dilation = int(rng.integers(1, 3))
    one = conv(first, 16, 3, padding=dilation, dilation=dilation)
    two = conv(first, 16, 5, padding=2, groups=int(rng.choice([1, 2])))
    mod = tvm.IRModule.from_expr(relay.concatenate([one, two], 1))
    data = rng.standard_normal((1, 16, *size)).astype("float32")
    want = relay.create_executor("debug", mod).evaluate()(data, **weights).numpy()
    with tvm.transform.PassContext(opt_level=3, config={"relay.build.precision": precision}):
        run = relay.create_executor("graph", mod, params=weights).evaluate()
    tolerance = 1e-4 if precision == "float32" else 3e-2
    np.testing.assert_allclose(run(data).numpy(), want, rtol=tolerance, atol=tolerance)
