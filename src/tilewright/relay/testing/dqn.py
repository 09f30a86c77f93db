"""The network that learned to play Atari games (V. Mnih et al., 2015)."""

from __future__ import annotations

from tilewright.relay import op
from tilewright.relay.analysis import free_vars
from tilewright.relay.expr import Expr, Function, var
from tilewright.relay.testing import layers
from tilewright.relay.testing.init import Workload, create_workload


def get_net(
    batch_size: int,
    num_actions: int = 18,
    image_shape: tuple[int, ...] = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Function:
    """Three convolutions and two dense layers."""
    x: Expr = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    kernel_layout = layers.conv_kernel_layout(layout)
    for i, (channels, size, stride) in enumerate(((32, 8, 4), (64, 4, 2), (64, 3, 1)), 1):
        x = layers.conv2d(
            x, kernel_size=(size, size), strides=(stride, stride), padding=(0, 0), channels=channels, name=f"conv{i}",
            data_layout=layout, kernel_layout=kernel_layout,
        )  # fmt: skip
        x = op.nn.relu(op.nn.bias_add(x, var(f"conv{i}_bias"), layout.index("C")))
    x = op.nn.relu(layers.dense_add_bias(op.nn.batch_flatten(x), units=512, name="dense1"))
    x = layers.dense_add_bias(x, units=num_actions, name="dense2")
    return Function(free_vars(x), x)


def get_workload(
    batch_size: int,
    num_actions: int = 18,
    image_shape: tuple[int, ...] = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Workload:
    """(module, weights)."""
    return create_workload(get_net(batch_size, num_actions, image_shape, dtype, layout))
