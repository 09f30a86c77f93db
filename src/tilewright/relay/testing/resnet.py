"""Residual networks with normalisation before activation (K. He et al., Identity Mappings in Deep Residual Networks, 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.relay import op
from tilewright.relay.analysis import free_vars
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Expr, Function, var
from tilewright.relay.testing import layers
from tilewright.relay.testing.init import Workload, create_workload


def residual_unit(
    data: Expr,
    num_filter: int,
    stride: tuple[int, ...],
    dim_match: bool,
    name: str,
    bottle_neck: bool = True,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
) -> Expr:
    """Two convolutions, or three with `bottle_neck`, beside a shortcut, which is a convolution where dimensions do not match."""
    rank = len(stride)
    axis = data_layout.index("C")

    def conv(x: Expr, filters: int, size: int, step: tuple[int, ...], which: str) -> Expr:
        form = layers.conv3d if rank == 3 else layers.conv2d
        return form(
            data=x, channels=filters, kernel_size=(size,) * rank, strides=step, padding=(size // 2,) * rank,
            name=f"{name}_{which}", data_layout=data_layout, kernel_layout=kernel_layout,
        )  # fmt: skip

    def activated(x: Expr, which: int) -> Expr:
        return constructor("nn.relu")(
            layers.batch_norm_infer(data=x, epsilon=2e-5, axis=axis, name=f"{name}_bn{which}")
        )

    first = activated(data, 1)
    if bottle_neck:
        inner = int(num_filter * 0.25)
        x = conv(first, inner, 1, stride, "conv1")
        x = conv(activated(x, 2), inner, 3, (1,) * rank, "conv2")
        x = conv(activated(x, 3), num_filter, 1, (1,) * rank, "conv3")
    else:
        x = conv(first, num_filter, 3, stride, "conv1")
        x = conv(activated(x, 2), num_filter, 3, (1,) * rank, "conv2")
    shortcut = data if dim_match else conv(first, num_filter, 1, stride, "sc")
    return constructor("add")(x, shortcut)


def resnet(
    units: Sequence[int],
    num_stages: int,
    filter_list: Sequence[int],
    num_classes: int,
    data_shape: tuple[int, ...],
    bottle_neck: bool = True,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """Stages of residual units; small images get no pooling at the start."""
    data_layout, kernel_layout = layout, layers.conv_kernel_layout(layout)
    axis = data_layout.index("C")
    rank = len(layout) - 2
    data = var("data", shape=data_shape, dtype=dtype)
    x = layers.batch_norm_infer(data=data, epsilon=2e-5, axis=axis, scale=False, name="bn_data")
    height = data_shape[data_layout.index("H")]
    small = height <= 32
    conv = layers.conv3d if rank == 3 else layers.conv2d
    # Frames are looked at one by one at the start.
    depth = [3] if rank == 3 else []
    kernel = (*depth, 3, 3) if small else (*depth, 7, 7)
    x = conv(
        data=x, channels=filter_list[0], kernel_size=kernel, strides=(1,) * rank if small else (*[1] * len(depth), 2, 2),
        padding=tuple([k // 2 for k in kernel]), name="conv0", data_layout=data_layout, kernel_layout=kernel_layout,
    )  # fmt: skip
    if not small:
        x = op.nn.relu(layers.batch_norm_infer(data=x, epsilon=2e-5, axis=axis, name="bn0"))
        pool = op.nn.max_pool3d if rank == 3 else op.nn.max_pool2d
        x = pool(x, pool_size=(3,) * rank, strides=(2,) * rank, padding=(1,) * rank, layout=data_layout)
    for i in range(num_stages):
        stride = (1,) * rank if i == 0 else (2,) * rank
        for j in range(units[i]):
            step = stride if j == 0 else (1,) * rank
            name = f"stage{i + 1}_unit{j + 1}"
            x = residual_unit(x, filter_list[i + 1], step, j > 0, name, bottle_neck, data_layout, kernel_layout)
    x = op.nn.relu(layers.batch_norm_infer(data=x, epsilon=2e-5, axis=axis, name="bn1"))
    mean = op.nn.global_avg_pool3d if rank == 3 else op.nn.global_avg_pool2d
    x = op.nn.batch_flatten(mean(x, layout=data_layout))
    x = op.nn.softmax(layers.dense_add_bias(data=x, units=num_classes, name="fc1"))
    return Function(free_vars(x), x)


DEEP = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
    269: (3, 30, 48, 8),
}


def get_net(
    batch_size: int,
    num_classes: int,
    num_layers: int = 50,
    image_shape: tuple[int, ...] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
    **kwargs: Any,
) -> Function:
    """A network of `num_layers`: 18, 34, 50, 101, 152, 200 or 269 for large images, 6n + 2 or 9n + 2 for images of up to 28 rows."""
    height = image_shape[layout.replace("N", "").index("H")]
    shape = (batch_size, *image_shape)
    if height <= 28:
        if (num_layers - 2) % 9 == 0 and num_layers >= 164:
            per_unit, filters, bottle_neck = (num_layers - 2) // 9, [16, 64, 128, 256], True
        elif (num_layers - 2) % 6 == 0 and num_layers < 164:
            per_unit, filters, bottle_neck = (num_layers - 2) // 6, [16, 16, 32, 64], False
        else:
            raise ValueError(
                f"num_layers must be 6n + 2, or from 164 on 9n + 2, for images of {height} rows, but is {num_layers}"
            )
        return resnet([per_unit] * 3, 3, filters, num_classes, shape, bottle_neck, layout, dtype)
    if num_layers not in DEEP:
        raise ValueError(f"num_layers {num_layers} is none of {', '.join(map(str, DEEP))} for large images")
    bottle_neck = num_layers >= 50
    filters = [64, 256, 512, 1024, 2048] if bottle_neck else [64, 64, 128, 256, 512]
    return resnet(DEEP[num_layers], 4, filters, num_classes, shape, bottle_neck, layout, dtype)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: tuple[int, ...] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
    **kwargs: Any,
) -> Workload:
    """(module, weights)."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype, **kwargs))
