"""Products of vectors of bytes: scheduled for a Cortex-M55, the interpreter computes what the operators define."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tensor_intrin.test_arm_dsp import CONVOLUTIONS, numbers, ran
from tilewright import topi
from tilewright.relay.op.convolution.paired_conv import conv2d_pairs, dense_pairs
from tilewright.scheduling.pairs import dot_costs, paired_filters
from tilewright.topi.nn.paired_conv import paired_weights, plain_weights

M55 = "llvm -mtriple=thumbv8.1m.main-unknown-none-eabihf -mcpu=cortex-m55"
VMLADAV = "llvm.arm.mve.vmldava.v16i8"


@pytest.mark.parametrize(
    "shape, window, filters, attributes",
    [*CONVOLUTIONS, ((1, 3, 6, 16), (1, 1), 6, {}), ((1, 4, 5, 32), (1, 1), 4, {"strides": (2, 2)})],
)
def test_convolutions(
    shape: tuple[int, ...], window: tuple[int, int], filters: int, attributes: dict[str, Any]
) -> None:
    data, weight = numbers(*shape), numbers(*window, shape[3], filters, seed=1)
    packed = paired_weights(weight, 2 if filters % 2 == 0 else 1, True, 16)
    np.testing.assert_array_equal(plain_weights(packed, shape[3], window[1]), weight)
    card = conv2d_pairs.from_fields(
        attributes.get("strides", (1, 1)),
        attributes.get("padding", (0, 0, 0, 0)),
        attributes.get("fill", 0),
        window[1],
        "",
    )
    assert VMLADAV in ran([data, packed], card.compute, card.ref(data, packed), target=M55)


@pytest.mark.parametrize("rows, inner, units", [(1, 32, 10), (6, 23, 4), (13, 8, 3), (1, 16, 7)])
def test_dense_layers(rows: int, inner: int, units: int) -> None:
    data, weight = numbers(rows, inner), numbers(1, 1, inner, units, seed=1)
    packed = paired_weights(weight, paired_filters(rows, units, 16), False, 16)[:, 0, :, 0]
    wanted = data.astype(np.int32) @ weight[0, 0].astype(np.int32)
    np.testing.assert_array_equal(dense_pairs.from_fields("").ref(data, packed), wanted)
    assert VMLADAV in ran([data, packed], topi.nn.dense_pairs, wanted, target=M55)


def test_tiles_fit_into_registers() -> None:
    assert max(dot_costs(20, 1)) == 6 and max(dot_costs(20, 3)) == 2 and max(dot_costs(3, 1)) == 3
    assert paired_filters(1, 10, 16) == 5 and paired_filters(48, 16, 16) == 2
