"""Inception v3 (C. Szegedy et al., Rethinking the Inception Architecture for Computer Vision, 2015)."""

from __future__ import annotations

from tilewright.relay import op
from tilewright.relay.analysis import free_vars
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Expr, Function, var
from tilewright.relay.testing import layers
from tilewright.relay.testing.init import Workload, create_workload


def Conv(
    data: Expr,
    num_filter: int,
    kernel: tuple[int, int] = (1, 1),
    stride: tuple[int, int] = (1, 1),
    pad: tuple[int, int] = (0, 0),
    name: str = "",
    suffix: str = "",
) -> Expr:
    """Convolution, normalisation, activation."""
    x = layers.conv2d(
        data=data, channels=num_filter, kernel_size=kernel, strides=stride, padding=pad, name=f"{name}{suffix}_conv1"
    )
    return constructor("nn.relu")(layers.batch_norm_infer(data=x, epsilon=2e-5, scale=False, name=f"{name}{suffix}_bn"))


def _pool(data: Expr, kind: str, stride: int = 1, pad: int = 1) -> Expr:
    if kind == "max":
        return constructor("nn.max_pool2d")(data, pool_size=(3, 3), strides=(stride, stride), padding=(pad, pad))
    return constructor("nn.avg_pool2d")(
        data, pool_size=(3, 3), strides=(stride, stride), padding=(pad, pad), count_include_pad=True
    )


def _joined(*parts: Expr) -> Expr:
    return constructor("concatenate")(parts, axis=1)


def Inception7A(data: Expr, proj: int, name: str) -> Expr:
    """35 x 35: 1 x 1, 5 x 5, two of 3 x 3, and a mean."""
    a = Conv(data, 64, name=f"{name}_conv")
    b = Conv(Conv(data, 48, name=f"{name}_tower"), 64, (5, 5), pad=(2, 2), name=f"{name}_tower", suffix="_conv_1")
    c = Conv(data, 64, name=f"{name}_tower_1")
    c = Conv(c, 96, (3, 3), pad=(1, 1), name=f"{name}_tower_1", suffix="_conv_1")
    c = Conv(c, 96, (3, 3), pad=(1, 1), name=f"{name}_tower_1", suffix="_conv_2")
    return _joined(a, b, c, Conv(_pool(data, "avg"), proj, name=f"{name}_tower_2"))


def Inception7B(data: Expr, name: str) -> Expr:
    """To 17 x 17."""
    a = Conv(data, 384, (3, 3), (2, 2), name=f"{name}_conv")
    b = Conv(data, 64, name=f"{name}_tower")
    b = Conv(b, 96, (3, 3), pad=(1, 1), name=f"{name}_tower", suffix="_conv_1")
    b = Conv(b, 96, (3, 3), (2, 2), name=f"{name}_tower", suffix="_conv_2")
    return _joined(a, b, _pool(data, "max", 2, 0))


def Inception7C(data: Expr, width: int, name: str) -> Expr:
    """17 x 17: 7 x 7 as rows and columns."""
    a = Conv(data, 192, name=f"{name}_conv")
    b = Conv(data, width, name=f"{name}_tower")
    b = Conv(b, width, (1, 7), pad=(0, 3), name=f"{name}_tower", suffix="_conv_1")
    b = Conv(b, 192, (7, 1), pad=(3, 0), name=f"{name}_tower", suffix="_conv_2")
    c = Conv(data, width, name=f"{name}_tower_1")
    for i, (kernel, filters) in enumerate((((7, 1), width), ((1, 7), width), ((7, 1), width), ((1, 7), 192)), 1):
        pad = (kernel[0] // 2, kernel[1] // 2)
        c = Conv(c, filters, kernel, pad=pad, name=f"{name}_tower_1", suffix=f"_conv_{i}")
    return _joined(a, b, c, Conv(_pool(data, "avg"), 192, name=f"{name}_tower_2"))


def Inception7D(data: Expr, name: str) -> Expr:
    """To 8 x 8."""
    a = Conv(Conv(data, 192, name=f"{name}_tower"), 320, (3, 3), (2, 2), name=f"{name}_tower", suffix="_conv_1")
    b = Conv(data, 192, name=f"{name}_tower_1")
    b = Conv(b, 192, (1, 7), pad=(0, 3), name=f"{name}_tower_1", suffix="_conv_1")
    b = Conv(b, 192, (7, 1), pad=(3, 0), name=f"{name}_tower_1", suffix="_conv_2")
    b = Conv(b, 192, (3, 3), (2, 2), name=f"{name}_tower_1", suffix="_conv_3")
    return _joined(a, b, _pool(data, "max", 2, 0))


def Inception7E(data: Expr, pool: str, name: str) -> Expr:
    """8 x 8: rows and columns side by side."""

    def both(x: Expr, tower: str) -> list[Expr]:
        return [
            Conv(x, 384, (1, 3), pad=(0, 1), name=f"{name}_{tower}", suffix="_mixed_conv"),
            Conv(x, 384, (3, 1), pad=(1, 0), name=f"{name}_{tower}", suffix="_mixed_conv_1"),
        ]

    a = Conv(data, 320, name=f"{name}_conv")
    b = both(Conv(data, 384, name=f"{name}_tower"), "tower")
    c = Conv(data, 448, name=f"{name}_tower_1")
    c = Conv(c, 384, (3, 3), pad=(1, 1), name=f"{name}_tower_1", suffix="_conv_1")
    return _joined(a, *b, *both(c, "tower_1"), Conv(_pool(data, pool), 192, name=f"{name}_tower_2"))


def get_net(batch_size: int, num_classes: int, image_shape: tuple[int, ...], dtype: str) -> Function:
    """The network."""
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    x = Conv(data, 32, (3, 3), (2, 2), name="conv")
    x = Conv(Conv(x, 32, (3, 3), name="conv_1"), 64, (3, 3), pad=(1, 1), name="conv_2")
    x = Conv(Conv(_pool(x, "max", 2, 0), 80, name="conv_3"), 192, (3, 3), name="conv_4")
    x = _pool(x, "max", 2, 0)
    for name, proj in (("mixed", 32), ("mixed_1", 64), ("mixed_2", 64)):
        x = Inception7A(x, proj, name)
    x = Inception7B(x, "mixed_3")
    for name, width in (("mixed_4", 128), ("mixed_5", 160), ("mixed_6", 160), ("mixed_7", 192)):
        x = Inception7C(x, width, name)
    x = Inception7E(Inception7E(Inception7D(x, "mixed_8"), "avg", "mixed_9"), "max", "mixed_10")
    x = op.nn.batch_flatten(op.nn.avg_pool2d(x, pool_size=(8, 8), strides=(1, 1)))
    x = op.nn.dense(x, var("fc1_weight"), units=num_classes)
    x = op.nn.softmax(op.nn.bias_add(x, var("fc1_bias"), axis=-1))
    return Function(free_vars(x), x)


def get_workload(
    batch_size: int = 1, num_classes: int = 1000, image_shape: tuple[int, ...] = (3, 299, 299), dtype: str = "float32"
) -> Workload:
    """(module, weights)."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
