"""Convolutions over one and three axes as convolutions of images, and what follows them as their epilogue."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import relay
from tilewright.ir import IRModule
from tilewright.relay import transform
from tilewright.relay.analysis import list_op_freqs
from tilewright.relay.functor import post_order
from tilewright.relay.op.convolution.windows import np_conv
from tilewright.relay.rewriting import is_op, static_shape
from tilewright.target import Target

TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores=2"


def weights(*shape: int) -> relay.Constant:
    return relay.const(np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32"))


def conv(shape: tuple[int, ...], filters: int, kernel: tuple[int, ...], groups: int = 1, **attributes: Any) -> Any:
    x = relay.var("x", shape=shape)
    make = getattr(relay.nn, f"conv{len(kernel)}d")
    return make(x, weights(filters, shape[1] // groups, *kernel), groups=groups, **attributes)


def viewed(body: relay.Expr) -> relay.Function:
    with Target(TARGET):
        found = transform.ImageViews()(IRModule.from_expr(body))["main"]
    assert isinstance(found, relay.Function)
    return found


def kernels(body: relay.Expr) -> dict[str, int]:
    """Operators of all kernels, by name."""
    optimized, _ = relay.optimize(IRModule.from_expr(body), TARGET)
    return list_op_freqs(optimized)


def test_wide_steps_along_a_line_of_many_channels_run_in_blocks() -> None:
    found = viewed(conv((1, 64, 200), 64, (5,), strides=4))
    assert is_op(found.body, "reshape")
    assert static_shape(found.body.args[0]) == (1, 64, 1, 49)  # type: ignore[attr-defined]
    assert "nn.contrib_conv2d_NCHWc" in kernels(conv((1, 64, 200), 64, (5,), strides=4))


@pytest.mark.parametrize(
    "body",
    [
        # One channel: blocks would be read nearly empty.
        conv((1, 1, 800), 32, (5,)),
        # Blocks would cost more than they save.
        conv((1, 80, 3000), 32, (3,), padding=1),
        # A size that is not known.
        relay.nn.conv1d(relay.var("x", shape=(1, 64, relay.Any())), weights(64, 64, 5), strides=4),
        # Weights that are not.
        relay.nn.conv1d(relay.var("x", shape=(1, 64, 200)), relay.var("w", shape=(64, 64, 5)), strides=4),
    ],
)
def test_others_stay_convolutions_of_lines(body: relay.Expr) -> None:
    assert is_op(viewed(body).body, "nn.conv1d")


def test_what_works_on_elements_goes_below_the_view() -> None:
    image = relay.nn.conv2d(relay.var("x", shape=(2, 3, 4, 5)), weights(6, 3, 1, 1))
    line = relay.reshape(image, (2, 6, 20))
    shifted = relay.add(line, weights(6, 1))
    scaled = relay.multiply(relay.nn.relu(shifted), relay.const(np.full((1, 1), 2, "float32")))
    found = viewed(relay.add(scaled, relay.var("y", shape=(2, 6, 20))))
    assert is_op(found.body, "reshape")
    order = ["add", "multiply", "nn.relu", "add", "nn.conv2d"]
    e: Any = found.body.args[0]  # type: ignore[attr-defined]
    for name in order:
        assert is_op(e, name)
        assert static_shape(e) == (2, 6, 4, 5)
        e = e.args[0]


@pytest.mark.parametrize("other", [(20,), (6, 20), (2, 1, 1)])
def test_what_varies_along_the_places_stays_above(other: tuple[int, ...]) -> None:
    image = relay.nn.conv2d(relay.var("x", shape=(2, 3, 4, 5)), weights(6, 3, 1, 1))
    found = viewed(relay.add(relay.reshape(image, (2, 6, 20)), weights(*other)))
    assert is_op(found.body, "add")


def test_channels_that_a_view_joins_stay_above() -> None:
    image = relay.nn.conv2d(relay.var("x", shape=(2, 3, 4, 5)), weights(6, 3, 1, 1))
    found = viewed(relay.add(relay.reshape(image, (12, 20)), weights(12, 1)))
    assert is_op(found.body, "add")


def test_points_of_a_volume_are_one_kernel() -> None:
    body = relay.nn.relu(relay.add(conv((1, 8, 3, 5, 7), 16, (1, 1, 1)), weights(16, 1, 1, 1)))
    optimized, _ = relay.optimize(IRModule.from_expr(body), TARGET)
    assert not {"transpose", "sliding_window", "nn.conv3d"} & set(list_op_freqs(optimized))
    kernels = [
        e.op.body
        for e in post_order(optimized["main"].body)
        if isinstance(e, relay.Call) and isinstance(e.op, relay.Function)
    ]
    assert [is_op(k, "nn.relu") for k in kernels if not is_op(k, "reshape")] == [True]


VOLUMES: list[tuple[Any, ...]] = [
    # data, filters, kernel, groups, attributes
    ((2, 3, 5, 6, 7), 4, (3, 2, 3), 1, {"strides": (2, 2, 1), "padding": (1, 0, 1)}),
    ((1, 4, 9, 3, 4), 4, (3, 1, 1), 2, {"dilation": (2, 1, 1), "padding": (2, 0, 0, 1, 0, 0)}),
    ((1, 4, 9, 5, 6), 8, (3, 3, 3), 4, {"dilation": (2, 1, 2), "strides": (2, 1, 1), "padding": (1, 1, 2)}),
    ((2, 6, 4, 3, 5), 6, (2, 3, 3), 6, {"padding": (0, 1, 1)}),
    ((2, 5, 3, 4, 4), 7, (1, 1, 1), 1, {}),
    ((1, 5, 4, 4, 4), 7, (1, 1, 1), 1, {"strides": (2, 1, 1), "padding": (1, 0, 0)}),
    ((1, 5, 4, 4, 4), 7, (1, 1, 1), 1, {"strides": (1, 2, 1)}),
    ((2, 3, 5, 4, 7), 4, (1, 1, 3), 1, {"strides": (1, 1, 2), "padding": (0, 0, 1), "dilation": (1, 1, 2)}),
    ((1, 3, 5, 4, 7), 4, (1, 1, 2), 1, {"strides": (2, 1, 1)}),
    ((2, 3, 9, 5, 7), 4, (3, 1, 1), 1, {"strides": (2, 2, 3), "padding": (1, 0, 0), "dilation": (2, 1, 1)}),
    # Fewer filters than channels: planes are multiplied, then added.
    ((2, 9, 6, 5, 4), 2, (3, 2, 3), 1, {"padding": (1, 0, 1)}),
    ((2, 12, 9, 4, 5), 4, (3, 3, 2), 2, {"strides": (3, 2, 1), "dilation": (3, 1, 1), "padding": (1, 1, 0, 2, 0, 1)}),
    ((1, 16, 7, 5, 4), 2, (4, 2, 2), 1, {"strides": (2, 1, 1), "dilation": (4, 1, 1), "padding": (7, 0, 0, 6, 1, 0)}),
    ((1, 16, 11, 5, 4), 2, (5, 2, 2), 1, {"strides": (3, 1, 1), "dilation": (2, 1, 1), "padding": (4, 0, 0, 1, 1, 0)}),
    ((1, 40, 70), 48, (5,), 1, {"strides": 4, "padding": (1, 3)}),
    ((2, 32, 61), 32, (3,), 1, {"strides": 2, "dilation": 2, "padding": 2}),
]


@pytest.mark.parametrize("shape, filters, kernel, groups, attributes", VOLUMES)
def test_results_are_those_of_the_reference(
    shape: tuple[int, ...], filters: int, kernel: tuple[int, ...], groups: int, attributes: dict[str, Any]
) -> None:
    body = conv(shape, filters, kernel, groups, **attributes)
    bias = weights(filters, *[1] * len(kernel))
    mod = IRModule.from_expr(relay.nn.relu(relay.add(body, bias)))
    x = np.random.default_rng(1).standard_normal(shape).astype("float32")
    made = relay.create_executor("graph", mod).evaluate()(x).numpy()

    def each(value: Any) -> tuple[int, ...]:
        return (value,) * len(kernel) if isinstance(value, int) else value

    padding = each(attributes.get("padding", 0))
    before, after = padding[: len(kernel)], padding[-len(kernel) :]
    strides, dilation = each(attributes.get("strides", 1)), each(attributes.get("dilation", 1))
    kernel_value = weights(filters, shape[1] // groups, *kernel).data.numpy()
    want = np_conv(x, kernel_value, strides, (before, after), dilation, groups) + bias.data.numpy()
    np.testing.assert_allclose(made, np.maximum(want, 0), rtol=1e-4, atol=1e-4)


def test_planes_are_multiplied_before_they_are_added_if_filters_are_few() -> None:
    few, many = [kernels(conv((1, 16, 8, 8, 8), n, (3, 3, 3), padding=1)) for n in (4, 64)]
    assert "nn.contrib_add_windows" in few and "sliding_window" not in few
    assert "sliding_window" in many and "nn.contrib_add_windows" not in many


@pytest.mark.parametrize(
    ("data", "kernel", "attributes"),
    [
        ((2, 20, 37, 1), (1, 1), {}),
        ((1, 16, 41, 1), (5, 1), {"strides": (2, 1), "padding": (1, 0, 3, 0), "kernel_size": (5, 1), "channels": 24}),
        ((1, 16, 30, 1), (3, 3), {"padding": (2, 1), "dilation": (2, 1)}),
    ],
)
def test_a_column_of_places_is_a_row(
    data: tuple[int, ...], kernel: tuple[int, int], attributes: dict[str, Any]
) -> None:
    body = relay.nn.relu(conv(data, 24, kernel, **attributes))
    found = viewed(body)
    assert is_op(found.body, "reshape")
    assert static_shape(found.body.args[0])[2] == 1  # type: ignore[attr-defined, index]
    given = np.random.default_rng(0).standard_normal(data).astype("float32")
    mod = IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    made = relay.create_executor("graph", mod, target="llvm").evaluate()(given).numpy()
    np.testing.assert_allclose(
        made, relay.create_executor("debug", mod).evaluate()(given).numpy(), rtol=1e-4, atol=1e-4
    )


def test_images_that_are_no_columns_stay() -> None:
    assert is_op(viewed(conv((1, 8, 9, 2), 8, (1, 1))).body, "nn.conv2d")
    assert is_op(viewed(conv((1, 8, 1, 1), 8, (1, 1))).body, "nn.conv2d")
    assert is_op(viewed(conv((1, 8, 9, 1), 8, (1, 1), padding=(0, 1))).body, "nn.conv2d")


@pytest.mark.parametrize(("groups", "direct"), [(4, True), (2, False)])
def test_windows_of_single_channels_are_not_copied(groups: int, direct: bool) -> None:
    call = conv((1, 4, 5, 6, 7), 4, (3, 3, 3), groups, padding=1)
    optimized, _ = relay.optimize(IRModule.from_expr(call), TARGET)
    assert ("nn.conv3d" in list_op_freqs(optimized)) == direct
