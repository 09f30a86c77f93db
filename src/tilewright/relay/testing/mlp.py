"""A network of three dense layers."""

from __future__ import annotations

import numpy as np

from tilewright.relay import op
from tilewright.relay.analysis import free_vars
from tilewright.relay.expr import Expr, Function, var
from tilewright.relay.testing.init import Workload, create_workload


def get_net(
    batch_size: int, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32"
) -> Function:
    """128 and 64 hidden units and a softmax over the classes."""
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    x: Expr = op.nn.batch_flatten(data)
    width = int(np.prod(image_shape))
    for i, units in enumerate((128, 64, num_classes), 1):
        x = op.nn.dense(x, var(f"fc{i}_weight", shape=(units, width), dtype=dtype), units=units)
        x = op.nn.bias_add(x, var(f"fc{i}_bias", shape=(units,), dtype=dtype), axis=-1)
        x = op.nn.relu(x) if i < 3 else op.nn.softmax(x)
        width = units
    return Function(free_vars(x), x)


def get_workload(
    batch_size: int, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32"
) -> Workload:
    """(module, weights)."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
