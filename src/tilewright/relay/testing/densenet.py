"""DenseNet (G. Huang et al., 2016)."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.relay import op
from tilewright.relay.analysis import free_vars
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Expr, Function, var
from tilewright.relay.testing import layers
from tilewright.relay.testing.init import Workload, create_workload

SPECS = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}
"""First channels, growth, layers of each block."""


def _activated(data: Expr, name: str) -> Expr:
    return constructor("nn.relu")(layers.batch_norm_infer(data, name=name))


def _layer(data: Expr, growth: int, bn_size: int, name: str) -> Expr:
    x = layers.conv2d(
        _activated(data, f"{name}_bn1"), channels=bn_size * growth, kernel_size=(1, 1), name=f"{name}_conv1"
    )
    x = layers.conv2d(
        _activated(x, f"{name}_bn2"), channels=growth, kernel_size=(3, 3), padding=(1, 1), name=f"{name}_conv2"
    )
    return constructor("concatenate")([data, x], axis=1)


def densenet(
    num_init_features: int,
    growth_rate: int,
    block_config: Sequence[int],
    data_shape: tuple[int, ...],
    data_dtype: str,
    bn_size: int = 4,
    classes: int = 1000,
) -> Function:
    """Blocks of layers each of which sees all before it, halved in between."""
    data = var("data", shape=data_shape, dtype=data_dtype)
    x = layers.conv2d(
        data, channels=num_init_features, kernel_size=(7, 7), strides=(2, 2), padding=(3, 3), name="conv1"
    )
    x = op.nn.max_pool2d(_activated(x, "batch1"), pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    width = num_init_features
    for i, count in enumerate(block_config):
        for j in range(count):
            x = _layer(x, growth_rate, bn_size, f"block{i}_layer{j}")
        width += count * growth_rate
        if i != len(block_config) - 1:
            width //= 2
            x = layers.conv2d(_activated(x, f"t{i}_batch"), channels=width, kernel_size=(1, 1), name=f"t{i}_conv")
            x = op.nn.avg_pool2d(x, pool_size=(2, 2), strides=(2, 2))
    x = op.nn.global_avg_pool2d(_activated(x, "batch5"))
    x = layers.dense_add_bias(op.nn.batch_flatten(x), units=classes, name="dense")
    return Function(free_vars(x), x)


def get_workload(
    densenet_size: int = 121,
    classes: int = 1000,
    batch_size: int = 4,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
) -> Workload:
    """(module, weights)."""
    if densenet_size not in SPECS:
        raise ValueError(f"invalid densenet_size {densenet_size}; choices are {', '.join(map(str, SPECS))}")
    first, growth, blocks = SPECS[densenet_size]
    return create_workload(densenet(first, growth, blocks, (batch_size, *image_shape), dtype, classes=classes))
