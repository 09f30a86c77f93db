"""MobileNet (A. Howard et al., 2017)."""

from __future__ import annotations

from tilewright.relay import op
from tilewright.relay.analysis import free_vars
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Expr, Function, var
from tilewright.relay.testing import layers
from tilewright.relay.testing.init import Workload, create_workload


def conv_block(
    data: Expr,
    name: str,
    channels: int,
    kernel_size: tuple[int, int] = (3, 3),
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (1, 1),
    epsilon: float = 1e-5,
    layout: str = "NCHW",
) -> Expr:
    """Convolution, normalisation, activation."""
    x = layers.conv2d(
        data=data, channels=channels, kernel_size=kernel_size, strides=strides, padding=padding, data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout), name=name + "_conv",
    )  # fmt: skip
    x = layers.batch_norm_infer(data=x, axis=layout.index("C"), epsilon=epsilon, name=name + "_bn")
    return constructor("nn.relu")(x)


def separable_conv_block(
    data: Expr,
    name: str,
    depthwise_channels: int,
    pointwise_channels: int,
    kernel_size: tuple[int, int] = (3, 3),
    downsample: bool = False,
    padding: tuple[int, int] = (1, 1),
    epsilon: float = 1e-5,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Expr:
    """Each channel by itself, then all of them at each place."""
    shapes = {"NCHW": (depthwise_channels, 1, *kernel_size), "NHWC": (*kernel_size, 1, depthwise_channels)}
    weight = var(name + "_weight", shape=shapes[layout], dtype=dtype)
    x = layers.conv2d(
        data=data, weight=weight, channels=depthwise_channels, groups=depthwise_channels, kernel_size=kernel_size,
        strides=(2, 2) if downsample else (1, 1), padding=padding, data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout), name=name + "_depthwise_conv1",
    )  # fmt: skip
    x = op.nn.relu(layers.batch_norm_infer(data=x, axis=layout.index("C"), epsilon=epsilon, name=name + "_bn1"))
    return conv_block(x, name + "_conv2", pointwise_channels, (1, 1), (1, 1), (0, 0), epsilon, layout)


def mobile_net(
    num_classes: int = 1000,
    data_shape: tuple[int, ...] = (1, 3, 224, 224),
    dtype: str = "float32",
    alpha: float = 1.0,
    is_shallow: bool = False,
    layout: str = "NCHW",
) -> Function:
    """The network, `alpha` times as wide; without the five equal blocks where `is_shallow`."""
    data = var("data", shape=data_shape, dtype=dtype)
    x = conv_block(data, "conv_block_1", int(32 * alpha), strides=(2, 2), layout=layout)
    plan = [(32, 64, False), (64, 128, True), (128, 128, False), (128, 256, True), (256, 256, False), (256, 512, True)]
    plan += [] if is_shallow else [(512, 512, False)] * 5
    plan += [(512, 1024, True), (1024, 1024, False)]
    for i, (depthwise, pointwise, down) in enumerate(plan, 1):
        x = separable_conv_block(
            x, f"separable_conv_block_{i}", int(depthwise * alpha), int(pointwise * alpha), downsample=down, layout=layout, dtype=dtype
        )  # fmt: skip
    x = op.nn.batch_flatten(op.nn.global_avg_pool2d(x, layout=layout))
    units = int(1024 * alpha)
    x = op.nn.dense(x, var("fc_weight", shape=(num_classes, units), dtype=dtype), units=num_classes)
    x = op.nn.softmax(op.nn.bias_add(x, var("fc_bias", shape=(num_classes,), dtype=dtype), axis=-1))
    return Function(free_vars(x), x)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Workload:
    """(module, weights)."""
    return create_workload(mobile_net(num_classes, (batch_size, *image_shape), dtype, layout=layout))
