"""Attributes with a number for each axis: one number, or exactly as many as axes; all others are refused by operator and name."""

from __future__ import annotations

import re
import zlib
from typing import Any

import numpy as np
import pytest

from tests.relay_op.test_cards import make_input
from tilewright import relay, te, topi
from tilewright.relay.cards.card import OpCard, cards
from tilewright.support.errors import TVMError

NAMES = (
    "strides", "dilation", "dilations", "kernel_size", "pool_size", "padding", "output_padding", "output_size", "pooled_size", "crop_size",
)  # fmt: skip
OTHER_RULES = {
    "dilate", "nn.dilate", "sliding_window", "strided_slice", "strided_set", "nn.contrib_interleave_phases", "nn.contrib_add_windows",
}  # fmt: skip
"""Operators whose strides are no windows': a number for each axis of all, or for no more than are sliced."""


def windows() -> list[Any]:
    """(card, its first sample, an attribute of it that has a number for each axis)."""
    return [
        pytest.param(card, *card.samples[0], f.name, id=f"{key}-{f.name}")
        for key, card in sorted(cards().items())
        for f in card._fields
        if f.name in NAMES and f.annotation.startswith("tuple[int") and key not in OTHER_RULES
    ]


@pytest.mark.parametrize(("card", "inputs", "attrs", "name"), windows())
@pytest.mark.parametrize("count", [0, 5, 7])
def test_wrong_counts_are_refused(card: type[OpCard], inputs: Any, attrs: Any, name: str, count: int) -> None:
    """No operator has 5 or 7 axes, or as many ends of axes."""
    rng = np.random.default_rng(zlib.crc32(card.type_key.encode()))
    arrays = [make_input(s, rng) for s in inputs]
    wrong = {**attrs, name: (1,) * count}
    call = card.call([[relay.const(a) for a in x] if isinstance(x, tuple) else relay.const(x) for x in arrays], wrong)
    with pytest.raises(TVMError) as caught:
        relay.transform.infer_types(call)
    rule = f"{card.type_key}(, argument .*)?: the attribute {name} must have .* numbers?, but it has {count}: "
    assert re.search(rule, str(caught.value)), str(caught.value)


@pytest.mark.parametrize(
    ("operator", "attrs", "text"),
    [
        (relay.nn.conv2d, {"kernel_size": (3, 3, 3)}, "kernel_size must have 1 or 2 numbers, but it has 3: (3, 3, 3)"),
        (relay.nn.conv2d, {"padding": (1, 1, 1)}, "padding must have 1, 2 or 4 numbers, but it has 3: (1, 1, 1)"),
    ],
)
def test_what_the_message_says(operator: Any, attrs: Any, text: str) -> None:
    data, weight = relay.var("data", shape=(1, 3, 8, 8)), relay.var("weight", shape=(4, 3, 3, 3))
    with pytest.raises(TVMError, match=re.escape(f"nn.conv2d: the attribute {text}")):
        relay.transform.infer_types(operator(data, weight, **attrs))


@pytest.mark.parametrize("strides", [(1, 1, 1), ()])
def test_slices_have_no_strides_beyond_their_axes(strides: tuple[int, ...]) -> None:
    x, v = relay.var("x", shape=(4, 4)), relay.var("v", shape=(2, 4))
    calls = [
        relay.strided_slice(x, [0, 0], [2, 2], strides),
        relay.strided_set(x, v, relay.const(np.array([0])), relay.const(np.array([2])), relay.const(np.array(strides, int))),
    ]  # fmt: skip
    for call in calls:
        if strides:
            with pytest.raises(TVMError, match="there must be no more strides than"):
                relay.transform.infer_types(call)
        else:
            relay.transform.infer_types(call)


def test_a_pooling_and_its_adjoint_agree() -> None:
    y, x = relay.var("y", shape=(1, 2, 4, 5)), relay.var("x", shape=(1, 2, 7, 8))
    call = relay.nn.max_pool2d_grad(y, x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    with pytest.raises(
        TVMError, match="out_grad must have the extents of the pooling's result, but axis 3 has 5, not 4"
    ):
        relay.transform.infer_types(call)


def test_computes_refuse_them_too() -> None:
    data, weight = te.placeholder((1, 3, 8, 8)), te.placeholder((4, 3, 3, 3))
    with pytest.raises(ValueError, match="there must be one number, or one for each of 2 axes, but there are 3"):
        topi.nn.conv2d(data, weight, (1, 1, 1), 0, 1)


@pytest.mark.parametrize(
    ("attrs", "text"), [({"channels": 5}, "channels must"), ({"kernel_size": 3}, "kernel_size must")]
)
def test_what_transposed_convolutions_say_of_their_weights(attrs: Any, text: str) -> None:
    data, weight = relay.var("data", shape=(1, 4, 8, 8)), relay.var("weight", shape=(4, 2, 2, 2))
    with pytest.raises(TVMError, match=f"nn.conv2d_transpose, argument 1 .weight.: the attribute {text} agree with"):
        relay.transform.infer_types(relay.nn.conv2d_transpose(data, weight, groups=2, **attrs))


def test_kernels_without_elements_and_numbers_beyond_32_bits() -> None:
    data, weight = relay.var("data", shape=(1, 3, 8, 8)), relay.var("weight", shape=(4, 3, 0, 3))
    with pytest.raises(TVMError, match="a kernel must have elements, but it has 0"):
        relay.transform.infer_types(relay.nn.conv2d(data, weight))
    with pytest.raises(TVMError, match=f"numbers of windows must be below {1 << 31}, but one is {1 << 31}"):
        relay.transform.infer_types(relay.nn.avg_pool2d(data, pool_size=(2, 2), strides=(1, 1 << 31)))
    with pytest.raises(TVMError, match="strides must be positive"):
        relay.transform.infer_types(relay.nn.dilate(data, (1, 1, 0, 1)))
