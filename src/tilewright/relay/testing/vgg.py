"""VGG (K. Simonyan, A. Zisserman, 2014)."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.relay import op
from tilewright.relay.analysis import free_vars
from tilewright.relay.expr import Expr, Function, var
from tilewright.relay.testing import layers
from tilewright.relay.testing.init import Workload, create_workload

SPECS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
FILTERS = (64, 128, 256, 512, 512)


def get_feature(internal_layer: Expr, depths: Sequence[int], filters: Sequence[int], batch_norm: bool = False) -> Expr:
    """Groups of convolutions with a pooling after each."""
    for i, count in enumerate(depths):
        for j in range(count):
            name = f"conv{i + 1}_{j + 1}"
            weight, bias = var(f"{name}_weight"), var(f"{name}_bias")
            internal_layer = op.nn.conv2d(
                internal_layer, weight, channels=filters[i], kernel_size=(3, 3), padding=(1, 1)
            )
            internal_layer = op.nn.bias_add(internal_layer, bias)
            if batch_norm:
                internal_layer = layers.batch_norm_infer(data=internal_layer, name=f"bn{i + 1}_{j + 1}")
            internal_layer = op.nn.relu(internal_layer)
        internal_layer = op.nn.max_pool2d(internal_layer, pool_size=(2, 2), strides=(2, 2))
    return internal_layer


def get_classifier(input_data: Expr, num_classes: int) -> Expr:
    """Three dense layers."""
    x = op.nn.batch_flatten(input_data)
    for name in ("fc6", "fc7"):
        x = op.nn.relu(layers.dense_add_bias(data=x, units=4096, name=name))
        x = op.nn.dropout(x, rate=0.5)
    return layers.dense_add_bias(data=x, units=num_classes, name="fc8")


def get_net(
    batch_size: int,
    image_shape: tuple[int, ...],
    num_classes: int,
    dtype: str,
    num_layers: int = 11,
    batch_norm: bool = False,
) -> Function:
    """VGG of 11, 13, 16 or 19 layers."""
    if num_layers not in SPECS:
        raise ValueError(f"invalid num_layers {num_layers}; choices are {', '.join(map(str, SPECS))}")
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    x = op.nn.softmax(get_classifier(get_feature(data, SPECS[num_layers], FILTERS, batch_norm), num_classes))
    return Function(free_vars(x), x)


def get_workload(
    batch_size: int,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    num_layers: int = 11,
    batch_norm: bool = False,
) -> Workload:
    """(module, weights)."""
    return create_workload(get_net(batch_size, image_shape, num_classes, dtype, num_layers, batch_norm))
