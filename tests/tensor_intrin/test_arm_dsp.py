"""Products of pairs of 16-bit numbers: scheduled for a Cortex-M7, the interpreter computes what the operators define."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.codegen import interp
from tilewright.relay.op.convolution.paired_conv import conv2d_pairs, dense_pairs, depthwise_conv2d_pairs
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.scheduling.pairs import paired_costs, paired_filters
from tilewright.target import Target
from tilewright.topi.nn.paired_conv import paired_weights, plain_weights

M7 = "llvm -mtriple=thumbv7em-unknown-none-eabihf -mcpu=cortex-m7"


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def ran(inputs: list[np.ndarray], made: Any, wanted: np.ndarray, values: Any = None, target: str = M7) -> str:
    """Schedules the kernel of a compute on int8 tensors, runs it in the interpreter, and compares. Returns its text."""
    plan = KernelPlan(Target(target), values or {})
    with plan:
        given = [te.placeholder(x.shape, "int8", f"p{k}") for k, x in enumerate(inputs)]
        func = te.create_prim_func([*given, made(*given)])
    scheduled = schedule_kernel(func, Target(target), plan)
    assert not plan.fallbacks and not plan.unfit()
    found = np.zeros(wanted.shape, np.int32)
    interp.run(scheduled, [*inputs, found])
    np.testing.assert_array_equal(found, wanted)
    return str(scheduled)


CONVOLUTIONS = [
    ((1, 5, 6, 8), (3, 3), 4, {"padding": (1, 1, 1, 1), "fill": -3}),
    ((1, 7, 8, 4), (3, 3), 2, {"strides": (2, 2), "padding": (0, 0, 1, 1), "fill": 5}),
    ((2, 3, 13, 12), (1, 1), 3, {}),
    ((1, 4, 1, 8), (1, 1), 6, {}),
    ((1, 6, 5, 1), (3, 4), 2, {"padding": (1, 1, 1, 2), "fill": 7}),
    ((1, 6, 7, 3), (3, 3), 4, {"strides": (2, 2), "padding": (0, 0, 1, 1)}),
]


@pytest.mark.parametrize("shape, window, filters, attributes", CONVOLUTIONS)
def test_convolutions(
    shape: tuple[int, ...], window: tuple[int, int], filters: int, attributes: dict[str, Any]
) -> None:
    data, weight = numbers(*shape), numbers(*window, shape[3], filters, seed=1)
    runs = shape[3] % 4 != 0
    packed = paired_weights(weight, 2 if filters % 4 == 2 else 1, runs)
    np.testing.assert_array_equal(plain_weights(packed, shape[3], window[1] if runs else 0), weight)
    card = conv2d_pairs.from_fields(
        attributes.get("strides", (1, 1)),
        attributes.get("padding", (0, 0, 0, 0)),
        attributes.get("fill", 0),
        window[1] if runs else 0,
        "",
    )
    text = ran([data, packed], card.compute, card.ref(data, packed))
    assert "llvm.arm.smlad" in text and "llvm.arm.sxtb16" in text


@pytest.mark.parametrize("places", [1, 2])
@pytest.mark.parametrize("shape, strides, padding", [((1, 6, 8, 8), 1, (1, 1, 1, 1)), ((2, 7, 5, 4), 2, (0, 0, 1, 1))])
def test_depthwise_convolutions(shape: tuple[int, ...], strides: int, padding: tuple[int, ...], places: int) -> None:
    data, weight = numbers(*shape), numbers(shape[3] // 4, 3, 3, 4, seed=1)
    card = depthwise_conv2d_pairs.from_fields((strides, strides), padding, -9, "")
    name = "depthwise_conv2d_pairs.places"
    text = ran([data, weight], card.compute, card.ref(data, weight), {name: places})
    assert "llvm.arm.smlabb" in text and "llvm.arm.smlatt" in text


@pytest.mark.parametrize("rows, inner, units", [(1, 12, 10), (6, 7, 4), (13, 8, 3)])
def test_dense_layers(rows: int, inner: int, units: int) -> None:
    data, weight = numbers(rows, inner), numbers(1, 1, inner, units, seed=1)
    packed = paired_weights(weight, paired_filters(rows, units), False)[:, 0, :, 0]
    wanted = data.astype(np.int32) @ weight[0, 0].astype(np.int32)
    np.testing.assert_array_equal(dense_pairs.from_fields("").ref(data, packed), wanted)
    assert "llvm.arm.smlad" in ran([data, packed], topi.nn.dense_pairs, wanted)


def test_tiles_fit_into_registers() -> None:
    assert max(paired_costs(20, 1)) == 7 and max(paired_costs(20, 3)) == 2 and max(paired_costs(3, 1)) == 3
    assert paired_filters(1, 10) == 5 and paired_filters(1, 7) == 7 and paired_filters(48, 16) == 1
